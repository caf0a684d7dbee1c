/* SPDX-License-Identifier: BSD-3-Clause */
/* How many blocks of a class are said to be taken. */
#include "config.h"

#include "server/loop/demand.h"

#include "tests/rig/cases.h"

#define CLS 7u
#define NOW (1000 * NS_PER_SEC)

TEST(steady_grants_give_what_is_granted_in_demand_ns)
{
	struct demand d = {0};
	uint64_t now = NOW;

	for (unsigned i = 0; i < 10000; i++, now += DEMAND_NS / 500)
		demand_add(&d, CLS, 3, now);
	ck_assert_uint_ge(demand_of(&d, CLS, now), 1490);
	ck_assert_uint_le(demand_of(&d, CLS, now), 1500);
	ck_assert_uint_eq(demand_of(&d, CLS + 1, now), 0);
}

TEST(grants_of_what_is_said_last_for_half_of_demand_ns)
{
	const uint64_t block_ns = DEMAND_NS / 100;
	struct demand d = {0};
	uint64_t now = NOW, n = 2;

	for (unsigned i = 0; i < 100; i++, now += n * block_ns) {
		if (demand_of(&d, CLS, now) > n)
			n = demand_of(&d, CLS, now);
		demand_add(&d, CLS, n, now);
	}
	ck_assert_uint_ge(n, 45);
	ck_assert_uint_le(n, 50);
}

TEST(no_grant_is_remembered_for_longer_than_demand_ns)
{
	struct demand d = {0};

	demand_add(&d, CLS, 1000, NOW);
	ck_assert_uint_eq(demand_of(&d, CLS, NOW), 1000);
	ck_assert_uint_eq(demand_of(&d, CLS, NOW + DEMAND_NS / 4), 750);
	ck_assert_uint_eq(demand_of(&d, CLS, NOW + DEMAND_NS), 0);
	ck_assert_uint_eq(demand_of(&d, CLS, NOW + NS_PER_SEC), 0);
}

TEST_SUITE("demand")
