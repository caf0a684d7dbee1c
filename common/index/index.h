/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index.h - the protocol: GET, EXISTS, PUT, ADD, REPLACE, CAS and DELETE over a lane.
 *
 * Every operation is a small state machine (index/op.h) that posts chains and continues when they
 * complete. The operations of an op queue are driven together, one doorbell per stage
 * (index/run.h). Where the region is mapped, operations are first tried by loads (index/try.h).
 *
 * Nothing here names a transport, talks to the server or sleeps. An operation that needs a block, a
 * larger index or the end of a migration stops with the reason in op->wait. It then holds no block
 * and no reference to the region (I5), and its caller resumes it.
 *
 * One struct index belongs to one thread.
 */
#ifndef COMMON_INDEX_INDEX_H
#define COMMON_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/block.h"
#include "index_state.h"
#include "op.h"
#include "value_cache.h"
#include "common/region/layout.h"
#include "location.h"
#include "common/xport/xport.h"

/**
 * Open an index on a region. `sb` must have been verified; it is copied. The lane and the allocator
 * (NULL on a read-only lane) stay the caller's. Reads the directory, until `deadline_ns`
 * (clock_now_ns()) at most. Returns 0, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_EDISCONNECTED,
 * FARKV_ETIMEDOUT.
 */
int index_open(const struct superblock *sb, struct xport_lane *lane,
	       struct alloc *alloc, uint64_t deadline_ns,
	       struct index **ix_out);
void index_close(struct index *ix);

/**
 * From now on write versions prefix << 32 | 1, 2, ... The server gives out each prefix once. Call
 * again with a new one when index_versions_left() is low; an operation that finds no version left
 * ends with FARKV_EDISCONNECTED.
 */
void index_set_prefix(struct index *ix, uint32_t prefix);

/** Versions left under this prefix. */
static inline uint32_t index_versions_left(const struct index *ix)
{
	return UINT32_MAX - ix->versions.counter;
}

/**
 * Drop the cached directory, locations, windows and values; the next operation reads them again.
 * For the barrier (I5); no operation may be running.
 */
void index_drop_cache(struct index *ix);

/**
 * Cache the locations of up to `entries` keys, and some windows: operations on them take one round
 * trip. For lanes that are not mapped; call before the first operation. FARKV_ENOMEM, or 0 entries:
 * nothing is cached.
 */
int index_cache_locations(struct index *ix, size_t entries);

/**
 * Also cache values of keys whose locations are cached, in `bytes` of memory: VALUE_CACHE_MIN to
 * VALUE_CACHE_MAX (index/value_cache.h). Call after index_cache_locations(). FARKV_ENOMEM: no
 * values are cached.
 */
int index_cache_values(struct index *ix, size_t bytes);

/** Hits and misses of these caches since index_open(); zeros without caches. */
struct location_counters index_cache_counters(const struct index *ix);

/** Steps that had to be repeated since index_open(). */
uint64_t index_retries(const struct index *ix);

/** From now on gets and writes mark no keys as used (index/heat.h). */
void index_mark_nothing(struct index *ix);

/** Last clock reading; may be stale. */
uint64_t index_recent(const struct index *ix);

/** Replace the clock (tests). NULL restores clock_now_ns(). */
void index_set_clock(struct index *ix, uint64_t (*now)(void *arg), void *arg);

/**
 * Forget the spare buffers without freeing them: in a child of fork(), which does not have the
 * lane's memory.
 */
void index_abandon_spare(struct index *ix);

#endif
