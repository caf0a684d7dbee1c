/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/fake_region.h"

#define T UINT64_C(100)

static struct block_ref block(unsigned i)
{
	return (struct block_ref){.off = META_ALIGN + i * 64u, .cls = 0};
}

TEST(take_empty_gives_nothing)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r = {.off = 1};

	ck_assert(!alloc_take(a, 0, 1000, &r));
	ck_assert_uint_eq(r.off, 1);
	ck_assert_uint_eq(alloc_next_ready(a, 0), 0);
	alloc_free(a);
}

TEST(retire_block_is_free_after_T_with_next_inc_and_not_before)
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

TEST(deferred_keeps_order_over_growth_and_wrap)
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

TEST(undated_block_waits_for_T_from_its_date)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r, other = block(7);

	other.cls = 3;
	ck_assert_int_eq(alloc_retire(a, block(1), 1000), 0);
	ck_assert_int_eq(alloc_retire_undated(a, block(2)), 0);
	ck_assert_int_eq(alloc_retire_undated(a, block(3)), 0);
	ck_assert_int_eq(alloc_retire_undated(a, other), 0);
	ck_assert_uint_eq(alloc_deferred_count(a, 0), 3);
	ck_assert(alloc_take(a, 0, 5000, &r));
	ck_assert_uint_eq(r.off, block(1).off);
	ck_assert(!alloc_take(a, 0, 5000, &r));
	ck_assert_uint_eq(alloc_next_ready(a, 0), UINT64_MAX);
	alloc_date(a, 5000);
	ck_assert_uint_eq(alloc_next_ready(a, 0), 5000 + T);
	ck_assert_uint_eq(alloc_next_ready(a, 3), 5000 + T);
	ck_assert(!alloc_take(a, 0, 5000 + T - 1, &r));
	alloc_date(a, 6000); /* they have a date */
	ck_assert(alloc_take(a, 0, 5000 + T, &r));
	ck_assert_uint_eq(r.off, block(2).off);
	ck_assert_uint_eq(r.inc, 1);
	ck_assert(alloc_take(a, 3, 5000 + T, &r));
	ck_assert_uint_eq(r.off, other.off);
	alloc_free(a);
}

TEST(undated_blocks_are_dated_before_the_next_that_has_a_date)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r;

	/* Round the ring, too; and the date is for those of all classes. */
	for (unsigned i = 0; i < 200; i++) {
		uint64_t now = 1000 + i * UINT64_C(10);

		ck_assert_int_eq(alloc_retire_undated(a, block(3 * i)), 0);
		ck_assert_int_eq(alloc_retire_undated(a, block(3 * i + 1)), 0);
		ck_assert_int_eq(alloc_retire(a, block(3 * i + 2), now), 0);
		for (unsigned k = 0; k < 3; k++) {
			ck_assert_uint_eq(alloc_next_ready(a, 0), now + T);
			ck_assert(!alloc_take(a, 0, now + T - 1, &r));
			ck_assert(alloc_take(a, 0, now + T, &r));
			ck_assert_uint_eq(r.off, block(3 * i + k).off);
		}
	}
	alloc_free(a);
}

TEST(undated_blocks_that_went_back_leave_no_date_to_others)
{
	struct alloc *a = alloc_new(T);
	enum return_kind state = RETURN_FREE;
	struct block_ref out[4], r;

	ck_assert_int_eq(alloc_retire_undated(a, block(1)), 0);
	ck_assert_int_eq(alloc_retire_undated(a, block(2)), 0);
	/* T has not passed on the clock that was read. */
	ck_assert_uint_eq(alloc_surplus(a, UINT64_MAX - 1, out, 4, &state), 0);
	ck_assert_uint_eq(alloc_drain(a, UINT64_MAX - 1, out, 4, &state), 2);
	ck_assert_int_eq(state, RETURN_DEFERRED);
	ck_assert_int_eq(alloc_retire_undated(a, block(3)), 0);
	alloc_date(a, 100);
	ck_assert(!alloc_take(a, 0, 100 + T - 1, &r));
	ck_assert(alloc_take(a, 0, 100 + T, &r));
	ck_assert_uint_eq(r.off, block(3).off);
	ck_assert_uint_eq(alloc_deferred_count(a, 0), 0);
	alloc_free(a);
}

TEST(put_unpublished_block_is_free_at_once_with_its_inc)
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

TEST(retire_of_last_incarnation_block_goes_back_exhausted)
{
	struct alloc *a = alloc_new(T);
	struct block_ref r = block(1), out[4];
	enum return_kind state = RETURN_FREE;

	r.inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_retire(a, r, 0), 0);
	ck_assert(!alloc_take(a, 0, UINT64_MAX, &out[0]));
	ck_assert_uint_eq(alloc_surplus(a, UINT64_MAX, out, 4, &state), 1);
	ck_assert_int_eq(state, RETURN_EXHAUSTED);
	ck_assert_uint_eq(out[0].off, r.off);
	ck_assert_uint_eq(alloc_surplus(a, UINT64_MAX, out, 4, &state), 0);
	alloc_free(a);
}

TEST(want_starts_at_two_doubles_and_asks_once)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[ALLOC_GRANT_MAX];
	uint32_t expect = 2;

	for (unsigned i = 0; i < ALLOC_GRANT_MAX; i++)
		refs[i] = block(i);
	for (unsigned round = 0; round < 12; round++) {
		struct block_ref r;
		uint32_t want = alloc_request(a, 0, 0, 0);

		ck_assert_uint_eq(want, expect);
		ck_assert(alloc_asking(a, 0));
		ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 0);
		ck_assert_int_eq(alloc_granted(a, 0, refs, want), 0);
		ck_assert(!alloc_asking(a, 0));
		while (alloc_take(a, 0, 0, &r))
			;
		expect = expect * 2 > ALLOC_GRANT_MAX ? ALLOC_GRANT_MAX
						      : expect * 2;
	}
	/* a deferred block that is ready serves instead */
	ck_assert_int_eq(alloc_retire(a, block(5), 0), 0);
	ck_assert_uint_eq(alloc_request(a, 0, T, 0), 0);
	ck_assert_uint_ne(alloc_request(a, 0, T - 1, 0), 0);
	alloc_free(a);
}

TEST(want_three_eighths_of_the_last_grant_are_left_asks)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[8], r;

	for (unsigned i = 0; i < 8; i++)
		refs[i] = block(i);
	ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 2);
	ck_assert_int_eq(alloc_granted(a, 0, refs, 8), 0);
	for (unsigned left = 8; left > 3; left--) {
		ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 0);
		ck_assert(alloc_take(a, 0, 0, &r));
	}
	ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 16);
	alloc_free(a);
}

TEST(want_large_class_is_bounded_by_bytes)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(64u << 20);
	struct block_ref r = {.off = META_ALIGN, .cls = cls};

	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(alloc_request(a, cls, 0, 0), 1);
		ck_assert_int_eq(alloc_granted(a, cls, &r, 1), 0);
		ck_assert(alloc_take(a, cls, 0, &r));
	}
	alloc_free(a);
}

TEST(drain_gives_everything_back_once_by_state)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[8], exhausted = block(20);
	enum return_kind state;
	unsigned seen[3] = {0};
	size_t n;

	exhausted.inc = INC_COUNT - 1;
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(alloc_put(a, block(i)), 0);
	for (unsigned i = 5; i < 9; i++)
		ck_assert_int_eq(alloc_retire(a, block(i), 1000), 0);
	ck_assert_int_eq(alloc_retire(a, exhausted, 1000), 0);
	while ((n = alloc_drain(a, 1001, refs, 8, &state)))
		seen[state] += n;
	ck_assert_uint_eq(seen[RETURN_FREE], 5);
	ck_assert_uint_eq(seen[RETURN_DEFERRED], 4);
	ck_assert_uint_eq(seen[RETURN_EXHAUSTED], 1);
	alloc_free(a);
}

/* Two operations take two, so the third block that is needed is missing. */
TEST(want_does_not_count_free_blocks_that_others_will_take)
{
	struct alloc *a = alloc_new(T);
	struct block_ref refs[2] = {block(0), block(1)};

	ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 2);
	ck_assert_int_eq(alloc_granted(a, 0, refs, 2), 0);
	ck_assert_uint_eq(alloc_request(a, 0, 0, 0), 0);
	ck_assert_uint_eq(alloc_request(a, 0, 0, 1), 0);
	ck_assert_uint_eq(alloc_request(a, 0, 0, 2), 4);
	ck_assert_int_eq(alloc_granted(a, 0, NULL, 0), 0);
	/* the next deferred one is the third */
	ck_assert_int_eq(alloc_retire(a, block(2), 0), 0);
	ck_assert_uint_eq(alloc_request(a, 0, T, 2), 0);
	ck_assert_uint_ne(alloc_request(a, 0, T, 3), 0);
	alloc_free(a);
}

/* Many small blocks or a few large ones: reported once, and again after as many. */
TEST(surplus_is_due_after_many_blocks_or_many_bytes)
{
	const uint8_t cls[] = {0, class_for(64u << 10)};
	const unsigned most[] = {ALLOC_GAIN_BLOCKS, 8};
	struct alloc *a = alloc_new(T);

	alloc_set_region(a, UINT64_C(64) << 20); /* the bound: 4 MiB; a share: 512 KiB */
	for (unsigned k = 0; k < 4; k++) {
		unsigned n = 0;

		for (; !alloc_surplus_due(a); n++)
			alloc_gain(a, cls[k % 2]);
		ck_assert_uint_le(n, most[k % 2]);
		ck_assert_uint_ge(n, most[k % 2] - 1);
	}
	alloc_free(a);
}

/* Blocks of `cls` number 1, 2, ... */
static void blocks(struct alloc *a, uint8_t cls, unsigned n)
{
	static uint64_t off = META_ALIGN;
	struct block_ref refs[ALLOC_GRANT_MAX];

	for (unsigned i = 0; i < n; i++, off += class_bytes(cls))
		refs[i] = (struct block_ref){.off = off, .cls = cls};
	ck_assert_int_eq(alloc_granted(a, cls, refs, n), 0);
}

static uint64_t surplus_bytes(struct alloc *a, uint64_t now,
			      unsigned n_by_class[CLASS_COUNT])
{
	struct block_ref refs[64];
	enum return_kind state;
	uint64_t bytes = 0;
	size_t n;

	memset(n_by_class, 0, CLASS_COUNT * sizeof(*n_by_class));
	while ((n = alloc_surplus(a, now, refs, 64, &state)))
		for (size_t i = 0; i < n; i++) {
			ck_assert_int_eq(state, RETURN_FREE);
			bytes += class_bytes(refs[i].cls);
			n_by_class[refs[i].cls]++;
		}
	return bytes;
}

TEST(surplus_above_the_bound_goes_back_longest_unused_class_first)
{
	struct alloc *a = alloc_new(T);
	uint8_t c1 = class_for(64u << 10), c2 = class_for(128u << 10),
		c3 = class_for(256u << 10);
	unsigned n[CLASS_COUNT];
	struct block_ref r;

	alloc_set_region(a, UINT64_C(64) << 20); /* so the bound is 4 MiB */
	blocks(a, c1, 16);
	blocks(a, c2, 8);
	blocks(a, c3, 8); /* 1 + 1 + 2 MiB, and the last block of c3 does not count */
	ck_assert_uint_eq(surplus_bytes(a, 0, n), 0);
	ck_assert(alloc_take(a, c1, 0, &r)); /* in use again */
	blocks(a, c3, 8);
	/* 1804 KiB above the bound, without the last block of c3: 8 of c2, then 12 of c1. */
	ck_assert_uint_eq(surplus_bytes(a, 0, n), 8 * class_bytes(c2) + 12 * class_bytes(c1));
	ck_assert_uint_eq(n[c1], 12);
	ck_assert_uint_eq(n[c2], 8);
	ck_assert_uint_eq(n[c3], 0);
	ck_assert_uint_eq(surplus_bytes(a, 0, n), 0);
	alloc_free(a);
}

TEST(surplus_counts_deferred_blocks_once_they_are_ready)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(1u << 20);
	unsigned n[CLASS_COUNT];

	alloc_set_region(a, 16 * 4 * class_bytes(cls)); /* so the bound is 4 blocks */
	blocks(a, cls, 4);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(
			alloc_retire(a,
				     (struct block_ref){
					     .off = META_ALIGN +
						    ((uint64_t)i << 20) +
						    (1u << 30),
					     .cls = cls},
				     i),
			0);
	ck_assert_uint_eq(surplus_bytes(a, T - 1, n), 0);
	/* 4 free and 3 ready, of which 4 may stay and the last one must */
	ck_assert_uint_eq(surplus_bytes(a, T + 2, n), 2 * class_bytes(cls));
	/* the region is larger: the bound too */
	alloc_set_region(a, UINT64_C(1) << 40);
	ck_assert_uint_eq(surplus_bytes(a, T + 20, n), 0);
	alloc_free(a);
}

static void retire_some(struct alloc *a, uint8_t cls, unsigned n, uint64_t from_ns)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(
			alloc_retire(a,
				     (struct block_ref){
					     .off = META_ALIGN + (1u << 30) +
						    (uint64_t)i * 128,
					     .cls = cls},
				     from_ns + i),
			0);
}

/* A handle that paused needs as many blocks as it had at rest before the pause. */
TEST(surplus_keeps_as_many_ready_blocks_as_recently_waited_at_once)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(128);
	unsigned n[CLASS_COUNT];

	blocks(a, cls, 1);
	retire_some(a, cls, 100, 0);
	(void)surplus_bytes(a, 99, n); /* all of them rest */
	ck_assert_uint_eq(n[cls], 0);
	(void)surplus_bytes(a, T + 59, n); /* 1 free, 60 ready */
	ck_assert_uint_eq(n[cls], 0);
	(void)surplus_bytes(a, 2 * T, n);
	ck_assert_uint_eq(n[cls], 1);
	/* A pause does not show that fewer are needed. */
	(void)surplus_bytes(a, 1000 * T, n);
	ck_assert_uint_eq(n[cls], 0);
	/* Since then: 60 - 1, T, T. */
	for (unsigned i = 1; i < 30; i++) {
		(void)surplus_bytes(a, (1000 + i) * T, n);
		ck_assert_uint_eq(n[cls], 0);
	}
	(void)surplus_bytes(a, 1030 * T, n);
	ck_assert_uint_eq(n[cls], 50);
	for (unsigned i = 1; i < 32; i++) {
		(void)surplus_bytes(a, (1030 + i) * T, n);
		ck_assert_uint_eq(n[cls], 0);
	}
	(void)surplus_bytes(a, 1062 * T, n);
	ck_assert_uint_eq(n[cls], 25);
	/* Finally one grant's worth is left. */
	for (unsigned i = 1; i <= 3200; i++)
		(void)surplus_bytes(a, (1062 + i) * T, n);
	(void)surplus_bytes(a, 6000 * T, n);
	ck_assert_uint_eq(alloc_count(a, cls) + alloc_deferred_count(a, cls), 4);
	alloc_free(a);
}

/* A higher number at rest counts at once, a lower one only after a while. */
TEST(surplus_counts_from_the_latest_peak)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(128);
	unsigned n[CLASS_COUNT];

	blocks(a, cls, 1);
	retire_some(a, cls, 10, 0);
	(void)surplus_bytes(a, 10, n);
	retire_some(a, cls, 40, 31 * T); /* and 10 ready */
	(void)surplus_bytes(a, 31 * T + 40, n);
	ck_assert_uint_eq(n[cls], 0);
	(void)surplus_bytes(a, 33 * T, n); /* 51, of which 40 rested at once */
	ck_assert_uint_eq(n[cls], 11);
	for (unsigned i = 1; i < 31; i++) {
		(void)surplus_bytes(a, (33 + i) * T, n);
		ck_assert_uint_eq(n[cls], 0);
	}
	(void)surplus_bytes(a, 64 * T, n); /* another 31, T since the latest */
	ck_assert_uint_eq(n[cls], 20);
	alloc_free(a);
}

TEST(peek_returns_what_take_will_return)
{
	struct alloc *a = alloc_new(T);
	uint8_t cls = class_for(128);
	struct block_ref r;
	uint64_t next[5];

	ck_assert_uint_eq(alloc_peek(a, cls, 0), 0);
	blocks(a, cls, 3);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(
			alloc_retire(a,
				     (struct block_ref){
					     .off = META_ALIGN + (1u << 30) +
						    (uint64_t)i * 128,
					     .cls = cls},
				     0),
			0);
	ck_assert_uint_eq(alloc_peek(a, cls, 5), 0);
	for (unsigned i = 0; i < 5; i++)
		next[i] = alloc_peek(a, cls, i);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert(alloc_take(a, cls, T, &r));
		ck_assert_uint_eq(r.off, next[i]);
	}
	alloc_free(a);
}

TEST(surplus_leaves_the_last_block_of_the_class_used_last)
{
	struct alloc *a = alloc_new(T);
	uint8_t small = class_for(1u << 20), large = class_for(8u << 20);
	unsigned n[CLASS_COUNT];

	alloc_set_region(a, UINT64_C(64) << 20);
	ck_assert_uint_eq(alloc_request(a, large, 0, 0), 1);
	ck_assert_uint_eq(alloc_request(a, small, 0, 0), 2);
	blocks(a, small, 2);
	blocks(a, large, 1);
	ck_assert_uint_eq(surplus_bytes(a, 0, n), 0);
	blocks(a, small, 1);
	ck_assert_uint_eq(surplus_bytes(a, 0, n), class_bytes(large));
	ck_assert_uint_eq(n[large], 1);
	alloc_free(a);
}

TEST(record_has_free_deferred_exhausted_and_later_retired_blocks)
{
	struct alloc *a = alloc_new(T);
	struct journal *j = journal_new();
	struct block_ref exhausted = block(2), r[5];

	exhausted.inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_put(a, block(0)), 0);
	ck_assert_int_eq(alloc_retire(a, block(1), 0), 0);
	ck_assert_int_eq(alloc_retire(a, exhausted, 0), 0);
	journal_begin(j, 1);
	alloc_record(a, j);
	exhausted.off = block(3).off;
	ck_assert_int_eq(alloc_retire(a, exhausted, 0), 0);
	ck_assert_int_eq(alloc_retire(a, block(4), 0), 0);
	for (unsigned i = 0; i < 5; i++)
		r[i] = block(i);
	ck_assert_uint_eq(journal_filter(j, 1, r, 5), 5);
	/* Off: nothing more is recorded until the next record. */
	journal_end(j);
	ck_assert_int_eq(alloc_retire(a, block(5), 0), 0);
	journal_begin(j, 2);
	ck_assert_int_eq(alloc_retire(a, block(6), 0), 0);
	r[0] = block(6);
	ck_assert_uint_eq(journal_filter(j, 2, r, 1), 0);
	alloc_record(a, j);
	r[0] = block(6);
	ck_assert_uint_eq(journal_filter(j, 2, r, 1), 1);
	alloc_free(a);
	journal_free(j);
}

/* A server without memory also gets the blocks that may not be used yet. */
TEST(give_deferred_takes_all_of_one_class)
{
	struct alloc *a = alloc_new(1000);
	struct block_ref ref = {.off = 4096, .cls = 3}, got[4];

	ck_assert_ptr_nonnull(a);
	for (unsigned i = 0; i < 3; i++, ref.off += 4096)
		ck_assert_int_eq(i < 2 ? alloc_retire(a, ref, 7) :
					 alloc_retire_undated(a, ref), 0);
	ref.cls = 4;
	ck_assert_int_eq(alloc_retire(a, ref, 8), 0);
	ck_assert_uint_eq(alloc_give_deferred(a, 3, got, 2), 2);
	ck_assert_uint_eq(got[0].off, 4096);
	ck_assert_uint_eq(got[0].inc, 1);
	ck_assert_uint_eq(alloc_give_deferred(a, 3, got, 4), 1);
	ck_assert_uint_eq(alloc_give_deferred(a, 3, got, 4), 0);
	ck_assert_uint_eq(alloc_deferred_count(a, 3), 0);
	ck_assert_uint_eq(alloc_deferred_count(a, 4), 1);
	/* Nothing is left of the undated one. */
	alloc_date(a, 9);
	ck_assert_int_eq(alloc_retire(a, (struct block_ref){.off = 64, .cls = 3}, 10), 0);
	ck_assert_uint_eq(alloc_next_ready(a, 3), 1010);
	alloc_free(a);
}

TEST_SUITE("alloc")
