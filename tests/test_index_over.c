/* SPDX-License-Identifier: BSD-3-Clause */
/* A put over a value, straight on (index_over.c), and where it is not for that. */
#include "config.h"

#include "loads_rig.h"

START_TEST(put_over_a_value_or_a_tombstone_goes_straight_on)
{
	setup_over("k", 0);
	check_value(&other, k, "second");
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	PUT(&me, k, "third");
	ck_assert(me.op.plenty);
	check_value(&other, k, "third");
	check_no_duplicates(k);
	/* An insert does not, nor what is not a put. */
	PUT(&me, key_of("another"), "x");
	ck_assert(!me.op.plenty);
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "fourth", 0), 0);
	ck_assert(!me.op.plenty);
	teardown();
}
END_TEST

START_TEST(put_that_finds_another_key_first_goes_on_by_searching)
{
	struct index_key second;

	setup_over("a", 77);
	second = key_at("b", 77);
	PUT(&me, second, "b1");
	PUT(&me, second, "b2");
	ck_assert(!me.op.plenty);
	check_value(&other, k, "second");
	check_value(&other, second, "b2");
	check_no_duplicates(k);
	check_no_duplicates(second);
	teardown();
}
END_TEST

static void damage(void)
{
	region.base[slot_off(*slots_of(k)) + BLOCK_HEADER_BYTES - 1] ^= 1;
}

START_TEST(put_over_a_damaged_header_is_refused)
{
	setup_over("k", 77);
	damage();
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "third", 0), FARKV_ECORRUPT);
	damage();
	PUT(&me, k, "fourth");
	check_value(&other, k, "fourth");
	teardown();
}
END_TEST

START_TEST(put_that_finds_its_slot_frozen_leaves_it_so)
{
	struct index_op *op = &me.op;
	uint64_t cas;

	setup_over("k", 77);
	freeze();
	cas = me.lane->counters.cas;
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_uint_eq(me.lane->counters.cas, cas);
	ck_assert(*slots_of(k) & SLOT_FROZEN);
	index_abandon(me.ix, op, FARKV_ETIMEDOUT);
	teardown();
}
END_TEST

/* The session may be over, and the slot others' business. */
START_TEST(put_whose_lane_breaks_while_it_writes_swaps_nothing)
{
	struct index_op *op = &me.op;
	uint64_t cas;

	setup_over("k", 77);
	cas = me.lane->counters.cas;
	at_copy = cut;
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_uint_eq(me.lane->counters.cas, cas);
	check_value(&other, k, "second");
	teardown();
}
END_TEST

START_TEST(put_gives_up_the_block_that_it_replaces)
{
	uint32_t resting;

	setup_over("k", 77);
	resting = alloc_resting(me.alloc, 0);
	PUT(&me, k, "third");
	ck_assert(me.op.plenty);
	ck_assert_uint_eq(alloc_resting(me.alloc, 0), resting + 1);
	teardown();
}
END_TEST

/* Where the last block at hand was taken, and where one is worn, somebody is to see to it. */
START_TEST(put_says_when_there_is_something_to_see_to)
{
	struct block_ref last[16];
	unsigned n = 0;

	setup_over("k", 77);
	while (n < 16 && alloc_take(me.alloc, 0, 0, &last[n]))
		n++;
	ck_assert_uint_ge(n, 2);
	ck_assert_int_eq(alloc_put(me.alloc, last[0]), 0);
	PUT(&me, k, "third");
	ck_assert(!me.op.plenty);
	for (unsigned i = 1; i < n; i++)
		ck_assert_int_eq(alloc_put(me.alloc, last[i]), 0);
	PUT(&me, k, "fourth");
	ck_assert(me.op.plenty);
	/* So many rest that another needs no look at the clock. */
	fake_region_grant(&region, me.alloc, 0, 40);
	for (unsigned i = 0; i < 36; i++) {
		ck_assert(alloc_take(me.alloc, 0, 0, &last[1]));
		ck_assert_int_eq(alloc_retire(me.alloc, last[1], 0), 0);
	}
	PUT(&me, k, "still enough");
	ck_assert(me.op.plenty);
	last[0].inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_retire(me.alloc, last[0], 0), 0);
	ck_assert_uint_eq(alloc_worn(me.alloc), 1);
	PUT(&me, k, "fifth");
	ck_assert(!me.op.plenty);
	teardown();
}
END_TEST

/* It takes its own last incarnation out of circulation. */
START_TEST(put_that_wears_a_block_out_says_so)
{
	struct block_ref worn = {0};

	setup_over("k", 77);
	PUT(&me, k, "third");
	ck_assert(me.op.plenty);
	/* The block in the slot becomes one of the last incarnation. */
	ck_assert(alloc_take(me.alloc, 0, 0, &worn));
	worn.inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_put(me.alloc, worn), 0);
	PUT(&me, k, "fourth");
	ck_assert(me.op.plenty);
	PUT(&me, k, "fifth");
	ck_assert_uint_eq(alloc_worn(me.alloc), 1);
	ck_assert(!me.op.plenty);
	teardown();
}
END_TEST

START_TEST(put_that_loses_has_nothing_to_spare)
{
	struct index_op *op = &me.op;

	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 4);
	rival_sets(-1, NULL, INDEX_PUT, k, "theirs");
	at_swap = rival_op;
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	ck_assert(!op->plenty);
	teardown();
}
END_TEST

/* What is asked for after it is asked for in its own class. */
START_TEST(put_that_stands_before_another_is_of_its_own_class)
{
	static char large[3000];

	memset(large, 'x', sizeof(large) - 1);
	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 8);
	fake_region_grant(&region, me.alloc, class_for(block_room(9, 2999)), 2);
	PUT(&me, key_of("the other"), large);
	ck_assert_uint_ne(me.op.cls, 0);
	PUT(&other, k, "theirs");
	PUT(&me, k, "mine");
	PUT(&other, k, "theirs");
	PUT(&me, k, "mine");
	ck_assert(contend_hot(&me.ix->contend, k.hash));
	PUT(&other, k, "theirs");
	me.op.cls = 7;
	rival_sets(-1, NULL, INDEX_PUT, k, "after");
	at_spin = rival_op;
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.op.cls, 0);
	ck_assert(me.op.rivals);
	check_value(&me, k, "after");
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index, puts straight on");
	TCase *t = tcase_create("straight on");

	tcase_add_test(t, put_over_a_value_or_a_tombstone_goes_straight_on);
	tcase_add_test(t, put_that_finds_another_key_first_goes_on_by_searching);
	tcase_add_test(t, put_over_a_damaged_header_is_refused);
	tcase_add_test(t, put_that_finds_its_slot_frozen_leaves_it_so);
	tcase_add_test(t, put_whose_lane_breaks_while_it_writes_swaps_nothing);
	tcase_add_test(t, put_gives_up_the_block_that_it_replaces);
	tcase_add_test(t, put_says_when_there_is_something_to_see_to);
	tcase_add_test(t, put_that_wears_a_block_out_says_so);
	tcase_add_test(t, put_that_loses_has_nothing_to_spare);
	tcase_add_test(t, put_that_stands_before_another_is_of_its_own_class);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
