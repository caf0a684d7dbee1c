/* SPDX-License-Identifier: BSD-3-Clause */
/* The location cache. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/region/hash.h"
#include "common/index/location.h"
#include "tests/rig/cases.h"

static struct location_cache *lc;

static void setup(size_t entries)
{
	lc = location_cache_new(entries);
	ck_assert_ptr_nonnull(lc);
}

static void teardown(void)
{
	location_cache_free(lc);
}

static uint64_t hash_of(const char *key)
{
	return hash_key(7, key, strlen(key));
}

static struct location *find(const char *key)
{
	return location_find(lc, hash_of(key), key, strlen(key));
}

static void store(const char *key, uint64_t slot, uint64_t word)
{
	struct location l = {.hash = hash_of(key), .slot = slot, .word = word,
			     .version = word + 1};

	l.check = location_check(key, strlen(key), l.hash);
	location_store(lc, &l);
}

TEST(stored_location_is_found_until_it_is_dropped)
{
	struct location *l;

	setup(64);
	ck_assert_ptr_null(find("a"));
	store("a", 64, 1);
	store("b", 128, 2);
	l = find("a");
	ck_assert_ptr_nonnull(l);
	ck_assert_uint_eq(l->slot, 64);
	ck_assert_uint_eq(l->word, 1);
	ck_assert_uint_eq(l->version, 2);
	store("a", 64, 9);
	ck_assert_uint_eq(find("a")->word, 9);
	location_forget(find("a"));
	ck_assert_ptr_null(find("a"));
	ck_assert_uint_eq(find("b")->word, 2);
	teardown();
}

TEST(key_of_the_same_hash_is_another_key)
{
	const char other[] = "other";

	setup(64);
	store("a", 64, 1);
	ck_assert_ptr_null(location_find(lc, hash_of("a"), other, 5));
	ck_assert_ptr_nonnull(find("a"));
	teardown();
}

TEST(barrier_drops_all_however_often)
{
	setup(64);
	store("old", 64, 1);
	for (unsigned i = 0; i < 3 * 4096; i++) {
		location_drop(lc);
		ck_assert_ptr_null(find("old"));
		ck_assert_ptr_null(find("k"));
		store("k", 128, i);
		ck_assert_uint_eq(find("k")->word, i);
	}
	teardown();
}

TEST(memory_is_fixed_and_used_locations_stay)
{
	size_t bytes;
	char key[16];

	setup(LOCATION_WAYS); /* one set */
	bytes = location_cache_bytes(lc);
	ck_assert_uint_eq(bytes, LOCATION_WAYS * sizeof(struct location));
	store("hot", 64, 1);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		store(key, 128, i);
		ck_assert_ptr_nonnull(find(key));
		ck_assert_ptr_nonnull(find("hot"));
		ck_assert_ptr_nonnull(find("hot"));
	}
	ck_assert_uint_eq(location_cache_bytes(lc), bytes);
	teardown();
}

TEST(staleness_belongs_to_the_key_and_ends_with_its_entry)
{
	char key[16];

	setup(LOCATION_WAYS);
	store("a", 64, 1);
	for (unsigned i = 0; i < 9; i++)
		location_wrong(find("a"));
	ck_assert_uint_eq(find("a")->stale, LOCATION_STALE_MAX);
	store("a", 64, 2);
	ck_assert_uint_eq(find("a")->stale, LOCATION_STALE_MAX);
	for (unsigned i = 0; i < 9; i++)
		location_right(find("a"));
	ck_assert_uint_eq(find("a")->stale, 0);
	location_wrong(find("a"));
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		store(key, 128, i);
		ck_assert_uint_eq(find(key)->stale, 0);
	}
	teardown();
}

TEST(full_cache_finds_most_of_its_keys)
{
	unsigned found = 0;
	char key[16];

	setup(4096);
	for (unsigned i = 0; i < 4096; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		store(key, 64 + i, i);
	}
	for (unsigned i = 0; i < 4096; i++) {
		struct location *l;

		snprintf(key, sizeof(key), "k%u", i);
		l = find(key);
		if (!l)
			continue;
		found++;
		ck_assert_uint_eq(l->word, i);
	}
	/* Sets of four, Poisson: 0.80 of the keys find room in theirs. */
	ck_assert_uint_ge(found, 4096 * 3 / 4);
	teardown();
}

TEST_SUITE("locations")
