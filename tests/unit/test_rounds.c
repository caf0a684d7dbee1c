/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eviction policy: what a visit decides, and its miss ratios over traces that are drawn
 * here, against LRU over the same trace. The bounds are a percent above what the policy's
 * own simulation showed.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/index/rounds.h"
#include "tests/rig/cases.h"

/* ---- one visit ------------------------------------------------------------------- */

static struct rounds books;
static struct rounds_key keys[100];

static void fresh_keys(unsigned n)
{
	memset(&books, 0, sizeof(books));
	for (unsigned i = 0; i < n; i++)
		keys[i] = (struct rounds_key){.bytes = 64, .slot = (uint16_t)(i * 40),
					      .print = (uint16_t)(i * 7)};
}

static unsigned dropped(unsigned n)
{
	unsigned d = 0;

	for (unsigned i = 0; i < n; i++)
		d += keys[i].drop;
	return d;
}

TEST(visit_frees_what_is_wanted_and_no_more)
{
	fresh_keys(100);
	rounds_visit(&books, keys, 100, 10 * 64, 0);
	ck_assert_uint_eq(dropped(100), 10);
	fresh_keys(100);
	rounds_visit(&books, keys, 100, 9 * 64 + 1, 0);
	ck_assert_uint_eq(dropped(100), 10);
	/* More than there is: all. */
	fresh_keys(100);
	rounds_visit(&books, keys, 100, 101 * 64, 0);
	ck_assert_uint_eq(dropped(100), 100);
	fresh_keys(1);
	rounds_visit(&books, keys, 1, 0, 0);
	ck_assert_uint_eq(dropped(1), 0);
	rounds_visit(&books, keys, 0, 64, 7);
}

TEST(visit_hot_keys_stay_and_enter_main)
{
	fresh_keys(100);
	for (unsigned i = 0; i < 50; i++)
		keys[i * 2].hot = true;
	rounds_visit(&books, keys, 100, 40 * 64, 0);
	ck_assert_uint_eq(dropped(100), 40);
	for (unsigned i = 0; i < 80; i++)
		ck_assert_int_eq(keys[i].drop, i % 2);
	/* In main a key that was used twice stays longer than one that was used once. */
	fresh_keys(100);
	for (unsigned i = 0; i < 100; i++) /* in main, visited */
		books.state[keys[i].slot] = i % 2 ? 0xE0 : 0xD0;
	rounds_visit(&books, keys, 100, 40 * 64, 0);
	ck_assert_uint_eq(dropped(100), 40);
	for (unsigned i = 0; i < 100; i++)
		ck_assert(!keys[i].drop || i % 2 == 0);
}

TEST(visit_of_equal_keys_the_random_number_chooses)
{
	fresh_keys(100);
	rounds_visit(&books, keys, 100, 5 * 64, 98);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(keys[i].drop, i >= 98 || i < 3);
}

TEST(visit_expired_keys_leave_first_and_always)
{
	fresh_keys(100);
	for (unsigned i = 0; i < 20; i++)
		keys[i].expired = keys[i].hot = true;
	rounds_visit(&books, keys, 100, 10 * 64, 50);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(keys[i].drop, i < 20);
	ck_assert_uint_eq(books.ghosts, 0);
}

TEST(visit_ghost_enters_main_at_once)
{
	fresh_keys(100);
	rounds_visit(&books, keys, 100, 10 * 64, 0);
	ck_assert_uint_eq(books.ghosts, 10);
	/* Of their slots one has its key again, the others have other keys. */
	for (unsigned i = 0; i < 9; i++)
		keys[i].print = (uint16_t)(50000 + i);
	rounds_visit(&books, keys, 10, 5 * 64, 9);
	ck_assert(!keys[9].drop);
	ck_assert_uint_eq(dropped(10), 5);
}

/* A key that was dropped leaves nothing to the next one in its slot. */
TEST(visit_state_of_a_dropped_key_is_cleared)
{
	fresh_keys(10);
	keys[0].expired = keys[0].hot = true;
	rounds_visit(&books, keys, 10, 0, 0);
	ck_assert_uint_eq(books.state[0], 0);
	ck_assert_uint_ne(books.state[40], 0);
}

/* ---- traces ------------------------------------------------------------------------ */

#define KEYS 200000u
#define REQUESTS 1500000u
#define NONE UINT32_MAX

static uint64_t seed;
static uint32_t *trace, n_keys, n_requests;

static uint64_t random64(void) /* splitmix64 */
{
	uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

static uint64_t hash_of(uint64_t key)
{
	key = (key + 1) * UINT64_C(0x9E3779B97F4A7C15);
	key = (key ^ key >> 32) * UINT64_C(0xD6E8FEB86659FD93);
	return key ^ key >> 32;
}

static double *cdf;

static uint32_t zipf(void) /* 0 is the hottest */
{
	double u = (double)(random64() >> 11) * 0x1p-53 * cdf[KEYS - 1];
	uint32_t lo = 0;

	for (uint32_t hi = KEYS - 1; lo < hi;) {
		uint32_t mid = (lo + hi) / 2;

		if (cdf[mid] < u)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct shape {
	double skew;
	uint32_t drift; /* requests after which the coldest key becomes the hottest */
	uint32_t scan;  /* after every 3 * scan requests, scan new keys */
	uint32_t loop;  /* keys asked for in order, again and again */
	unsigned most;  /* misses for each 100 of LRU's */
};

static void trace_make(const struct shape *s)
{
	uint32_t cold = 0;

	seed = 42;
	n_keys = s->scan ? 5 * KEYS : KEYS;
	n_requests = REQUESTS;
	trace = calloc(n_requests, sizeof(*trace));
	cdf = calloc(KEYS, sizeof(*cdf));
	for (uint32_t i = 0; i < KEYS; i++)
		cdf[i] = pow(i + 1, -s->skew) + (i ? cdf[i - 1] : 0);
	for (uint32_t i = 0; i < n_requests; i++) {
		if (s->loop)
			trace[i] = i % s->loop;
		else if (s->scan && i / s->scan % 4 == 3)
			trace[i] = KEYS + cold++ % (4 * KEYS);
		else if (s->drift)
			trace[i] = (zipf() + KEYS - i / s->drift % KEYS) % KEYS;
		else
			trace[i] = zipf();
	}
	free(cdf);
}

/* Requests after the first 3/10 that miss, of a cache that `miss` says about. */
static uint32_t replay(bool (*get)(uint32_t key))
{
	uint32_t misses = 0;

	for (uint32_t i = 0; i < n_requests; i++)
		misses += !get(trace[i]) && i >= n_requests / 10 * 3;
	return misses;
}

/* ---- LRU ---------------------------------------------------------------------------- */

static uint32_t capacity, used;
static uint32_t *newer, *older; /* of each key; n_keys is the ring's end */

static void lru_take(uint32_t key)
{
	newer[older[key]] = newer[key];
	older[newer[key]] = older[key];
	newer[key] = NONE;
}

static bool lru_get(uint32_t key)
{
	bool hit = newer[key] != NONE;

	if (hit)
		lru_take(key);
	else if (used == capacity)
		lru_take(newer[n_keys]);
	else
		used++;
	newer[key] = n_keys;
	older[key] = older[n_keys];
	newer[older[key]] = older[n_keys] = key;
	return hit;
}

static uint32_t lru_misses(void)
{
	uint32_t misses;

	newer = malloc((n_keys + 1) * sizeof(*newer));
	older = malloc((n_keys + 1) * sizeof(*older));
	memset(newer, 0xFF, (n_keys + 1) * sizeof(*newer));
	newer[n_keys] = older[n_keys] = n_keys;
	used = 0;
	misses = replay(lru_get);
	free(newer);
	free(older);
	return misses;
}

/* ---- subtables that are visited in turn --------------------------------------------- */

#define SUBTABLES 8u

struct subtable {
	struct rounds books;
	uint32_t key[SUBTABLE_SLOTS]; /* or NONE */
	bool hot[SUBTABLE_SLOTS];
	uint16_t unused[SUBTABLE_SLOTS]; /* slots */
	unsigned n_unused;
};

static struct subtable sub[SUBTABLES];
static uint16_t *slot_of; /* of each key; UINT16_MAX: it is not in the cache */
static unsigned turn;

static void visit(struct subtable *s)
{
	static struct rounds_key met[SUBTABLE_SLOTS];
	unsigned n = 0;

	for (uint16_t slot = 0; slot < SUBTABLE_SLOTS; slot++) {
		if (s->key[slot] == NONE)
			continue;
		met[n++] = (struct rounds_key){.bytes = 1, .slot = slot,
					       .print = rounds_print(hash_of(s->key[slot])),
					       .hot = s->hot[slot]};
		s->hot[slot] = false;
	}
	rounds_visit(&s->books, met, n, n / 8 + 1, (uint32_t)random64());
	for (unsigned i = 0; i < n; i++) {
		if (!met[i].drop)
			continue;
		slot_of[s->key[met[i].slot]] = UINT16_MAX;
		s->key[met[i].slot] = NONE;
		s->unused[s->n_unused++] = met[i].slot;
		used--;
	}
}

static bool rounds_get(uint32_t key)
{
	struct subtable *s = &sub[(hash_of(key) >> 32) * SUBTABLES >> 32];
	uint16_t slot;

	if (slot_of[key] != UINT16_MAX) {
		s->hot[slot_of[key]] = true;
		return true;
	}
	while (used == capacity || !s->n_unused)
		visit(!s->n_unused ? s : &sub[turn++ % SUBTABLES]);
	slot = s->unused[--s->n_unused];
	s->key[slot] = key;
	slot_of[key] = slot;
	used++;
	return false;
}

static uint32_t rounds_misses(void)
{
	uint32_t misses;

	slot_of = malloc(n_keys * sizeof(*slot_of));
	memset(slot_of, 0xFF, n_keys * sizeof(*slot_of));
	memset(sub, 0, sizeof(sub));
	for (unsigned i = 0; i < SUBTABLES; i++)
		for (uint16_t s = 0; s < SUBTABLE_SLOTS; s++) {
			sub[i].key[s] = NONE;
			sub[i].unused[sub[i].n_unused++] = s;
		}
	used = turn = 0;
	seed = 7;
	misses = replay(rounds_get);
	free(slot_of);
	return misses;
}

static const struct shape shapes[] = {
	{.skew = 0.99, .most = 86},
	{.skew = 0.6, .most = 92},
	{.skew = 0.99, .drift = 30, .most = 88},
	{.skew = 0.99, .scan = KEYS / 50, .most = 90},
	{.loop = KEYS * 11 / 100, .most = 75},
};

TEST_GROUP(.timeout_s = 120);

/* The cache holds a tenth of the keys. */
TEST_LOOP(trace_misses_fewer_than_lru, 0, 5)
{
	const struct shape *s = &shapes[_i];
	uint32_t lru, own;

	trace_make(s);
	capacity = KEYS / 10;
	lru = lru_misses();
	own = rounds_misses();
	printf("  skew %.2f drift %u scan %u loop %u: %u misses, LRU %u: %.3f\n", s->skew,
	       s->drift, s->scan, s->loop, own, lru, (double)own / lru);
	ck_assert_uint_le((uint64_t)own * 100, (uint64_t)lru * s->most);
	free(trace);
}

TEST_SUITE("rounds")
