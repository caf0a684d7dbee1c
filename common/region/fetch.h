/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fetch.h - prefetch of cache lines. Leaf: layout.h only.
 *
 * A prefetch is a hint: any address is allowed, nothing waits, nothing is ordered. The CPU
 * walks the page tables for it, and throttles prefetches that come too fast.
 *
 * The empty asm keeps the hint: GCC 12.2 treats a function that only prefetches as without
 * effect and drops calls of it. tests/tools/tree.sh checks this.
 */
#ifndef COMMON_REGION_FETCH_H
#define COMMON_REGION_FETCH_H

#include <stdint.h>

#include "layout.h"

/** Prefetch the line of `p` for reading. */
static inline void fetch_line(const void *p)
{
	__builtin_prefetch(p);
	__asm__("");
}

/** Prefetch the line of `p` for writing. */
static inline void fetch_line_to_write(const void *p)
{
	__builtin_prefetch(p, 1);
	__asm__("");
}

/**
 * Prefetch `bytes` from `p` on; if p is not at the start of a line, the last line may be missing.
 */
static inline void fetch_lines(const uint8_t *p, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += LINE_BYTES)
		fetch_line(p + at);
}

static inline void fetch_lines_to_write(const uint8_t *p, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += LINE_BYTES)
		fetch_line_to_write(p + at);
}

/**
 * How many bytes of a block to prefetch: all, or only the beginning of a block that would fill much
 * of the first-level cache; the hardware prefetcher loads the rest.
 */
static inline uint64_t fetch_ahead(uint64_t block_bytes)
{
	return block_bytes <= 1280 ? block_bytes : 512;
}

#endif
