/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on keys whose place is remembered: what they cost, and what becomes of
 * them when somebody has written since. Each case runs where words are READ whole
 * (_i is 0) and where they may tear (1).
 */
#include "config.h"

#include <string.h>

#include "index_rig.h"

/* What an operation costs: round trips, READs, WRITEs, compare-and-swaps. */
struct cost {
	uint64_t trips, reads, writes, cas;
};

static bool tears;

static void remember(size_t entries)
{
	static struct xport_fault_config cfg;

	cfg = (struct xport_fault_config){.hide_direct = true,
					  .byte_tear = tears,
					  .hook = rival_hook};
	fake_client_close(&me);
	fake_client_open(&me, &region, &cfg, 3);
	ck_assert_int_eq(index_remember(me.ix, entries), 0);
}

static void begin(int tearing)
{
	tears = tearing;
	setup(true);
	remember(64);
}

static struct cost cost_now(void)
{
	const struct xport_counters *c = &me.lane->counters;

	return (struct cost){c->round_trips, c->reads, c->writes, c->cas};
}

/* The operation gives `result` and costs this; a look is a READ, or a CAS if words tear. */
static void check(enum index_kind kind, struct index_key k, const char *value,
		  uint64_t expected, int result, struct cost want, unsigned looks)
{
	struct cost was = cost_now(), now;

	ck_assert_int_eq(run(&me, kind, k, value, expected), result);
	now = cost_now();
	if (tears)
		want.cas += looks;
	else
		want.reads += looks;
	ck_assert_uint_eq(now.trips - was.trips, want.trips);
	ck_assert_uint_eq(now.reads - was.reads, want.reads);
	ck_assert_uint_eq(now.writes - was.writes, want.writes);
	ck_assert_uint_eq(now.cas - was.cas, want.cas);
}

#define COST(...) ((struct cost){__VA_ARGS__})
#define GET_COST COST(1, 1, 0, 0) /* and a look */
#define SWAP_COST COST(1, 0, 1, 1)
#define LOOK_COST COST(1, 0, 0, 0)

START_TEST(one_round_trip_each_once_the_key_is_known)
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
	check(INDEX_ADD, k, "never", 0, FARKV_EEXISTS, LOOK_COST, 1);
	check(INDEX_DELETE, k, NULL, 0, 0, COST(1, 0, 0, 1), 0);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_DELETE, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_REPLACE, k, "never", 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_CAS, k, "never", v, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_ADD, k, "sixth", 0, 0, SWAP_COST, 0);
	check_value(&other, k, "sixth");
	ck_assert_uint_eq(index_remembered(me.ix).stale, 0);
	ck_assert_uint_ge(index_remembered(me.ix).hits, 12);
	teardown();
}
END_TEST

START_TEST(an_insert_after_a_miss_takes_the_window_that_the_get_left)
{
	struct index_key a, b;

	begin(_i);
	a = key_at("a", 1);
	b = key_at("b", 2);
	ABSENT(&me, a);
	PUT(&other, b, "rival"); /* the slot that the image calls EMPTY */
	PUT(&me, key_at("c", 3), "for blocks"); /* behind it, by its own READ */
	ABSENT(&me, a);
	check(INDEX_PUT, a, "va", 0, 0, SWAP_COST, 0);
	check_value(&other, a, "va");
	check_value(&other, b, "rival");
	check_no_duplicates(a);
	teardown();
}
END_TEST

START_TEST(an_image_that_is_old_claims_the_next_slot_or_searches)
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
	/* A key of the same fingerprint: whose it is, has to be READ. */
	ABSENT(&me, same);
	PUT(&other, same, "theirs");
	PUT(&me, same, "mine");
	check_value(&other, same, "mine");
	check_no_duplicates(same);
	check_no_duplicates(a);
	teardown();
}
END_TEST

START_TEST(an_image_never_makes_a_second_slot_for_a_key)
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
END_TEST

START_TEST(a_get_of_a_key_that_others_wrote_shows_the_new_value)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	PUT(&other, k, "new");
	check(INDEX_GET, k, NULL, 0, 0, COST(2, 2, 0, 0), 2);
	ck_assert_mem_eq(me.op.view.value, "new", 3);
	ck_assert_uint_eq(index_remembered(me.ix).stale, 1);
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, COST(1, 1, 0, 0), 1);
	PUT(&other, k, "again");
	check_value(&me, k, "again");
	teardown();
}
END_TEST

/* By what is remembered of the one, the other is neither found nor missed. */
START_TEST(a_get_is_not_led_astray_by_another_key_of_the_hash)
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
		/* A tombstone has no block that would tell: one that is seen, or known. */
		if (dead)
			ck_assert_int_eq(run(dead == 1 ? &other : &me, INDEX_DELETE,
					     k, NULL, 0), 0);
		check_value(&me, twin, "twin's");
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 dead ? FARKV_ENOTFOUND : 0);
		teardown();
	}
}
END_TEST

/* The word that its CAS expects was not READ by this put: it absorbs nothing. */
START_TEST(a_put_that_loses_by_a_remembered_word_writes_all_the_same)
{
	struct index_key k;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	PUT(&other, k, "before the put began");
	check(INDEX_PUT, k, "mine", 0, 0, COST(2, 0, 1, 2), 0);
	check_value(&other, k, "mine");
	/* By the word that it saw, it does: that one was READ in it. */
	PUT(&other, k, "theirs");
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "later");
	rival.skip = 1;
	check(INDEX_PUT, k, "mine", 0, 0, COST(2, 0, 1, 2), 0);
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&other, k, "later");
	teardown();
}
END_TEST

START_TEST(the_others_decide_anew_on_the_word_that_they_see)
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
END_TEST

/* Its block is used again, by another key, while the old word is remembered. */
START_TEST(a_remembered_word_whose_block_is_anothers_now)
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
END_TEST

START_TEST(a_subtable_that_has_moved_is_noticed_by_every_operation)
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
END_TEST

START_TEST(a_barrier_forgets_slots_and_windows)
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
	ck_assert_uint_eq(index_remembered(me.ix).stale, 0);
	index_drop_cache(me.ix);
	ABSENT(&me, key_at("g", 9)); /* reads the directory */
	index_drop_cache(me.ix);
	(void)run(&me, INDEX_GET, key_of("elsewhere"), NULL, 0);
	/* READ window; WRITE and CAS. */
	check(INDEX_PUT, fresh, "x", 0, 0, COST(2, 1, 1, 1), 0);
	teardown();
}
END_TEST

/* Who finds a key changed all the time searches for it, which costs no more. */
START_TEST(gets_of_a_key_that_others_write_all_the_time_stop_asking)
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
	misses = index_remembered(me.ix).misses;
	check_value(&me, k, "a");
	ck_assert_uint_eq(index_remembered(me.ix).misses, misses + 1);
	/* ... until it rests. */
	for (unsigned i = 0; i < LOCATION_STALE_MAX; i++)
		check_value(&me, k, "a");
	check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	teardown();
}
END_TEST

/* One that is right as often as not is asked again and again. */
START_TEST(gets_of_a_key_that_rests_between_writes_go_on_asking)
{
	struct index_key k;
	uint64_t misses;

	begin(_i);
	k = key_of("k");
	PUT(&me, k, "x");
	misses = index_remembered(me.ix).misses;
	for (unsigned i = 0; i < 2 * LOCATION_STALE_MAX; i++) {
		PUT(&other, k, i % 2 ? "a" : "b");
		check_value(&me, k, i % 2 ? "a" : "b");
		check(INDEX_GET, k, NULL, 0, 0, GET_COST, 1);
	}
	ck_assert_uint_eq(index_remembered(me.ix).misses, misses);
	teardown();
}
END_TEST

/* W, W deleted in place, W2: half of the last two can look like W. */
static uint64_t *torn_slot;
static uint64_t torn_word;

static void look_is_torn(void)
{
	torn_word = *torn_slot;
}

START_TEST(where_words_tear_the_look_changes_nothing)
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
END_TEST

START_TEST(without_entries_nothing_is_remembered)
{
	struct index_key k;

	begin(_i);
	remember(0);
	k = key_of("k");
	PUT(&me, k, "v");
	check_value(&me, k, "v");
	ck_assert_uint_eq(index_remembered(me.ix).hits, 0);
	check(INDEX_PUT, k, "w", 0, 0, COST(3, 2, 1, 1), 0);
	teardown();
}
END_TEST

/* ---- values that are kept, too -------------------------------------------------- */

static void begin_keeping(int tearing)
{
	begin(tearing);
	ck_assert_int_eq(index_keep(me.ix, 16384), 0);
}

/* A get that has to READ the value; one that need not. */
#define READS_VALUE(k, v) check_get(k, v, GET_COST, 1)
#define HAS_VALUE(k, v) check_get(k, v, LOOK_COST, 1)

static void check_get(struct index_key k, const char *value, struct cost want,
		      unsigned looks)
{
	check(INDEX_GET, k, NULL, 0, 0, want, looks);
	ck_assert_uint_eq(me.op.view.value_len, strlen(value));
	ck_assert_mem_eq(me.op.view.value, value, strlen(value));
	ck_assert_uint_eq(me.op.version, me.op.view.version);
}

START_TEST(a_value_is_READ_once_and_then_looked_for)
{
	struct index_key k, l;
	uint64_t version;

	begin_keeping(_i);
	k = key_of("k");
	l = key_of("l");
	PUT(&me, l, "another");
	READS_VALUE(l, "another");
	PUT(&other, k, "value");
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), 0); /* searches */
	version = me.op.version;
	READS_VALUE(k, "value");
	for (unsigned i = 0; i < 3; i++) {
		HAS_VALUE(l, "another");
		HAS_VALUE(k, "value");
		ck_assert_uint_eq(me.op.version, version);
	}
	ck_assert_uint_eq(index_remembered(me.ix).kept, 6);
	ck_assert_uint_eq(index_remembered(me.ix).hits, 8);
	teardown();
}
END_TEST

START_TEST(a_kept_value_is_not_taken_for_the_next_one)
{
	struct index_key k;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&me, k, "first");
	READS_VALUE(k, "first");
	HAS_VALUE(k, "first");
	PUT(&me, k, "mine");
	HAS_VALUE(k, "mine"); /* as it was written */
	PUT(&me, k, "of another length, and of another class of blocks");
	HAS_VALUE(k, "of another length, and of another class of blocks");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "cas'd", me.op.version), 0);
	HAS_VALUE(k, "cas'd");
	PUT(&other, k, "theirs");
	check_get(k, "theirs", COST(2, 1, 0, 0), 2);
	HAS_VALUE(k, "theirs");
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	check(INDEX_GET, k, NULL, 0, FARKV_ENOTFOUND, LOOK_COST, 1);
	PUT(&other, k, "again");
	check_value(&me, k, "again");
	/* A key that nobody asks for is not kept for being written. */
	k = key_of("written");
	PUT(&me, k, "one");
	PUT(&me, k, "two");
	READS_VALUE(k, "two");
	teardown();
}
END_TEST

/* Between the copy of what was kept and the look, or behind both. */
START_TEST(a_kept_value_counts_from_the_look)
{
	struct index_key k;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&me, k, "old");
	READS_VALUE(k, "old");
	rival_sets(_i ? XPORT_CAS : XPORT_READ, rival_op, INDEX_PUT, k, "new");
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}
END_TEST

START_TEST(what_is_kept_of_one_key_is_not_anothers_of_its_hash)
{
	struct index_key k, twin;

	begin_keeping(_i);
	k = key_of("k");
	twin = key_of("twin");
	twin.hash = k.hash;
	PUT(&me, k, "k's");
	PUT(&other, twin, "twin's");
	READS_VALUE(k, "k's");
	HAS_VALUE(k, "k's");
	check_value(&me, twin, "twin's");
	check_value(&me, k, "k's");
	check_value(&me, twin, "twin's");
	teardown();
}
END_TEST

START_TEST(a_barrier_forgets_values)
{
	struct index_key k;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&me, k, "v");
	READS_VALUE(k, "v");
	HAS_VALUE(k, "v");
	index_drop_cache(me.ix);
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), 0); /* searches */
	READS_VALUE(k, "v");
	HAS_VALUE(k, "v");
	teardown();
}
END_TEST

/* Behind a barrier a word may name another content: here it does at once. */
START_TEST(a_kept_value_is_not_taken_for_what_comes_after_a_barrier)
{
	struct index_key k;
	struct block_ref ref;
	uint8_t block[256];

	begin_keeping(_i);
	k = key_of("k");
	PUT(&other, k, "first");
	check_value(&me, k, "first");
	check_value(&me, k, "first");
	HAS_VALUE(k, "first");
	index_drop_cache(me.ix);
	ref = slot_block(*slots_of(k));
	block_encode(block, ref, other.op.version + 1, k.data, k.len, k.hash, "other", 5,
		     0);
	memcpy(region.base + ref.off, block, block_room(k.len, 5));
	for (unsigned i = 0; i < 3; i++)
		check_value(&me, k, "other");
	teardown();
}
END_TEST

/* A get is under way; its session puts, and renews the copy; the get's second look takes
 * it, which is no hit. */
START_TEST(a_value_at_hand_counts_as_a_hit_or_not_at_all)
{
	struct index_strand strand;
	struct index_key k;
	struct index_op get;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&me, k, "one");
	READS_VALUE(k, "one");
	index_strand_init(&strand);
	index_op_init(&get);
	index_op_start(&get, INDEX_GET, &k, NULL, 0, 0);
	index_submit(me.ix, &strand, &get, UINT64_MAX);
	PUT(&me, k, "two");
	while (!index_strand_rests(&strand))
		index_reap(me.ix, &strand);
	ck_assert_ptr_eq(index_take(&strand), &get);
	ck_assert_int_eq(get.result, 0);
	ck_assert_mem_eq(get.view.value, "two", 3);
	ck_assert_uint_eq(index_remembered(me.ix).kept, 0);
	index_op_fini(me.ix, &get);
	teardown();
}
END_TEST

/* Who may not swap READs the word twice, where words tear. */
START_TEST(a_reader_keeps_values_too)
{
	struct index_key k;
	struct index *writer;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&other, k, "value");
	writer = me.ix;
	ck_assert_int_eq(index_open(&region.sb, me.lane, NULL, UINT64_MAX, &me.ix), 0);
	ck_assert_int_eq(index_remember(me.ix, 64), 0);
	ck_assert_int_eq(index_keep(me.ix, 16384), 0);
	check_value(&me, k, "value");
	check(INDEX_GET, k, NULL, 0, 0, COST(1, _i ? 3 : 2, 0, 0), 0);
	check(INDEX_GET, k, NULL, 0, 0, COST(1, _i ? 2 : 1, 0, 0), 0);
	ck_assert_mem_eq(me.op.view.value, "value", 5);
	index_close(me.ix);
	me.ix = writer;
	teardown();
}
END_TEST

static void time_passes(void)
{
	fake_now += GRACE;
}

/* It was not READ in this operation, which may take its time. */
START_TEST(a_kept_value_is_not_too_late)
{
	struct index_key k;

	begin_keeping(_i);
	index_set_clock(me.ix, fake_clock, NULL);
	fake_now = clock_now_ns();
	k = key_of("k");
	PUT(&other, k, "v");
	check_value(&me, k, "v");
	READS_VALUE(k, "v");
	rival_sets(_i ? XPORT_CAS : XPORT_READ, time_passes, 0, k, NULL);
	HAS_VALUE(k, "v");
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index, remembered");
	TCase *t = tcase_create("warm");

	tcase_add_loop_test(t, one_round_trip_each_once_the_key_is_known, 0, 2);
	tcase_add_loop_test(
		t, an_insert_after_a_miss_takes_the_window_that_the_get_left, 0,
		2);
	tcase_add_loop_test(
		t, an_image_that_is_old_claims_the_next_slot_or_searches, 0, 2);
	tcase_add_loop_test(t, an_image_never_makes_a_second_slot_for_a_key, 0,
			    2);
	tcase_add_loop_test(
		t, a_get_of_a_key_that_others_wrote_shows_the_new_value, 0, 2);
	tcase_add_loop_test(
		t, a_get_is_not_led_astray_by_another_key_of_the_hash, 0, 2);
	tcase_add_loop_test(
		t, a_put_that_loses_by_a_remembered_word_writes_all_the_same, 0,
		2);
	tcase_add_loop_test(
		t, the_others_decide_anew_on_the_word_that_they_see, 0, 2);
	tcase_add_loop_test(t, a_remembered_word_whose_block_is_anothers_now, 0,
			    2);
	tcase_add_loop_test(
		t, a_subtable_that_has_moved_is_noticed_by_every_operation, 0,
		2);
	tcase_add_loop_test(t, a_barrier_forgets_slots_and_windows, 0, 2);
	tcase_add_loop_test(
		t, gets_of_a_key_that_others_write_all_the_time_stop_asking, 0,
		2);
	tcase_add_loop_test(
		t, gets_of_a_key_that_rests_between_writes_go_on_asking, 0, 2);
	tcase_add_test(t, where_words_tear_the_look_changes_nothing);
	tcase_add_loop_test(t, without_entries_nothing_is_remembered, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("kept");
	tcase_add_loop_test(t, a_value_is_READ_once_and_then_looked_for, 0, 2);
	tcase_add_loop_test(t, a_kept_value_is_not_taken_for_the_next_one, 0, 2);
	tcase_add_loop_test(t, a_kept_value_counts_from_the_look, 0, 2);
	tcase_add_loop_test(t, what_is_kept_of_one_key_is_not_anothers_of_its_hash,
			    0, 2);
	tcase_add_loop_test(t, a_barrier_forgets_values, 0, 2);
	tcase_add_loop_test(t, a_kept_value_is_not_taken_for_what_comes_after_a_barrier,
			    0, 2);
	tcase_add_loop_test(t, a_value_at_hand_counts_as_a_hit_or_not_at_all, 0, 2);
	tcase_add_loop_test(t, a_reader_keeps_values_too, 0, 2);
	tcase_add_loop_test(t, a_kept_value_is_not_too_late, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
