/* SPDX-License-Identifier: BSD-3-Clause */
/** arena.h - memory for one batch's values, released together. */
#ifndef CLIENT_ARENA_H
#define CLIENT_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

/** Zeroed is empty. One thread. */
struct arena {
	struct arena_chunk *chunks; /* newest first */
};

/** A copy of `len` bytes (at least one is reserved); NULL if out of memory. */
void *arena_copy(struct arena *a, const void *src, size_t len);

/** Does `p` point into a copy? */
bool arena_has(const struct arena *a, const void *p);

/** Release all copies. Keeps nothing. */
void arena_reset(struct arena *a);

#endif
