/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * demand.h - how many blocks of each class were granted lately: counters that leak.
 *
 * Event loop only.
 */
#ifndef SERVER_LOOP_DEMAND_H
#define SERVER_LOOP_DEMAND_H

#include <stdint.h>

#include "common/base/clock.h"
#include "common/region/layout.h"

/** What was granted longer ago than this does not count. */
#define DEMAND_NS (30 * NS_PER_MS)

/** Zeroed: none. */
struct demand {
	uint64_t level[CLASS_COUNT]; /* at at_ns, in parts of a block */
	uint64_t at_ns[CLASS_COUNT];
};

/** `n` blocks were granted at `now` (clock_now_ns()). */
void demand_add(struct demand *d, uint8_t cls, uint64_t n, uint64_t now);

/** Blocks granted in the last DEMAND_NS, at a steady rate; earlier ones count less than later ones.
 */
uint64_t demand_of(const struct demand *d, uint8_t cls, uint64_t now);

#endif
