/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets of values in the value cache (common/index/value_cache.h), which belong to cached
 * locations. Each case runs where words are READ whole (_i is 0) and where they may tear
 * (1).
 */
#include "config.h"

#include <string.h>

#include "tests/rig/cached_rig.h"
#include "tests/rig/cases.h"

static void begin_keeping(int tearing)
{
	begin(tearing);
	ck_assert_int_eq(index_cache_values(me.ix, 16384), 0);
}

/* A get that has to READ the value; a get that finds it cached. */
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

/* A key with a cached value: its own put caches the location, a get READs the value. */
static struct index_key begin_with(int tearing, const char *value)
{
	struct index_key k;

	begin_keeping(tearing);
	k = key_of("k");
	PUT(&me, k, value);
	READS_VALUE(k, value);
	return k;
}

TEST_LOOP(value_is_READ_once_and_then_only_its_slot, 0, 2)
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
	ck_assert_uint_eq(index_cache_counters(me.ix).values, 6);
	ck_assert_uint_eq(index_cache_counters(me.ix).hits, 8);
	teardown();
}

TEST_LOOP(cached_value_is_not_returned_after_a_write, 0, 2)
{
	struct index_key k = begin_with(_i, "first");

	HAS_VALUE(k, "first");
	PUT(&me, k, "mine");
	HAS_VALUE(k, "mine"); /* the value that was written */
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
	/* A put alone does not cache the value. */
	k = key_of("written");
	PUT(&me, k, "one");
	PUT(&me, k, "two");
	READS_VALUE(k, "two");
	teardown();
}

/* The cached value is chosen, then a rival writes, before the slot is read. */
TEST_LOOP(cached_value_is_valid_from_the_slot_read, 0, 2)
{
	struct index_key k = begin_with(_i, "old");

	rival_sets(_i ? XPORT_CAS : XPORT_READ, rival_op, INDEX_PUT, k, "new");
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}

TEST_LOOP(cached_value_is_not_returned_for_another_key_of_its_hash, 0, 2)
{
	struct index_key k = begin_with(_i, "k's"), twin = key_of("twin");

	twin.hash = k.hash;
	PUT(&other, twin, "twin's");
	HAS_VALUE(k, "k's");
	check_value(&me, twin, "twin's");
	check_value(&me, k, "k's");
	check_value(&me, twin, "twin's");
	teardown();
}

TEST_LOOP(barrier_drops_cached_values, 0, 2)
{
	struct index_key k = begin_with(_i, "v");

	HAS_VALUE(k, "v");
	index_drop_cache(me.ix);
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), 0); /* searches */
	READS_VALUE(k, "v");
	HAS_VALUE(k, "v");
	teardown();
}

/* After a barrier a word may name other content; here it does at once. */
TEST_LOOP(cached_value_of_before_a_barrier_is_not_returned, 0, 2)
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
	block_encode(block, ref, other.op.version + 1,
		     &(struct block_pair){.key = k.data, .key_hash = k.hash,
					  .key_len = k.len,
					  .value = "other", .value_len = 5});
	memcpy(region.base + ref.off, block, block_room(k.len, 5));
	for (unsigned i = 0; i < 3; i++)
		check_value(&me, k, "other");
	teardown();
}

/*
 * During a get its session puts and renews the cached value; the get's second read of the
 * slot uses it, which is not a hit.
 */
TEST_LOOP(cached_value_counts_as_one_hit_or_none, 0, 2)
{
	struct op_queue opq;
	struct index_key k;
	struct index_op get;

	k = begin_with(_i, "one");
	op_queue_init(&opq);
	index_op_init(&get);
	index_op_start(&get, INDEX_GET, &k, NULL, 0);
	index_submit(me.ix, &opq, &get, UINT64_MAX);
	PUT(&me, k, "two");
	while (!op_queue_is_idle(&opq))
		index_reap(me.ix, &opq);
	ck_assert_ptr_eq(index_take(&opq), &get);
	ck_assert_int_eq(get.result, 0);
	ck_assert_mem_eq(get.view.value, "two", 3);
	ck_assert_uint_eq(index_cache_counters(me.ix).values, 0);
	index_op_fini(me.ix, &get);
	teardown();
}

/* A reader, which may not swap, READs the word twice where words tear. */
TEST_LOOP(reader_caches_values, 0, 2)
{
	struct index_key k;
	struct index *writer;

	begin_keeping(_i);
	k = key_of("k");
	PUT(&other, k, "value");
	writer = me.ix;
	ck_assert_int_eq(index_open(&region.sb, me.lane, NULL, UINT64_MAX, &me.ix), 0);
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	ck_assert_int_eq(index_cache_values(me.ix, 16384), 0);
	check_value(&me, k, "value");
	check(INDEX_GET, k, NULL, 0, 0, COST(1, _i ? 3 : 2, 0, 0), 0);
	check(INDEX_GET, k, NULL, 0, 0, COST(1, _i ? 2 : 1, 0, 0), 0);
	ck_assert_mem_eq(me.op.view.value, "value", 5);
	index_close(me.ix);
	me.ix = writer;
	teardown();
}

static void time_passes(void)
{
	fake_now += GRACE;
}

/* The value was not READ in this operation, so it cannot be late. */
TEST_LOOP(cached_value_is_never_late, 0, 2)
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

TEST_SUITE("index, value cache")
