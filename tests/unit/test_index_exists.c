/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EXISTS: its results, what it READs, and what it concludes from words and headers that are
 * torn, late, frozen, damaged or cached.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/rig/cached_rig.h"
#include "tests/rig/cases.h"

#define PRESENT(c, k) ck_assert_int_eq(run(c, INDEX_EXISTS, k, NULL, 0), 0)
#define MISSING(c, k) ck_assert_int_eq(run(c, INDEX_EXISTS, k, NULL, 0), FARKV_ENOTFOUND)
#define DELETE(c, k) ck_assert_int_eq(run(c, INDEX_DELETE, k, NULL, 0), 0)

/* READs and their bytes, and the trips, since `was`. */
static void check_reads(const struct xport_counters *was, uint64_t trips, uint64_t reads,
			uint64_t bytes)
{
	const struct xport_counters *now = &me.lane->counters;

	ck_assert_uint_eq(now->round_trips - was->round_trips, trips);
	ck_assert_uint_eq(now->reads - was->reads, reads);
	ck_assert_uint_eq(now->read_bytes - was->read_bytes, bytes);
	ck_assert_uint_eq(now->writes, was->writes);
	ck_assert_uint_eq(now->cas, was->cas);
}

/* ---- without faults ------------------------------------------------------------------ */

TEST_LOOP(exists_follows_puts_and_deletes, 0, 2)
{
	struct index_key k;

	setup(_i);
	k = key_of("k");
	MISSING(&me, k);
	PUT(&other, k, "");
	PRESENT(&me, k);
	PUT(&me, k, "longer");
	PRESENT(&other, k);
	DELETE(&other, k);
	MISSING(&me, k);
	PUT(&me, k, "again");
	PRESENT(&me, k);
	check_value(&me, k, "again");
	teardown();
}

TEST_LOOP(exists_tells_keys_of_one_fingerprint_apart, 0, 2)
{
	static const char *const names[] = {"a", "b", "a-longer-key-than-b", "d", "e", "f", "g"};

	setup(_i);
	for (unsigned i = 0; i < 7; i++)
		PUT(&other, key_at(names[i], 77), names[i]);
	for (unsigned i = 0; i < 7; i++)
		PRESENT(&me, key_at(names[i], 77));
	MISSING(&me, key_at("h", 77));
	MISSING(&me, key_at("a-longer-key-than-h", 77));
	DELETE(&other, key_at("f", 77));
	MISSING(&me, key_at("f", 77));
	PRESENT(&me, key_at("g", 77));
	teardown();
}

TEST(exists_needs_no_right_to_write)
{
	struct index_op *op = &me.op;
	struct xport_lane *lane;
	struct index_key k;
	struct index *ix;

	setup(false);
	k = key_of("k");
	PUT(&other, k, "v");
	lane = xport_shm_open(region.base, region.sb.region_bytes, true);
	ck_assert_int_eq(index_open(&region.sb, lane, NULL, UINT64_MAX, &ix), 0);
	for (unsigned by_steps = 0; by_steps < 2; by_steps++) {
		index_op_start(op, INDEX_EXISTS, &k, NULL, 0);
		if (by_steps)
			index_run(ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
		else
			ck_assert(index_try(ix, op));
		ck_assert_int_eq(op->result, 0);
	}
	index_op_fini(ix, op);
	index_close(ix);
	xport_close(lane);
	teardown();
}

/* ---- what it READs -------------------------------------------------------------------- */

static char large[100000];

/* Header and key of any length, in whole lines. */
#define LONGEST_HEAD 65600u

static struct index_key setup_large(void)
{
	struct index_key k;

	setup(true);
	k = key_at("k", 7);
	memset(large, 'x', sizeof(large) - 1);
	PUT(&other, k, large);
	return k;
}

TEST(exists_reads_window_and_header_never_the_value)
{
	struct index_key k = setup_large();
	struct xport_counters was = me.lane->counters;

	PRESENT(&me, k);
	check_reads(&was, 2, 2, WINDOW_BYTES + LINE_BYTES);
	was = me.lane->counters;
	MISSING(&me, key_at("none", 8));
	check_reads(&was, 1, 1, WINDOW_BYTES);
	DELETE(&other, k);
	was = me.lane->counters;
	MISSING(&me, k); /* the mark in the slot decides */
	check_reads(&was, 1, 1, WINDOW_BYTES);
	teardown();
}

/* A key of 60 bytes with window and fingerprint of `k`. */
static struct index_key long_key_like(struct index_key k)
{
	static char name[64];
	struct index_key found;
	unsigned n = 0;

	do {
		snprintf(name, sizeof(name), "%060u", n++);
		found = key_of(name);
	} while (hash_home_line(found.hash) != hash_home_line(k.hash) ||
		 hash_fp(found.hash) != hash_fp(k.hash) ||
		 hash_dir_index(found.hash, 1) != hash_dir_index(k.hash, 1));
	return found;
}

/* The other key of its fingerprint is longer than a first READ for this one shows. */
TEST(exists_that_meets_a_long_key_reads_no_value)
{
	struct xport_counters was;
	struct index_key k, alien;

	setup(true);
	memset(large, 'x', sizeof(large) - 1);
	k = key_at("k", 7);
	alien = long_key_like(k);
	PUT(&other, alien, large);
	was = me.lane->counters;
	MISSING(&me, k);
	check_reads(&was, 3, 3, WINDOW_BYTES + LINE_BYTES + LONGEST_HEAD);
	PUT(&other, k, "v");
	PRESENT(&me, k);
	PRESENT(&me, alien);
	teardown();
}

TEST(batch_of_exists_takes_two_round_trips)
{
	struct index_op ops[50], *ptr[50];
	char names[50][8];
	struct xport_counters was;

	setup(true);
	for (unsigned i = 0; i < 50; i++) {
		struct index_key k;

		snprintf(names[i], sizeof(names[i]), "m%u", i);
		k = key_of(names[i]);
		if (i % 5)
			PUT(&other, k, names[i]);
		index_op_init(&ops[i]);
		index_op_start(&ops[i], INDEX_EXISTS, &k, NULL, 0);
		ptr[i] = &ops[i];
	}
	was = me.lane->counters;
	index_run(me.ix, ptr, 50, 0, clock_now_ns() + NS_PER_SEC);
	check_reads(&was, 2, 90, 50 * WINDOW_BYTES + 40 * LINE_BYTES);
	ck_assert_uint_eq(me.lane->counters.doorbells - was.doorbells, 2);
	for (unsigned i = 0; i < 50; i++) {
		ck_assert_int_eq(ops[i].result, i % 5 ? 0 : FARKV_ENOTFOUND);
		index_op_fini(me.ix, &ops[i]);
	}
	teardown();
}

/* ---- late, frozen, moved --------------------------------------------------------------- */

static void age_by_T(void)
{
	fake_now += GRACE / 2 + 1;
}

static void age_by_T_and_act(void)
{
	age_by_T();
	rival_op();
}

static struct index_key setup_timed(void)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&other, k, "v");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	return k;
}

TEST(late_exists_reads_its_window_again)
{
	struct index_key k = setup_timed();
	struct xport_counters was = me.lane->counters;

	rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
	rival.skip = 1;
	PRESENT(&me, k);
	check_reads(&was, 3, 3, 2 * WINDOW_BYTES + LINE_BYTES);
	/* The word changes meanwhile: its header may be another use of the block. */
	was = me.lane->counters;
	rival_sets(XPORT_READ, age_by_T_and_act, INDEX_PUT, k, "w");
	rival.skip = 1;
	PRESENT(&me, k);
	check_reads(&was, 5, 5, 3 * WINDOW_BYTES + 2 * LINE_BYTES);
	rival_sets(XPORT_READ, age_by_T_and_act, INDEX_DELETE, k, NULL);
	rival.skip = 1;
	MISSING(&me, k);
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}

TEST(late_exists_concludes_nothing_from_a_frozen_word)
{
	struct index_key k = setup_timed();
	uint64_t *slots = slots_of(k), reads = me.lane->counters.reads;

	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		slots[i] |= SLOT_FROZEN;
	rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
	rival.skip = 1;
	PRESENT(&me, k);
	/* window, [D, entry, D], header, window; then again without delay */
	ck_assert_uint_eq(me.lane->counters.reads - reads, 6 + 5);
	teardown();
}

TEST_LOOP(frozen_subtable_lets_exists_read, 0, 2)
{
	struct index_key k, none = key_at("none", 6), gone = key_at("gone", 5);
	uint64_t *slots;

	setup(_i);
	k = key_at("k", 5);
	PUT(&other, k, "v");
	PUT(&other, gone, "v");
	DELETE(&other, gone);
	slots = slots_of(k);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		slots[i] |= SLOT_FROZEN;
	PRESENT(&me, k);
	MISSING(&me, none);
	MISSING(&me, gone);
	teardown();
}

/* ---- torn words ------------------------------------------------------------------------ */

static uint64_t mixed_from, mixed_to;
static unsigned mixed;

/* The first READ of a window returns another word in the key's slot. */
static int mixing_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	uint64_t *window = c->wr[i].laddr;

	(void)arg;
	if (!after || mixed || c->wr[i].opcode != XPORT_READ || c->wr[i].len != WINDOW_BYTES)
		return 0;
	for (unsigned s = 0; s < WINDOW_SLOTS; s++)
		if (window[s] == mixed_from) {
			window[s] = mixed_to;
			mixed++;
		}
	return 0;
}

/* Half of a deleted word and half of an older one name an older block of the key. */
TEST(exists_by_a_torn_word_finds_no_deleted_value)
{
	static const struct xport_fault_config mixing = {.byte_tear = true,
							 .hide_direct = true,
							 .hook = mixing_hook};
	struct index_key k;
	struct fake_client c;

	setup(false);
	k = key_at("k", 7);
	PUT(&other, k, "oldest");
	mixed_to = *slots_of(k);
	PUT(&other, k, "old");
	DELETE(&other, k);
	mixed_from = *slots_of(k);
	mixed = 0;
	fake_client_open(&c, &region, &mixing, 3);
	MISSING(&c, k);
	ck_assert_uint_eq(mixed, 1);
	fake_client_close(&c);
	teardown();
}

/* ---- damage ---------------------------------------------------------------------------- */

TEST_LOOP(exists_verifies_header_and_key_only, 0, 2)
{
	struct index_key k;
	uint8_t *block;

	setup(_i);
	k = key_of("k");
	PUT(&me, k, "value");
	block = region.base + slot_off(*slots_of(k));
	block[26] ^= 1; /* of the value */
	PRESENT(&me, k);
	block[26] ^= 1;
	for (unsigned at = 0; at < 25; at++) {
		/* By loads only key, its length and incarnation are compared. */
		bool matters = _i || (at >= 12 && at < 16) || at == 24;

		block[at] ^= 1;
		ck_assert_int_eq(run(&me, INDEX_EXISTS, k, NULL, 0), matters ? FARKV_ECORRUPT : 0);
		block[at] ^= 1;
	}
	PRESENT(&me, k);
	teardown();
}

/* ---- cached locations ------------------------------------------------------------------- */

#define OTHER_COST COST(2, tears ? 3 : 2, 0, 0)

TEST_LOOP(exists_of_a_cached_key_looks_at_its_slot_alone, 0, 2)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "value");
	check(INDEX_EXISTS, k, NULL, 0, 0, LOOK_COST, 1);
	/* Another value may be one that expires: its header and CLOCK tell. */
	PUT(&other, k, "another");
	check(INDEX_EXISTS, k, NULL, 0, 0, OTHER_COST, 2);
	check(INDEX_EXISTS, k, NULL, 0, 0, LOOK_COST, 1);
	DELETE(&other, k);
	check(INDEX_EXISTS, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_EXISTS, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	PUT(&other, k, "back");
	check(INDEX_EXISTS, k, NULL, 0, 0, OTHER_COST, 2);
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	ck_assert_mem_eq(me.op.view.value, "back", 4);
	teardown();
}

/* It has READ no value that could be cached. */
TEST_LOOP(exists_caches_the_location_and_no_value, 0, 2)
{
	struct index_key k;

	begin(_i);
	ck_assert_int_eq(index_cache_values(me.ix, 65536), 0);
	k = key_of("k");
	PUT(&other, k, "value");
	PRESENT(&me, k);
	for (unsigned i = 0; i < 3; i++)
		PRESENT(&me, k);
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	ck_assert_uint_eq(index_cache_counters(me.ix).values, 0);
	teardown();
}

/* The cached location of one key neither finds nor misses the other. */
TEST_LOOP(exists_ignores_the_location_of_another_key_of_its_hash, 0, 2)
{
	struct index_key k, twin;

	begin(_i);
	k = key_of("k");
	twin = key_of("twin");
	twin.hash = k.hash;
	PUT(&me, k, "k's");
	MISSING(&me, twin);
	PUT(&other, twin, "twin's");
	DELETE(&me, k);
	PRESENT(&me, twin);
	MISSING(&me, k);
	teardown();
}

TEST_LOOP(exists_notices_a_moved_subtable, 0, 2)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "value");
	for (uint64_t e = 0; e < 2; e++) {
		uint64_t fresh = fake_region_subtable(&region, 1);
		uint64_t *at = fake_region_entry(&region, e);
		uint64_t *from = fake_region_slots(&region, *at);
		uint64_t *to = fake_region_slots(&region, fresh);

		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
			if (!slot_is_null(from[s]))
				to[s] = from[s];
			from[s] |= SLOT_FROZEN;
		}
		*at = fresh;
	}
	DELETE(&other, k);
	MISSING(&me, k);
	PUT(&other, k, "new");
	PRESENT(&me, k);
	teardown();
}

TEST_SUITE("index, exists")
