/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that evicts: puts without end, keys that are used, sizes that change. Over RDMA, where a
 * put takes longer, the store is smaller.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

static struct real_server srv;
static struct farkv *kv;
static char value[100 << 10];

static void setup(void)
{
	const char *const args[] = {"-m", real_server_is_remote() ? "2m" : "32m", "--when-full",
				    "evict", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
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
static void fill_with_short(unsigned n, size_t len)
{
	struct farkv *mine = kv;

	kv = e2e_open(srv.path, 20000);
	put_all("short", 0, n, len);
	farkv_close(kv);
	kv = mine;
}

/* How many of the keys from..from+n of a kind are there, 64 at most. */
static unsigned there_of(const char *kind, unsigned from, unsigned n)
{
	struct farkv_key keys[64];
	char text[64][32];
	uint8_t found[64 / 8];
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		keys[i] = (struct farkv_key){text[i], name(text[i], kind, from + i)};
	OK(farkv_mexists(kv, keys, n, found, NULL));
	for (unsigned i = 0; i < n; i++)
		sum += found[i / 8] >> i % 8 & 1;
	return sum;
}

/* How many of the first n keys of a kind are there. Does not count as use. */
static unsigned there(const char *kind, unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i += 64)
		found += there_of(kind, i, n - i < 64 ? n - i : 64);
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

/*
 * What left, of blocks of 128 bytes to 8 KiB. Some victim has seen a visit of its subtable before;
 * the last one may have left with its segment.
 */
static void check_sizes(const struct farkv_stats *s)
{
	uint64_t sum = 0, oldest = 0;

	for (unsigned i = 0; i < FARKV_SIZES; i++) {
		const struct farkv_size_stats *n = &s->sizes[i];

		oldest = n->victim_age_ms > oldest ? n->victim_age_ms : oldest;
		sum += n->evictions;
		ck_assert_uint_eq(n->expired, 0);
		ck_assert(n->evictions ? i >= 1 && i <= 6 : n->victim_age_ms == 0);
	}
	ck_assert_uint_eq(sum, s->evictions);
	ck_assert_uint_eq(s->cache, 1);
	ck_assert_uint_gt(oldest, 0);
	ck_assert_uint_le(oldest, s->uptime_ms);
	ck_assert_uint_le(s->victim_age_ms, oldest);
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(puts_without_end_of_all_sizes_succeed_and_use_the_memory)
{
	unsigned n = real_server_is_remote() ? 2000 : 60000, found;
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

/* Put `n` keys, and get `reads` of `many` after every 100 of them, in turn. */
static void read_while_putting(unsigned n, unsigned many, unsigned reads, size_t len)
{
	struct farkv_value v;
	char key[32];

	put_all("read", 0, many, len);
	put_all("once", 0, many, len);
	for (unsigned i = 0; i < n; i += 100) {
		put_all("new", i, i + 100, len);
		for (unsigned j = 0; j < reads; j++) {
			size_t l = name(key, "read", (i / 100 * reads + j) % many);
			int err = farkv_get(kv, key, l, &v);

			ck_assert(err == 0 || err == FARKV_ENOTFOUND);
		}
	}
	ck_assert_uint_eq(there("once", many), 0);
}

/*
 * By RDMA a use that learns a location is marked every second time, so some keys leave; without
 * marks all would.
 */
TEST(keys_that_are_read_stay_and_others_leave)
{
	if (real_server_is_remote()) {
		read_while_putting(1000, 20, 40, 3900);
		ck_assert_uint_ge(there("read", 20), 5);
	} else {
		read_while_putting(100000, 300, 30, 2000);
		ck_assert_uint_ge(there("read", 300), 290);
	}
}

/* The ghosts: what left unused and is put again soon after goes to the main queue. */
TEST(keys_that_come_back_soon_after_they_left_stay)
{
	unsigned i = 0;

	if (real_server_skips("keys that come back", "takes long by RDMA"))
		return;
	put_all("back", 0, 300, 2000);
	for (; there("back", 300) > 0; i += 1000)
		put_all("new", i, i + 1000, 2000);
	put_all("back", 0, 300, 2000);
	put_all("new", i, i + 25000, 2000);
	/* Those that left first may be forgotten by now. */
	ck_assert_uint_ge(there("back", 300), 60);
}

TEST(keys_that_are_overwritten_stay)
{
	if (real_server_skips("keys that are overwritten", "takes long by RDMA"))
		return;
	put_all("written", 0, 300, 2000);
	for (unsigned i = 0; i < 100000; i += 100) {
		unsigned at = i / 100 * 30 % 300;

		put_all("new", i, i + 100, 2000);
		put_all("written", at, at + 30, 2000);
	}
	/* Those written last are there as new keys, too. */
	ck_assert_uint_eq(there("written", 300), 300);
	ck_assert_uint_le(stats().evictions, 100000);
}

/* Memory that short values had goes to long ones within two turnovers, and back: mostly within two
 * again, but a last long value keeps its segment, whose rest is free, until a visit meets it. */
TEST(sizes_that_change_get_the_memory)
{
	struct farkv_stats s;
	unsigned many, few;

	if (real_server_skips("sizes that change", "takes long by RDMA"))
		return;
	fill_with_short(300000, 100);
	s = stats();
	few = (unsigned)(2 * (s.heap_bytes - s.index_bytes) / (100 << 10));
	many = (unsigned)(2 * (s.heap_bytes - s.index_bytes) / 160);
	put_all("long", 0, few, 100 << 10);
	ck_assert_uint_ge((uint64_t)there("long", few) * (114 << 10),
			  (s.heap_bytes - s.index_bytes) * 9 / 10);
	ck_assert_uint_le(there("short", 300000) * UINT64_C(160),
			  (s.heap_bytes - s.index_bytes) / 10);
	ck_assert_uint_gt(stats().moves, 0);
	for (unsigned half = 0; half < 4 || there("again", many / 4 * half) * UINT64_C(160) <
						    (s.heap_bytes - s.index_bytes) * 9 / 10;
	     half++) {
		ck_assert_uint_lt(half, 10);
		put_all("again", many / 4 * half, many / 4 * (half + 1), 100);
	}
	check_store();
}

/* Each takes an eighth of the memory, in adjacent pages. */
TEST(the_longest_values_find_room_among_short_ones)
{
	static char longest[4 << 20];
	unsigned n = real_server_is_remote() ? 10 : 20;
	size_t len = real_server_is_remote() ? sizeof(longest) / 16 : sizeof(longest);
	struct farkv_value v;
	char key[32];

	if (real_server_is_remote())
		fill_with_short(800, 2000);
	else
		fill_with_short(300000, 100);
	for (unsigned i = 0; i < n; i++) {
		memset(longest, (int)i, len);
		OK(farkv_put(kv, key, name(key, "longest", i), longest, len));
		/* It may have been evicted again: the store has room for a few. */
		if (farkv_get(kv, key, name(key, "longest", i), &v))
			continue;
		ck_assert_uint_eq(v.len, len);
		ck_assert_mem_eq(v.data, longest, len);
	}
	ck_assert_uint_ge(there("longest", n), 3);
	check_store();
}

TEST_SUITE("evict")
