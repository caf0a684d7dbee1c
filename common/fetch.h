/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fetch.h - lines of memory are asked for before they are needed. Leaf: layout.h only.
 *
 * A hint: no address is wrong, nothing waits for it, and nothing is ordered by it. The CPU
 * walks the page tables for it, and what comes too fast for that is slowed down.
 *
 * The empty asm keeps the hint. GCC (12.2) takes a function that does nothing but fetch
 * ahead for one without any effect, and leaves out the calls of it: tests/tree.sh looks.
 */
#ifndef COMMON_FETCH_H
#define COMMON_FETCH_H

#include <stdint.h>

#include "layout.h"

/** The line of `p`, to be read. */
static inline void fetch_line(const void *p)
{
	__builtin_prefetch(p);
	__asm__("");
}

/** The line of `p`, to be written. */
static inline void fetch_line_to_write(const void *p)
{
	__builtin_prefetch(p, 1);
	__asm__("");
}

/** Every line's worth of `bytes` from `p` on: where p is not a line's first byte the last
 * line may be left out. */
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
 * How much of a block of so many bytes is asked for before it is looked at: all of it, or,
 * of one that takes much of the nearest cache, the first of it. The CPU itself sees how
 * that goes on.
 */
static inline uint64_t fetch_ahead(uint64_t block_bytes)
{
	return block_bytes <= 1280 ? block_bytes : 512;
}

#endif
