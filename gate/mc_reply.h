/* SPDX-License-Identifier: BSD-3-Clause */
/** mc_reply.h - answers in memcached's protocol, and what its commands have in common. */
#ifndef GATE_MC_REPLY_H
#define GATE_MC_REPLY_H

#include "client.h"

/** Longest key, as memcached has it. */
#define MC_KEY_MAX 250

/** A line, unless the request said noreply. */
void mc_line(struct client *c, const char *text);

/** An error, unless the request said noreply: memcached is silent then, and the client reads none.
 */
void mc_error(struct client *c, const char *text);
void mc_bad_format(struct client *c);

/** The error of a call of farkv.h. */
void mc_store_error(struct client *c, int err);

/** True if memcached and the store take a key of this length. */
bool mc_key_fits(const struct client *c, struct slice key);
/** The same; if it is false the error is answered. */
bool mc_key_ok(struct client *c, struct slice key);

/** When a value expires. */
struct mc_time {
	uint64_t ttl_ms; /**< 0: never */
	bool over;       /**< at once */
};

/**
 * Read an exptime: 0 never, less than 0 at once, up to 30 days seconds from now, more a date. A
 * time beyond FARKV_TTL_MAX_MS is cut.
 */
bool mc_time_read(struct slice word, struct mc_time *out);

#endif
