/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values that expire: each operation, by loads and by READs, with a rival and a CLOCK that
 * changes between any two requests.
 */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

#include "common/index/index.h"
#include "common/index/scan.h"

#define START 1000u /* CLOCK at first */

static struct index_key k;
static struct fake_client *const both[] = {&me, &other}; /* by READs, by loads */

static uint64_t *clock_word(void)
{
	return (uint64_t *)(void *)(region.base + REGION_CLOCK_OFF);
}

static void begin(void)
{
	setup(true);
	k = key_of("k");
	*clock_word() = START;
	fake_now = NS_PER_SEC;
	index_set_clock(me.ix, fake_clock, NULL);
}

/* As run(), of a value with a time to live. */
static int run_dated(struct fake_client *c, enum index_kind kind, const char *value,
		     uint64_t ttl_ms, uint32_t user)
{
	struct index_op *op = &c->op;

	index_op_start(op, kind, &k, value, (uint32_t)strlen(value));
	op->ttl_ms = ttl_ms;
	op->user = user;
	if (index_try(c->ix, op))
		return op->result;
	for (int i = 0; i < 10; i++) {
		index_run(c->ix, &op, 1, 0, fake_now + 20 * NS_PER_SEC);
		if (op->result != INDEX_PENDING)
			return op->result;
		if (op->wait != INDEX_WAIT_BLOCK)
			break;
		fake_region_grant(c->region, c->alloc, op->cls, 4);
	}
	return INDEX_PENDING;
}

#define PUT_DATED(c, v, ttl) ck_assert_int_eq(run_dated(c, INDEX_PUT, v, ttl, 0), 0)

TEST(value_is_there_until_CLOCK_reaches_its_time)
{
	begin();
	for (unsigned i = 0; i < 2; i++) {
		struct fake_client *c = both[i];
		uint64_t now = *clock_word();

		PUT_DATED(c, "v", 50);
		*clock_word() = now + 49;
		check_value(c, k, "v");
		ck_assert_uint_ge(c->op.left_ms, 1);
		*clock_word() = now + 50;
		ABSENT(c, k);
		ABSENT(both[!i], k);
	}
	teardown();
}

TEST(expired_is_absent_for_each_operation)
{
	begin();
	for (unsigned i = 0; i < 2; i++) {
		struct fake_client *c = both[i];
		uint64_t version;

		PUT_DATED(c, "v", 50);
		version = c->op.version;
		*clock_word() += 50;
		ck_assert_int_eq(run(c, INDEX_EXISTS, k, NULL, 0), FARKV_ENOTFOUND);
		ck_assert_int_eq(run(c, INDEX_REPLACE, k, "x", 0), FARKV_ENOTFOUND);
		ck_assert_int_eq(run(c, INDEX_CAS, k, "x", version), FARKV_ENOTFOUND);
		ck_assert_int_eq(run(c, INDEX_DELETE, k, NULL, 0), FARKV_ENOTFOUND);
		ck_assert_int_eq(run(c, INDEX_DELETE_CAS, k, NULL, version), FARKV_ENOTFOUND);
		ck_assert_int_eq(run(c, INDEX_ADD, k, "new", 0), 0);
		check_value(c, k, "new");
		ck_assert_uint_eq(c->op.left_ms, BLOCK_NEVER);
		check_no_duplicates(k);
	}
	teardown();
}

TEST(living_is_present_for_each_operation)
{
	begin();
	for (unsigned i = 0; i < 2; i++) {
		struct fake_client *c = both[i];

		PUT_DATED(c, "v", 50);
		ck_assert_int_eq(run(c, INDEX_EXISTS, k, NULL, 0), 0);
		ck_assert_int_eq(run(c, INDEX_ADD, k, "x", 0), FARKV_EEXISTS);
		ck_assert_int_eq(run(c, INDEX_REPLACE, k, "r", 0), 0);
		PUT_DATED(c, "v", 50);
		ck_assert_int_eq(run(c, INDEX_CAS, k, "c", c->op.version), 0);
		PUT_DATED(c, "v", 50);
		ck_assert_int_eq(run(c, INDEX_DELETE, k, NULL, 0), 0);
		ABSENT(c, k);
	}
	teardown();
}

TEST(seconds_and_user_word_come_back)
{
	static const uint64_t ttls[] = {0, 1000, BLOCK_MS_MAX + 1, BLOCK_TTL_MAX_MS};

	begin();
	for (unsigned i = 0; i < 2; i++)
		for (unsigned t = 0; t < ARRAY_SIZE(ttls); t++) {
			struct fake_client *c = both[i];

			ck_assert_int_eq(run_dated(c, INDEX_PUT, "value", ttls[t], 77 + t), 0);
			check_value(c, k, "value");
			ck_assert_uint_eq(c->op.view.user, 77 + t);
			check_value(both[!i], k, "value");
			ck_assert_uint_eq(both[!i]->op.view.user, 77 + t);
			if (ttls[t] == 0)
				ck_assert_uint_eq(c->op.left_ms, BLOCK_NEVER);
			else
				ck_assert(c->op.left_ms <= ttls[t] &&
					  c->op.left_ms + 1000 >= ttls[t]);
			/* a put by the fast path replaces it */
			PUT(c, k, "plain");
			check_value(c, k, "plain");
			ck_assert_uint_eq(c->op.view.user, 0);
		}
	teardown();
}

TEST(first_dated_value_waits_for_CLOCK)
{
	begin();
	*clock_word() = 0;
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(run_dated(both[i], INDEX_PUT, "v", 50, 0), INDEX_PENDING);
		ck_assert_int_eq(both[i]->op.wait, INDEX_WAIT_CLOCK);
		ck_assert_int_eq(both[i]->op.own, OWN_NONE);
	}
	*clock_word() = START;
	for (unsigned i = 0; i < 2; i++) {
		struct index_op *op = &both[i]->op;

		index_run(both[i]->ix, &op, 1, 0, fake_now + NS_PER_SEC);
		if (op->wait == INDEX_WAIT_BLOCK) {
			fake_region_grant(&region, both[i]->alloc, op->cls, 4);
			index_run(both[i]->ix, &op, 1, 0, fake_now + NS_PER_SEC);
		}
		ck_assert_int_eq(op->result, 0);
		ck_assert_uint_ne(op->expires.at, 0);
	}
	teardown();
}

/* ---- by READs: what a sample of CLOCK proves ----------------------------------------- */

static uint64_t reads_of_get(const char *want)
{
	uint64_t reads = me.lane->counters.reads;

	check_value(&me, k, want);
	return me.lane->counters.reads - reads;
}

TEST(sample_is_renewed_only_near_the_end)
{
	begin();
	PUT_DATED(&me, "v", 10000);
	ck_assert_uint_eq(reads_of_get("v"), 2); /* window, block */
	fake_now += 4 * NS_PER_SEC;
	*clock_word() += 4000;
	ck_assert_uint_eq(reads_of_get("v"), 2);
	fake_now += NS_PER_SEC;
	*clock_word() += 1000;
	ck_assert_uint_eq(reads_of_get("v"), 4); /* CLOCK, slot */
	ck_assert_uint_eq(reads_of_get("v"), 2);
	teardown();
}

TEST(server_is_stopped_so_nothing_expires)
{
	begin();
	PUT_DATED(&me, "v", 1000);
	fake_now += 3600 * NS_PER_SEC;
	check_value(&me, k, "v");
	check_value(&other, k, "v");
	fake_now += NS_PER_SEC;
	*clock_word() += 1000;
	ABSENT(&me, k);
	teardown();
}

/* The other client writes, and then CLOCK passes the old value's time. */
static void write_and_pass(void)
{
	rival_op();
	*clock_word() += 1000;
	fake_now += NS_PER_SEC;
}

TEST(slot_is_looked_at_after_CLOCK)
{
	begin();
	/* Each request in turn: window, block, CLOCK, slot. */
	for (unsigned at = 0; at < 8; at++) {
		PUT_DATED(&other, "old", 100);
		me.ix->clock_ms = 0;
		rival_sets(XPORT_READ, write_and_pass, INDEX_PUT, k, "new");
		rival.skip = at % 4;
		ck_assert_int_eq(run(&me, at < 4 ? INDEX_GET : INDEX_EXISTS, k, NULL, 0), 0);
		ck_assert_uint_eq(rival.acted, 1);
	}
	teardown();
}

static void write_and_sample(void)
{
	write_and_pass();
	me.ix->clock_ms = *clock_word();
	me.ix->clock_at_ns = fake_now;
}

/* Another operation of the handle READs CLOCK after this one's slot. */
TEST(sample_is_younger_than_the_slot_so_it_proves_no_miss)
{
	begin();
	PUT_DATED(&other, "old", 100);
	rival_sets(XPORT_READ, write_and_sample, INDEX_PUT, k, "new");
	rival.skip = 1;
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), 0);
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}

/* ---- rivals ---------------------------------------------------------------------------- */

static void write_dated_and_pass(void)
{
	ck_assert_int_eq(run_dated(&other, INDEX_PUT, "rival", 100, 0), 0);
	*clock_word() += 1000;
}

TEST(lost_replace_and_delete_ask_whether_the_rivals_value_lives)
{
	static const enum index_kind kinds[] = {INDEX_REPLACE, INDEX_DELETE};

	begin();
	for (unsigned i = 0; i < 2; i++) {
		PUT(&me, k, "old");
		rival_sets(XPORT_CAS, write_dated_and_pass, INDEX_PUT, k, NULL);
		ck_assert_int_eq(run(&me, kinds[i], k, i ? NULL : "mine", 0),
				 FARKV_ENOTFOUND);
		ck_assert_uint_eq(rival.acted, 1);
	}
	teardown();
}

/* What the reaper does to the key's slot. */
static void reap(void)
{
	uint64_t *slot = slots_of(k);

	while (slot_fp(*slot) != hash_fp(k.hash))
		slot++;
	*slot = (*slot & ~SLOT_BLIND) | SLOT_DEAD;
}

TEST(put_loses_to_the_reaper_and_is_not_absorbed)
{
	begin();
	PUT_DATED(&me, "v", 10);
	*clock_word() += 10;
	rival_sets(XPORT_CAS, reap, INDEX_PUT, k, NULL);
	PUT(&me, k, "mine");
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&me, k, "mine");
	check_value(&other, k, "mine");
	teardown();
}

/* ---- what is remembered ---------------------------------------------------------------- */

TEST(location_of_a_dated_key_is_not_believed_by_conditional_writes)
{
	static const enum index_kind kinds[] = {INDEX_REPLACE, INDEX_CAS, INDEX_DELETE,
						INDEX_DELETE_CAS};

	begin();
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	ck_assert_int_eq(index_cache_values(me.ix, 1 << 20), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		PUT_DATED(&me, "v", 100);
		check_value(&me, k, "v");
		check_value(&me, k, "v");
		*clock_word() += 100;
		fake_now += NS_PER_SEC / 10;
		ck_assert_int_eq(run(&me, kinds[i], k, kind_deletes(kinds[i]) ? NULL : "x",
				     me.op.version), FARKV_ENOTFOUND);
	}
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "new", 0), 0);
	check_value(&other, k, "new");
	teardown();
}

TEST(cached_value_expires)
{
	begin();
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	ck_assert_int_eq(index_cache_values(me.ix, 1 << 20), 0);
	PUT_DATED(&me, "v", 100);
	for (unsigned i = 0; i < 4; i++)
		check_value(&me, k, "v");
	ck_assert_uint_gt(index_cache_counters(me.ix).values, 0);
	*clock_word() += 100;
	ABSENT(&me, k);
	teardown();
}

static void pass(uint64_t ms)
{
	*clock_word() += ms;
	fake_now += ms * NS_PER_MS;
}

static void check_exists(bool there, uint64_t trips)
{
	uint64_t was = me.lane->counters.round_trips;

	ck_assert_int_eq(run(&me, INDEX_EXISTS, k, NULL, 0), there ? 0 : FARKV_ENOTFOUND);
	ck_assert_uint_eq(me.lane->counters.round_trips - was, trips);
}

TEST(exists_of_a_cached_key_asks_the_header_whether_it_lives)
{
	begin();
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	PUT_DATED(&me, "v", 1000);
	check_exists(true, 1);
	pass(1000);
	check_exists(false, 2); /* CLOCK and slot */
	PUT(&me, k, "stays");
	ck_assert_int_eq(run_dated(&other, INDEX_PUT, "other", 1000, 0), 0);
	check_exists(true, 2);
	check_exists(true, 1);
	ck_assert_int_eq(run_dated(&other, INDEX_PUT, "another", 1000, 0), 0);
	pass(1000);
	check_exists(false, 2);
	teardown();
}

static void write_dated(void)
{
	ck_assert_int_eq(run_dated(&other, INDEX_PUT, "rival", 100, 0), 0);
}

/* An add that trusts a location finds another word: only its block tells whether it lives. */
TEST(other_word_at_a_location_may_have_expired)
{
	begin();
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	PUT(&me, k, "v");
	check_value(&me, k, "v");
	write_dated();
	*clock_word() += 100;
	fake_now += NS_PER_SEC / 10;
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "new", 0), 0);
	check_value(&other, k, "new");
	teardown();
}

/* ---- what it costs beside other writers, with cached locations ---------------------------- */

static void begin_cached(void)
{
	begin();
	ck_assert_int_eq(index_cache_locations(me.ix, 64), 0);
	PUT(&me, k, "mine");
}

static void check_write(enum index_kind kind, const char *value, uint64_t expected, int result,
			uint64_t trips)
{
	uint64_t was = me.lane->counters.round_trips;

	ck_assert_int_eq(run(&me, kind, k, value, expected), result);
	ck_assert_uint_eq(me.lane->counters.round_trips - was, trips);
}

TEST(lost_cas_costs_one_more_round_trip)
{
	uint64_t version;

	begin_cached();
	version = me.op.version;
	PUT(&other, k, "other");
	check_write(INDEX_CAS, "x", version, FARKV_EVERSION, 2);
	PUT(&me, k, "mine");
	version = me.op.version;
	write_dated();
	check_write(INDEX_CAS, "x", version, FARKV_EVERSION, 2);
	PUT(&me, k, "mine");
	version = me.op.version;
	write_dated();
	pass(100);
	check_write(INDEX_CAS, "x", version, FARKV_ENOTFOUND, 2);
	teardown();
}

TEST(lost_replace_and_delete_cost_one_more_than_the_next_CAS)
{
	begin_cached();
	PUT(&other, k, "other");
	check_write(INDEX_REPLACE, "x", 0, 0, 3);
	PUT(&other, k, "other");
	check_write(INDEX_DELETE, NULL, 0, 0, 3);
	PUT(&me, k, "mine");
	write_dated();
	pass(100);
	check_write(INDEX_REPLACE, "x", 0, FARKV_ENOTFOUND, 2);
	PUT(&me, k, "mine");
	write_dated();
	pass(100);
	check_write(INDEX_DELETE, NULL, 0, FARKV_ENOTFOUND, 2);
	teardown();
}

TEST(conditional_write_of_a_dated_key_looks_at_its_header_first)
{
	begin_cached();
	PUT_DATED(&me, "v", 10000);
	check_write(INDEX_ADD, "x", 0, FARKV_EEXISTS, 1);
	check_write(INDEX_REPLACE, "x", 0, 0, 2);
	PUT_DATED(&me, "v", 10000);
	check_write(INDEX_CAS, "x", me.op.version, 0, 2);
	PUT_DATED(&me, "v", 10000);
	check_write(INDEX_DELETE, NULL, 0, 0, 2);
	/* Near its end CLOCK and slot are READ. */
	PUT_DATED(&me, "v", 100);
	check_write(INDEX_ADD, "x", 0, FARKV_EEXISTS, 2);
	pass(100);
	check_write(INDEX_ADD, "x", 0, 0, 3);
	teardown();
}

TEST(add_and_exists_of_anothers_value_cost_two_round_trips)
{
	begin_cached();
	write_dated();
	check_write(INDEX_ADD, "x", 0, FARKV_EEXISTS, 2);
	write_dated();
	check_exists(true, 2);
	write_dated();
	pass(100);
	check_exists(false, 2);
	teardown();
}

/* Within T/2: nobody looks again for that. */
static void write_and_pass_quickly(void)
{
	rival_op();
	*clock_word() += 1000;
}

/*
 * A value that has expired is replaced before any request after the lost CAS: by then the key has
 * a value that lives.
 */
TEST(after_a_lost_CAS_CLOCK_is_read_before_the_slot)
{
	static const enum index_kind kinds[] = {INDEX_REPLACE, INDEX_CAS, INDEX_DELETE};

	for (unsigned i = 0; i < 3; i++)
		for (unsigned at = 0; at < 3; at++) { /* CLOCK, slot, header */
			begin_cached();
			write_dated();
			rival_sets(XPORT_READ, write_and_pass_quickly, INDEX_PUT, k,
				   "new");
			rival.skip = at;
			ck_assert_int_eq(run(&me, kinds[i], k, i == 2 ? NULL : "x", me.op.version),
					 i == 1 ? FARKV_EVERSION : 0);
			ck_assert_uint_eq(rival.acted, 1);
			check_no_duplicates(k);
			teardown();
		}
}

/* ---- scans ----------------------------------------------------------------------------- */

/* Keys that a whole scan lists; *ttl_out is the time left of the last one. */
static size_t scan_all(struct fake_client *c, uint64_t *ttl_out)
{
	struct index_scan *scan = index_scan_new();
	const struct farkv_scan_item *items;
	size_t n, sum = 0;
	uint64_t cursor = 0;

	ck_assert_ptr_nonnull(scan);
	do {
		ck_assert_int_eq(index_scan(c->ix, scan, &cursor, SIZE_MAX, UINT64_MAX), 0);
		items = index_scan_items(scan, &n);
		sum += n;
		if (n)
			*ttl_out = items[n - 1].ttl_ms;
	} while (cursor);
	index_scan_free(scan);
	return sum;
}

TEST(scan_lists_what_has_not_expired)
{
	uint64_t ttl_ms = 1;

	begin();
	for (unsigned i = 0; i < 2; i++) {
		struct fake_client *c = both[i];

		PUT(c, k, "stays");
		ck_assert_uint_eq(scan_all(c, &ttl_ms), 1);
		ck_assert_uint_eq(ttl_ms, 0);
		PUT_DATED(c, "v", 50);
		pass(49);
		ck_assert_uint_eq(scan_all(c, &ttl_ms), 1);
		ck_assert(ttl_ms > 0 && ttl_ms <= 50);
		pass(50);
		ck_assert_uint_eq(scan_all(c, &ttl_ms), 0);
	}
	teardown();
}

TEST(scan_reads_CLOCK_before_the_subtable)
{
	uint64_t ttl_ms;

	begin();
	k = key_at("k", ANY_FP); /* in the first subtable */
	/* Each request in turn: CLOCK, subtable, CLOCK, head. */
	for (unsigned at = 0; at < 4; at++) {
		PUT_DATED(&other, "old", 100);
		rival_sets(XPORT_READ, write_and_pass_quickly, INDEX_PUT, k, "new");
		rival.skip = at;
		ck_assert_uint_eq(scan_all(&me, &ttl_ms), 1);
		ck_assert_uint_eq(rival.acted, 1);
	}
	teardown();
}

/* A writer that was stopped may publish a value after its time: it was never there. */
TEST(scan_lists_no_value_that_expires_during_a_look)
{
	uint64_t ttl_ms;

	begin();
	k = key_at("k", ANY_FP); /* in the first subtable */
	rival_sets(XPORT_READ, write_dated_and_pass, INDEX_PUT, k, NULL);
	rival.skip = 1;
	ck_assert_uint_eq(scan_all(&me, &ttl_ms), 0);
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}

TEST_SUITE("index, expiry")
