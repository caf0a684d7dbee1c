/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index.h - the protocol: GET, PUT, ADD, REPLACE, CAS and DELETE over a lane.
 *
 * Every operation is a small state machine (index/op.h) that posts chains
 * and continues when they complete. Those of one op queue are driven together, one
 * doorbell per stage (index/run.h); where the region is mapped they are first tried by
 * loads (index/try.h). Nothing here names a transport, talks to
 * the server or sleeps: an operation that needs a block, a larger index or the
 * end of a migration stops with the reason in op->wait, holding no
 * reference to the region (I5) and no block, and is resumed by its caller.
 *
 * One struct index belongs to one thread.
 */
#ifndef COMMON_INDEX_INDEX_H
#define COMMON_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "common/region/block.h"
#include "op.h"
#include "value_cache.h"
#include "common/region/layout.h"
#include "location.h"
#include "common/xport/xport.h"

/**
 * `sb` is verified and copied. The lane, the allocator (NULL on a read-only
 * lane) and the version counter stay the caller's. Reads the directory, until
 * `deadline_ns` (clock_now_ns()) at most.
 * Returns 0, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_EDISCONNECTED, FARKV_ETIMEDOUT.
 */
int index_open(const struct superblock *sb, struct xport_lane *lane,
	       struct alloc *alloc, uint64_t deadline_ns,
	       struct index **ix_out);
void index_close(struct index *ix);

/** What struct index begins with: the last version that was written. */
struct index_versions {
	uint32_t prefix;
	uint32_t counter;
};

/**
 * Versions written from now on: prefix << 32 | 1, 2, ... The server never gives
 * a prefix twice. Call again with a fresh one when index_versions_left() is low;
 * an operation that finds none left ends with FARKV_EDISCONNECTED.
 */
void index_set_prefix(struct index *ix, uint32_t prefix);

/** Versions that are left of the prefix. */
static inline uint32_t index_versions_left(const struct index *ix)
{
	return UINT32_MAX - ((const struct index_versions *)(const void *)ix)->counter;
}

/**
 * Forget the cached directory, locations, windows and values: the next operation reads them
 * again. For the barrier (I5); no operation may be running.
 */
void index_drop_cache(struct index *ix);

/**
 * Cache the locations of up to `entries` keys, and some windows: operations on them
 * take one round trip. For lanes that are not mapped; before the first operation.
 * FARKV_ENOMEM: then nothing is cached, as with 0 entries.
 */
int index_cache_locations(struct index *ix, size_t entries);

/**
 * Cache values, too, in `bytes` of memory, VALUE_CACHE_MIN to VALUE_CACHE_MAX (index/value_cache.h), of
 * keys whose locations are cached: after index_cache_locations(). FARKV_ENOMEM: then no values
 * are cached.
 */
int index_cache_values(struct index *ix, size_t bytes);

/** Hits and misses of these caches since index_open(). */
struct location_counters index_cache_counters(const struct index *ix);

/** Steps that had to be repeated since index_open(). */
uint64_t index_retries(const struct index *ix);

/** Last clock reading; may be stale. */
uint64_t index_recent(const struct index *ix);

/** Replace the clock (tests). NULL restores clock_now_ns(). */
void index_set_clock(struct index *ix, uint64_t (*now)(void *arg), void *arg);

/** Forget the spare buffers in a child of fork() that does not have the lane's memory. */
void index_abandon_spare(struct index *ix);

/* ---- fast paths: index_get.h, index_put.h ------------------------------------------ */

/** A GET that has not begun. */
struct index_get_req {
	struct index_key key;
	/* Not running; each GET has its own. `into` and `into_cap` are the caller's. */
	struct index_op *op;
};

/**
 * Begin a GET of a key for which index_prefetch_window() has just returned `expected`, and try it as
 * index_try() does. True: the operation's result is final, and if that is 0 so are the
 * view's value and length, and the version; nothing else of it may be set. False: it has
 * begun, and index_run() ends it. A GET that fails, or may, has cleared the error's line,
 * unless nothing was expected.
 */
bool index_get(struct index *ix, const struct index_get_req *req, const void *window);

/**
 * The same for `n` of them: nothing was asked of the index before, and their windows, and
 * then their blocks, are fetched side by side. True: all are final. False: all have begun,
 * and are to be run together, since the link that some of them wait for may turn out to be
 * another; what the others found has to be read again then (index_op_resume()).
 */
bool index_get_many(struct index *ix, const struct index_get_req *reqs, size_t n);

/**
 * The same for a PUT that was just set up, for whose key index_prefetch_window() has just returned
 * `expected`.
 */
bool index_put(struct index *ix, struct index_op *op, const void *window);

#endif
