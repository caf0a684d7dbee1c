/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * resp_cmds.h - the handlers of Redis's commands, one for each row of resp_table.c.
 *
 * A handler has as many words as the row's arity says and writes exactly one reply, except that
 * of WAIT: gate/conn.c writes it if the handler sets `waiting`.
 */
#ifndef GATE_RESP_CMDS_H
#define GATE_RESP_CMDS_H

#include "client.h"

/** Of the Redis whose commands these are: clients compare it with what they need. */
#define AS_REDIS_VERSION "7.0.0"

typedef void resp_handler(struct client *c, const struct args *a);

/* resp_string.c */
resp_handler resp_get, resp_set, resp_setex, resp_psetex, resp_setnx, resp_getset, resp_getdel,
	resp_getex, resp_mget, resp_mset, resp_strlen, resp_append, resp_getrange, resp_setrange;
/* resp_number.c */
resp_handler resp_incr, resp_incrby, resp_decr, resp_decrby, resp_incrbyfloat;
/* resp_key.c */
resp_handler resp_del, resp_exists, resp_type, resp_memory, resp_object, resp_wait;
/* resp_expire.c */
resp_handler resp_expire, resp_pexpire, resp_expireat, resp_pexpireat, resp_persist, resp_ttl,
	resp_pttl, resp_expiretime, resp_pexpiretime;
/* resp_scan.c */
resp_handler resp_keys, resp_scan, resp_dbsize, resp_randomkey, resp_flush;
/* resp_conn.c */
resp_handler resp_ping, resp_echo, resp_auth, resp_hello, resp_select, resp_quit, resp_reset,
	resp_client;
/* resp_server.c */
resp_handler resp_info, resp_config, resp_time;
/* resp_help.c */
resp_handler resp_command;

/* resp_expire.c: times that commands take as words. */
enum resp_when { WHEN_EX, WHEN_PX, WHEN_EXAT, WHEN_PXAT };

/**
 * Milliseconds from now until the time that `word` gives in the way of `when`, cut to 68 years;
 * 0 or less if it is over. `positive`: 0 and less are errors. False: an error was answered, which
 * names the command.
 */
bool resp_when_ms(struct client *c, struct slice word, enum resp_when when, bool positive,
		  int64_t *ms_out);

#endif
