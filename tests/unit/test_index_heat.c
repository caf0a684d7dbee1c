/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks of use in a cache: by a store over mapped memory; over another lane by a WRITE of one
 * byte in a chain that is posted anyway, for every second location that becomes known.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/rig/cached_rig.h"
#include "tests/rig/cases.h"

#define KEYS 400u

static char name[KEYS][16];

static void names(void)
{
	for (unsigned i = 0; i < KEYS; i++)
		snprintf(name[i], sizeof(name[i]), "k%u", i);
}

static void begin_cache(int tearing)
{
	names();
	tears = tearing;
	fake_region_init(&region, 1, 64, GRACE);
	fake_region_add_heat(&region);
	fake_client_open(&me, &region, NULL, 1);
	fake_client_open(&other, &region, NULL, 2);
	rival.opcode = -1;
	rival.act = NULL;
	remember(4 * KEYS);
}

/* The heat byte of a key's slot, which is the only one in its window with its fingerprint. */
static uint8_t *heat_of(struct index_key k)
{
	uint64_t *w = slots_of(k);
	unsigned s = 0;

	while (slot_fp(w[s]) != hash_fp(k.hash))
		ck_assert_uint_lt(++s, WINDOW_SLOTS);
	return region.base + region.sb.region_bytes +
	       heat_at((uint64_t)((uint8_t *)&w[s] - region.base), region.sb.heat_bytes);
}

static unsigned hot(void)
{
	const uint8_t *h = region.base + region.sb.region_bytes;
	unsigned n = 0;

	for (uint64_t i = 0; i < region.sb.heat_bytes; i++) {
		ck_assert_uint_le(h[i], 1);
		n += h[i];
	}
	return n;
}

static void all(struct fake_client *c, enum index_kind kind, const char *value)
{
	for (unsigned i = 0; i < KEYS; i++)
		ck_assert_int_eq(run(c, kind, key_of(name[i]), value, 0), 0);
}

/* What `kind` costs for all keys, in bytes that are WRITTEN beside `bytes` each. */
static uint64_t marks_of(enum index_kind kind, const char *value, struct cost each)
{
	const struct xport_counters *c = &me.lane->counters;
	struct cost was = cost_now(), now;
	uint64_t bytes = c->write_bytes, marks;

	all(&me, kind, value);
	now = cost_now();
	marks = now.writes - was.writes - KEYS * each.writes;
	ck_assert_uint_eq(now.trips - was.trips, KEYS * each.trips);
	if (!each.writes)
		ck_assert_uint_eq(c->write_bytes - bytes, marks);
	return marks;
}

TEST(get_over_mapped_memory_marks_its_key_and_an_insert_does_not)
{
	struct index_key k;

	begin_cache(0);
	k = key_of("k");
	PUT(&other, k, "v");
	ck_assert_uint_eq(hot(), 0);
	ck_assert_int_eq(run(&other, INDEX_EXISTS, k, NULL, 0), 0);
	ck_assert_uint_eq(hot(), 0);
	check_value(&other, k, "v");
	ck_assert_uint_eq(*heat_of(k), 1);
	*heat_of(k) = 0;
	PUT(&other, k, "again");
	ck_assert_uint_eq(*heat_of(k), 1);
	ck_assert_uint_eq(hot(), 1);
	*heat_of(k) = 0;
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	ABSENT(&other, k);
	ck_assert_uint_eq(hot(), 0);
	teardown();
}

TEST_LOOP(get_that_finds_a_location_marks_every_second_key_once_without_a_round_trip, 0, 2)
{
	uint64_t marks;

	begin_cache(_i);
	all(&other, INDEX_PUT, "v");
	marks = marks_of(INDEX_GET, NULL, COST(2, 0, 0, 0));
	ck_assert_uint_ge(marks, KEYS * 4 / 10);
	ck_assert_uint_le(marks, KEYS * 6 / 10);
	ck_assert_uint_le(hot(), marks);
	ck_assert_uint_ge(hot(), marks * 9 / 10);
	/* The locations are known now, and their uses are counted. */
	ck_assert_uint_eq(marks_of(INDEX_GET, NULL, COST(1, 0, 0, 0)), 0);
	teardown();
}

TEST_LOOP(own_insert_is_marked_at_its_first_use_and_not_before, 0, 2)
{
	uint64_t marks;

	begin_cache(_i);
	all(&me, INDEX_PUT, "v");
	ck_assert_uint_eq(hot(), 0);
	marks = marks_of(INDEX_GET, NULL, COST(1, 0, 0, 0));
	ck_assert_uint_ge(marks, KEYS * 4 / 10);
	ck_assert_uint_le(marks, KEYS * 6 / 10);
	ck_assert_uint_eq(hot(), marks);
	ck_assert_uint_eq(marks_of(INDEX_GET, NULL, COST(1, 0, 0, 0)), 0);
	teardown();
}

TEST_LOOP(overwrite_marks_every_second_key_once, 0, 2)
{
	uint64_t marks;

	begin_cache(_i);
	all(&me, INDEX_PUT, "v");
	ck_assert_int_eq(run(&me, INDEX_EXISTS, key_of(name[0]), NULL, 0), 0);
	/* The first overwrites need new blocks, so their round trips are not counted here. */
	all(&me, INDEX_PUT, "second");
	marks = hot();
	ck_assert_uint_ge(marks, KEYS * 4 / 10);
	ck_assert_uint_le(marks, KEYS * 6 / 10);
	ck_assert_uint_eq(marks_of(INDEX_PUT, "third", COST(1, 0, 1, 1)), 0);
	ck_assert_uint_eq(marks_of(INDEX_GET, NULL, COST(1, 0, 0, 0)), 0);
	ck_assert_uint_eq(hot(), marks);
	check_value(&other, key_of(name[0]), "third");
	teardown();
}

TEST_LOOP(exists_and_delete_do_not_mark, 0, 2)
{
	begin_cache(_i);
	all(&other, INDEX_PUT, "v");
	all(&me, INDEX_EXISTS, NULL);
	all(&me, INDEX_DELETE, NULL);
	ck_assert_uint_eq(hot(), 0);
	teardown();
}

TEST(lane_without_the_right_to_write_does_not_mark)
{
	const struct xport_fault_config cfg = {.hide_direct = true, .hook = rival_hook};
	struct xport_lane *lane;
	uint64_t all_bytes;

	begin_cache(0);
	all(&other, INDEX_PUT, "v");
	all_bytes = region.sb.region_bytes + region.sb.heat_bytes;
	fake_client_close(&me);
	lane = xport_shm_open(region.base, all_bytes, true);
	fake_client_init(&me, &region, xport_fault_open(lane, &cfg), 3);
	all(&me, INDEX_GET, NULL);
	ck_assert_uint_eq(me.lane->counters.writes, 0);
	ck_assert_uint_eq(hot(), 0);
	teardown();
}

TEST_LOOP(region_that_refuses_has_no_marks, 0, 2)
{
	names();
	begin(_i);
	all(&other, INDEX_PUT, "v");
	ck_assert_uint_eq(marks_of(INDEX_GET, NULL, COST(2, 0, 0, 0)), 0);
	PUT(&me, key_of(name[0]), "mine");
	check(INDEX_GET, key_of(name[0]), NULL, 0, 0, GET_COST, 1);
	teardown();
}

TEST_SUITE("index_heat")
