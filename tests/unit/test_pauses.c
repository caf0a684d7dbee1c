/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of the server's longest pauses. */
#include "config.h"

#include "server/loop/pauses.h"

#include "common/base/clock.h"

#include "tests/rig/cases.h"

/* A pause of about so many microseconds, by a beginning that lies so far back. */
static void add(struct pauses *p, enum msg_pause_kind kind, uint64_t us)
{
	pauses_add(p, kind, clock_now_ns() - us * 1000);
}

TEST(longest_are_kept_in_their_order)
{
	struct pauses p = {0};

	/* Seconds apart, so that what the machine adds changes no order. */
	for (unsigned i = 0; i < 2 * PAUSES_MAX; i++)
		add(&p, MSG_PAUSE_SWEEP, (i * 7 % (2 * PAUSES_MAX)) * 10000000 + 1);
	ck_assert_uint_eq(p.n, PAUSES_MAX);
	for (unsigned i = 0; i < PAUSES_MAX; i++)
		ck_assert_uint_eq(p.longest[i].ns / 10000000000, 2 * PAUSES_MAX - 1 - i);
	add(&p, MSG_PAUSE_CHECK, 1);
	for (unsigned i = 0; i < PAUSES_MAX; i++)
		ck_assert_int_eq(p.longest[i].kind, MSG_PAUSE_SWEEP);
	add(&p, MSG_PAUSE_CHECK, UINT64_C(2000) * 1000000);
	ck_assert_int_eq(p.longest[0].kind, MSG_PAUSE_CHECK);
	ck_assert_uint_eq(p.longest[1].ns / 10000000000, 2 * PAUSES_MAX - 1);
	ck_assert_uint_eq(p.n, PAUSES_MAX);
}

TEST(first_ones_are_kept_as_they_come)
{
	struct pauses p = {0};
	uint64_t before = clock_now_ns();

	add(&p, MSG_PAUSE_GROWTH, 10000000);
	ck_assert_uint_eq(p.n, 1);
	ck_assert_uint_ge(p.longest[0].end_ns, before);
	add(&p, MSG_PAUSE_COUNT, 30000000);
	add(&p, MSG_PAUSE_TICK, 20000000);
	ck_assert_uint_eq(p.n, 3);
	ck_assert_int_eq(p.longest[0].kind, MSG_PAUSE_COUNT);
	ck_assert_int_eq(p.longest[1].kind, MSG_PAUSE_TICK);
	ck_assert_int_eq(p.longest[2].kind, MSG_PAUSE_GROWTH);
}

TEST(sums_count_every_pause_by_kind_and_length)
{
	const struct pause_sum *sum;
	struct pauses p = {0};
	uint64_t n = 0;

	for (unsigned i = 0; i < 2 * PAUSES_MAX; i++)
		add(&p, MSG_PAUSE_SWEEP, UINT64_C(20000000));
	add(&p, MSG_PAUSE_SWEEP, 2000000);
	sum = &p.sum[MSG_PAUSE_SWEEP];
	for (unsigned i = 0; i <= PAUSES_BUCKETS; i++)
		n += sum->n[i];
	ck_assert_uint_eq(n, 2 * PAUSES_MAX + 1);
	/* The last bucket ends at a second: the machine may make a pause longer, never shorter. */
	ck_assert_uint_eq(sum->n[PAUSES_BUCKETS], 2 * PAUSES_MAX + 1);
	ck_assert_uint_ge(sum->ns, 2 * PAUSES_MAX * UINT64_C(20000000000));
	ck_assert_uint_eq(p.sum[MSG_PAUSE_GROWTH].ns, 0);
	pauses_add(&p, MSG_PAUSE_GROWTH, clock_now_ns());
	ck_assert_uint_eq(p.sum[MSG_PAUSE_GROWTH].n[0] + p.sum[MSG_PAUSE_GROWTH].n[1] +
				  p.sum[MSG_PAUSE_GROWTH].n[2] + p.sum[MSG_PAUSE_GROWTH].n[3] +
				  p.sum[MSG_PAUSE_GROWTH].n[4] + p.sum[MSG_PAUSE_GROWTH].n[5] +
				  p.sum[MSG_PAUSE_GROWTH].n[6], 1);
}

TEST_SUITE("pauses")
