/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * servers.h - what each server of a cluster did while sessions were open: gets and sets as the
 * server counts them, those of other clients included, and failed operations whose error names it.
 *
 * The caller locks; servers_find() needs no lock while a session is open. One farkv_stats() of each
 * server when the first session opens and when the last one closes; nothing without a cluster.
 */
#ifndef BENCH_STORE_SERVERS_H
#define BENCH_STORE_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include <farkv.h>

#include "db.h"

struct servers {
	unsigned sessions; /* open ones */
	unsigned n;        /* servers; 0: no cluster */
	struct {
		char name[DB_SERVER_NAME];
		uint64_t before, after; /* its counts */
		uint64_t errors;
		bool known; /* it answered both times */
	} server[DB_SERVERS_MAX];
};

/** After a session was opened. */
void servers_opened(struct servers *s, struct farkv *kv);
/** Before a session is closed. `errors` are the session's, of each server. */
void servers_closing(struct servers *s, struct farkv *kv, const uint32_t *errors);
/** The server that an error's detail names, "server NAME: ..."; s->n: none. */
unsigned servers_find(const struct servers *s, const char *detail);
/** As db_ops.servers(). */
unsigned servers_tell(const struct servers *s, struct db_served out[DB_SERVERS_MAX]);

#endif
