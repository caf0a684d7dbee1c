/* SPDX-License-Identifier: BSD-3-Clause */
/** index_priv.h - what index.c (directory, driver), index_op.c (steps) and
 * index_try.c (GET by loads) share. */
#ifndef COMMON_INDEX_PRIV_H
#define COMMON_INDEX_PRIV_H

#include "index.h"

struct index {
	struct superblock sb;
	struct xport_lane *lane;
	struct alloc *alloc;

	uint64_t dirword;  /* D under which `entries` was read; 0: none */
	uint64_t *entries; /* lane memory, 2^depth words of any age (I5) */
	size_t entries_bytes;
	uint64_t *dir_scratch; /* lane memory, two words */

	uint64_t (*now)(void *arg);
	void *now_arg;
	uint64_t retries;
	uint32_t prefix;
	uint32_t counter;
};

/** Candidates fetched by one chain; more are fetched by further chains. */
#define OP_PROBE_MAX 4

/** Where the window of an operation's key lies, by its directory entry. */
static inline uint64_t window_off(const struct index_op *op)
{
	return entry_page(op->entry) * PAGE_BYTES +
	       (uint64_t)hash_home_line(op->key.hash) * LINE_BYTES;
}

static inline uint64_t index_now(const struct index *ix)
{
	return ix->now(ix->now_arg);
}

/**
 * Read D and the array it names. Waits for the lane; rare. 0,
 * FARKV_EDISCONNECTED, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_ETIMEDOUT.
 */
int index_refill(struct index *ix, uint64_t deadline_ns);

/**
 * Take an operation as far as it goes without waiting: afterwards it has a
 * chain to post (op->posting), waits, or is final.
 */
void index_op_step(struct index *ix, struct index_op *op, uint64_t deadline_ns);

/** End an operation: `err` becomes its result, an unpublished block goes back. */
void index_op_end(struct index *ix, struct index_op *op, int err);

/** Make op->buf at least `bytes` long; contents are lost. */
int index_op_reserve(struct index *ix, struct index_op *op, size_t bytes);

#endif
