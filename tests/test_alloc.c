/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_region.h"
#include "test_main.h"

#define T UINT64_C(100)

static struct block_ref block(unsigned i)
{
	return (struct block_ref){.off = META_ALIGN + i * 64u, .cls = 0};
}

START_TEST(take_empty_gives_nothing)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r = {.off = 1};

	ck_assert(!alloc_take(a, 0, 1000, &r));
	ck_assert_uint_eq(r.off, 1);
	ck_assert_uint_eq(alloc_next_ready(a, 0), 0);
	alloc_free(a);
}
END_TEST

START_TEST(retire_block_is_free_after_T_with_next_inc_and_not_before)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r;

	ck_assert_int_eq(alloc_retire(a, block(1), 1000), 0);
	ck_assert_uint_eq(alloc_next_ready(a, 0), 1000 + T);
	ck_assert(!alloc_take(a, 0, 1000 + T - 1, &r));
	ck_assert(alloc_take(a, 0, 1000 + T, &r));
	ck_assert_uint_eq(r.off, block(1).off);
	ck_assert_uint_eq(r.inc, 1);
	alloc_free(a);
}
END_TEST

START_TEST(limbo_keeps_order_over_growth_and_wrap)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r;
	unsigned in = 0, out = 0;

	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 7; i++, in++)
			ck_assert_int_eq(alloc_retire(a, block(in), in), 0);
		for (unsigned i = 0; i < 3; i++, out++) {
			ck_assert(alloc_take(a, 0, UINT64_MAX, &r));
			ck_assert_uint_eq(r.off, block(out).off);
		}
	}
	alloc_free(a);
}
END_TEST

START_TEST(put_unpublished_block_is_free_at_once_with_its_inc)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r = block(3);

	r.inc = 9;
	ck_assert_int_eq(alloc_put(a, r), 0);
	r.inc = 0;
	ck_assert(alloc_take(a, 0, 0, &r));
	ck_assert_uint_eq(r.inc, 9);
	alloc_free(a);
}
END_TEST

START_TEST(retire_last_inc_goes_back_worn_and_is_never_reused)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r = block(1), out[4];
	enum alloc_state state = ALLOC_FREE;

	r.inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_retire(a, r, 0), 0);
	ck_assert(!alloc_take(a, 0, UINT64_MAX, &out[0]));
	ck_assert_uint_eq(alloc_surplus(a, UINT64_MAX, out, 4, &state), 1);
	ck_assert_int_eq(state, ALLOC_WORN);
	ck_assert_uint_eq(out[0].off, r.off);
	ck_assert_uint_eq(alloc_surplus(a, UINT64_MAX, out, 4, &state), 0);
	alloc_free(a);
}
END_TEST

START_TEST(want_starts_at_two_doubles_and_asks_once)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[ALLOC_GRANT_MAX];
	uint32_t expect = 2;

	for (unsigned i = 0; i < ALLOC_GRANT_MAX; i++)
		refs[i] = block(i);
	for (unsigned round = 0; round < 12; round++) {
		struct block_ref r;
		uint32_t want = alloc_want(a, 0, 0, 0);

		ck_assert_uint_eq(want, expect);
		ck_assert(alloc_asking(a, 0));
		ck_assert_uint_eq(alloc_want(a, 0, 0, 0), 0);
		ck_assert_int_eq(alloc_stock(a, 0, refs, want), 0);
		ck_assert(!alloc_asking(a, 0));
		while (alloc_take(a, 0, 0, &r))
			;
		expect = expect * 2 > ALLOC_GRANT_MAX ? ALLOC_GRANT_MAX
						      : expect * 2;
	}
	/* a limbo block that is ready serves instead */
	ck_assert_int_eq(alloc_retire(a, block(5), 0), 0);
	ck_assert_uint_eq(alloc_want(a, 0, T, 0), 0);
	ck_assert_uint_ne(alloc_want(a, 0, T - 1, 0), 0);
	alloc_free(a);
}
END_TEST

START_TEST(want_large_class_is_bounded_by_bytes)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(64u << 20);
	struct block_ref r = {.off = META_ALIGN, .cls = cls};

	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(alloc_want(a, cls, 0, 0), 1);
		ck_assert_int_eq(alloc_stock(a, cls, &r, 1), 0);
		ck_assert(alloc_take(a, cls, 0, &r));
	}
	alloc_free(a);
}
END_TEST

START_TEST(drain_gives_everything_back_once_by_state)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[8], worn = block(20);
	enum alloc_state state;
	unsigned seen[3] = {0};
	size_t n;

	worn.inc = INC_COUNT - 1;
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(alloc_put(a, block(i)), 0);
	for (unsigned i = 5; i < 9; i++)
		ck_assert_int_eq(alloc_retire(a, block(i), 1000), 0);
	ck_assert_int_eq(alloc_retire(a, worn, 1000), 0);
	while ((n = alloc_drain(a, 1001, refs, 8, &state)))
		seen[state] += n;
	ck_assert_uint_eq(seen[ALLOC_FREE], 5);
	ck_assert_uint_eq(seen[ALLOC_LIMBO], 4);
	ck_assert_uint_eq(seen[ALLOC_WORN], 1);
	alloc_free(a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("alloc");
	TCase *t = tcase_create("alloc");

	tcase_add_test(t, take_empty_gives_nothing);
	tcase_add_test(
		t, retire_block_is_free_after_T_with_next_inc_and_not_before);
	tcase_add_test(t, limbo_keeps_order_over_growth_and_wrap);
	tcase_add_test(t, put_unpublished_block_is_free_at_once_with_its_inc);
	tcase_add_test(t, retire_last_inc_goes_back_worn_and_is_never_reused);
	tcase_add_test(t, want_starts_at_two_doubles_and_asks_once);
	tcase_add_test(t, want_large_class_is_bounded_by_bytes);
	tcase_add_test(t, drain_gives_everything_back_once_by_state);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
