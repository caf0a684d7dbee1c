/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "demand.h"

#include "common/base/util.h"

/* Parts of a block, so that little is lost when one number after another is rounded. */
#define PARTS 4096u

static uint64_t level(const struct demand *d, uint8_t cls, uint64_t now)
{
	uint64_t ns = UTIL_MIN(now - d->at_ns[cls], DEMAND_NS);

	return d->level[cls] * (DEMAND_NS - ns) / DEMAND_NS;
}

void demand_add(struct demand *d, uint8_t cls, uint64_t n, uint64_t now)
{
	d->level[cls] = level(d, cls, now) + n * PARTS;
	d->at_ns[cls] = now;
}

uint64_t demand_of(const struct demand *d, uint8_t cls, uint64_t now)
{
	return level(d, cls, now) / PARTS;
}
