/* SPDX-License-Identifier: BSD-3-Clause */
/** client.h - one connection as the commands see it, and the list of all connections. */
#ifndef GATE_CLIENT_H
#define GATE_CLIENT_H

#include "args.h"
#include "buf.h"
#include "common/base/atomic.h"
#include "common/proto/keyfile.h"
#include "gate.h"
#include "mc_parse.h"
#include "resp_parse.h"

/** Longest name of a connection, and of a client's library, that is remembered. */
#define CLIENT_NAME_MAX 63

enum client_speaks { SPEAKS_UNKNOWN, SPEAKS_RESP, SPEAKS_MEMCACHED };

/**
 * Belongs to a thread. Other threads read id, fd, addr, names and times in clients_*(), which
 * lock the list; so the owner locks it to change a name.
 */
struct client {
	struct gate *gate;
	struct gate_counts *counts;  /**< of the client's thread */
	struct farkv *kv;            /**< of the client's thread */
	struct event *flush;         /**< likewise: a flush_all with a delay; mc_flush_late() */
	struct buf *out;             /**< the thread's replies, in order */
	struct buf *scratch;         /**< the thread's, for one command; `failed` is false when it begins */
	struct client *next, **from; /**< in the list */
	uint64_t id;
	int fd;
	enum client_speaks speaks;
	bool closing;                /**< close when the replies are out */
	bool waiting;                /**< WAIT: its reply, and later requests, come when it ends */
	uint64_t wait_ms;            /**< at most; 0: no limit */
	bool authenticated;          /**< true without keys, too */
	bool read_only;
	char user[KEY_NAME_MAX + 1];
	unsigned resp;               /**< version of RESP, 2 or 3 */
	uint64_t since_ns;
	uint64_t active_ns;          /**< last request; atomic.h, relaxed */
	char addr[128], local[128];
	char name[CLIENT_NAME_MAX + 1];
	char lib_name[CLIENT_NAME_MAX + 1], lib_version[CLIENT_NAME_MAX + 1];
	const char *command;         /**< the last one, a static text */
	bool noreply;                /**< memcached: this request wants no answer */
	struct resp_parser parser;
	struct mc_parser mc;
};

/** Enter a client into the list, with a number of its own; take it out. Before `fd` is closed. */
void clients_enter(struct client *c);
void clients_leave(struct client *c);

/** Set one of the names, cut to CLIENT_NAME_MAX bytes. */
void client_set_text(struct client *c, char *field, struct slice text);

/** Lines of CLIENT LIST; `only` is NULL or the one that is wanted. */
void clients_list(struct gate *g, const struct client *only, struct buf *out);

/** Clients to close: those that match every field that is set. */
struct clients_filter {
	uint64_t id;              /**< 0: any */
	struct slice addr, local, user; /**< p NULL: any */
	const struct client *not; /**< or NULL */
};

/**
 * Read the file of keys again, and close the connections whose key is gone or changed: *closed_out.
 * On failure, as keyfile_load(), nothing changes.
 */
int clients_reload_keys(struct gate *g, uint64_t *closed_out);

/** Close these connections, each by its own thread. Returns how many; *self_out: `c` is one. */
uint64_t clients_kill(struct client *c, const struct clients_filter *f, bool *self_out);

/**
 * Log in by name and password: the name of a key of --client-keys, and the key as it stands in
 * the file. An empty name tries all keys. False if there is no such key.
 */
bool client_login(struct client *c, struct slice user, struct slice password);

#endif
