/* SPDX-License-Identifier: BSD-3-Clause */
/** mc_cmds.h - the handlers of memcached's commands, one for each row of mc.c, and what writes. */
#ifndef GATE_MC_CMDS_H
#define GATE_MC_CMDS_H

#include "mc_reply.h"
#include "store.h"

typedef void mc_handler(struct client *c, const struct args *a);

/* mc_text.c */
mc_handler mc_get, mc_gets, mc_gat, mc_gats, mc_set, mc_add, mc_replace, mc_append, mc_prepend,
	mc_cas, mc_incr, mc_decr, mc_touch, mc_delete;
/* mc_meta.c */
mc_handler mc_mg, mc_ms, mc_md, mc_ma, mc_mn, mc_me;
/* mc_admin.c */
mc_handler mc_stats, mc_flush_all, mc_version, mc_verbosity, mc_quit;
/** Called by the event `flush` of a thread, whose handle is `kv`: remove all keys. */
void mc_flush_late(int fd, short what, void *kv);

/* ---- mc_write.c: text and meta commands alike */

/**
 * Get a value. `touch`, or NULL: its new time to live; if that is over the value is deleted in the
 * same step. *value_out's bytes are valid until the next call of the store or of this function.
 */
int mc_fetch(struct client *c, struct slice key, const struct mc_time *touch,
	     struct farkv_value *value_out);

enum mc_mode { MC_SET, MC_ADD, MC_REPLACE, MC_APPEND, MC_PREPEND, MC_CAS };

/**
 * True if the request's data block can be stored. False: an error was answered, and the key's value
 * is deleted if the block is too large and would have replaced it.
 */
bool mc_body_ok(struct client *c, struct slice key, enum mc_mode mode);

/**
 * Store the item in the way of `mode`: 0, FARKV_EEXISTS or FARKV_ENOTFOUND where its condition
 * does not hold, FARKV_EVERSION, or another error. Append and prepend keep time and user word,
 * and compare `expected` if it is not 0. `over`: the value is deleted again at once.
 */
int mc_write(struct client *c, enum mc_mode mode, const struct store_item *item, bool over,
	     uint64_t *version_out);

/** How to count. */
struct mc_count {
	uint64_t delta;
	bool down;
	bool create;           /**< a key without a value gets `initial` and `create_ttl_ms` */
	uint64_t initial;
	uint64_t create_ttl_ms;
	bool retime;           /**< set the time to live to `ttl_ms` */
	uint64_t ttl_ms;
	uint64_t expected;     /**< the version that must be there, or 0 */

	/* out */
	uint64_t value;
	uint64_t version;
	uint64_t ttl_now_ms;
};

/** Add or subtract. 0, FARKV_ENOTFOUND, FARKV_EVERSION, FARKV_EINVAL (no number), others. */
int mc_count(struct client *c, struct slice key, struct mc_count *n);

#endif
