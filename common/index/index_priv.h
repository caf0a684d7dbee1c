/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/index_priv.h - struct index, for the files of the index itself. Each of them has a header
 * of its name, and includes those above it only:
 *
 *   index/op.h    an operation: its phases, its block and buffers, how it ends
 *   index/dir.h   the directory: the key's subtable, and whether it was replaced
 *   index/cached.h  cached locations, windows and values
 *   index/publish.h  decide, write the block, CAS, and what came of it
 *   index/shm.h   the fast paths over mapped memory (index/direct.h)
 *   index/try.h   by loads: what the fast paths leave
 *   index/step.h  START to the decision; one phase after the other
 *   index/run.h   drive many operations
 *   index.h       open and close
 */
#ifndef COMMON_INDEX_INDEX_PRIV_H
#define COMMON_INDEX_INDEX_PRIV_H

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "index.h"
#include "spare.h"
#include "common/base/util.h"

struct cached;

struct index {
	struct index_versions versions; /* first: index_versions_left() */
	struct superblock sb;
	struct xport_lane *lane;
	struct alloc *alloc;
	struct cached *cached; /* cached locations, windows and values; NULL: none */
	size_t buf_bytes; /* of all operations' buffers */
	struct spare spare; /* ... and what they have given back */

	uint64_t dirword;  /* D under which `entries` was read; 0: none */
	uint64_t *entries; /* lane memory, 2^depth words of any age (I5) */
	size_t entries_bytes;
	uint64_t *dir_scratch; /* lane memory, two words */

	uint64_t (*now)(void *arg); /* NULL: clock_now_ns() */
	void *now_arg;
	uint64_t recent_ns; /* on the clock, some time ago */
	uint64_t run_began_ns;   /* ... when index_run() began; 0: look at it */
	uint32_t undated;   /* blocks retired since one was dated at once */
	uint64_t retries;
	uint32_t usual_len; /* of the values that a GET by loads expects: as long as the last */
	struct backoff backoff;
};
static_assert(offsetof(struct index, versions) == 0, "index_versions_left() looks there");

static inline uint64_t index_now(const struct index *ix)
{
	return ix->now ? ix->now(ix->now_arg) : clock_now_ns();
}

/** A compare-and-swap by loads was lost: let the winner go on. */
static inline void index_backoff(struct index *ix)
{
	backoff_wait(&ix->backoff, ix->versions.counter, ix->versions.prefix);
}

/** When what is READ now will have been begun: this moment, or one shortly before. */
static inline uint64_t index_begin_ns(const struct index *ix)
{
	return ix->run_began_ns ? ix->run_began_ns : index_now(ix);
}

#endif
