/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * shared.h - memory that processes forked later share, at one address in all of
 * them: counters, schedule and histograms of a phase. Between shared_begin() and
 * shared_pause() shared_new() takes from one arena, else it is calloc().
 */
#ifndef BENCH_SHARED_H
#define BENCH_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/** Reserve `bytes` of address space; memory comes with use. FARKV_ENOMEM with a
 * detail. Before threads. */
int shared_begin(size_t bytes);

/** From now on this process takes no more from the arena, which stays. */
void shared_pause(void);

/** The arena and all in it is gone from this process. Nothing if there is none. */
void shared_end(void);

/** Whether shared_new() takes from the arena now. */
bool shared_is_on(void);

/** Zeroed and aligned to 64 bytes, or NULL. Any thread. */
void *shared_new(size_t bytes);
/** NULL is fine. What lies in the arena stays there until its end. */
void shared_free(void *p);

#endif
