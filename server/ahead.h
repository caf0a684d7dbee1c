/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * ahead.h - huge pages for memory that is going to be used, made by a thread of its own.
 *
 * To make them all at the start takes all of the memory then; to make each when it is dealt
 * out holds whoever waits for it up, by as much as a second where the CPUs are busy
 * (doc/architecture.md). So a thread makes those that come next. Memory that is dealt out
 * faster gets them behind that, in use: what stands there stays, and who comes to a page
 * that is just being made waits for it, some milliseconds.
 *
 * The heap deals out from both ends (heap.h), so it works at both: as far ahead as is in
 * use there, AHEAD_LEAST at least, AHEAD_MOST at most, and not before half of that is left.
 * Nothing is made before the first use.
 *
 * Where a page is not to be had for now, because others have it in hand or the kernel finds
 * no memory of that size, it stays as it is and is tried again, when there is nothing else
 * to do: soon, and then less and less often. Where the kernel makes none at all
 * (hugepage.h) all stays as it is.
 */
#ifndef SERVER_AHEAD_H
#define SERVER_AHEAD_H

#include <stdint.h>

#include "common/hugepage.h"

#define AHEAD_LEAST HUGEPAGE_BYTES
#define AHEAD_MOST (UINT64_C(64) << 20)

struct ahead;

/** For the data area, which is hugepage_map()'s. NULL if out of memory. */
struct ahead *ahead_new(uint8_t *data, uint64_t bytes);

/**
 * So many bytes from the start, and so many up to the end, are in use, or were at some time.
 * The thread begins when there are some from the start. Never waits for it, cannot fail.
 */
void ahead_used(struct ahead *a, uint64_t low, uint64_t high);

/** Waits for what the thread is just doing, up to 32 MiB. NULL is allowed. */
void ahead_free(struct ahead *a);

#endif
