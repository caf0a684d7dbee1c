/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench limit: its own memory keeps stored values, in single calls and batches, even
 * after blocks are reused; a stamp waits for pending loads; the table shows medians and
 * the medians of ratios.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/limit/limit.h"
#include "bench/limit/limit_table.h"
#include "bench/base/stat.h"
#include "bench/base/ticks.h"
#include "tests/rig/cases.h"

#define RECORDS 5000u
#define KEY_BYTES 16u

static char value[300], into[LIMIT_BATCH * 320];
static char key_bytes[LIMIT_CHUNK * KEY_BYTES];
static struct limit_keys keys = {.at = key_bytes, .stride = KEY_BYTES};
static struct limit_plan plan;
static struct limit_side *side;

static void open_with(size_t value_len)
{
	plan = (struct limit_plan){
		.records = RECORDS,
		.key_len = KEY_BYTES,
		.value_len = value_len,
		.value = value,
		.into = into,
		.into_stride = 320,
	};
	memset(value, 'a', sizeof(value));
	ck_assert_int_eq(limit_mem_ops.open(&plan, &side), 0);
}

static void done(void)
{
	limit_mem_ops.close(side);
}

/* Keys number..number+n-1. */
static void set_keys(unsigned number, unsigned n)
{
	char text[KEY_BYTES + 1];

	for (unsigned i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "user%012u", number + i);
		memcpy(key_bytes + i * KEY_BYTES, text, KEY_BYTES);
		keys.len[i] = KEY_BYTES;
	}
}

static size_t do_test(enum limit_test t, size_t first, size_t n)
{
	memset(into, 0, sizeof(into));
	return limit_mem_ops.test[t](side, &keys, first, n);
}

static void load(void)
{
	for (unsigned i = 0; i < RECORDS; i += 8) {
		set_keys(i, 8);
		ck_assert_uint_eq(do_test(LIMIT_MPUT, 0, 8), 8);
	}
}

TEST_LOOP(limit_keeps_what_is_put, 0, 4)
{
	static const size_t lens[] = {1, 100, 101, 300};

	open_with(lens[_i]);
	load();
	for (unsigned i = 0; i < RECORDS; i++) {
		set_keys(i, 1);
		ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 1);
		ck_assert_mem_eq(into, value, lens[_i]);
		ck_assert_int_eq(into[lens[_i]], 0);
	}
	set_keys(RECORDS, 1);
	ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 0);
	done();
}

/* The first copy of `text` in the limit's memory. */
static char *find_in_map(const char *text)
{
	FILE *in = fopen("/proc/self/maps", "r");
	unsigned long low, high;
	char line[512], *at = NULL;

	while (!at && fgets(line, sizeof(line), in))
		if (strstr(line, "kvbench-limit") &&
		    sscanf(line, "%lx-%lx", &low, &high) == 2)
			at = memmem((char *)low, high - low, text,
				    strlen(text));
	fclose(in);
	return at;
}

/* The replaced block waits, so the next PUTs write elsewhere. */
TEST(limit_put_replaces)
{
	char *old;

	open_with(100);
	load();
	set_keys(7, 2);
	old = find_in_map("user000000000007");
	ck_assert_ptr_nonnull(old);
	memset(value, 'b', sizeof(value));
	for (int i = 0; i < 100; i++)
		ck_assert_uint_eq(do_test(LIMIT_PUT, 0, 1), 1);
	ck_assert_int_eq(old[KEY_BYTES], 'a');
	ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 1);
	ck_assert_int_eq(into[0], 'b');
	ck_assert_int_eq(into[99], 'b');
	ck_assert_uint_eq(do_test(LIMIT_GET, 1, 1), 1);
	ck_assert_int_eq(into[0], 'a');
	done();
}

TEST(limit_batches_report_missing_keys)
{
	open_with(100);
	load();
	set_keys(RECORDS - 30, LIMIT_BATCH);
	ck_assert_uint_eq(do_test(LIMIT_MGET, 0, LIMIT_BATCH), 30);
	for (unsigned i = 0; i < 30; i++)
		ck_assert_mem_eq(into + i * plan.into_stride, value, 100);
	ck_assert_int_eq(into[30 * plan.into_stride], 0);
	done();
}

/* More PUTs than blocks wait, so each block is reused with its next incarnation. */
TEST(limit_blocks_are_used_again)
{
	open_with(100);
	load();
	for (unsigned i = 0; i < 300000 / LIMIT_BATCH; i++) {
		set_keys(i * LIMIT_BATCH % (RECORDS - LIMIT_BATCH),
			 LIMIT_BATCH);
		ck_assert_uint_eq(do_test(LIMIT_MPUT, 0, LIMIT_BATCH),
				  LIMIT_BATCH);
	}
	for (unsigned i = 0; i < RECORDS; i++) {
		set_keys(i, 1);
		ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 1);
		ck_assert_mem_eq(into, value, 100);
	}
	done();
}

/* A limit that did not sum the whole block would be too high. */
TEST_LOOP(limit_sums_what_it_reads, 0, 5)
{
	/* Bytes after the key's first: version, key, the value's ends, the sum. */
	static const int at[] = {-24, 0, 16, 16 + 99, 16 + 100 + 4};
	char *key;

	open_with(100);
	load();
	set_keys(1234, 2);
	key = find_in_map("user000000001234");
	ck_assert_ptr_nonnull(key);
	ck_assert_uint_eq(do_test(LIMIT_MGET, 0, 2), 2);
	key[at[_i]] ^= 1;
	ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 0);
	ck_assert_uint_eq(do_test(LIMIT_MGET, 0, 2), 1);
	key[at[_i]] ^= 1;
	ck_assert_uint_eq(do_test(LIMIT_GET, 0, 1), 1);
	done();
}

TEST(table_shows_medians_and_ratios)
{
	static const struct limit_side_ops limit = {.name = "limit"};
	static const struct limit_side_ops farkv = {
		.name = "farkv", .row = {[LIMIT_PUT] = "WRITE"}};
	struct limit_table t = {.n_sides = 2, .side = {&limit, &farkv}};
	static const double rate[][2] = {{1000, 500}, {4000, 3000}, {2000, 1500}};
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	ck_assert_int_eq(limit_table_init(&t, 3), 0);
	for (size_t r = 0; r < 3; r++)
		for (size_t s = 0; s < 2; s++)
			*limit_cell(&t, r, LIMIT_GET, s) = (struct limit_cell){
				.rate = rate[r][s],
				.p50 = (double)(100 * (s + 1)),
				.p99 = (double)(200 + 100 * s * (r + 1)),
			};
	limit_cell(&t, 1, LIMIT_PUT, 1)->rate = 7;
	limit_cell(&t, 2, LIMIT_PUT, 1)->rate = 7;
	limit_table_print(&t, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "put\n  WRITE                   7 "));
	/* 0.50, 0.75, 0.75; 300, 400, 500 of 200. */
	ck_assert_ptr_nonnull(strstr(text, "  limit                2000      1.00"
					   "       100       200      1.00\n"));
	ck_assert_ptr_nonnull(strstr(text, "  farkv                1500      0.75"
					   "       200       400      2.00\n"));
	free(text);
	limit_table_fini(&t);
}

TEST(median_of_even_and_odd_counts)
{
	ck_assert(stat_median((double[]){3, 1, 2}, 3) == 2.0);
	ck_assert(stat_median((double[]){4, 1, 2, 3}, 4) == 2.5);
	ck_assert(stat_median((double[]){7}, 1) == 7.0);
}

#if defined(__x86_64__)
#define CHASE_WORDS (UINT64_C(1) << 22) /* 32 MiB: more than the nearest caches hold */
#define CHASE_LOADS 16
#define CHASES 1001
#define CHASES_IN_A_ROW 16

/* Each load says where the next is. */
static uint64_t chase(const uint64_t *at, uint64_t i)
{
	for (int n = 0; n < CHASE_LOADS; n++)
		i = at[i];
	return i;
}

TEST(settled_stamp_waits_for_loads)
{
	uint64_t *at = malloc(CHASE_WORDS * sizeof(*at)), i = 0, start;
	static double row[CHASES], span[CHASES];

	ticks_init();
	if (!ticks_state.counter) {
		free(at);
		return; /* the clock's stamps are too slow to tell */
	}
	ck_assert_ptr_nonnull(at);
	for (uint64_t k = 0; k < CHASE_WORDS; k++)
		at[k] = (k * UINT64_C(6364136223846793005) + 1442695) % CHASE_WORDS;
	/* The duration of a chase; the end of the last one is a small part of it. */
	for (int n = 0; n < CHASES; n++) {
		start = ticks_settled();
		for (int k = 0; k < CHASES_IN_A_ROW; k++)
			i = chase(at, i);
		__asm__ __volatile__("" : : "r"(i));
		row[n] = (double)(ticks_settled() - start) / CHASES_IN_A_ROW;
	}
	for (int n = 0; n < CHASES; n++) {
		_mm_lfence(); /* no load of the previous one is pending */
		start = ticks_settled();
		i = chase(at, i);
		__asm__ __volatile__("" : : "r"(i));
		span[n] = (double)(ticks_settled() - start);
	}
	/* A stamp that did not wait would come long before the last load. */
	ck_assert_double_ge(stat_median(span, CHASES), stat_median(row, CHASES) / 3);
	free(at);
}
#endif

TEST_SUITE("bench_limit")
