/* SPDX-License-Identifier: BSD-3-Clause */
/* The course of a check: further requests, and changes during the walk. */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "tests/rig/cases.h"
#include "tests/rig/fsck_rig.h"
#include "server/loop/sweep.h"
#include "server/loop/waiters.h"

TEST_GROUP(.setup = setup, .teardown = rig_end);

/* Both are answered, bob by a second check: the first had already begun. */
TEST(request_too_late_for_a_check_gets_the_next)
{
	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	ck_assert(request(&alice));
	ck_assert(request(&bob));
	spoilt = &slots_in(0)[5]; /* with alice's answer */
	WAIT_FOR(told(&bob, 1));
	ck_assert_uint_eq(mind_of(&alice)->told, 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_EMPTY), 0);
	ck_assert_uint_eq(said(&bob, MSG_FSCK_BAD_EMPTY), 1);
	/* Each is counted separately. */
	check();
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_EMPTY), 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 2);
}

/* The walk must see what it did before it began to record, so the sweep waits. */
TEST(session_that_joins_during_the_walk_acknowledges_before_the_questions)
{
	(void)item_new(0); /* a block to be asked about */
	ck_assert(request(&alice));
	WAIT_FOR(mind_of(&alice)->begun);
	answer_sweep(&alice); /* the walk is due now */
	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	ck_assert(sweep_welcomed(bob.session));
	turns(5);
	ck_assert_uint_ne(mind_of(&bob)->begun, 0);
	ck_assert_uint_eq(mind_of(&alice)->asked, 0);
	answer_sweep(&bob);
	WAIT_FOR(mind_of(&alice)->asked);
	WAIT_FOR(told(&alice, 1));
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BLOCKS_LEAKED), 1);
}

/* Of the current check or of the next. */
TEST_LOOP(session_that_left_is_not_answered, 0, 2)
{
	struct peer *stays = &alice, *leaves = &bob;

	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	ck_assert(request(_i ? stays : leaves));
	ck_assert(request(_i ? leaves : stays));
	leaves->session->left = true;
	session_end(leaves->session);
	WAIT_FOR(told(stays, 1));
	turns(5);
	ck_assert_uint_eq(mind_of(leaves)->told, 0);
	ck_assert_uint_eq(mind_of(stays)->told, 1);
}

TEST(too_many_checks_at_once_are_refused)
{
	/* The first runs; this many may wait for the next. */
	for (unsigned i = 0; i < 1 + WAITERS_MAX; i++)
		ck_assert(request(&alice));
	ck_assert(!request(&alice));
	ck_assert_ptr_null(alice.session);
}

/* Like a migration with nothing to copy. */
static uint64_t *move_subtable(unsigned i)
{
	uint64_t *entry = &region_dir(&region)[i], before = *entry, *slots;
	uint32_t gen = region_next_gen(&region);

	*entry = entry_pack(heap_take_index(region.heap), gen, 1);
	heap_retire(region.heap, entry_page(before), 1);
	slots = slots_in(i);
	for (unsigned k = 0; k < SUBTABLE_SLOTS; k++)
		slots[k] = slot_empty(gen);
	return slots;
}

/*
 * Between two slices: the counts are stale, and the remaining slots belong to no
 * subtable.
 */
TEST(subtable_that_moved_is_checked_again)
{
	struct item item = item_new(0), gone = item_new(0);
	uint64_t *before = slots_in(0);
	struct work *work;

	before[gone.home] = gone.word;
	ck_assert(request(&alice));
	work = TAILQ_FIRST(&c->work.list);
	ck_assert_ptr_nonnull(work);
	for (unsigned at = 0; at <= gone.home; at += 32)
		ck_assert(work->step(work->arg, 0));
	move_subtable(0)[item.home] = item.word;
	memset(before, 0, PAGE_BYTES); /* not EMPTY */
	WAIT_FOR(told(&alice, 1));
	CLEAN;
	ck_assert_uint_eq(said(&alice, MSG_FSCK_ITEMS), 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 2);
}

#define LARGE ((uint8_t)class_for(ITEM_VALUE_MAX + 64))

/* Overwrites of one key by two alternating blocks, in a thread. */
struct overwrites {
	struct item item;
	struct block_ref refs[2];
};

static void *overwrite(void *arg)
{
	struct overwrites *o = arg;

	/* Each with its own incarnation, so no word comes twice. */
	for (uint16_t inc = 1; inc < SLOT_INC_MASK; inc++) {
		struct block_ref *ref = &o->refs[inc % 2];

		ref->inc = inc;
		item_write(&o->item, *ref);
		__atomic_store_n(&slots_in(0)[o->item.home], o->item.word,
				 __ATOMIC_RELEASE);
		/* The unlinked block is not a valid block any more. */
		memset(region_at(&region, o->refs[!(inc % 2)].off), 0xEE,
		       class_bytes(LARGE));
	}
	return NULL;
}

/* Contradictions in a slot that has changed meanwhile are not reported. */
TEST(slot_that_changes_during_the_check_is_no_problem)
{
	static struct fsck_subtable t;
	struct overwrites o = {.item = item_new(0)};
	pthread_t thread;

	o.item.value_len = ITEM_VALUE_MAX;
	for (unsigned round = 0; round < 10; round++) {
		o.refs[0] = grant(LARGE);
		o.refs[1] = grant(LARGE);
		item_write(&o.item, o.refs[0]);
		slots_in(0)[o.item.home] = o.item.word;
		ck_assert_int_eq(pthread_create(&thread, NULL, overwrite, &o),
				 0);
		do {
			fsck_subtable_begin(&t, region_dir(&region)[0], 0);
			t.at = o.item.home;
			(void)fsck_subtable_step(&t, &region, c->slab, 0);
			ck_assert_uint_eq(t.found.page, 0);
		} while (pthread_tryjoin_np(thread, NULL));
	}
}

/* Between two slices a window's first line fills up, and a key goes into the next line. */
TEST(slot_claimed_during_the_check_is_not_empty)
{
	static struct fsck_subtable t;
	uint64_t *slots = slots_in(0);
	struct item item;

	do
		item = item_new(0);
	while (item.home % 32 != 24); /* a slice ends after its first line */
	fsck_subtable_begin(&t, region_dir(&region)[0], 0);
	while (t.at <= item.home)
		ck_assert(fsck_subtable_step(&t, &region, c->slab, 0));
	ck_assert_uint_eq(t.at, item.home + LINE_SLOTS);
	for (unsigned i = item.home; i <= t.at; i++)
		slots[i] = item.word;
	while (fsck_subtable_step(&t, &region, c->slab, 0))
		;
	ck_assert_uint_eq(t.found.behind_empty, 0);
	ck_assert_uint_eq(t.found.items, 1);
	ck_assert_uint_eq(t.found.page, 0);
}

/* Clients are served between two slices. */
TEST(slice_is_a_few_slots_or_the_bytes_of_their_blocks)
{
	static struct fsck_subtable t;
	uint64_t entry = region_dir(&region)[0];
	struct item large = item_new(0);
	unsigned at = 0, slices = 0;

	item_write(&large, grant((uint8_t)class_for(128 << 10)));
	slots_in(0)[large.home] = large.word;
	fsck_subtable_begin(&t, entry, 0);
	while (fsck_subtable_step(&t, &region, c->slab, 0)) {
		ck_assert_uint_gt(t.at, at);
		ck_assert_uint_le(t.at - at, 32);
		/* After a block of this size it reads the clock. */
		ck_assert(at > large.home || t.at <= large.home + 1);
		at = t.at;
		slices++;
	}
	ck_assert_uint_eq(t.at, SUBTABLE_SLOTS);
	ck_assert_uint_ge(slices, SUBTABLE_SLOTS / 32 - 1);
	/* Without a time limit it visits all. */
	fsck_subtable_begin(&t, entry, 0);
	ck_assert(!fsck_subtable_step(&t, &region, c->slab, UINT64_MAX));
	ck_assert_uint_eq(t.at, SUBTABLE_SLOTS);
}

TEST_SUITE("fsck, course")
