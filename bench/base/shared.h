/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * shared.h - memory shared with processes forked later, at the same address: counters,
 * schedule and histograms of a phase. Between shared_begin() and shared_pause()
 * shared_new() allocates from one arena, otherwise by calloc().
 */
#ifndef BENCH_BASE_SHARED_H
#define BENCH_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Reserve `bytes` of address space; pages are allocated on use. FARKV_ENOMEM with a detail.
 * Before threads.
 */
int shared_begin(size_t bytes);

/** From now on this process allocates from calloc(); the arena stays. */
void shared_pause(void);

/** Unmap the arena in this process. Nothing if there is none. */
void shared_end(void);

/** True if shared_new() uses the arena. */
bool shared_is_on(void);

/** Zeroed and aligned to 64 bytes, or NULL. Any thread. */
void *shared_new(size_t bytes);
/** NULL is allowed. Memory of the arena is kept until its end. */
void shared_free(void *p);

#endif
