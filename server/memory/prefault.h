/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * prefault.h - huge-page prefault: a thread collapses the pages that are allocated next.
 *
 * To collapse all pages at the start would take all memory at once. To collapse each page
 * when it is allocated would stall the allocation, for up to a second on busy CPUs
 * (doc/architecture.md). Memory that is allocated faster than the thread collapses it is
 * collapsed while in use: the content stays, and an access to a page that is just being
 * collapsed waits for some milliseconds.
 *
 * The heap allocates from both ends (heap.h), and so does this thread: its lead at each end
 * equals what is in use there, within PREFAULT_LEAST and PREFAULT_MOST, and is refilled when half
 * of it is gone. Nothing is collapsed before the first use.
 *
 * A page that cannot be collapsed for now, because it is in use elsewhere or the kernel has
 * no free huge page, stays small and is retried when the thread is idle, at growing
 * intervals. Where the kernel makes no huge pages at all (hugepage.h) the thread ends.
 */
#ifndef SERVER_MEMORY_PREFAULT_H
#define SERVER_MEMORY_PREFAULT_H

#include <stdint.h>

#include "common/base/hugepage.h"

#define PREFAULT_LEAST HUGEPAGE_BYTES
#define PREFAULT_MOST (UINT64_C(64) << 20)

struct prefault;

/** For the data area, which is hugepage_map()'s. NULL if out of memory. */
struct prefault *prefault_new(uint8_t *data, uint64_t bytes);

/**
 * The first `low` and the last `high` bytes are in use, or were. The thread starts at the
 * first call with `low` > 0. Does not wait for the thread, cannot fail.
 */
void prefault_used(struct prefault *a, uint64_t low, uint64_t high);

/** Waits for the call in progress, up to 32 MiB. NULL is allowed. */
void prefault_free(struct prefault *a);

#endif
