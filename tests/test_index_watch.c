/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts by loads of a key that others write: what comes between while they watch its slot. */
#include "config.h"

#include <string.h>

#include "loads_rig.h"

/* `me` and `other` write the key in turns; the next put of `me` is going to watch. */
static void setup_watch(void)
{
	setup(false);
	k = key_of("k");
	at_spin = NULL;
	for (unsigned i = 0; i < 3; i++) {
		PUT(&other, k, "theirs");
		PUT(&me, k, "mine");
	}
	ck_assert(contend_hot(&me.ix->contend, k.hash));
	fake_region_grant(&region, me.alloc, 0, 4);
	fake_region_grant(&region, other.alloc, 0, 4);
}

static void while_it_watches(void (*act)(void), enum index_kind kind,
			     const char *value)
{
	rival_sets(-1, NULL, kind, k, value);
	at_spin = act;
}

START_TEST(put_that_sees_a_blind_write_stands_before_it)
{
	uint64_t writes, cas, version;
	uint32_t blocks;

	setup_watch();
	version = me.op.version;
	writes = me.lane->counters.writes;
	cas = me.lane->counters.cas;
	blocks = alloc_count(me.alloc, 0);
	while_it_watches(rival_op, INDEX_PUT, "after");
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.lane->counters.writes, writes);
	ck_assert_uint_eq(me.lane->counters.cas, cas);
	ck_assert_uint_eq(alloc_count(me.alloc, 0), blocks);
	ck_assert_uint_gt(me.op.version, version);
	ck_assert_uint_eq(me.ix->contend.stood, 1);
	ck_assert_uint_eq(me.ix->contend.vain, 0);
	check_value(&me, k, "after");
	teardown();
}
END_TEST

/* A value that is too long to go straight on, and blocks for it. */
static const char *large_value(void)
{
	static char large[PUT_ROOM_MAX];

	memset(large, 'x', sizeof(large) - 1);
	fake_region_grant(&region, me.alloc, class_for(block_room(1, sizeof(large) - 1)), 2);
	return large;
}

/* So does one whose value is too long to go straight on, and a cas is in its way as well. */
START_TEST(put_of_a_long_value_watches_as_others_do)
{
	const char *large;

	setup_watch();
	large = large_value();
	while_it_watches(rival_op, INDEX_PUT, "after");
	PUT(&me, k, large);
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.ix->contend.stood, 1);
	ck_assert_uint_eq(me.ix->contend.vain, 0);
	check_value(&me, k, "after");
	while_it_watches(rival_cas, INDEX_CAS, "before");
	PUT(&me, k, large);
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.ix->contend.stood, 1);
	ck_assert_uint_eq(me.ix->contend.vain, 1);
	check_value(&other, k, large);
	teardown();
}
END_TEST

/* In the spins before the first look, and ends them. */
static void rival_op_and_away(void)
{
	rival_op();
	me.ix->contend.watched = cpu_ticks() - UINT32_MAX;
}

static void become_far_and_steady(void)
{
	struct contend *c = &me.ix->contend;

	c->cost = CONTEND_COST_MAX * CONTEND_COST_EASE;
	c->steady = CONTEND_STEADY;
	c->mood = CONTEND_HOT;
	c->stood = 0;
	c->watched = cpu_ticks();
}

/* As a caller that waits. Who was not running for a while has let the writer be already. */
static void put_from_far(const char *value)
{
	struct index_op *op = &me.op;

	for (unsigned i = 0; i < 100; i++) {
		while_it_watches(rival_op_and_away, INDEX_PUT, "seen already");
		index_op_start(op, INDEX_PUT, &k, value, (uint32_t)strlen(value), 0);
		become_far_and_steady();
		ck_assert(index_put(me.ix, op, index_expect(me.ix, k.hash)));
		ck_assert_int_eq(op->result, 0);
		ck_assert_int_eq(rival.result, 0);
		if (me.ix->contend.stood == 0)
			break;
	}
	ck_assert_uint_eq(me.ix->contend.stood, 0);
	check_value(&other, k, value);
}

/* What is written before the first look is nothing that it could stand before. */
START_TEST(put_from_far_looks_when_it_has_let_the_writer_be)
{
	setup_watch();
	fake_region_grant(&region, other.alloc, 0, 200);
	put_from_far("mine");
	put_from_far(large_value());
	teardown();
}
END_TEST

/* It watches at once. */
START_TEST(put_of_who_has_others_to_see_to_does_not_let_the_writer_be)
{
	setup_watch();
	while_it_watches(rival_op, INDEX_PUT, "after");
	become_far_and_steady();
	PUT(&me, k, "before"); /* by index_try(), as a queue and a batch do */
	ck_assert_uint_ge(me.ix->contend.stood, 1);
	check_value(&me, k, "after");
	teardown();
}
END_TEST

static bool looked; /* at more than the slot, before it watched */

static void rival_op_after_looks(void)
{
	looked = !at_copy;
	at_copy = NULL;
	rival_op();
}

static void nothing(void)
{
}

static void expect_looks(bool looks)
{
	while_it_watches(rival_op_after_looks, INDEX_PUT, "after");
	at_copy = nothing;
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	ck_assert_ptr_null(at_spin);
	ck_assert(looked == looks);
	check_value(&me, k, "after");
}

START_TEST(put_that_watches_again_looks_at_the_slot_alone)
{
	setup_watch();
	expect_looks(true);
	expect_looks(false);
	expect_looks(false);
	index_drop_cache(me.ix);
	check_value(&me, k, "after"); /* it knows the directory again */
	expect_looks(true);
	expect_looks(false);
	teardown();
}
END_TEST

static void watch_the_first_of_two(struct index_key *first, struct index_key *second)
{
	setup(false);
	*first = key_at("a", 77);
	*second = key_at("b", 77);
	fake_region_grant(&region, me.alloc, 0, 8);
	fake_region_grant(&region, other.alloc, 0, 8);
	PUT(&other, *first, "first");
	PUT(&other, *second, "second");
	PUT(&me, *first, "mine");
	me.ix->contend.mood = CONTEND_HOT;
	k = *first;
	expect_looks(true);
}

/* The slot that it knows is another key's, behind a barrier: of the same fingerprint. */
START_TEST(put_that_watches_knows_no_slot_from_before_a_barrier)
{
	struct index_key first, second;
	uint64_t *slots, word;

	watch_the_first_of_two(&first, &second);
	index_drop_cache(me.ix);
	slots = slots_of(first);
	word = slots[0];
	slots[0] = slots[1];
	slots[1] = word;
	check_value(&me, first, "after");
	ck_assert(contend_hot(&me.ix->contend, first.hash));
	rival_sets(-1, NULL, INDEX_PUT, second, "theirs");
	at_spin = rival_op;
	PUT(&me, first, "mine");
	ck_assert_int_eq(rival.result, 0);
	check_value(&other, first, "mine");
	check_value(&other, second, "theirs");
	teardown();
}
END_TEST

/* ... and one that shares a key's line, its hash and what is hot with it is another key. */
START_TEST(put_that_watches_knows_its_own_keys_slot_alone)
{
	struct index_key first, second;

	watch_the_first_of_two(&first, &second);
	me.ix->contend.hash = second.hash;
	rival_sets(-1, NULL, INDEX_PUT, first, "theirs");
	at_spin = rival_op;
	PUT(&me, second, "mine");
	ck_assert_ptr_null(at_spin); /* it watched, its own slot */
	check_value(&other, second, "mine");
	teardown();
}
END_TEST

/* The key's subtable has moved: its words are FROZEN where they were. */
static void move_subtable(void)
{
	uint64_t *entry = fake_region_entry(&region, hash_dir_index(k.hash, 1));
	uint64_t old = *entry, now = fake_region_subtable(&region, entry_depth(old));
	uint64_t *from = fake_region_slots(&region, old), *to = fake_region_slots(&region, now);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		if (from[i] != slot_empty(entry_gen(old)))
			to[i] = from[i];
		from[i] |= SLOT_FROZEN;
	}
	*entry = now;
}

static uint64_t *elsewhere;

static void changes_elsewhere(void)
{
	*elsewhere = slot_pack(slot_block(*slots_of(k)), hash_fp(k.hash), SLOT_BLIND) ^
		     SLOT_DEAD;
}

/* No barrier has passed, so it knows a slot still, but of another window. */
START_TEST(put_that_watches_knows_no_slot_of_another_window)
{
	struct index_op *op = &me.op;
	uint64_t *old;

	setup_watch();
	expect_looks(true);
	old = slots_of(k);
	move_subtable();
	index_op_start(op, INDEX_PUT, &k, "moved", 5, 0);
	ck_assert(!index_try(me.ix, op));
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	ck_assert_ptr_ne(slots_of(k), old);
	/* As far from the new window as the old one is, in the bits of a slot's number. */
	elsewhere = slots_of(k) + (uint16_t)(old - slots_of(k));
	ck_assert(*slots_of(k) && (uint8_t *)elsewhere < region.base + region.sb.region_bytes);
	*elsewhere = *slots_of(k);
	me.ix->contend.hash = k.hash;
	me.ix->contend.mood = CONTEND_HOT;
	at_spin = changes_elsewhere;
	PUT(&me, k, "mine");
	ck_assert_ptr_null(at_spin);
	check_value(&other, k, "mine");
	teardown();
}
END_TEST

/* A migration has the slot that it knows: it is to be looked for where it is now. */
START_TEST(put_that_finds_the_slot_it_knows_frozen_leaves_it_so)
{
	struct index_op *op = &me.op;
	uint64_t word;

	setup_watch();
	expect_looks(true);
	freeze();
	word = *slots_of(k);
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_uint_eq(*slots_of(k), word);
	thaw_and_end();
}
END_TEST

START_TEST(put_that_sees_a_delete_stands_before_it)
{
	setup_watch();
	while_it_watches(rival_op, INDEX_DELETE, NULL);
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	ABSENT(&me, k);
	ABSENT(&other, k);
	teardown();
}
END_TEST

/* A cas has seen what it replaced: nothing can stand between. */
START_TEST(put_that_sees_a_conditional_write_comes_behind_it)
{
	setup_watch();
	while_it_watches(rival_cas, INDEX_CAS, "before");
	PUT(&me, k, "after");
	ck_assert_int_eq(rival.result, 0);
	check_value(&other, k, "after");
	ck_assert_uint_eq(me.ix->contend.stood, 0);
	ck_assert_uint_eq(me.ix->contend.vain, 1); /* it watched once */
	teardown();
}
END_TEST

/* Each of its versions is read in time and used too late. */
START_TEST(cas_that_comes_too_late_lets_the_rivals_on_for_longer_each_time)
{
	uint64_t version;
	unsigned bound = CONTEND_PAUSE_MIN;

	setup_watch();
	PUT(&me, k, "mine");
	for (unsigned i = 0; i < 6; i++) {
		check_value(&me, k, i ? "theirs" : "mine");
		version = me.op.version;
		PUT(&other, k, "theirs");
		ck_assert_int_eq(run(&me, INDEX_CAS, k, "late", version),
				 FARKV_EVERSION);
		index_pause(me.ix, &me.op);
		bound = UTIL_MIN(2 * bound, CONTEND_PAUSE_MAX);
		ck_assert_uint_eq(me.ix->contend.pause, bound);
	}
	/* Its own mistakes are nobody's rivalry. */
	PUT(&me, k, "mine");
	bound = me.ix->contend.pause;
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "late", version), FARKV_EVERSION);
	index_pause(me.ix, &me.op);
	ck_assert_uint_le(me.ix->contend.pause, bound);
	teardown();
}
END_TEST

START_TEST(put_that_sees_a_frozen_word_waits_for_the_migration)
{
	struct index_op *op = &me.op;

	setup_watch();
	while_it_watches(freeze, INDEX_PUT, NULL);
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert(op->has_block && !op->written);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_FROZEN);
	thaw_and_end();
}
END_TEST

/* Who can make another connection is to do so: nothing has happened on this one. */
START_TEST(put_whose_lane_breaks_before_its_swap_is_left_pending)
{
	struct index_op *op = &me.op;
	uint64_t cas;

	setup_watch();
	cas = me.lane->counters.cas;
	while_it_watches(cut, INDEX_PUT, NULL);
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_uint_eq(me.lane->counters.cas, cas);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, FARKV_EDISCONNECTED);
	ck_assert(!op->unresolved);
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index, watching");
	TCase *t = tcase_create("watch");

	tcase_add_test(t, put_that_sees_a_blind_write_stands_before_it);
	tcase_add_test(t, put_of_a_long_value_watches_as_others_do);
	tcase_add_test(t, put_from_far_looks_when_it_has_let_the_writer_be);
	tcase_add_test(t, put_of_who_has_others_to_see_to_does_not_let_the_writer_be);
	tcase_add_test(t, put_that_watches_again_looks_at_the_slot_alone);
	tcase_add_test(t, put_that_watches_knows_no_slot_from_before_a_barrier);
	tcase_add_test(t, put_that_watches_knows_its_own_keys_slot_alone);
	tcase_add_test(t, put_that_watches_knows_no_slot_of_another_window);
	tcase_add_test(t, put_that_finds_the_slot_it_knows_frozen_leaves_it_so);
	tcase_add_test(t, put_that_sees_a_delete_stands_before_it);
	tcase_add_test(t, put_that_sees_a_conditional_write_comes_behind_it);
	tcase_add_test(t,
		cas_that_comes_too_late_lets_the_rivals_on_for_longer_each_time);
	tcase_add_test(t, put_that_sees_a_frozen_word_waits_for_the_migration);
	tcase_add_test(t, put_whose_lane_breaks_before_its_swap_is_left_pending);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
