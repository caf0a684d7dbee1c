/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on keys with a cached location: their costs, and their results after writes
 * of others. Each case runs where words are READ whole (_i is 0) and where they may tear
 * (1).
 */
#include "config.h"

#include <string.h>

#include "tests/rig/cached_rig.h"
#include "tests/rig/cases.h"

TEST_LOOP(operations_on_a_cached_key_take_one_round_trip, 0, 2)
{
	struct index_key k;
	uint64_t v;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "first");
	/* A put writes again without one more round trip for blocks. */
	PUT(&me, k, "second");
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	ck_assert_mem_eq(me.op.view.value, "second", 6);
	check(INDEX_PUT, k, "third", 0, 0, SWAP_COST, 0);
	check(INDEX_REPLACE, k, "fourth", 0, 0, SWAP_COST, 0);
	v = me.op.version;
	check(INDEX_CAS, k, "fifth", v, 0, SWAP_COST, 0);
	check(INDEX_CAS, k, "never", v, FARKV_EVERSION, LOOK_COST, 1);
	check(INDEX_DELETE_CAS, k, NULL, v, FARKV_EVERSION, LOOK_COST, 1);
	check(INDEX_DELETE_CAS, k, NULL, me.op.version, FARKV_EVERSION, LOOK_COST, 1);
	check(INDEX_ADD, k, "never", 0, FARKV_EEXISTS, LOOK_COST, 1);
	check(INDEX_DELETE, k, NULL, 0, 0, COST(1, 0, 0, 1), 0);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_DELETE, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_REPLACE, k, "never", 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_CAS, k, "never", v, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_ADD, k, "sixth", 0, 0, SWAP_COST, 0);
	check_value(&other, k, "sixth");
	ck_assert_uint_eq(index_cache_counters(me.ix).stale, 0);
	ck_assert_uint_ge(index_cache_counters(me.ix).hits, 12);
	teardown();
}

TEST_LOOP(insert_after_a_miss_uses_the_window_of_the_get, 0, 2)
{
	struct index_key a, b;

	begin(_i);
	a = key_at("a", 1);
	b = key_at("b", 2);
	ABSENT(&me, a);
	PUT(&other, b, "rival"); /* the slot that is EMPTY in the cached window */
	PUT(&me, key_at("c", 3), "for blocks"); /* in the next slot, by its own READ */
	ABSENT(&me, a);
	check(INDEX_PUT, a, "va", 0, 0, SWAP_COST, 0);
	check_value(&other, a, "va");
	check_value(&other, b, "rival");
	check_no_duplicates(a);
	teardown();
}

TEST_LOOP(insert_by_a_stale_window_takes_the_next_slot_or_searches, 0, 2)
{
	struct index_key a, b, same;

	begin(_i);
	a = key_at("a", 1);
	b = key_at("b", 2);
	same = key_at("s", 1);
	PUT(&me, key_at("c", 3), "for blocks");
	ABSENT(&me, a);
	PUT(&other, b, "rival");
	PUT(&me, a, "va");
	ck_assert_uint_eq(slot_fp(slots_of(a)[1]), 2);
	ck_assert_uint_eq(slot_fp(slots_of(a)[2]), 1);
	check_value(&me, a, "va");
	/* The key of the same fingerprint has to be READ to be told apart. */
	ABSENT(&me, same);
	PUT(&other, same, "theirs");
	PUT(&me, same, "mine");
	check_value(&other, same, "mine");
	check_no_duplicates(same);
	check_no_duplicates(a);
	teardown();
}

TEST_LOOP(insert_by_a_stale_window_makes_no_duplicate, 0, 2)
{
	struct index_key a;

	begin(_i);
	a = key_at("a", 1);
	PUT(&me, key_at("c", 3), "for blocks");
	ABSENT(&me, a);
	PUT(&other, a, "theirs");
	ck_assert_int_eq(run(&me, INDEX_ADD, a, "mine", 0), FARKV_EEXISTS);
	check_value(&me, a, "theirs");
	PUT(&me, a, "mine");
	check_no_duplicates(a);
	check_value(&other, a, "mine");
	teardown();
}

TEST_LOOP(get_of_a_key_that_others_wrote_returns_the_new_value, 0, 2)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	PUT(&other, k, "new");
	check(INDEX_GET, k, NULL, 0, 0, COST(2, 2, 0, 0), 2);
	ck_assert_mem_eq(me.op.view.value, "new", 3);
	ck_assert_uint_eq(index_cache_counters(me.ix).stale, 1);
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, COST(1, 1, 0, 0), 1);
	PUT(&other, k, "again");
	check_value(&me, k, "again");
	teardown();
}

/* The cached location of one key neither finds nor misses the other. */
TEST_LOOP(get_ignores_the_location_of_another_key_of_its_hash, 0, 2)
{
	struct index_key k, twin;

	for (unsigned dead = 0; dead < 3; dead++) {
		begin(_i);
		k = key_of("k");
		twin = key_of("twin");
		twin.hash = k.hash;
		PUT(&me, k, "k's");
		PUT(&other, twin, "twin's");
		check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
		/* A tombstone carries no key, so the key must be read or known. */
		if (dead)
			ck_assert_int_eq(run(dead == 1 ? &other : &me, INDEX_DELETE,
					     k, NULL, 0), 0);
		check_value(&me, twin, "twin's");
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 dead ? FARKV_ENOTFOUND : 0);
		teardown();
	}
}

/* This put did not READ the word that its CAS expects, so it is not absorbed. */
TEST_LOOP(put_that_loses_by_a_cached_word_writes_again, 0, 2)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	PUT(&other, k, "before the put began");
	check(INDEX_PUT, k, "mine", 0, 0, COST(2, 0, 1, 2), 0);
	check_value(&other, k, "mine");
	/* After its own READ of the word it is absorbed. */
	PUT(&other, k, "theirs");
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "later");
	rival.skip = 1;
	check(INDEX_PUT, k, "mine", 0, 0, COST(2, 0, 1, 2), 0);
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&other, k, "later");
	teardown();
}

/* It has seen only the word of the present value. */
TEST_LOOP(cas_without_a_version_of_a_changed_key_is_refused, 0, 2)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	PUT(&other, k, "theirs");
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "mine", 0), FARKV_EEXISTS);
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", 0), FARKV_EVERSION);
	check_value(&other, k, "theirs");
	check_value(&me, k, "theirs");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", me.op.version), 0);
	teardown();
}

TEST_LOOP(conditional_writes_decide_on_the_word_that_they_find, 0, 2)
{
	struct index_key k;
	uint64_t v;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	v = me.op.version;
	PUT(&other, k, "new");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", v), FARKV_EVERSION);
	check_value(&other, k, "new");
	check_value(&me, k, "new");
	v = me.op.version;
	ck_assert_int_eq(run(&other, INDEX_CAS, k, "newer", v), 0);
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", other.op.version), 0);
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), FARKV_ENOTFOUND);
	PUT(&other, k, "back");
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "mine", 0), FARKV_EEXISTS);
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "mine", 0),
			 FARKV_ENOTFOUND);
	PUT(&other, k, "back");
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "mine", 0), 0);
	check_value(&other, k, "mine");
	PUT(&other, k, "theirs");
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	ABSENT(&other, k);
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "mine", 0), 0);
	check_value(&other, k, "mine");
	teardown();
}

/* Another key reuses its block while the old word is cached. */
TEST_LOOP(cached_word_whose_block_is_reused_is_noticed, 0, 2)
{
	struct index_key a, b;
	uint64_t word;

	begin(_i);
	a = key_at("a", 1);
	b = key_at("b", 2);
	index_set_clock(other.ix, fake_clock, NULL);
	fake_now = clock_now_ns();
	PUT(&me, a, "same size 1");
	check_value(&me, a, "same size 1");
	word = *slots_of(a);
	PUT(&other, a, "same size 2");
	fake_now += 2 * GRACE;
	while (slot_off(slots_of(b)[1]) != slot_off(word)) {
		PUT(&other, b, "same size 3");
		fake_now += 2 * GRACE;
	}
	check_value(&me, a, "same size 2");
	check_value(&me, b, "same size 3");
	teardown();
}

static struct index_key slow;
static struct op_queue opq;

static void time_passes(void)
{
	fake_now += GRACE;
}

/*
 * A rival writes before the second read of the slot; the READ after that is late as well.
 */
static void rival_op_and_time_passes(void)
{
	rival_op();
	rival_sets(XPORT_READ, time_passes, 0, slow, NULL);
	rival.skip = !tears; /* the look */
}

static void time_passes_and_more(void)
{
	time_passes();
	rival_sets(tears ? XPORT_CAS : XPORT_READ, rival_op_and_time_passes, INDEX_PUT,
		   slow, "new");
	rival.skip = !tears; /* the block's READ */
}

/* The value is not READ again, and the location stays cached. */
TEST_LOOP(late_get_reads_its_slot_again, 0, 2)
{
	begin(_i);
	slow = key_of("k");
	index_set_clock(me.ix, fake_clock, NULL);
	fake_now = clock_now_ns();
	PUT(&me, slow, "value");
	rival_sets(XPORT_READ, time_passes, 0, slow, NULL);
	check(INDEX_GET, slow, NULL, 0, 0, COST(2, 1, 0, 0), 2);
	ck_assert_uint_eq(rival.acted, 1);
	ck_assert_mem_eq(me.op.view.value, "value", 5);
	ck_assert_uint_eq(index_cache_counters(me.ix).hits, 1);
	check(INDEX_GET, slow, NULL, 0, 0, GET_COST, 1);
	rival_sets(XPORT_READ, time_passes_and_more, 0, slow, NULL);
	check(INDEX_GET, slow, NULL, 0, 0, COST(4, 2, 0, 0), 4);
	ck_assert_mem_eq(me.op.view.value, "new", 3);
	ck_assert_uint_eq(rival.acted, 1);
	ck_assert_uint_eq(index_cache_counters(me.ix).stale, 1);
	check(INDEX_GET, slow, NULL, 0, 0, GET_COST, 1);
	teardown();
}

/* Time in which a chain waits for room in the send queue does not make it late. */
TEST_LOOP(get_is_late_by_the_time_since_its_requests_were_sent, 0, 2)
{
	struct index_op *op = &me.op;

	begin(_i);
	slow = key_of("k");
	index_set_clock(me.ix, fake_clock, NULL);
	fake_now = clock_now_ns();
	PUT(&me, slow, "value");
	op_queue_init(&opq);
	for (unsigned late = 0; late < 2; late++) {
		uint64_t cost = cost_now().trips;

		index_op_start(op, INDEX_GET, &slow, NULL, 0);
		index_submit(me.ix, &opq, op, fake_now + 10 * GRACE);
		fake_now += GRACE;
		op->chain.begun_ns = fake_now - (late ? GRACE : GRACE / 4);
		index_post(me.ix, &opq);
		while (!index_take(&opq))
			(void)index_reap(me.ix, &opq);
		ck_assert_int_eq(op->result, 0);
		ck_assert_uint_eq(cost_now().trips - cost, 1 + late);
	}
	teardown();
}

TEST_LOOP(every_operation_notices_a_moved_subtable, 0, 2)
{
	static const enum index_kind kinds[] = {INDEX_GET, INDEX_PUT,
						INDEX_REPLACE, INDEX_DELETE};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct index_key k;
		uint64_t *from, *to, entry;

		begin(_i);
		k = key_of("k");
		PUT(&me, k, "value");
		entry = *fake_region_entry(&region, 0);
		for (uint64_t e = 0; e < 2; e++) {
			uint64_t fresh = fake_region_subtable(&region, 1);
			uint64_t *at = fake_region_entry(&region, e);

			from = fake_region_slots(&region, *at);
			to = fake_region_slots(&region, fresh);
			for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
				if (!slot_is_null(from[s]))
					to[s] = from[s];
				from[s] |= SLOT_FROZEN;
			}
			*at = fresh;
		}
		ck_assert_uint_ne(entry, *fake_region_entry(&region, 0));
		ck_assert_int_eq(run(&me, kinds[i], k, "other", 0), 0);
		if (kinds[i] == INDEX_DELETE)
			ABSENT(&other, k);
		else
			check_value(&other, k, kinds[i] == INDEX_GET ?
				    "value" : "other");
		check_no_duplicates(k);
		teardown();
	}
}

TEST_LOOP(barrier_drops_cached_slots_and_windows, 0, 2)
{
	struct index_key k, fresh;

	begin(_i);
	fresh = key_at("f", 9);
	k = key_of("k");
	PUT(&me, k, "one");
	PUT(&me, k, "two");
	ABSENT(&me, fresh);
	index_drop_cache(me.ix);
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), 0);
	ck_assert_uint_eq(index_cache_counters(me.ix).stale, 0);
	index_drop_cache(me.ix);
	ABSENT(&me, key_at("g", 9)); /* reads the directory */
	index_drop_cache(me.ix);
	(void)run(&me, INDEX_GET, key_of("elsewhere"), NULL, 0);
	/* READ window; WRITE and CAS. */
	check(INDEX_PUT, fresh, "x", 0, 0, COST(2, 1, 1, 1), 0);
	teardown();
}

/*
 * A get that always finds its key changed stops using the cached location; it costs no
 * more than a search.
 */
TEST_LOOP(gets_of_a_key_that_changes_always_stop_using_its_location, 0, 2)
{
	struct index_key k;
	uint64_t misses;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "x");
	for (unsigned i = 0; i < 2 * LOCATION_STALE_MAX; i++) {
		PUT(&other, k, i % 2 ? "a" : "b");
		check_value(&me, k, i % 2 ? "a" : "b");
	}
	misses = index_cache_counters(me.ix).misses;
	check_value(&me, k, "a");
	ck_assert_uint_eq(index_cache_counters(me.ix).misses, misses + 1);
	/* ... until it rests. */
	for (unsigned i = 0; i < LOCATION_STALE_MAX; i++)
		check_value(&me, k, "a");
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	teardown();
}

/* A location that is right as often as wrong stays in use. */
TEST_LOOP(gets_of_a_key_that_changes_seldom_use_its_location, 0, 2)
{
	struct index_key k;
	uint64_t misses;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "x");
	misses = index_cache_counters(me.ix).misses;
	for (unsigned i = 0; i < 2 * LOCATION_STALE_MAX; i++) {
		PUT(&other, k, i % 2 ? "a" : "b");
		check_value(&me, k, i % 2 ? "a" : "b");
		check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	}
	ck_assert_uint_eq(index_cache_counters(me.ix).misses, misses);
	teardown();
}

/* W, W deleted in place, W2: half of each of the last two can look like W. */
static uint64_t *torn_slot;
static uint64_t torn_word;

static void look_is_torn(void)
{
	torn_word = *torn_slot;
}

TEST(slot_look_by_cas_changes_nothing_where_words_tear)
{
	struct index_key k;
	uint64_t word;

	begin(1);
	k = key_of("k");
	PUT(&me, k, "value");
	torn_slot = slots_of(k);
	word = *torn_slot;
	rival_sets(XPORT_CAS, look_is_torn, 0, k, NULL);
	check_value(&me, k, "value");
	ck_assert_uint_eq(rival.acted, 1); /* it did look by a CAS */
	ck_assert_uint_eq(torn_word, word);
	ck_assert_uint_eq(*slots_of(k), word);
	teardown();
}

TEST_LOOP(cache_without_entries_remembers_nothing, 0, 2)
{
	struct index_key k;

	begin(_i);
	remember(0);
	k = key_of("k");
	PUT(&me, k, "v");
	check_value(&me, k, "v");
	ck_assert_uint_eq(index_cache_counters(me.ix).hits, 0);
	check(INDEX_PUT, k, "w", 0, 0, COST(3, 2, 1, 1), 0);
	teardown();
}

TEST_SUITE("index, cached locations")
