/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CAS of the fast writes: it may lose, needs no chain of its own, and counts as one;
 * and writes that leave the fast path.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/rig/cases.h"
#include "tests/rig/loads_rig.h"

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

TEST(put_without_a_chain_that_loses_is_ordered_before_the_winner)
{
	struct effort before;
	uint32_t blocks;

	before_its_swap(INDEX_PUT, "after");
	at_swap = NULL;
	PUT(&me, k, "first");
	blocks = alloc_count(me.alloc, 0);
	before = effort_so_far();
	at_swap = rival_op;
	PUT(&me, k, "before");
	ck_assert_int_eq(rival.result, 0);
	check_effort(before, 1, 2); /* the rival's, too */
	ck_assert_uint_eq(alloc_count(me.alloc, 0), blocks);
	check_value(&me, k, "after");
	teardown();
}

/* The winner of the slot may be the same key, or another one. */
TEST(insert_without_a_chain_that_loses_searches_again)
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

TEST(cas_without_a_chain_that_loses_changes_nothing)
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

TEST(replace_without_a_chain_that_loses_writes_once)
{
	struct effort before;

	before_its_swap(INDEX_PUT, "theirs");
	at_swap = NULL;
	PUT(&me, k, "first");
	before = effort_so_far();
	at_swap = rival_op;
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "mine", 0), 0);
	check_effort(before, 1, 3); /* one of them the rival's */
	check_value(&other, k, "mine");
	teardown();
}

TEST(replace_that_loses_to_a_migration_finds_the_moved_key)
{
	struct index_op *op = &me.op;
	struct effort before;

	before_its_swap(INDEX_PUT, NULL);
	at_swap = NULL;
	PUT(&me, k, "first");
	before = effort_so_far();
	at_swap = freeze;
	index_op_start(op, INDEX_REPLACE, &k, "mine", 4);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	check_effort(before, 1, 1);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->wait, INDEX_WAIT_FROZEN);
	thaw_and_end();
}

static void rival_cas_again(void)
{
	rival_cas();
	if (++swaps < SWAPS_MAX)
		at_swap = rival_cas_again;
}

TEST(put_that_begins_again_keeps_its_written_block)
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

TEST(delete_of_a_large_value_asks_for_a_small_block_once)
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
	index_op_start(op, INDEX_DELETE, &k, NULL, 0);
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

TEST_LOOP(insert_into_a_full_window_walks_it_once_and_waits, 0, 2)
{
	const unsigned lines = WINDOW_SLOTS / LINE_SLOTS;
	struct index_op *op = &me.op;
	struct xport_counters before;
	char name[8];

	setup(_i);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		PUT(&me, key_at(name, ANY_FP), name);
	}
	k = key_at("new", ANY_FP);
	fake_region_grant(&region, me.alloc, 0, 1);
	before = me.lane->counters;
	for (unsigned time = 1; time <= 2; time++) {
		/* The fast path looks at the first line before. */
		scans = 0;
		if (time == 1) {
			index_op_start(op, INDEX_PUT, &k, "v", 1);
			ck_assert(!index_try(me.ix, op));
		}
		index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
		ck_assert_int_eq(op->result, INDEX_PENDING);
		ck_assert_int_eq(op->wait, INDEX_WAIT_FULL);
		if (_i)
			ck_assert_uint_eq(me.lane->counters.reads - before.reads, time);
		else
			ck_assert_uint_le(scans, time == 1 ? lines + 1 : lines);
	}
	index_abandon(me.ix, op, FARKV_ENOSPC);
	ck_assert_int_eq(op->result, FARKV_ENOSPC);
	teardown();
}

/*
 * Before each of the first four swaps of `me` a rival puts the key; the last value is
 * large.
 */
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
 * It allocates the tombstone's block when it leaves the fast path; the slow path has to
 * write it.
 */
TEST(delete_that_leaves_the_fast_path_publishes_its_block)
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
	index_op_start(op, INDEX_DELETE, &k, NULL, 0);
	ck_assert(!index_try(me.ix, op));
	ck_assert_uint_eq(swaps, SWAPS_MAX);
	ck_assert(op->own != OWN_NONE);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	w = *slots_of(k);
	ck_assert_uint_eq(slot_class(w), 0);
	ck_assert_int_eq(block_verify(region.base + slot_off(w), slot_block(w),
				      k.data, k.len, &view),
			 BLOCK_MINE);
	ck_assert(view.flags & BLOCK_TOMBSTONE);
	ABSENT(&other, k);
	teardown();
}

/* Writes of all kinds, with a chain (0) or without one (1). */
TEST_LOOP(writes_of_all_kinds_have_their_results, 0, 2)
{
	static char large[3000], enormous[100000];

	setup(false);
	ck_assert(me.lane->caps & XPORT_AT_ONCE);
	if (_i == 0)
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
	teardown();
}

TEST(too_large_value_is_refused_by_the_slow_path)
{
	struct index_op *op = &me.op;

	setup(false);
	k = key_of("k");
	index_op_start(op, INDEX_PUT, &k, "", UINT32_MAX);
	ck_assert(!index_try(me.ix, op));
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, FARKV_ETOOLARGE);
	teardown();
}

TEST_SUITE("index, swaps")
