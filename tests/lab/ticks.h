/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A clock for a history of two machines that share a page of memory and no time, such
 * as guests of which one may stand still (tests/guest/guest, GUEST_MEMORY).
 *
 * Each machine has a counter there that only it changes; the time is the sum of both,
 * and a reader adds one to its own. So if one reading is over before another
 * begins, on whichever machine, the second is larger: that is all that linear.h asks of
 * a clock. Its unit is a reading of the clock, by anybody.
 */
#ifndef TESTS_LAB_TICKS_H
#define TESTS_LAB_TICKS_H

#include <stdint.h>

struct ticks {
	uint64_t *own, *other;
};

/**
 * `file`: at least a page that both map, zeros at first; `side`: 0 or 1, the machine.
 * 0 or -1 (errno). Mapped until the process ends, and in its children.
 */
int ticks_open(struct ticks *t, const char *file, unsigned side);

/** For any number of threads and processes of the machine. */
static inline uint64_t ticks_now(const struct ticks *t)
{
	uint64_t own = __atomic_add_fetch(t->own, 1, __ATOMIC_SEQ_CST);

	return own + __atomic_load_n(t->other, __ATOMIC_SEQ_CST);
}

#endif
