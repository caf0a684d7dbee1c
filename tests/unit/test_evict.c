/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that evicts: puts without end, keys that are used, sizes that change. Over RDMA with fewer
 * puts, where a put takes longer.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"
#include "tests/rig/test_main.h"

static struct real_server srv;
static struct farkv *kv;
static char value[100 << 10];

static void setup(void)
{
	static const char *const args[] = {"-m", "32m", "--when-full", "evict", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* Puts of a case: `n`, or half as many over RDMA. */
static unsigned puts_of(unsigned n)
{
	return real_server_is_remote() ? n / 2 : n;
}

static size_t name(char key[32], const char *kind, unsigned i)
{
	return (size_t)snprintf(key, 32, "%s%u", kind, i);
}

/* Put keys from..to of a kind. */
static void put_all(const char *kind, unsigned from, unsigned to, size_t len)
{
	char key[32];

	for (unsigned i = from; i < to; i++)
		OK(farkv_put(kv, key, name(key, kind, i), value, len));
}

/* Another session puts those, and ends: it holds no blocks of their size any more. */
static void fill_with_short(unsigned n)
{
	struct farkv *mine = kv;

	kv = e2e_open(srv.path, 20000);
	put_all("short", 0, n, 100);
	farkv_close(kv);
	kv = mine;
}

/* How many of the first n keys of a kind are there. Does not count as use. */
static unsigned there(const char *kind, unsigned n)
{
	unsigned found = 0;
	char key[32];

	for (unsigned i = 0; i < n; i++)
		found += farkv_exists(kv, key, name(key, kind, i)) == 0;
	return found;
}

static struct farkv_stats stats(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(kv, &s));
	return s;
}

/* Everything is accounted for, and intact. */
static void check_store(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(kv, &f));
	ck_assert_uint_eq(f.damaged + f.bad_words + f.blocks_leaked, 0);
}

/* What left, of blocks of 128 bytes to 8 KiB; a victim has seen some visits of its subtable. */
static void check_sizes(const struct farkv_stats *s)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < FARKV_SIZES; i++) {
		const struct farkv_size_stats *n = &s->sizes[i];

		sum += n->evictions;
		ck_assert_uint_eq(n->expired, 0);
		ck_assert(n->evictions ? i >= 1 && i <= 6 : n->victim_age_ms == 0);
	}
	ck_assert_uint_eq(sum, s->evictions);
	ck_assert_uint_eq(s->cache, 1);
	ck_assert_uint_gt(s->victim_age_ms, 0);
	ck_assert_uint_le(s->victim_age_ms, s->uptime_ms);
}

START_TEST(puts_without_end_of_all_sizes_succeed_and_use_the_memory)
{
	unsigned n = puts_of(60000), found;
	uint64_t random = 1;
	char key[32];
	struct farkv_stats s;

	for (unsigned i = 0; i < n; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		OK(farkv_put(kv, key, name(key, "k", i), value, 100 + (random >> 33) % 3900));
	}
	/* The server may still be at work. */
	do {
		s = stats();
		found = there("k", n);
	} while (stats().evictions != s.evictions);
	ck_assert_uint_gt(s.evictions, n / 2);
	ck_assert_uint_gt(s.evicted_bytes, s.heap_bytes);
	ck_assert_uint_eq(found, n - s.evictions);
	check_sizes(&s);
	check_store();
}
END_TEST

START_TEST(keys_that_are_read_stay_and_others_leave)
{
	struct farkv_value v;
	char key[32];

	put_all("read", 0, 300, 2000);
	put_all("once", 0, 300, 2000);
	for (unsigned i = 0; i < puts_of(100000); i += 100) {
		put_all("new", i, i + 100, 2000);
		for (unsigned j = 0; j < 30; j++) {
			int err = farkv_get(kv, key, name(key, "read", (i / 100 * 30 + j) % 300), &v);

			ck_assert(err == 0 || err == FARKV_ENOTFOUND);
		}
	}
	/* Over RDMA every second use that learns a location is marked. */
	ck_assert_uint_ge(there("read", 300), real_server_is_remote() ? 200 : 290);
	ck_assert_uint_eq(there("once", 300), 0);
}
END_TEST

START_TEST(keys_that_are_overwritten_stay)
{
	put_all("written", 0, 300, 2000);
	for (unsigned i = 0; i < puts_of(100000); i += 100) {
		unsigned at = i / 100 * 30 % 300;

		put_all("new", i, i + 100, 2000);
		put_all("written", at, at + 30, 2000);
	}
	/* Those written last are there as new keys, too. */
	ck_assert_uint_eq(there("written", 300), 300);
	ck_assert_uint_le(stats().evictions, 100000);
}
END_TEST

/* Memory that short values had goes to long ones within two turnovers, and back. */
START_TEST(sizes_that_change_get_the_memory)
{
	struct farkv_stats s;
	unsigned many;

	fill_with_short(300000);
	s = stats();
	many = (unsigned)(2 * (s.heap_bytes - s.index_bytes) / (100 << 10));
	put_all("long", 0, many, 100 << 10);
	ck_assert_uint_ge((uint64_t)there("long", many) * (114 << 10),
			  (s.heap_bytes - s.index_bytes) * 9 / 10);
	ck_assert_uint_le(there("short", 300000) * UINT64_C(160),
			  (s.heap_bytes - s.index_bytes) / 10);
	ck_assert_uint_gt(stats().moves, 0);
	put_all("again", 0, 300000, 100);
	ck_assert_uint_ge(there("again", 300000) * UINT64_C(160),
			  (s.heap_bytes - s.index_bytes) * 9 / 10);
	check_store();
}
END_TEST

/* Each takes an eighth of the memory, in adjacent pages. */
START_TEST(the_longest_values_find_room_among_short_ones)
{
	static char longest[4 << 20];
	struct farkv_value v;
	char key[32];

	fill_with_short(300000);
	for (unsigned i = 0; i < 20; i++) {
		memset(longest, (int)i, sizeof(longest));
		OK(farkv_put(kv, key, name(key, "longest", i), longest, sizeof(longest)));
		/* It may have been evicted again: the store has room for a few. */
		if (farkv_get(kv, key, name(key, "longest", i), &v))
			continue;
		ck_assert_uint_eq(v.len, sizeof(longest));
		ck_assert_mem_eq(v.data, longest, sizeof(longest));
	}
	ck_assert_uint_ge(there("longest", 20), 3);
	check_store();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("evict");
	TCase *t = tcase_create("evict");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, puts_without_end_of_all_sizes_succeed_and_use_the_memory);
	tcase_add_test(t, keys_that_are_read_stay_and_others_leave);
	tcase_add_test(t, keys_that_are_overwritten_stay);
	tcase_add_test(t, sizes_that_change_get_the_memory);
	tcase_add_test(t, the_longest_values_find_room_among_short_ones);
	suite_add_tcase(s, t);
	return s;
}
TEST_MAIN(suite())
