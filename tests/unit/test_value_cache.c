/* SPDX-License-Identifier: BSD-3-Clause */
/* The value cache: blocks that a client has READ. */
#include "config.h"

#include <string.h>

#include "common/index/value_cache.h"
#include "tests/rig/cases.h"

#define BLOCK 96u
#define MUCH (1u << 20) /* memory: no block replaces another */

static struct value_cache *k;
static size_t ring; /* bytes, without the table */

/* The table has a place of 32 bytes for each 256. */
static void setup(size_t bytes)
{
	k = value_cache_new(bytes);
	ck_assert_ptr_nonnull(k);
	ring = bytes - bytes / 8;
}

static void teardown(void)
{
	value_cache_free(k);
}

static uint8_t new_block[2 * BLOCK];

/* Cache a block of this many bytes, filled with a value of its word and slot. */
static void store(uint64_t slot, uint64_t word, size_t bytes)
{
	static uint8_t block[MUCH];

	memset(block, (int)(slot * 31 + word), bytes);
	value_cache_store(k, slot, word, block, bytes);
}

/* Whether it is cached, and whole. */
static bool has(uint64_t slot, uint64_t word, size_t bytes)
{
	size_t found = 0;
	const uint8_t *at = value_cache_find(k, slot, word, &found);

	if (!at)
		return false;
	ck_assert_uint_eq((uintptr_t)at % 8, 0);
	ck_assert_uint_eq(found, bytes);
	for (size_t i = 0; i < bytes; i++)
		ck_assert_uint_eq(at[i], (uint8_t)(slot * 31 + word));
	return true;
}

TEST(block_is_found_by_its_slot_and_its_word)
{
	setup(4096);
	ck_assert(!has(64, 1, BLOCK));
	store(64, 1, BLOCK);
	ck_assert(has(64, 1, BLOCK));
	ck_assert(!has(64, 2, BLOCK));
	ck_assert(!has(72, 1, BLOCK));
	store(64, 2, BLOCK + 5);
	ck_assert(has(64, 2, BLOCK + 5));
	ck_assert(!has(64, 1, BLOCK));
	teardown();
}

TEST(full_cache_evicts_the_oldest_only)
{
	unsigned n, first = 0;

	setup(4096);
	for (n = 1; n <= 1000; n++) {
		size_t bytes = 40 + n % 7 * 24;

		store(n * 8, n, bytes);
		ck_assert(has(n * 8, n, bytes));
		/*
		 * The cached blocks are the last ones, except those that lost their place
		 * in the table.
		 */
		for (unsigned i = 1; i < n; i++)
			if (has(i * 8, i, 40 + i % 7 * 24)) {
				ck_assert_uint_ge(i, first);
				first = i;
				break;
			}
		ck_assert_uint_le((n - first) * 40, ring);
	}
	ck_assert_uint_ge(first, 900);
	teardown();
}

/* As many as fit, to the last byte; one more evicts the first. */
TEST(ring_is_used_to_its_end)
{
	size_t part;

	setup(MUCH);
	part = ring / 8;
	ck_assert_uint_eq(part % 8, 0);
	for (unsigned i = 1; i <= 8; i++)
		store(i * 8, 1, part);
	for (unsigned i = 1; i <= 8; i++)
		ck_assert(has(i * 8, 1, part));
	store(72, 1, 1);
	ck_assert(!has(8, 1, part));
	ck_assert(has(16, 1, part));
	ck_assert(has(72, 1, 1));
	teardown();
}

/* A block that would be split goes to the start, and overwrites the blocks there. */
TEST(block_that_does_not_fit_at_the_end_goes_to_the_start)
{
	size_t part;

	setup(MUCH);
	part = ring / 8;
	store(8, 1, BLOCK);
	for (unsigned i = 0; i < 7; i++)
		store(16 + i * 8, 1, part);
	ck_assert(has(8, 1, BLOCK));
	store(800, 1, part); /* an eighth, less a block, is left */
	ck_assert(has(800, 1, part));
	ck_assert(!has(8, 1, BLOCK));
	ck_assert(!has(16, 1, part));
	ck_assert(has(32, 1, part));
	teardown();
}

TEST(too_large_block_is_not_cached_and_evicts_nothing)
{
	setup(4096);
	store(64, 1, BLOCK);
	store(72, 1, ring / 8 + 1);
	ck_assert(!has(72, 1, ring / 8 + 1));
	ck_assert(has(64, 1, BLOCK));
	store(72, 1, ring / 8);
	ck_assert(has(72, 1, ring / 8));
	teardown();
}

/* New values of one key do not evict the others. */
TEST(value_of_the_same_length_is_replaced_in_place)
{
	setup(4096);
	store(64, 1, BLOCK);
	store(72, 1, BLOCK);
	store(88, 1, BLOCK);
	for (uint64_t word = 2; word < 200; word++) {
		size_t bytes = BLOCK - word % 8;

		memset(new_block, (int)(72 * 31 + word), bytes);
		value_cache_renew(k, 72, word, new_block, bytes);
		ck_assert(has(72, word, bytes));
		ck_assert(has(64, 1, BLOCK));
		ck_assert(has(88, 1, BLOCK));
	}
	memset(new_block, 72 * 31 + 1, sizeof(new_block));
	value_cache_renew(k, 72, 1, new_block, 2 * BLOCK);
	ck_assert(has(72, 1, 2 * BLOCK));
	ck_assert(has(88, 1, BLOCK));
	value_cache_renew(k, 80, 1, new_block, BLOCK); /* nothing was cached there */
	ck_assert(!has(80, 1, BLOCK));
	value_cache_drop(k);
	value_cache_renew(k, 72, 1, new_block, BLOCK);
	ck_assert(!has(72, 1, BLOCK));
	teardown();
}

TEST(barrier_drops_all)
{
	setup(4096);
	value_cache_drop(k);
	for (unsigned i = 1; i <= 8; i++)
		store(i * 8, 1, BLOCK);
	value_cache_drop(k);
	for (unsigned i = 1; i <= 8; i++)
		ck_assert(!has(i * 8, 1, BLOCK));
	store(8, 1, BLOCK);
	ck_assert(has(8, 1, BLOCK));
	ck_assert(!has(16, 1, BLOCK));
	teardown();
}

TEST(least_memory_works_and_most_of_a_large_one_is_used)
{
	unsigned found = 0;

	setup(VALUE_CACHE_MIN);
	store(8, 1, BLOCK);
	ck_assert(has(8, 1, BLOCK));
	teardown();
	setup(MUCH);
	for (unsigned i = 1; i <= 2048; i++)
		store(i * 8, 1, 256);
	for (unsigned i = 1; i <= 2048; i++)
		found += has(i * 8, 1, 256);
	/* Sets of four of 4096 places, two slots in each by Poisson: 0.98 find room. */
	ck_assert_uint_ge(found, 2048 * 9 / 10);
	teardown();
}

TEST_SUITE("value cache")
