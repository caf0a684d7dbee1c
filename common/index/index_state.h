/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/index_state.h - struct index, for the files of the index. Each file has a header of its
 * name, and includes only headers listed above it:
 *
 *   index/op.h      an operation: its phases, its block and buffers, how it ends
 *   index/heat.h    marks of use, in a cache
 *   index/dir.h     the directory: the key's subtable, and whether it was replaced
 *   index/expiry.h  CLOCK, and values that expire
 *   index/cached.h  cached locations, windows and values
 *   index/publish.h decide, write the block, CAS, evaluate, retire
 *   index/shm.h     the fast paths over mapped memory (index/direct.h)
 *   index/search.h  a window searched by loads, where the fast paths do not apply
 *   index/try.h     operations over mapped memory: the fast path, then the search
 *   index/step.h    from START to the decision, phase by phase
 *   index/run.h     drive many operations
 *   index/scan.h    list keys
 *   index.h         open and close
 */
#ifndef COMMON_INDEX_INDEX_STATE_H
#define COMMON_INDEX_INDEX_STATE_H

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/region/layout.h"
#include "common/xport/xport.h"
#include "alloc.h"
#include "spare.h"

struct cached;

/** Lane memory for scans: two images of a subtable, a line of words, heads of blocks. */
#define INDEX_HEADS_BYTES ((size_t)128 << 10)
#define INDEX_SCAN_BYTES (2 * (size_t)PAGE_BYTES + LINE_BYTES + INDEX_HEADS_BYTES)

/** The last version that was written. */
struct index_versions {
	uint32_t prefix;
	uint32_t counter;
};

struct index {
	struct index_versions versions;
	struct superblock sb;
	struct xport_lane *lane;
	struct alloc *alloc;
	struct cached *cached; /* NULL: nothing is cached */
	size_t buf_bytes; /* bytes of all operations' buffers */
	struct spare spare; /* buffers that operations gave back */

	uint64_t dirword;  /* D under which `entries` was read; 0: none */
	uint64_t *entries; /* lane memory: 2^depth entries, of any age (I5) */
	size_t entries_bytes;
	uint64_t *dir_scratch; /* lane memory, two words */
	uint8_t *scan_mem; /* lane memory, INDEX_SCAN_BYTES; NULL until needed */

	uint64_t (*now)(void *arg); /* NULL: clock_now_ns() */
	void *now_arg;
	uint64_t recent_ns; /* last clock reading */
	uint64_t run_began_ns;   /* when index_run() began; 0: read the clock */
	uint32_t undated;   /* blocks retired since the clock was last read for one */
	uint8_t *heat; /* the heat area of a mapped cache; NULL: none */
	uint64_t mark_turn; /* heat_write() */
	bool marks; /* the store is a cache, not mapped, and may be written */
	uint64_t retries;
	uint64_t clock_ms;  /* sample of CLOCK; 0: none, or it was 0 */
	uint64_t clock_at_ns; /* time before its READ began */
	uint32_t usual_len; /* length of the last value found by a GET by loads */
	struct backoff backoff;
};

static inline uint64_t index_now(const struct index *ix)
{
	return ix->now ? ix->now(ix->now_arg) : clock_now_ns();
}

/** Back off after a lost CAS. */
static inline void index_backoff(struct index *ix)
{
	backoff_wait(&ix->backoff, ix->versions.counter, ix->versions.prefix);
}

/** A time before the next READs are posted: I4 counts from it. */
static inline uint64_t index_begin_ns(const struct index *ix)
{
	return ix->run_began_ns ? ix->run_began_ns : index_now(ix);
}

#endif
