/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/index/journal.h"
#include "tests/rig/cases.h"

static struct journal *j;

static void setup(void)
{
	j = journal_new();
	ck_assert_ptr_nonnull(j);
}

static void teardown(void)
{
	journal_free(j);
}

/* Block number `i`, at offsets up to the largest there are. */
static struct block_ref block(uint64_t i, uint8_t cls)
{
	return (struct block_ref){.off = (i + 1) * PTR_UNIT, .cls = cls};
}

static bool has(uint64_t number, struct block_ref r)
{
	return journal_filter(j, number, &r, 1) == 1;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(add_while_off_is_refused)
{
	uint64_t number = 77;

	ck_assert(!journal_add(j, block(1, 0)));
	ck_assert(!journal_sweep(j, &number));
	ck_assert_uint_eq(number, 77);
	ck_assert(!has(0, block(1, 0)));
	journal_begin(j, 5);
	ck_assert(!has(5, block(1, 0)));
	ck_assert(journal_sweep(j, &number));
	ck_assert_uint_eq(number, 5);
}

TEST(add_is_found_under_this_number_only_and_until_the_end)
{
	journal_begin(j, 5);
	ck_assert(journal_add(j, block(1, 3)));
	ck_assert(has(5, block(1, 3)));
	ck_assert(!has(4, block(1, 3)));
	ck_assert(!has(5, block(2, 3)));
	ck_assert(!has(5, block(0, 3)));
	/* Whatever its incarnation: a block of that place was held. */
	ck_assert(has(5, block(1, 4)));
	journal_begin(j, 6);
	ck_assert(!has(6, block(1, 3)));
	ck_assert(journal_add(j, block(2, 3)));
	journal_end(j);
	ck_assert(!has(6, block(2, 3)));
	ck_assert(!journal_add(j, block(2, 3)));
}

TEST(filter_keeps_order_and_blocks_outside_the_set)
{
	struct block_ref r[6];

	journal_begin(j, 1);
	for (unsigned i = 0; i < 6; i++) {
		r[i] = block(i, 2);
		r[i].inc = (uint16_t)i;
		if (i % 2)
			ck_assert(journal_add(j, r[i]));
	}
	ck_assert_uint_eq(journal_filter(j, 1, r, 6), 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(r[i].off, block(2 * i + 1, 2).off);
		ck_assert_uint_eq(r[i].inc, 2 * i + 1);
		ck_assert_uint_eq(r[i].cls, 2);
	}
	ck_assert_uint_eq(journal_filter(j, 1, r, 0), 0);
}

/* Against a plain array; over several tables, with repetitions. */
TEST(many_additions_agree_with_a_plain_set)
{
	const unsigned N = test_rounds(200000);
	uint8_t *in = calloc(N, 1);
	uint64_t x = 88172645463325252u;

	journal_begin(j, 9);
	for (unsigned n = 0; n < N; n++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		in[x % N] = 1;
		ck_assert(journal_add(j, block(x % N, x % CLASS_COUNT)));
	}
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(has(9, block(i, 0)), in[i]);
	ck_assert(!journal_overflowed(j));
	free(in);
}

TEST(next_names_every_block_with_its_class)
{
	const unsigned N = test_rounds(30000);
	uint8_t *seen = calloc(N, 1);
	struct block_ref r[7];
	uint64_t cursor = 0;
	size_t n;

	journal_begin(j, 3);
	ck_assert_uint_eq(journal_next(j, 3, &cursor, r, 7), 0);
	for (unsigned i = 0; i < N; i++)
		ck_assert(journal_add(j, block(i, i % CLASS_COUNT)));
	cursor = 0;
	while ((n = journal_next(j, 3, &cursor, r, 7)))
		for (size_t i = 0; i < n; i++) {
			uint64_t at = r[i].off / PTR_UNIT - 1;

			ck_assert_uint_lt(at, N);
			ck_assert_uint_eq(r[i].cls, at % CLASS_COUNT);
			seen[at] = 1;
		}
	for (unsigned i = 0; i < N; i++)
		ck_assert(seen[i]);
	/* The largest offset there is, and the largest class. */
	journal_begin(j, 4);
	ck_assert(journal_add(j, block((UINT64_C(1) << 34) - 2, 94)));
	cursor = 0;
	ck_assert_uint_eq(journal_next(j, 3, &cursor, r, 7), 0);
	ck_assert_uint_eq(journal_next(j, 4, &cursor, r, 7), 1);
	ck_assert_uint_eq(r[0].off, block((UINT64_C(1) << 34) - 2, 94).off);
	ck_assert_uint_eq(r[0].cls, 94);
	free(seen);
}

TEST(overflow_claims_everything_until_the_next_sweep)
{
	struct block_ref r = block(1 << 30, 0);
	uint64_t cursor = 0;

	if (test_rounds(JOURNAL_MAX) < JOURNAL_MAX) {
		printf("  left out: four million additions\n");
		return;
	}
	journal_begin(j, 1);
	for (uint64_t i = 0; i < JOURNAL_MAX; i++)
		ck_assert(journal_add(j, block(i, 0)));
	ck_assert(!journal_overflowed(j));
	ck_assert(!has(1, r));
	ck_assert(has(1, block(0, 0)) && has(1, block(JOURNAL_MAX - 1, 0)));
	ck_assert(journal_add(j, block(JOURNAL_MAX, 0)));
	ck_assert(journal_overflowed(j));
	ck_assert(has(1, r));
	ck_assert(!has(2, r));
	ck_assert(journal_add(j, r));
	/* It can claim blocks but not name them. */
	ck_assert_uint_eq(journal_next(j, 1, &cursor, &r, 1), 0);
	journal_begin(j, 2);
	ck_assert(!journal_overflowed(j));
	ck_assert(!has(2, r));
}

static void *adder(void *arg)
{
	for (uint64_t i = 0; i < *(const unsigned *)arg; i++)
		(void)journal_add(j, block(i, 1));
	return NULL;
}

TEST(lookups_during_additions_find_what_was_added)
{
	unsigned n = test_rounds(100000);
	pthread_t t;

	journal_begin(j, 1);
	pthread_create(&t, NULL, adder, &n);
	while (!has(1, block(n - 1, 1)))
		(void)has(1, block(5, 1));
	pthread_join(t, NULL);
	for (uint64_t i = 0; i < n; i++)
		ck_assert(has(1, block(i, 1)));
}

TEST_SUITE("journal")
