/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cached_rig.h - for tests of operations on keys with a cached location: a client over a
 * lane that is not mapped, where words are READ whole or may tear, and the cost of each
 * operation. Include it once in a program.
 */
#ifndef TESTS_RIG_CACHED_RIG_H
#define TESTS_RIG_CACHED_RIG_H

#include "index_rig.h"

/* Cost of an operation: round trips, READs, WRITEs, compare-and-swaps. */
struct cost {
	uint64_t trips, reads, writes, cas;
};

static bool tears;

static void remember(size_t entries)
{
	static struct xport_fault_config cfg;

	cfg = (struct xport_fault_config){.hide_direct = true,
					  .byte_tear = tears,
					  .hook = rival_hook};
	fake_client_close(&me);
	fake_client_open(&me, &region, &cfg, 3);
	ck_assert_int_eq(index_cache_locations(me.ix, entries), 0);
}

static void begin(int tearing)
{
	tears = tearing;
	setup(true);
	remember(64);
}

static struct cost cost_now(void)
{
	const struct xport_counters *c = &me.lane->counters;

	return (struct cost){c->round_trips, c->reads, c->writes, c->cas};
}

/*
 * The operation returns `result` and has this cost; it reads the slot by a READ, or by a
 * CAS if words tear.
 */
static void check(enum index_kind kind, struct index_key k, const char *value,
		  uint64_t expected, int result, struct cost want, unsigned looks)
{
	struct cost was = cost_now(), now;

	ck_assert_int_eq(run(&me, kind, k, value, expected), result);
	now = cost_now();
	if (tears)
		want.cas += looks;
	else
		want.reads += looks;
	ck_assert_uint_eq(now.trips - was.trips, want.trips);
	ck_assert_uint_eq(now.reads - was.reads, want.reads);
	ck_assert_uint_eq(now.writes - was.writes, want.writes);
	ck_assert_uint_eq(now.cas - was.cas, want.cas);
}

#define COST(...) ((struct cost){__VA_ARGS__})
#define GET_COST COST(1, 1, 0, 0) /* and a read of the slot */
#define SWAP_COST COST(1, 0, 1, 1)
#define LOOK_COST COST(1, 0, 0, 0)

#endif
