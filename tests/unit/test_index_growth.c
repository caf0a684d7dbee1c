/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on an index that is full, FROZEN or replaced. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

TEST_LOOP(insert_into_a_full_window_waits_for_growth_and_others_go_on, 0, 2)
{
	char names[WINDOW_SLOTS + 1][8];
	struct index_op *op = &me.op;

	setup(_i);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		PUT(&me, key_at(names[i], ANY_FP), names[i]);
		ck_assert_int_eq(me.op.near_full,
				 i == WINDOW_SLOTS - 1);
	}
	ck_assert_int_eq(run(&me, INDEX_PUT, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_FULL);
	ck_assert_uint_eq(op->wait_page, META_ALIGN / PAGE_BYTES);
	ck_assert_uint_eq(op->wait_gen, 1);
	index_abandon(me.ix, op, FARKV_EINDEXFULL);
	ck_assert_int_eq(op->result, FARKV_EINDEXFULL);
	ABSENT(&me, key_at("new", ANY_FP));
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		check_value(&other, key_at(names[i], ANY_FP), names[i]);
	PUT(&me, key_at("k63", ANY_FP), "over");
	ck_assert_int_eq(run(&me, INDEX_DELETE, key_at("k0", ANY_FP), NULL, 0), 0);
	/* a deleted key keeps its slot (I1) */
	ck_assert_int_eq(run(&me, INDEX_ADD, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	index_abandon(me.ix, op, FARKV_EINDEXFULL);
	ck_assert_int_eq(run(&me, INDEX_ADD, key_at("k0", ANY_FP), "v", 0), 0);
	teardown();
}

/* Freeze a subtable and copy its live slots into a new one. */
static uint64_t migrate_copy(uint64_t entry)
{
	uint64_t *old = fake_region_slots(&region, entry), *fresh;
	uint64_t to = fake_region_subtable(&region, entry_depth(entry));

	fresh = fake_region_slots(&region, to);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		old[i] |= SLOT_FROZEN;
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		if (!slot_is_null(old[i]))
			fresh[i] = old[i] & ~SLOT_FROZEN;
	return to;
}

static void migrate_all(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));

	for (uint64_t i = 0; i < UINT64_C(1) << depth; i++)
		*fake_region_entry(&region, i) =
			migrate_copy(*fake_region_entry(&region, i));
}

static void freeze_only(void)
{
	uint64_t *s = fake_region_slots(&region, *fake_region_entry(&region, 0));

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		s[i] |= SLOT_FROZEN;
}

static const enum index_kind writers[] = {INDEX_PUT, INDEX_ADD, INDEX_REPLACE,
					  INDEX_CAS, INDEX_DELETE};

TEST_LOOP(frozen_subtable_lets_readers_read_and_writers_wait, 0, 2)
{
	struct index_key k = key_at("k", 5), none = key_at("none", 6);

	setup(_i);
	PUT(&other, k, "v");
	freeze_only();
	check_value(&me, k, "v");
	ABSENT(&me, none);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(run(&me, writers[i], k, "w", 0),
				 INDEX_PENDING);
		ck_assert_int_eq(me.op.wait, INDEX_WAIT_FROZEN);
		index_abandon(me.ix, &me.op, FARKV_ETIMEDOUT);
	}
	check_value(&me, k, "v");
	teardown();
}

TEST_LOOP(writer_that_waited_for_a_migration_finishes_in_the_new_subtable, 0, 2)
{
	struct index_key k = key_at("k", 5);
	struct index_op *op = &me.op;

	setup(_i);
	PUT(&other, k, "v");
	freeze_only();
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "w", 0), INDEX_PENDING);
	*fake_region_entry(&region, 0) =
		migrate_copy(*fake_region_entry(&region, 0));
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	check_value(&other, k, "w");
	check_value(&me, k, "w");
	check_no_duplicates(k);
	teardown();
}

/* Blocks of class 0 in reach of `me`; all are put back. */
static unsigned blocks_at_hand(void)
{
	struct block_ref r[64];
	unsigned n = 0;

	while (alloc_take(me.alloc, 0, UINT64_MAX, &r[n]))
		ck_assert_uint_lt(++n, 64);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(alloc_put(me.alloc, r[i]), 0);
	return n;
}

/*
 * A waiting operation has returned its block to the allocator, which answers the server's
 * questions about blocks.
 */
TEST(waiting_operations_hold_no_block)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_REPLACE};
	struct index_key k = key_at("k", 5);
	struct index_op *op = &me.op;

	for (unsigned i = 0; i < 4; i++) {
		enum index_kind kind = kinds[i % 2];

		setup(true);
		PUT(&other, k, "v");
		fake_region_grant(&region, me.alloc, 0, 3);
		/*
		 * Frozen before it reads the window, or before its CAS, after the block
		 * was written.
		 */
		if (i < 2)
			freeze_only();
		else
			rival.act = freeze_only, rival.opcode = XPORT_CAS;
		ck_assert_int_eq(run(&me, kind, k, "w", 0), INDEX_PENDING);
		ck_assert_int_eq(op->wait, INDEX_WAIT_FROZEN);
		ck_assert_uint_eq(blocks_at_hand(), 3);
		/* Meanwhile all of them go back to the server, or to other operations. */
		while (blocks_at_hand()) {
			struct block_ref r;

			ck_assert(alloc_take(me.alloc, 0, 0, &r));
			memset(region.base + r.off, 0xEE, 64);
		}
		index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
		ck_assert_int_eq(op->wait, INDEX_WAIT_BLOCK);
		fake_region_grant(&region, me.alloc, 0, 1);
		*fake_region_entry(&region, 0) =
			migrate_copy(*fake_region_entry(&region, 0));
		index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
		ck_assert_int_eq(op->result, 0);
		check_value(&other, k, "w");
		teardown();
	}
}

TEST(waiting_for_growth_holds_no_block)
{
	char names[WINDOW_SLOTS][8];
	unsigned n;

	setup(true);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		PUT(&me, key_at(names[i], ANY_FP), names[i]);
	}
	n = blocks_at_hand();
	ck_assert_int_eq(run(&me, INDEX_PUT, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	ck_assert_int_eq(me.op.wait, INDEX_WAIT_FULL);
	ck_assert_uint_ge(blocks_at_hand(), n);
	ck_assert_uint_gt(blocks_at_hand(), 0);
	n = blocks_at_hand();
	index_abandon(me.ix, &me.op, FARKV_ENOSPC);
	ck_assert_uint_eq(blocks_at_hand(), n);
	teardown();
}

TEST_LOOP(stale_entry_leads_every_operation_to_the_new_subtable, 0, 2)
{
	struct index_key k = key_at("k", 5);

	setup(_i);
	PUT(&me, k, "v0");
	migrate_all();
	check_value(&me, k, "v0");
	migrate_all();
	PUT(&me, k, "v1");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "x", 0), FARKV_EEXISTS);
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "v2", 0), 0);
	check_value(&me, k, "v2");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "v3", me.op.version), 0);
	migrate_all();
	check_value(&other, k, "v3");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	migrate_all();
	ABSENT(&other, k);
	migrate_all();
	PUT(&me, key_at("fresh", 7), "f");
	check_value(&other, key_at("fresh", 7), "f");
	teardown();
}

static struct index_key frozen_key;

static void double_directory(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t at = dirword_off(*fake_region_d(&region)), n, to;
	const uint64_t *old = (uint64_t *)(void *)(region.base + at);
	uint64_t *fresh;

	n = UINT64_C(1) << depth;
	to = at + n * 8;
	fresh = (uint64_t *)(void *)(region.base + to);
	for (uint64_t i = 0; i < n; i++)
		fresh[2 * i] = fresh[2 * i + 1] = old[i];
	*fake_region_d(&region) = dirword_pack(to, depth + 1);
}

static void double_and_migrate(void)
{
	uint64_t i, e, moved;

	double_directory();
	i = hash_dir_index(frozen_key.hash,
			   dirword_depth(*fake_region_d(&region)));
	e = *fake_region_entry(&region, i);
	moved = migrate_copy(e);
	*fake_region_entry(&region, i) = moved;
	*fake_region_entry(&region, i ^ 1) = moved;
}

/* the trap: a check against the old array by an index of the wrong depth */
TEST_LOOP(frozen_slot_after_a_doubling_makes_clients_read_the_directory, 0, 2)
{
	struct index_key k = key_of("doubling");
	unsigned round;

	setup(_i);
	frozen_key = k;
	PUT(&me, k, "v0");
	for (round = 0; round < 4; round++) {
		char value[8];

		double_and_migrate();
		snprintf(value, sizeof(value), "v%u", round);
		check_value(&me, k, value);
		double_and_migrate();
		snprintf(value, sizeof(value), "v%u", round + 1);
		PUT(&me, k, value);
		check_value(&other, k, value);
	}
	check_no_duplicates(k);
	teardown();
}

/* The subtable is frozen, or moved, before each request of each operation. */
TEST_LOOP(migration_before_any_request_of_an_operation_is_survived, 0, 2)
{
	static const int opcodes[] = {XPORT_READ, XPORT_WRITE, XPORT_CAS};
	static const enum index_kind kinds[] = {INDEX_GET, INDEX_PUT,
						INDEX_REPLACE, INDEX_DELETE,
						INDEX_EXISTS};
	struct index_key k = key_of("moving");

	for (unsigned kind = 0; kind < 5; kind++)
		for (unsigned o = 0; o < 3; o++)
			for (unsigned skip = 0; skip < 3; skip++) {
				setup(true);
				frozen_key = k;
				PUT(&other, k, "old");
				rival_sets(opcodes[o],
					   _i ? double_and_migrate : migrate_all,
					   INDEX_GET, k, NULL);
				rival.skip = skip;
				ck_assert_int_eq(run(&me, kinds[kind], k, "new",
						     0),
						 0);
				rival.opcode = -1;
				if (kind_reads(kinds[kind]))
					check_value(&other, k, "old");
				else if (kinds[kind] == INDEX_DELETE)
					ABSENT(&other, k);
				else
					check_value(&other, k, "new");
				check_no_duplicates(k);
				teardown();
			}
}

TEST(insert_frozen_before_its_cas_never_lands_in_the_old_subtable)
{
	struct index_key k = key_at("ins", 9);

	setup(true);
	frozen_key = k;
	rival_sets(XPORT_CAS, migrate_all, INDEX_GET, k, NULL);
	PUT(&me, k, "v");
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&other, k, "v");
	check_no_duplicates(k);
	teardown();
}

TEST_SUITE("index, growth")
