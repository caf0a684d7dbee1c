/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "recorder.h"

#include <string.h>
#include <time.h>

static const struct ticks *ticks;
static const uint64_t *region_clock;

uint64_t recorder_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void recorder_use_ticks(const struct ticks *t)
{
	ticks = t;
}

void recorder_use_clock(const uint64_t *clock)
{
	region_clock = clock;
}

uint32_t recorder_clock(void)
{
	return region_clock ? (uint32_t)__atomic_load_n(region_clock, __ATOMIC_SEQ_CST) : 0;
}

uint64_t recorder_time(void)
{
	return ticks ? ticks_now(ticks) : recorder_now();
}

void recorder_init(struct recorder *r, struct history_op *op, uint64_t room)
{
	*r = (struct recorder){.op = op, .room = room};
}

bool recorder_has_room(const struct recorder *r, uint64_t n)
{
	return r->room - r->n >= n;
}

struct history_op *recorder_begin(struct recorder *r, struct history_op *ops,
				  unsigned n)
{
	struct history_op *at = r->op + r->n;
	uint32_t clock = recorder_clock();
	uint64_t now = recorder_time();

	for (unsigned i = 0; i < n; i++) {
		ops[i].clock_before = clock;
		ops[i].invoked = now;
		ops[i].responded = HISTORY_OPEN;
		ops[i].result = HISTORY_UNKNOWN;
	}
	memcpy(at, ops, n * sizeof(*ops));
	__atomic_store_n(&r->n, r->n + n, __ATOMIC_RELEASE);
	/* The time is in memory before anything of the operation is asked of it. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return at;
}

void recorder_end(struct history_op *op, unsigned n, const uint8_t *result)
{
	uint32_t clock;
	uint64_t now;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	now = recorder_time();
	clock = recorder_clock();
	for (unsigned i = 0; i < n; i++) {
		op[i].responded = now;
		op[i].clock_after = clock;
		/* Last: a client that dies before this has recorded nothing. */
		__atomic_store_n(&op[i].result, result[i], __ATOMIC_RELEASE);
	}
}
