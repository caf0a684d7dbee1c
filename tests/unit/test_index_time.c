/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that take longer than the grace period or their deadline, and blocks that
 * are reused many times.
 */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

static void age_by_T(void)
{
	fake_now += GRACE / 2 + 1;
}

static void age_by_T_and_overwrite(void)
{
	age_by_T();
	rival_op();
}

/* A key with this value; from now on `clock` gives the time. */
static struct index_key setup_timed(bool fault, const char *value,
				    uint64_t (*clock)(void *arg))
{
	struct index_key k;

	setup(fault);
	k = key_of("k");
	PUT(&me, k, value);
	fake_now = 1000;
	index_set_clock(me.ix, clock, NULL);
	return k;
}

TEST(reader_within_half_T_reads_twice)
{
	struct index_key k;
	uint64_t reads;

	k = setup_timed(true, "v", fake_clock);
	reads = me.lane->counters.reads;
	check_value(&me, k, "v");
	ck_assert_uint_eq(me.lane->counters.reads - reads, 2);
	teardown();
}

/* The time that a caller passes serves that call's search and no other. */
TEST(time_passed_by_a_caller_serves_that_call_alone)
{
	struct index_op *op = &me.op;
	struct index_key k;
	uint64_t reads, told;

	k = setup_timed(true, "v", fake_clock);
	told = fake_now;
	age_by_T();
	for (unsigned n = 0; n < 2; n++) {
		reads = me.lane->counters.reads;
		index_op_start(op, INDEX_GET, &k, NULL, 0);
		index_run(me.ix, &op, 1, n == 0 ? told : 0,
			  fake_now + NS_PER_SEC);
		ck_assert_int_eq(op->result, 0);
		ck_assert_uint_eq(me.lane->counters.reads - reads, n == 0 ? 3 : 2);
	}
	teardown();
}

static unsigned looks;

static uint64_t counted_clock(void *arg)
{
	looks++;
	return fake_clock(arg);
}

/* ... nor does a batch's time serve later submissions. */
TEST(submitted_get_reads_the_clock)
{
	struct index_op *op = &me.op, ended[8], *ops[8];
	struct op_queue s;
	struct index_key k;
	uint64_t reads;

	k = setup_timed(true, "v", counted_clock);
	for (unsigned i = 0; i < 8; i++) {
		ended[i].result = 0;
		ops[i] = &ended[i];
	}
	looks = 0;
	index_run(me.ix, ops, 8, 0, fake_now + NS_PER_SEC);
	ck_assert_uint_eq(looks, 0);
	index_run(me.ix, ops, 8, fake_now, fake_now + NS_PER_SEC);
	age_by_T();
	op_queue_init(&s);
	index_op_start(op, INDEX_GET, &k, NULL, 0);
	reads = me.lane->counters.reads;
	index_submit(me.ix, &s, op, fake_now + NS_PER_SEC);
	while (!index_take(&s))
		(void)index_reap(me.ix, &s);
	ck_assert_int_eq(op->result, 0);
	ck_assert_uint_eq(me.lane->counters.reads - reads, 2);
	ck_assert_uint_gt(looks, 0);
	teardown();
}

/*
 * The clock is read only once for many unlinked blocks. Until then they wait without a
 * date, and come back later rather than sooner.
 */
TEST_LOOP(put_does_not_read_the_clock_to_date_its_unlinked_block, 0, 2)
{
	struct index_key k = setup_timed(_i, "v", counted_clock);
	unsigned before;

	fake_region_grant(&region, me.alloc, 0, 100);
	for (unsigned i = 0; i < 40; i++)
		PUT(&me, k, "w");
	looks = 0;
	check_value(&me, k, "w");
	before = looks; /* readings that the operation itself needs */
	looks = 0;
	for (unsigned i = 0; i < 32; i++)
		PUT(&me, k, "w");
	ck_assert_uint_le(looks, 32 * before + 2);
	teardown();
}

/* Wherever the time passes, the span starts before the READ of the slot. */
TEST(reader_slower_than_half_T_word_unchanged_is_confirmed)
{
	struct index_key k;
	uint64_t reads;

	k = setup_timed(true, "v", fake_clock);
	for (unsigned skip = 0; skip < 2; skip++) {
		reads = me.lane->counters.reads;
		rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
		rival.skip = skip;
		check_value(&me, k, "v");
		ck_assert_uint_eq(rival.acted, 1);
		ck_assert_uint_eq(me.lane->counters.reads - reads, 3);
	}
	teardown();
}

TEST(reader_slower_than_half_T_word_changed_reads_again)
{
	struct index_key k;
	uint64_t reads;

	k = setup_timed(true, "old", fake_clock);
	reads = me.lane->counters.reads;
	rival_sets(XPORT_READ, age_by_T_and_overwrite, INDEX_PUT, k, "new");
	rival.skip = 1;
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(me.lane->counters.reads - reads, 5);
	teardown();
}

TEST(reader_slower_than_half_T_frozen_word_confirms_nothing)
{
	struct index_key k;
	uint64_t *slots, reads;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "v");
	slots = slots_of(k);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		slots[i] |= SLOT_FROZEN;
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	reads = me.lane->counters.reads;
	rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
	rival.skip = 1;
	check_value(&me, k, "v");
	/* window, [D, entry, D], block, window; then again without delay */
	ck_assert_uint_eq(me.lane->counters.reads - reads, 6 + 5);
	teardown();
}

/* A halted machine: its clock does not show it (doc/protocol.md). */
static uint64_t still_clock(void *arg)
{
	(void)arg;
	return 1000;
}

/* The rival overwrites the key until its first block is the key's again. */
static void rival_comes_round(void)
{
	uint64_t first = *slots_of(rival.key);
	unsigned tries = 0;

	do {
		fake_now += GRACE;
		rival_op();
		ck_assert_int_eq(rival.result, 0);
		ck_assert_uint_lt(++tries, 64);
	} while (slot_off(*slots_of(rival.key)) != slot_off(first));
	ck_assert_uint_ne(slot_inc(*slots_of(rival.key)), slot_inc(first));
}

/* ... and again: that block still has an intact, older value. */
static void rival_comes_round_and_on(void)
{
	rival_comes_round();
	fake_now += GRACE;
	rival.value = "new";
	rival_op();
}

static void setup_halted(struct index_key k)
{
	fake_now = 1000;
	index_set_clock(me.ix, still_clock, NULL);
	index_set_clock(other.ix, fake_clock, NULL);
	PUT(&other, k, "old");
}

TEST(reader_halted_while_its_block_is_reused_reads_again)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	setup_halted(k);
	rival_sets(XPORT_READ, rival_comes_round_and_on, INDEX_PUT, k, "mid");
	rival.skip = 1;
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}

TEST(writer_halted_while_its_block_is_reused_does_not_win)
{
	struct index_key k;
	uint64_t version;

	setup(true);
	k = key_of("k");
	setup_halted(k);
	check_value(&me, k, "old");
	version = me.op.version;
	rival_sets(XPORT_CAS, rival_comes_round, INDEX_PUT, k, "mid");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", version),
			 FARKV_EVERSION);
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&me, k, "mid");
	teardown();
}

static unsigned clock_looks;

static uint64_t counting_clock(void *arg)
{
	clock_looks++;
	return fake_clock(arg);
}

/*
 * The clock is read once in a while, yet no block is written within T of the CAS that
 * unlinked it. The writes come in bursts, so some blocks are dated late. By a fast put,
 * and (_i is 1) by another write.
 */
TEST_LOOP(unlinked_blocks_wait_for_T_though_the_clock_is_read_seldom, 0, 2)
{
	static uint64_t unlinked[1 << 16]; /* when the block at 64 * i was unlinked */
	enum { PUTS = 20000 };
	struct index_key k[4];
	uint64_t rng = 88172645463325252u;

	setup(false);
	memset(unlinked, 0, sizeof(unlinked));
	fake_now = 10 * GRACE;
	index_set_clock(other.ix, counting_clock, NULL);
	for (unsigned i = 0; i < 4; i++) {
		k[i] = key_of((const char *[]){"a", "b", "c", "d"}[i]);
		PUT(&other, k[i], "v");
	}
	clock_looks = 0;
	for (unsigned n = 0; n < PUTS; n++) {
		uint64_t *slot = slots_of(k[n % 4]), old = slot_off(*slot), new;

		rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
		fake_now += rng % 50 == 0 ? GRACE / 2 : rng % (GRACE / 100);
		ck_assert_int_eq(run(&other, _i ? INDEX_REPLACE : INDEX_PUT, k[n % 4], "w",
				     0), 0);
		new = slot_off(*slot);
		ck_assert_uint_lt(new / 64, 1 << 16);
		ck_assert_msg(!unlinked[new / 64] ||
				      fake_now - unlinked[new / 64] >= GRACE,
			      "put %u: block used again after %g of T", n,
			      (double)(fake_now - unlinked[new / 64]) / GRACE);
		unlinked[old / 64] = fake_now;
	}
	/* Once in 16 puts, and once more if no block has waited long enough. */
	ck_assert_uint_lt(clock_looks, PUTS / 4);
	teardown();
}

static void cas_again_and_again(void)
{
	if (run(&other, INDEX_CAS, rival.key, "r", 0) != FARKV_EVERSION)
		ck_abort_msg("no version is 0");
	rival_cas();
	fake_now += GRACE;
	rival.opcode = XPORT_CAS;
}

TEST(put_that_always_loses_ends_at_its_deadline)
{
	struct index_key k;
	struct index_op *op = &me.op;

	k = setup_timed(true, "v", fake_clock);
	index_set_clock(other.ix, fake_clock, NULL);
	rival_sets(XPORT_CAS, cas_again_and_again, INDEX_CAS, k, "r");
	fake_region_grant(&region, me.alloc, 0, 4);
	index_op_start(op, INDEX_PUT, &k, "mine", 4);
	index_run(me.ix, &op, 1, 0, fake_now + 20 * GRACE);
	ck_assert_int_eq(op->result, FARKV_ETIMEDOUT);
	ck_assert_uint_ge(rival.acted, 20);
	ck_assert_uint_lt(rival.acted, 60);
	rival.opcode = -1;
	check_value(&me, k, "r");
	PUT(&me, k, "mine");
	check_value(&me, k, "mine");
	teardown();
}

TEST_LOOP(incarnation_grows_with_each_reuse_and_never_wraps, 0, 2)
{
	struct index_key k;
	unsigned last = 0, distinct = 0;
	struct block_ref refs[4];
	enum return_kind state;

	setup(_i);
	k = key_of("k");
	fake_now = 1;
	index_set_clock(me.ix, fake_clock, NULL);
	fake_region_grant(&region, me.alloc, 0, 1);
	PUT(&me, k, "v");
	fake_region_grant(&region, me.alloc, 0, 1);
	for (unsigned i = 0; i < 2 * INC_COUNT - 2; i++) {
		fake_now += GRACE;
		ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0), 0);
		if (slot_inc(slots_of(k)[0]) != last)
			distinct++;
		last = slot_inc(slots_of(k)[0]);
		if (alloc_surplus(me.alloc, fake_now, refs, 4, &state))
			ck_assert_int_eq(state, RETURN_EXHAUSTED);
	}
	ck_assert_uint_ge(distinct, INC_COUNT - 1);
	teardown();
}

TEST_SUITE("index, time")
