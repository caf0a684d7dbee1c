/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * store.h - what both protocols need of a store beyond single calls of farkv.h.
 *
 * All calls are synchronous on the thread's handle and return FARKV_ numbers.
 */
#ifndef GATE_STORE_H
#define GATE_STORE_H

#include <farkv.h>

#include "client.h"

/** A value to write, and how. */
struct store_item {
	struct slice key;
	const void *data;
	size_t len;
	uint64_t ttl_ms;   /**< 0: never expires; cut to FARKV_TTL_MAX_MS */
	uint32_t user;
	uint64_t expected; /**< FARKV_REQUEST_CAS */
};

/** Write by a kind of farkv_write(). *version_out may be NULL. */
int store_write(struct client *c, enum farkv_request_kind kind, const struct store_item *item,
		uint64_t *version_out);

/** A change that depends on the present value. */
struct edit {
	bool found;             /**< the key has a value */
	struct farkv_value old; /**< that value; data NULL and zeros if it has none */
	const void *data;       /**< the new value: set by the function */
	size_t len;
	bool remove;            /**< delete the key instead; likewise */
	uint64_t ttl_ms;        /**< of the new value; as of the old one unless changed */
	uint32_t user;          /**< likewise */
	uint64_t version;       /**< of the value after the change */
};

/**
 * Decide about a change: true to write `data` or to `remove`, false to leave the key as it is. May
 * be called several times, and answers the client only after store_edit().
 */
typedef bool edit_fn(struct edit *e, void *arg);

/**
 * Get, decide, and write by cas or add, or delete by delete_cas, until no other write came in
 * between: one step to all others. Returns 0, also if nothing was written; FARKV_ETIMEDOUT if
 * others come in between for --timeout-ms. The bytes of the old value are valid only within
 * `decide`.
 */
int store_edit(struct client *c, struct slice key, edit_fn *decide, void *arg, struct edit *e);

/**
 * Get and delete, in one step: *value_out is the value, whose bytes are in c->scratch.
 * FARKV_ENOTFOUND: the key has none.
 */
int store_take(struct client *c, struct slice key, struct farkv_value *value_out);

/** farkv_stats(). */
int store_stats(struct client *c, struct farkv_stats *s);

/** Keys with a value: counted, if they are few; otherwise as the server knows them, which is a
 * second old at most. */
int store_count(struct client *c, uint64_t *n_out);

/** Wall clock in ms, for times that clients give as dates. */
int64_t store_date_ms(void);

#endif
