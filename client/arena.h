/* SPDX-License-Identifier: BSD-3-Clause */
/** arena.h - memory for the values of one batch, released together. */
#ifndef CLIENT_ARENA_H
#define CLIENT_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

/** Zeroed is empty. One thread. */
struct arena {
	struct arena_chunk *chunks; /* newest first */
	struct arena_chunk *old;    /* copies of the previous batch: arena_age() */
	struct arena_chunk *spare;  /* for later copies */
	size_t spare_bytes;
};

/** Released memory kept for later copies, at most; a chunk for one large copy is not kept. */
#define ARENA_KEEP ((size_t)4 << 20)

/** A copy of `len` bytes (at least one is reserved); NULL if out of memory. */
void *arena_copy(struct arena *a, const void *src, size_t len);

/** Set all copies aside until arena_drop_old(). No copies may be set aside already. */
void arena_age(struct arena *a);
/** Release the copies that were set aside, like arena_reset(). */
void arena_drop_old(struct arena *a);

/** Release all copies; their memory stays, up to ARENA_KEEP. */
void arena_reset(struct arena *a);

/** Release all copies and free all memory. */
void arena_fini(struct arena *a);

#endif
