/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes by loads and what comes between: while a put watches its slot, and where such a
 * write must be left to others.
 */
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

/* So does one whose value is too long to go straight on, and a cas is in its way as well. */
START_TEST(put_of_a_long_value_watches_as_others_do)
{
	static char large[3000];

	memset(large, 'x', sizeof(large) - 1);
	setup_watch();
	fake_region_grant(&region, me.alloc, class_for(block_room(1, sizeof(large) - 1)), 2);
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
	c->hot = true;
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
	static char large[3000];

	memset(large, 'x', sizeof(large) - 1);
	setup_watch();
	fake_region_grant(&region, me.alloc, class_for(block_room(1, sizeof(large) - 1)), 2);
	fake_region_grant(&region, other.alloc, 0, 200);
	put_from_far("mine");
	put_from_far(large);
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

/* The migration gives the slot up: the operation of `me` ends well. */
static void thaw_and_end(void)
{
	struct index_op *op = &me.op;

	*slots_of(k) &= ~SLOT_FROZEN;
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	check_value(&other, k, "mine");
	teardown();
}

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
	me.ix->contend.hot = true;
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
	me.ix->contend.hot = true;
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

static unsigned swaps; /* of the rivals */

static void before_its_swap(enum index_kind kind, const char *value)
{
	setup(false);
	k = key_of("k");
	ck_assert(me.lane->caps & XPORT_AT_ONCE);
	fake_region_grant(&region, me.alloc, 0, 4);
	fake_region_grant(&region, other.alloc, 0, 4);
	rival_sets(-1, NULL, kind, k, value);
	at_swap = rival_op;
}

START_TEST(put_without_a_chain_that_loses_stands_before_the_winner)
{
	uint32_t blocks;

	before_its_swap(INDEX_PUT, "after");
	at_swap = NULL;
	PUT(&me, k, "first");
	blocks = alloc_count(me.alloc, 0);
	at_swap = rival_op;
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.lane->counters.writes, 2);
	ck_assert_uint_eq(me.lane->counters.cas, 2);
	ck_assert_uint_eq(alloc_count(me.alloc, 0), blocks);
	check_value(&me, k, "after");
	teardown();
}
END_TEST

/* The winner of the slot may be the same key, or another one. */
START_TEST(insert_without_a_chain_that_loses_looks_again)
{
	before_its_swap(INDEX_ADD, "the winner's");
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "too late", 0), FARKV_EEXISTS);
	ck_assert_int_eq(rival.result, 0);
	check_value(&me, k, "the winner's");
	check_no_duplicates(k);
	teardown();

	before_its_swap(INDEX_PUT, "after");
	PUT(&me, k, "mine"); /* an insert is not absorbed */
	ck_assert_int_eq(rival.result, 0);
	check_value(&other, k, "mine");
	check_no_duplicates(k);
	teardown();
}
END_TEST

START_TEST(cas_without_a_chain_that_loses_changes_nothing)
{
	uint64_t version;

	before_its_swap(INDEX_PUT, "theirs");
	at_swap = NULL;
	PUT(&me, k, "first");
	check_value(&me, k, "first");
	version = me.op.version;
	at_swap = rival_op;
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", version), FARKV_EVERSION);
	ck_assert_int_eq(rival.result, 0);
	check_value(&me, k, "theirs");
	teardown();
}
END_TEST

START_TEST(replace_without_a_chain_that_loses_writes_once)
{
	uint64_t writes, cas;

	before_its_swap(INDEX_PUT, "theirs");
	at_swap = NULL;
	PUT(&me, k, "first");
	writes = me.lane->counters.writes;
	cas = me.lane->counters.cas;
	at_swap = rival_op;
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "mine", 0), 0);
	ck_assert_uint_eq(me.lane->counters.writes, writes + 1);
	ck_assert_uint_eq(me.lane->counters.cas, cas + 2);
	check_value(&other, k, "mine");
	teardown();
}
END_TEST

START_TEST(replace_that_loses_to_a_migration_looks_where_the_key_is)
{
	struct index_op *op = &me.op;
	uint64_t cas;

	before_its_swap(INDEX_PUT, NULL);
	at_swap = NULL;
	PUT(&me, k, "first");
	cas = me.lane->counters.cas;
	at_swap = freeze;
	index_op_start(op, INDEX_REPLACE, &k, "mine", 4, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_uint_eq(me.lane->counters.cas, cas + 1);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->wait, INDEX_WAIT_FROZEN);
	thaw_and_end();
}
END_TEST

static void rival_cas_again(void)
{
	rival_cas();
	if (++swaps < SWAPS_MAX)
		at_swap = rival_cas_again;
}

/* It has written its block before it lost, and watches when it begins again. */
START_TEST(put_that_watches_with_a_written_block_keeps_its_version)
{
	uint64_t version;

	before_its_swap(INDEX_CAS, "theirs");
	at_swap = NULL;
	PUT(&me, k, "first");
	swaps = 0;
	at_swap = rival_cas_again;
	PUT(&me, k, "mine");
	ck_assert_uint_eq(swaps, SWAPS_MAX);
	version = me.op.version;
	check_value(&me, k, "mine");
	ck_assert_uint_eq(me.op.version, version);
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

START_TEST(delete_of_a_large_value_asks_for_a_small_block_once)
{
	struct index_op *op = &me.op;
	struct block_ref r;
	char big[3000];

	setup(false);
	k = key_of("big");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	PUT(&me, k, big);
	while (alloc_take(me.alloc, 0, UINT64_MAX - 1, &r))
		;
	index_op_start(op, INDEX_DELETE, &k, NULL, 0, 0);
	ck_assert(!index_try(me.ix, op));
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_BLOCK);
	ck_assert_uint_eq(op->cls, 0);
	fake_region_grant(&region, me.alloc, 0, 1);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	ck_assert_uint_eq(slot_class(slots_of(k)[0]), 0);
	ABSENT(&other, k);
	teardown();
}
END_TEST

/* Before each of the first four swaps of `me` the key is put anew; at last a large value. */
static int rivals_put(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	static char large[3000];

	(void)arg;
	if (c->wr[i].opcode != XPORT_CAS || after || ++swaps > SWAPS_MAX)
		return 0;
	memset(large, 'x', sizeof(large) - 1);
	PUT(&other, k, swaps < SWAPS_MAX ? "small" : large);
	return 0;
}

/*
 * It takes a tombstone's block when it does not go on by itself any more: whoever goes on
 * has to write it.
 */
START_TEST(delete_that_others_go_on_with_publishes_what_it_has_written)
{
	static const struct xport_fault_config cfg = {.hook = rivals_put};
	struct index_op *op;
	struct block_view view;
	uint64_t w;

	setup(false);
	fake_client_close(&me);
	fake_client_open(&me, &region, &cfg, 3);
	ck_assert(me.lane->caps & XPORT_DIRECT_STORE);
	op = &me.op;
	k = key_of("k");
	PUT(&other, k, "small");
	fake_region_grant(&region, me.alloc, 0, 1);
	swaps = 0;
	index_op_start(op, INDEX_DELETE, &k, NULL, 0, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_uint_eq(swaps, SWAPS_MAX);
	ck_assert(op->has_block);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	w = *slots_of(k);
	ck_assert_uint_eq(slot_class(w), 0);
	ck_assert_int_eq(block_verify(region.base + slot_off(w), slot_block(w),
				      k.data, k.len, &view),
			 BLOCK_MINE);
	ck_assert(view.tombstone);
	ABSENT(&other, k);
	teardown();
}
END_TEST

/* What a card would have seen of these writes. */
static struct xport_counters counted(bool at_once)
{
	static char large[3000], enormous[100000];
	struct xport_counters c;

	setup(false);
	ck_assert(me.lane->caps & XPORT_AT_ONCE);
	if (!at_once)
		me.lane->caps &= ~(uint32_t)XPORT_AT_ONCE;
	memset(large, 'x', sizeof(large) - 1);
	memset(enormous, 'y', sizeof(enormous) - 1);
	k = key_of("k");
	fake_region_grant(&region, me.alloc, 0, 20);
	fake_region_grant(&region, me.alloc, class_for(block_room(1, 2999)), 10);
	fake_region_grant(&region, me.alloc, class_for(block_room(1, 99999)), 3);
	for (unsigned i = 0; i < 3; i++) {
		PUT(&me, k, "small");
		PUT(&me, k, large);
		PUT(&me, k, enormous);
		check_value(&me, k, enormous);
		ck_assert_int_eq(run(&me, INDEX_ADD, k, "no", 0), FARKV_EEXISTS);
		ck_assert_int_eq(run(&me, INDEX_CAS, k, "yes", me.op.version),
				 FARKV_EVERSION);
		check_value(&me, k, enormous);
		ck_assert_int_eq(run(&me, INDEX_CAS, k, "yes", me.op.version), 0);
		check_value(&me, k, "yes");
		ck_assert_int_eq(run(&me, INDEX_REPLACE, k, large, 0), 0);
		ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
		ABSENT(&me, k);
		ck_assert_int_eq(run(&me, INDEX_ADD, k, "again", 0), 0);
		ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	}
	c = me.lane->counters;
	teardown();
	return c;
}

START_TEST(writes_without_a_chain_count_as_those_with_one)
{
	struct xport_counters with = counted(false), without = counted(true);

	ck_assert_uint_eq(without.reads, with.reads);
	ck_assert_uint_eq(without.read_bytes, with.read_bytes);
	ck_assert_uint_eq(without.writes, with.writes);
	ck_assert_uint_eq(without.write_bytes, with.write_bytes);
	ck_assert_uint_eq(without.cas, with.cas);
	ck_assert_uint_eq(without.doorbells, with.doorbells);
	ck_assert_uint_eq(without.round_trips, with.round_trips);
	ck_assert_uint_gt(with.cas, 20);
}
END_TEST

START_TEST(what_is_too_large_is_left_to_who_refuses_it)
{
	struct index_op *op = &me.op;

	setup(false);
	k = key_of("k");
	index_op_start(op, INDEX_PUT, &k, "", UINT32_MAX, 0);
	ck_assert(!index_try(me.ix, op));
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, FARKV_ETOOLARGE);
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index, by loads");
	TCase *t = tcase_create("writes");

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
	tcase_add_test(t, put_without_a_chain_that_loses_stands_before_the_winner);
	tcase_add_test(t, insert_without_a_chain_that_loses_looks_again);
	tcase_add_test(t, cas_without_a_chain_that_loses_changes_nothing);
	tcase_add_test(t, replace_without_a_chain_that_loses_writes_once);
	tcase_add_test(t, replace_that_loses_to_a_migration_looks_where_the_key_is);
	tcase_add_test(t, put_that_watches_with_a_written_block_keeps_its_version);
	tcase_add_test(t, put_that_sees_a_frozen_word_waits_for_the_migration);
	tcase_add_test(t, put_whose_lane_breaks_before_its_swap_is_left_pending);
	tcase_add_test(t, delete_of_a_large_value_asks_for_a_small_block_once);
	tcase_add_test(t,
		delete_that_others_go_on_with_publishes_what_it_has_written);
	tcase_add_test(t, writes_without_a_chain_count_as_those_with_one);
	tcase_add_test(t, what_is_too_large_is_left_to_who_refuses_it);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
