/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of put over a value (common/index/shm.h), and where it leaves to the slow
 * path.
 */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/loads_rig.h"

TEST(put_over_a_value_or_a_tombstone_is_fast)
{
	setup_over("k", 0);
	check_value(&other, k, "second");
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	PUT(&me, k, "third");
	ck_assert(me.op.has_spare);
	check_value(&other, k, "third");
	check_no_duplicates(k);
	/* An insert is slow, and so is any operation but put. */
	PUT(&me, key_of("another"), "x");
	ck_assert(!me.op.has_spare);
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "fourth", 0), 0);
	ck_assert(!me.op.has_spare);
	teardown();
}

/* As farkv_put() calls it. */
static bool put_by_key(struct index_key who, const char *value)
{
	const void *at = index_prefetch_window(me.ix, who.hash);

	index_op_start(&me.op, INDEX_PUT, &who, value, (uint32_t)strlen(value));
	return index_put(me.ix, &me.op, at);
}

TEST(put_by_a_prefetched_location_is_a_put)
{
	struct effort before;

	setup_over("k", 0);
	for (unsigned i = 0; i < 2; i++) {
		before = effort_so_far();
		ck_assert(put_by_key(k, i ? "fourth" : "3"));
		ck_assert_int_eq(me.op.result, 0);
		ck_assert(me.op.has_spare);
		check_effort(before, 1, 1);
		check_value(&other, k, i ? "fourth" : "3");
	}
	/* An insert searches; on a broken lane the fast path does nothing. */
	ck_assert(put_by_key(key_of("another"), "x"));
	check_value(&other, key_of("another"), "x");
	cut();
	before = effort_so_far();
	ck_assert(!put_by_key(k, "fifth"));
	ck_assert_int_eq(me.op.result, INDEX_PENDING);
	check_effort(before, 0, 0);
	check_value(&other, k, "fourth");
	teardown();
}

TEST(put_that_finds_another_key_first_searches_on)
{
	struct effort before;
	struct index_key second;

	setup_over("a", 77);
	second = key_at("b", 77);
	PUT(&me, second, "b1");
	before = effort_so_far();
	PUT(&me, second, "b2");
	check_effort(before, 1, 1);
	ck_assert(!me.op.has_spare);
	check_value(&other, k, "second");
	check_value(&other, second, "b2");
	check_no_duplicates(k);
	check_no_duplicates(second);
	slots_of(k)[1] |= SLOT_FROZEN;
	before = effort_so_far();
	index_op_start(&me.op, INDEX_PUT, &second, "b3", 2);
	ck_assert(!index_try(me.ix, &me.op));
	check_effort(before, 1, 0);
	index_abandon(me.ix, &me.op, FARKV_ETIMEDOUT);
	teardown();
}

static struct index_key twin; /* as long as `k`, of its line and fingerprint */

static uint8_t *key_in_block(void)
{
	return region.base + slot_off(*slots_of(k)) + BLOCK_HEADER_BYTES;
}

/* k gets another block, and twin reuses a part of k's old one, as if T had passed. */
static void reuse(void)
{
	uint8_t *old = key_in_block();

	PUT(&other, k, "theirs");
	memcpy(old, twin.data, twin.len);
}

static void setup_twins(void)
{
	setup_over("a", 77);
	twin.len = 0;
	for (char name[] = "b"; name[0] <= 'z' && twin.len != k.len; name[0]++)
		twin = key_at(name, 77);
	ck_assert_uint_eq(twin.len, k.len);
	fake_region_grant(&region, other.alloc, 0, 8);
}

static void check_twins(void)
{
	check_value(&other, twin, "mine");
	check_value(&me, k, "theirs");
	check_no_duplicates(k);
	check_no_duplicates(twin);
	teardown();
}

/* The slot that it takes for its key's is another one, and its swap is lost. */
TEST(put_that_read_a_torn_block_stores_its_value)
{
	setup_twins();
	at_key = reuse;
	PUT(&me, twin, "mine");
	ck_assert_ptr_null(at_key);
	check_twins();
}

static void damage(size_t at)
{
	region.base[slot_off(*slots_of(k)) + at] ^= 1;
}

/* Bytes of the header or the key that identify the block as this key's. */
static const size_t telling[] = {offsetof(struct block_header, key_len),
				 offsetof(struct block_header, inc_flags),
				 BLOCK_HEADER_BYTES};

TEST_EACH(put_over_a_block_with_a_damaged_header_or_key_is_refused, telling)
{
	setup_over("k", 77);
	damage(telling[_i]);
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "third", 0), FARKV_ECORRUPT);
	damage(telling[_i]);
	check_value(&other, k, "second");
	PUT(&me, k, "fourth");
	check_value(&other, k, "fourth");
	teardown();
}

/* Parts that it replaces anyway: version, the value's length, checksum. */
static const size_t replaced[] = {offsetof(struct block_header, version),
				  offsetof(struct block_header, value_len),
				  BLOCK_HEADER_BYTES - 1};

TEST_EACH(put_over_a_damaged_value_replaces_it, replaced)
{
	setup_over("k", 77);
	damage(replaced[_i]);
	ck_assert_int_eq(run(&other, INDEX_GET, k, NULL, 0), FARKV_ECORRUPT);
	PUT(&me, k, "third");
	check_value(&other, k, "third");
	check_no_duplicates(k);
	teardown();
}

TEST(put_that_finds_its_slot_frozen_leaves_it_so)
{
	struct index_op *op = &me.op;
	struct effort before;

	setup_over("k", 77);
	freeze();
	before = effort_so_far();
	for (unsigned i = 0; i < 2; i++) {
		index_op_start(op, INDEX_PUT, &k, "mine", 4);
		ck_assert(!index_try(me.ix, op));
		ck_assert_int_eq(op->result, INDEX_PENDING);
		check_effort(before, i + 1, 0);
		ck_assert(*slots_of(k) & SLOT_FROZEN);
		if (i == 0)
			index_abandon(me.ix, op, FARKV_ETIMEDOUT);
	}
	/* The block that was written before is the one that is swapped in. */
	*slots_of(k) &= ~SLOT_FROZEN;
	index_run(me.ix, &op, 1, 0, UINT64_MAX);
	ck_assert_int_eq(op->result, 0);
	check_effort(before, 2, 0); /* by a chain */
	check_value(&other, k, "mine");
	teardown();
}

/* The session may be over, and the slot may belong to others. */
TEST(put_whose_lane_breaks_while_it_writes_swaps_nothing)
{
	struct index_op *op = &me.op;
	struct effort before;

	setup_over("k", 77);
	before = effort_so_far();
	at_copy = cut;
	index_op_start(op, INDEX_PUT, &k, "mine", 4);
	ck_assert(!index_try(me.ix, op));
	ck_assert_int_eq(op->result, INDEX_PENDING);
	check_effort(before, 1, 0);
	check_value(&other, k, "second");
	teardown();
}

/* A value that fills a block's `room` with this key, and its neighbours in length. */
static const uint32_t rooms[] = {SHM_SMALL_MAX, SHM_SMALL_MAX + 8, 1064, IMAGE_MAX, IMAGE_MAX + 8,
				 BLOCK_PAST_CACHE, BLOCK_PAST_CACHE + 64, PUT_ROOM_MAX,
				 PUT_ROOM_MAX + 8};

TEST(fast_path_class_of_any_size_is_the_class_of_the_format)
{
	for (size_t room = 40; room < 4 * SHM_SMALL_MAX; room += 8)
		ck_assert_uint_eq(shm_class(room), class_for(room));
	for (uint8_t cls = 0; cls < SHM_CLASSES; cls++)
		ck_assert_uint_eq(shm_bytes[cls], class_bytes(cls));
}

TEST_EACH(put_of_any_length_is_fast, rooms)
{
	uint32_t room = rooms[_i];
	char *value = malloc(room);
	size_t len;

	setup_over("k", 77);
	len = room - block_room(k.len, 0);
	fake_region_grant(&region, me.alloc, (uint8_t)class_for(room), 4);
	for (unsigned i = 0; i < 3; i++) {
		for (size_t at = 0; at < len; at++)
			value[at] = (char)('a' + (at + at / 4096 + i) % 23);
		value[len - i] = '\0';
		PUT(&me, k, value);
		ck_assert_int_eq(me.op.has_spare, room <= PUT_ROOM_MAX);
		check_value(&other, k, value);
		check_value(&me, k, value);
	}
	check_no_duplicates(k);
	teardown();
	free(value);
}

/* A key of the compared length, and a longer one. */
TEST_LOOP(put_of_a_long_key_is_fast, 0, 2)
{
	char name[PUT_KEY_MAX + 2];

	memset(name, 'k', sizeof(name));
	name[PUT_KEY_MAX + _i] = '\0';
	setup(false);
	k = key_of(name);
	fake_region_grant(&region, me.alloc, (uint8_t)class_for(block_room(k.len, 8)), 8);
	PUT(&me, k, "first");
	PUT(&me, k, "second");
	ck_assert_int_eq(me.op.has_spare, !_i);
	check_value(&other, k, "second");
	check_no_duplicates(k);
	teardown();
}

TEST(put_retires_the_block_that_it_replaces)
{
	uint32_t resting;

	setup_over("k", 77);
	resting = alloc_deferred_count(me.alloc, 0);
	PUT(&me, k, "third");
	ck_assert(me.op.has_spare);
	ck_assert_uint_eq(alloc_deferred_count(me.alloc, 0), resting + 1);
	teardown();
}

/* When it took the last spare block, or a block is exhausted, the caller has to act. */
TEST(put_without_a_spare_or_with_an_exhausted_block_reports_it)
{
	struct block_ref last[16];
	unsigned n = 0;

	setup_over("k", 77);
	while (n < 16 && alloc_take(me.alloc, 0, 0, &last[n]))
		n++;
	ck_assert_uint_ge(n, 2);
	ck_assert_int_eq(alloc_put(me.alloc, last[0]), 0);
	PUT(&me, k, "third");
	ck_assert(!me.op.has_spare);
	for (unsigned i = 1; i < n; i++)
		ck_assert_int_eq(alloc_put(me.alloc, last[i]), 0);
	PUT(&me, k, "fourth");
	ck_assert(me.op.has_spare);
	/* So many blocks wait that taking another needs no clock reading. */
	fake_region_grant(&region, me.alloc, 0, 40);
	for (unsigned i = 0; i < 36; i++) {
		ck_assert(alloc_take(me.alloc, 0, 0, &last[1]));
		ck_assert_int_eq(alloc_retire(me.alloc, last[1], 0), 0);
	}
	PUT(&me, k, "still enough");
	ck_assert(me.op.has_spare);
	last[0].inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_retire(me.alloc, last[0], 0), 0);
	ck_assert_uint_eq(alloc_exhausted(me.alloc), 1);
	PUT(&me, k, "fifth");
	ck_assert(!me.op.has_spare);
	teardown();
}

/* It retires the last incarnation of its own block. */
TEST(put_that_exhausts_a_block_reports_it)
{
	struct block_ref exhausted = {0};

	setup_over("k", 77);
	PUT(&me, k, "third");
	ck_assert(me.op.has_spare);
	/* The block in the slot gets the last incarnation. */
	ck_assert(alloc_take(me.alloc, 0, 0, &exhausted));
	exhausted.inc = INC_COUNT - 1;
	ck_assert_int_eq(alloc_put(me.alloc, exhausted), 0);
	PUT(&me, k, "fourth");
	ck_assert(me.op.has_spare);
	PUT(&me, k, "fifth");
	ck_assert_uint_eq(alloc_exhausted(me.alloc), 1);
	ck_assert(!me.op.has_spare);
	teardown();
}

TEST(put_that_loses_reports_no_spare_block)
{
	struct index_op *op = &me.op;

	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 4);
	rival_sets(-1, NULL, INDEX_PUT, k, "theirs");
	at_swap = rival_op;
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	ck_assert(!op->has_spare);
	teardown();
}

/* Counts the spins; the rival writes during the first. */
static unsigned spins;

static void count_spin(void)
{
	spins++;
	at_spin = count_spin;
}

static uint32_t bound_of(const struct index *ix)
{
	return backoff_bound(&ix->backoff, ix->versions.counter);
}

/* It lost to a blind write, is absorbed, and lets the winner continue. */
TEST(absorbed_put_backs_off_longer_each_time)
{
	unsigned bound = BACKOFF_MIN;

	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 16);
	fake_region_grant(&region, me.alloc, 0, 16);
	ck_assert_uint_eq(bound_of(me.ix), BACKOFF_MIN);
	for (unsigned i = 0; i < 8; i++) {
		rival_sets(-1, NULL, INDEX_PUT, k, "theirs");
		at_swap = rival_op;
		spins = 0;
		at_spin = count_spin;
		PUT(&me, k, "mine");
		at_spin = NULL;
		ck_assert_int_eq(rival.result, 0);
		ck_assert(me.op.rivals);
		ck_assert_uint_lt(spins, bound);
		check_value(&me, k, "theirs");
		bound = UTIL_MIN(2 * bound, BACKOFF_MAX);
		ck_assert_uint_eq(bound_of(me.ix), bound);
	}
	teardown();
}

/* Each of its versions is current when read and stale when used. */
TEST(cas_that_lost_a_race_backs_off_and_one_of_an_old_version_does_not)
{
	uint64_t version;
	unsigned bound = BACKOFF_MIN;

	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 16);
	fake_region_grant(&region, me.alloc, 0, 16);
	for (unsigned i = 0; i < 3; i++) {
		check_value(&me, k, i ? "theirs" : "second");
		version = me.op.version;
		PUT(&other, k, "theirs");
		ck_assert_int_eq(run(&me, INDEX_CAS, k, "late", version),
				 FARKV_EVERSION);
		index_pause(me.ix, &me.op);
		bound = UTIL_MIN(2 * bound, BACKOFF_MAX);
		ck_assert_uint_eq(bound_of(me.ix), bound);
	}
	PUT(&me, k, "mine");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "late", version), FARKV_EVERSION);
	index_pause(me.ix, &me.op);
	ck_assert_uint_le(bound_of(me.ix), bound);
	teardown();
}

TEST(writes_that_win_halve_the_backoff)
{
	struct backoff b = {.bound = BACKOFF_MAX, .writes = UINT32_MAX};

	ck_assert_uint_eq(backoff_bound(&b, BACKOFF_CALM - 2), BACKOFF_MAX);
	ck_assert_uint_eq(backoff_bound(&b, BACKOFF_CALM - 1), BACKOFF_MAX / 2);
	ck_assert_uint_eq(backoff_bound(&b, 3 * BACKOFF_CALM - 1), BACKOFF_MAX / 8);
	ck_assert_uint_eq(backoff_bound(&b, UINT32_MAX / 2), BACKOFF_MIN);
	/* Another session has its own bound. */
	ck_assert_uint_eq(backoff_bound(&(struct backoff){0}, 0), BACKOFF_MIN);
}

TEST_SUITE("index, fast puts")
