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
	struct arena_chunk *spare;  /* for the next copies */
	size_t spare_bytes;
};

/** So much of what was released stays for the next copies; but not what one took alone. */
#define ARENA_KEEP ((size_t)4 << 20)

/** A copy of `len` bytes (at least one is reserved); NULL if out of memory. */
void *arena_copy(struct arena *a, const void *src, size_t len);

/** Does `p` point into a copy? */
bool arena_has(const struct arena *a, const void *p);

/** Release all copies; their memory stays, up to ARENA_KEEP. */
void arena_reset(struct arena *a);

/** Release all, and all memory. */
void arena_fini(struct arena *a);

#endif
