/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * slab.h - the server's allocator: segments of one class, cut into blocks.
 *
 * A block is free, out (granted: with a session, or published, or in some
 * session's limbo), in the server's own limbo, or worn. The server does not
 * know whose an out block is: clients take over what they unlink. It does know
 * which blocks are out, so that a RETURN of anything else is refused.
 *
 * Two bytes of private memory per block; nothing in the region. The control
 * thread owns it.
 */
#ifndef SERVER_SLAB_H
#define SERVER_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/alloc.h"
#include "common/layout.h"
#include "heap.h"

struct slab;

struct slab_counts {
	uint64_t out, free, limbo, worn; /* blocks */
	uint64_t pages;                  /* of all segments */
};

/** `heap` covers pages first..first+count; `grace_ns` is T. */
struct slab *slab_new(struct heap *heap, uint64_t first, uint64_t count,
		      uint64_t grace_ns);
void slab_free(struct slab *s);

/**
 * Hand out up to `want` blocks of a class, low addresses first. Takes blocks of
 * limbo whose T has passed at `now` into account. Returns how many; fewer than
 * `want`, down to 0, when memory is out; some is kept for the smallest classes.
 */
size_t slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
		  struct block_ref *refs_out);

/**
 * Take a block back. ref.inc is the incarnation of its next content. False, and
 * nothing changes, unless `ref` is exactly a block that is out.
 */
bool slab_return(struct slab *s, struct block_ref ref, enum alloc_state state,
		 uint64_t now);

/** True if blocks of the class are in limbo or worn: they will be free. */
bool slab_pending(const struct slab *s, uint8_t cls);

/**
 * A barrier begins, to the benefit of the blocks that are worn now: those that
 * come later wait for the next one. False if there are none.
 */
bool slab_barrier_begin(struct slab *s);

/** It has passed: those blocks are free and start again at incarnation 0. */
void slab_barrier_passed(struct slab *s);

struct slab_counts slab_count(const struct slab *s);

#endif
