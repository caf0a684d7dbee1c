/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans over an index in memory: with migrations, rivals, torn words and breaks in between. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/index/scan.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

#define KEYS 240u /* k0 to k239, in two subtables */

static struct index_scan *scan;
static unsigned seen[KEYS], strangers; /* times each key was listed; keys not called k... */
static uint64_t last_hash;
static bool twins_allowed; /* two keys may have one hash */

static const char *name_of(unsigned i)
{
	static char names[KEYS][8];

	snprintf(names[i], sizeof(names[i]), "k%u", i);
	return names[i];
}

/* Give `c` blocks first, so that no put waits for them. */
static void fill(struct fake_client *c)
{
	fake_region_grant(&region, c->alloc, 0, 3 * KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		PUT(c, key_of(name_of(i)), "v");
}

static void take(const struct farkv_scan_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct farkv_scan_item *it = &items[i];
		uint64_t hash = hash_key(region.sb.hash_seed, it->key, it->key_len);
		char name[8] = "";

		ck_assert(hash > last_hash || (twins_allowed && hash == last_hash));
		last_hash = hash;
		if (*(const char *)it->key == 'k' && it->key_len < sizeof(name)) {
			memcpy(name, it->key, it->key_len);
			seen[atoi(name + 1)]++;
			ck_assert_uint_gt(it->value_len, 0);
		} else {
			strangers++;
		}
		ck_assert_uint_ne(it->version, 0);
	}
}

/* A whole scan; returns the number of calls. */
static unsigned scan_all(struct fake_client *c, size_t max)
{
	uint64_t cursor = 0;
	unsigned calls = 0;

	memset(seen, 0, sizeof(seen));
	strangers = 0;
	last_hash = 0;
	do {
		const struct farkv_scan_item *items;
		size_t n;

		ck_assert_msg(index_scan(c->ix, scan, &cursor, max, UINT64_MAX) == 0, "%s",
			      err_detail());
		items = index_scan_items(scan, &n);
		ck_assert_uint_le(n, max);
		take(items, n);
		ck_assert_uint_lt(calls++, 1000);
	} while (cursor);
	return calls;
}

static void check_all_once(const char *when, unsigned n)
{
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_msg(seen[i] == 1, "%s %u: key %u was listed %u times", when, n, i,
			      seen[i]);
}

static void begin(bool fault)
{
	setup(fault);
	twins_allowed = false;
	scan = index_scan_new();
	ck_assert_ptr_nonnull(scan);
}

static void end(void)
{
	index_scan_free(scan);
	teardown();
}

/* ---- without rivals ------------------------------------------------------------------- */

TEST_LOOP(empty_index_lists_nothing_and_ends, 0, 2)
{
	begin(_i);
	ck_assert_uint_eq(scan_all(&me, SIZE_MAX), 2);
	ck_assert_uint_eq(strangers, 0);
	end();
}

TEST_LOOP(each_key_with_a_value_is_listed_once_in_the_order_of_hashes, 0, 2)
{
	begin(_i);
	fill(&other);
	PUT(&other, key_of("gone"), "v");
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_of("gone"), NULL, 0), 0);
	PUT(&other, key_of("a key that is longer than what is read of a block at first"), "v");
	ck_assert_uint_eq(scan_all(&me, SIZE_MAX), 2);
	check_all_once("quiet", 0);
	ck_assert_uint_eq(strangers, 1);
	ck_assert_uint_gt(scan_all(&me, FARKV_SCAN_MIN), 3);
	check_all_once("small calls", 0);
	ck_assert_uint_eq(strangers, 1);
	end();
}

TEST_LOOP(item_has_length_and_version_of_the_value, 0, 2)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n;

	begin(_i);
	PUT(&other, key_at("k", 5), "a value");
	ck_assert_int_eq(index_scan(me.ix, scan, &cursor, 64, UINT64_MAX), 0);
	items = index_scan_items(scan, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(items[0].value_len, 7);
	ck_assert_int_eq(run(&me, INDEX_CAS, key_at("k", 5), "w", items[0].version), 0);
	end();
}

/* ---- keys of one hash -------------------------------------------------------------------- */

static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;

	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

static uint64_t rotl(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

/* The XXH3 input of an 8-byte key with this hash, up to a constant of the seed: XXH3_rrmxmx(). */
static uint64_t unhash(uint64_t h)
{
	const uint64_t p = inverse(UINT64_C(0x9FB21C651E98DF25));

	h ^= h >> 28 ^ h >> 56;
	h *= p;
	h ^= (h >> 35) + 8;
	h *= p;
	/* x ^ rotl(x, 49) ^ rotl(x, 24) is its own inverse when done 64 times. */
	for (int i = 0; i < 63; i++)
		h ^= rotl(h, 49) ^ rotl(h, 24);
	return h;
}

/* An 8-byte key with the hash of another key. */
static struct index_key twin_of(uint64_t hash, uint8_t key[8])
{
	static const uint8_t zeros[8];
	uint64_t flip = unhash(hash_key(region.sb.hash_seed, zeros, 8));
	uint64_t input = rotl(unhash(hash) ^ flip, 32); /* the halves change places */

	memcpy(key, &input, 8);
	ck_assert_uint_eq(hash_key(region.sb.hash_seed, key, 8), hash);
	return (struct index_key){.data = key, .len = 8, .hash = hash};
}

/* The key that is listed as number `at` of the first call. */
static struct index_key key_listed(size_t at, char name[8])
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n;

	ck_assert_int_eq(index_scan(me.ix, scan, &cursor, SIZE_MAX, UINT64_MAX), 0);
	items = index_scan_items(scan, &n);
	ck_assert_uint_gt(n, at);
	memcpy(name, items[at].key, items[at].key_len);
	name[items[at].key_len] = '\0';
	return key_of(name);
}

TEST_LOOP(two_keys_of_one_hash_at_a_calls_end_are_both_listed_once, 0, 2)
{
	uint64_t cursor = 0;
	uint8_t twin[8];
	char name[8];
	struct index_key k;
	size_t n;

	begin(_i);
	fill(&other);
	/* Without the twin 64 keys would end with this one. */
	k = key_listed(FARKV_SCAN_MIN - 1, name);
	PUT(&other, twin_of(k.hash, twin), "v");
	twins_allowed = true;
	ck_assert_int_eq(index_scan(me.ix, scan, &cursor, FARKV_SCAN_MIN, UINT64_MAX), 0);
	(void)index_scan_items(scan, &n);
	ck_assert_uint_eq(n, FARKV_SCAN_MIN - 1);
	ck_assert_uint_eq(cursor, k.hash);
	scan_all(&me, FARKV_SCAN_MIN);
	check_all_once("twins", 0);
	ck_assert_uint_eq(strangers, 1);
	end();
}

/* ---- keys that fill the room ------------------------------------------------------------- */

#define LONG_KEYS 300u

/* Keys of 65535 bytes: 19 MiB, more than twice what a call returns. */
TEST(longest_keys_are_listed_once_by_several_calls)
{
	uint8_t twin[8], times[LONG_KEYS] = {0};
	char *key = malloc(FARKV_KEY_MAX + 1);
	uint64_t cursor = 0;
	unsigned calls = 0, twins = 0;

	fake_region_init(&region, 0, 2 * LONG_KEYS + 300, GRACE);
	fake_client_open(&me, &region, NULL, 1);
	fake_client_open(&other, &region, NULL, 2);
	scan = index_scan_new();
	memset(key, 'x', FARKV_KEY_MAX);
	key[FARKV_KEY_MAX] = '\0';
	for (unsigned i = 0; i < LONG_KEYS; i++) {
		key[0] = (char)(1 + i % 200);
		key[1] = (char)(1 + i / 200);
		PUT(&other, key_of(key), "v");
		/* One of them has a twin in each 10. */
		if (i % 10 == 0)
			PUT(&other, twin_of(key_of(key).hash, twin), "v");
	}
	do {
		const struct farkv_scan_item *items;
		size_t n, bytes = 0;

		ck_assert_int_eq(index_scan(me.ix, scan, &cursor, SIZE_MAX, UINT64_MAX), 0);
		items = index_scan_items(scan, &n);
		for (size_t i = 0; i < n; i++) {
			const uint8_t *p = items[i].key;

			bytes += items[i].key_len;
			twins += items[i].key_len == 8;
			if (items[i].key_len == FARKV_KEY_MAX)
				times[(p[0] - 1) + 200 * (p[1] - 1)]++;
		}
		ck_assert_uint_le(bytes, SCAN_KEYS_BYTES);
		calls++;
	} while (cursor);
	ck_assert_uint_ge(calls, 3);
	for (unsigned i = 0; i < LONG_KEYS; i++)
		ck_assert_msg(times[i] == 1, "key %u was listed %u times", i, times[i]);
	ck_assert_uint_eq(twins, LONG_KEYS / 10);
	free(key);
	end();
}

/* ---- migrations and rivals between any two requests ------------------------------------- */

/* One migration of the first entry's subtable, a step at a time. */
static struct course {
	unsigned at, step, steps; /* requests until it begins; */
	bool splits, high_first;
	uint64_t old, fresh[2];
	void (*also)(void); /* before each step */
} course;

/* As the server does: in the order of the old subtable, each to its window's first EMPTY. */
static void course_copy(void)
{
	uint64_t *old = fake_region_slots(&region, course.old);
	uint32_t depth = entry_depth(course.old);

	for (unsigned h = 0; h < 2; h++)
		course.fresh[h] = h && !course.splits ?
					  course.fresh[0] :
					  fake_region_subtable(&region, depth + course.splits);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = old[i] & ~SLOT_FROZEN, hash, *to;

		if (slot_is_null(w) || (w & SLOT_DEAD))
			continue;
		ck_assert(block_key_hash(region.base + slot_off(w), class_bytes(slot_class(w)),
					 slot_block(w), region.sb.hash_seed, &hash));
		to = fake_region_slots(&region, course.fresh[hash >> (63 - depth) & 1]) +
		     hash_home_line(hash) * LINE_SLOTS;
		while (!slot_is_null(*to))
			to++;
		*to = w;
	}
}

static void course_double(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t off = REGION_DIR_OFF + ((UINT64_C(8) << depth) * 4);
	uint64_t *to = (uint64_t *)(void *)(region.base + off);

	for (uint64_t i = 0; i < UINT64_C(2) << depth; i++)
		to[i] = *fake_region_entry(&region, i / 2);
	*fake_region_d(&region) = dirword_pack(off, depth + 1);
}

/* Publish one half: every entry of it. */
static void course_publish(unsigned half)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t n = UINT64_C(1) << (depth - entry_depth(course.old));

	for (uint64_t i = half ? n / 2 : 0; i < (half ? n : n / 2); i++)
		*fake_region_entry(&region, i) = course.fresh[half];
}

static void course_step(void)
{
	uint64_t *old = fake_region_slots(&region, course.old);

	switch (course.step++) {
	case 0: /* at least two entries lead there */
		course_double();
		break;
	case 1:
		for (unsigned i = 0; i < SUBTABLE_SLOTS; i += 2)
			old[i] |= SLOT_FROZEN;
		break;
	case 2:
		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
			old[i] |= SLOT_FROZEN;
		course_copy();
		break;
	case 3:
		course_publish(course.high_first);
		break;
	case 4:
		course_publish(!course.high_first);
		break;
	}
}

static int course_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	(void)c;
	(void)i;
	if (after || course.step == course.steps)
		return 0;
	if (course.at) {
		course.at--;
		return 0;
	}
	if (course.also)
		course.also();
	course_step();
	return 0;
}

/* Overwrites, inserts and deletes; what meets the migration waits, and is given up. */
static void course_write(void)
{
	static unsigned turn;
	static char names[16][8];
	struct fake_client *c = &other;

	for (unsigned i = 0; i < 12; i++, turn++) {
		char *name = names[turn % 16];

		snprintf(name, sizeof(names[0]), "z%u", turn % 40);
		if (run(c, INDEX_PUT, key_of(name_of(turn * 7 % KEYS)), "new", 0) ==
		    INDEX_PENDING)
			index_abandon(c->ix, &c->op, FARKV_ETIMEDOUT);
		if (run(c, turn % 3 ? INDEX_PUT : INDEX_DELETE, key_of(name), "z", 0) ==
		    INDEX_PENDING)
			index_abandon(c->ix, &c->op, FARKV_ETIMEDOUT);
	}
}

static void run_course(unsigned at, unsigned steps, unsigned kind, void (*also)(void))
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = course_hook};
	struct fake_client c;

	begin(false);
	fill(&other);
	course = (struct course){.at = UINT32_MAX, .splits = kind & 1, .high_first = kind & 2,
				 .steps = steps, .also = also};
	fake_client_open(&c, &region, &cfg, 3);
	course.at = at;
	course.old = *fake_region_entry(&region, 0);
	scan_all(&c, kind & 4 ? FARKV_SCAN_MIN : SIZE_MAX);
	check_all_once("the course begins at request", at);
	fake_client_close(&c);
	end();
}

/* Requests of a quiet scan: two subtables, 240 heads. */
#define REQUESTS 250u

TEST_LOOP(migration_that_begins_at_any_request_hides_no_key_and_repeats_none, 0, 8)
{
	for (unsigned at = 0; at < REQUESTS; at += at < 8 || (at > 118 && at < 128) ? 1 : 5)
		for (unsigned steps = 1; steps <= 5; steps++)
			run_course(at, steps, (unsigned)_i, NULL);
}

TEST_LOOP(writers_during_a_migration_hide_no_key_and_repeat_none, 0, 8)
{
	for (unsigned at = 0; at < REQUESTS; at += 9)
		run_course(at, 5, (unsigned)_i, course_write);
}

/* A key that was stored in the new half, before the old one is left, is present. */
TEST_LOOP(half_published_split_does_not_hide_keys_of_the_published_half, 0, 2)
{
	struct index_key k;

	begin(true);
	k = key_of("new");
	for (unsigned i = 0; hash_dir_index(k.hash, 2) != (_i ? 0 : 1); i++) {
		static char name[16];

		snprintf(name, sizeof(name), "new%u", i);
		k = key_of(name);
	}
	fill(&other);
	course = (struct course){.splits = true, .high_first = !_i,
				 .old = *fake_region_entry(&region, 0)};
	for (unsigned i = 0; i < 4; i++)
		course_step();
	/* The directory that `me` has cached is the old one. */
	PUT(&other, k, "v");
	scan_all(&me, SIZE_MAX);
	check_all_once("half published", 0);
	ck_assert_uint_eq(strangers, 1);
	end();
}

TEST_LOOP(frozen_subtable_is_listed_while_the_server_stands_still, 0, 2)
{
	begin(_i);
	fill(&other);
	course = (struct course){.splits = true, .old = *fake_region_entry(&region, 0)};
	for (unsigned i = 0; i < 3; i++)
		course_step();
	scan_all(&me, SIZE_MAX);
	check_all_once("frozen", 0);
	end();
}

/* ---- torn words --------------------------------------------------------------------------- */

static unsigned gaps;

static void tear_write(void *arg)
{
	(void)arg;
	if (gaps++ % 4 == 0)
		course_write();
}

TEST(torn_words_hide_no_key_and_repeat_none)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		const struct xport_fault_config cfg = {.seed = seed,
						       .tear_ppm = 400000,
						       .byte_tear = true,
						       .hide_direct = true,
						       .tear_gap = tear_write};
		struct fake_client c;

		begin(false);
		fill(&other);
		fake_client_open(&c, &region, &cfg, 3);
		scan_all(&c, SIZE_MAX);
		check_all_once("seed", seed);
		fake_client_close(&c);
		end();
	}
}

static uint64_t mixed_from, mixed_to;
static unsigned mixed;

/* The first READ of a subtable shows another word in a key's slot, which names another key. */
static int mixing_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	uint64_t *words = c->wr[i].laddr;

	(void)arg;
	if (!after || c->wr[i].len != PAGE_BYTES)
		return 0;
	for (unsigned s = 0; s < SUBTABLE_SLOTS && !mixed; s++)
		if (words[s] == mixed_from) {
			words[s] = mixed_to;
			mixed++;
		}
	return 0;
}

TEST(torn_word_that_names_another_key_hides_no_key_and_repeats_none)
{
	static const struct xport_fault_config cfg = {
		.byte_tear = true, .hide_direct = true, .hook = mixing_hook};
	struct fake_client c;

	begin(false);
	fill(&other);
	/* Two keys of one fingerprint in one window, so that the block alone betrays nothing. */
	PUT(&other, key_at("a", 9), "v");
	PUT(&other, key_at("b", 9), "v");
	mixed_from = slots_of(key_at("a", 9))[0];
	mixed_to = slots_of(key_at("a", 9))[1];
	mixed = 0;
	fake_client_open(&c, &region, &cfg, 3);
	scan_all(&c, SIZE_MAX);
	check_all_once("mixed", 0);
	ck_assert_uint_eq(mixed, 1);
	ck_assert_uint_eq(strangers, 2);
	fake_client_close(&c);
	end();
}

/* ---- time --------------------------------------------------------------------------------- */

static unsigned looks, lates;
static uint64_t jump;

/* Each head takes so long, and after the first one the key is written. */
static int late_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	if (c->wr[i].opcode != XPORT_READ || c->wr[i].off < META_ALIGN || !after)
		return 0;
	if (c->wr[i].len == PAGE_BYTES) {
		looks++;
		return 0;
	}
	fake_now += jump;
	if (lates++ == 0)
		ck_assert_int_eq(run(&other, INDEX_PUT, key_at("k", 5), "longer", 0), 0);
	return 0;
}

static size_t scan_late(uint64_t ns, unsigned *looks_out)
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = late_hook};
	const struct farkv_scan_item *items;
	struct fake_client c;
	uint64_t cursor = 0;
	size_t n, len;

	begin(false);
	PUT(&other, key_at("k", 5), "v");
	fake_client_open(&c, &region, &cfg, 3);
	fake_now = 1000;
	index_set_clock(c.ix, fake_clock, NULL);
	jump = ns;
	looks = lates = 0;
	ck_assert_int_eq(index_scan(c.ix, scan, &cursor, SIZE_MAX, UINT64_MAX), 0);
	items = index_scan_items(scan, &n);
	ck_assert_uint_eq(n, 1);
	len = items[0].value_len;
	*looks_out = looks;
	fake_client_close(&c);
	end();
	return len;
}

TEST(head_that_was_read_after_half_of_t_counts_if_its_word_still_stands)
{
	unsigned n;

	ck_assert_uint_eq(scan_late(GRACE / 2, &n), 1);
	ck_assert_uint_eq(n, 1);
	/* The first word is gone, so the second head is READ, and its word stands. */
	ck_assert_uint_eq(scan_late(GRACE / 2 + 1, &n), 6);
	ck_assert_uint_eq(n, 3);
}

TEST_LOOP(scan_ends_at_its_deadline, 0, 2)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n;

	begin(_i);
	fill(&other);
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	ck_assert_int_eq(index_scan(me.ix, scan, &cursor, SIZE_MAX, 999), FARKV_ETIMEDOUT);
	items = index_scan_items(scan, &n);
	ck_assert_ptr_nonnull(items);
	ck_assert_uint_eq(n, 0);
	ck_assert_uint_eq(cursor, 0);
	end();
}

/* ---- breaks and damage -------------------------------------------------------------------- */

TEST(lane_that_breaks_at_any_request_leaves_the_cursor)
{
	for (uint64_t at = 4; at < REQUESTS + 4; at += 7) { /* three READ the directory */
		const struct xport_fault_config cfg = {
			.hide_direct = true, .break_at = at, .lose_completion = at % 2};
		struct fake_client c;
		uint64_t cursor, before;
		size_t n;
		int err;

		begin(false);
		fill(&other);
		fake_client_open(&c, &region, &cfg, 3);
		cursor = 0;
		do {
			before = cursor;
			err = index_scan(c.ix, scan, &cursor, SIZE_MAX, UINT64_MAX);
			(void)index_scan_items(scan, &n);
		} while (!err && cursor);
		if (at < KEYS)
			ck_assert_int_eq(err, FARKV_EDISCONNECTED);
		if (err) {
			ck_assert_uint_eq(cursor, before);
			ck_assert_uint_eq(n, 0);
		}
		fake_client_close(&c);
		end();
	}
}

TEST_LOOP(damaged_block_or_word_is_reported_and_all_other_keys_are_listed, 0, 6)
{
	uint64_t cursor = 0, first, *slots;
	unsigned corrupt = 0;

	begin(_i % 2);
	fill(&other);
	PUT(&other, key_at("damaged", 9), "v");
	slots = slots_of(key_at("damaged", 9));
	for (unsigned s = 0; s < WINDOW_SLOTS; s++) {
		if (slot_fp(slots[s]) != 9)
			continue;
		if (_i < 2)
			region.base[slot_off(slots[s]) + 21] ^= 1;
		else if (_i < 4)
			slots[s] |= SLOT_PTR_MASK;
		else /* the block of a key that has its own slot */
			slots[s] = slots_of(key_of("k0"))[0];
	}
	memset(seen, 0, sizeof(seen));
	strangers = 0;
	last_hash = 0;
	do {
		const struct farkv_scan_item *items;
		size_t n;
		int err;

		first = cursor;
		err = index_scan(me.ix, scan, &cursor, SIZE_MAX, UINT64_MAX);
		ck_assert(err == 0 || err == FARKV_ECORRUPT);
		ck_assert_uint_ne(cursor, first);
		corrupt += err != 0;
		items = index_scan_items(scan, &n);
		take(items, n);
	} while (cursor);
	check_all_once("damaged", 0);
	ck_assert_uint_eq(corrupt, 1);
	ck_assert_uint_eq(strangers, 0);
	end();
}

TEST_LOOP(damaged_directory_ends_the_scan, 0, 2)
{
	uint64_t cursor = 0;

	begin(_i);
	*fake_region_entry(&region, 0) = entry_pack(1, 1, 1);
	index_drop_cache(me.ix);
	ck_assert_int_eq(index_scan(me.ix, scan, &cursor, SIZE_MAX, UINT64_MAX), FARKV_EFORMAT);
	ck_assert_uint_eq(cursor, 0);
	end();
}

TEST_SUITE("index_scan")
