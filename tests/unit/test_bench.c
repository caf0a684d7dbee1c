/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench's parts against vectors of YCSB and HdrHistogram: keys, zeta, eta,
 * histogram counters, property files; test_gens has the distributions.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/gen/ages.h"
#include "bench/gen/gen_counter.h"
#include "bench/gen/gen_scrambled.h"
#include "bench/gen/gen_zipfian.h"
#include "bench/base/hist.h"
#include "bench/gen/keys.h"
#include "bench/gen/modulo.h"
#include "bench/base/props.h"
#include "bench/gen/values.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define NEAR(a, b, rel) \
	ck_assert_msg(fabs((a) - (b)) <= (rel) * fabs(b), "%.17g, not %.17g", \
		      (double)(a), (double)(b))

/* ---- keys ------------------------------------------------------------------------ */

static const struct {
	uint64_t number;
	uint64_t padding;
	bool hashed;
	const char *key;
} keys[] = {
	{0, 1, true, "user6284781860667377211"},
	{1, 1, true, "user8517097267634966620"},
	{2, 1, true, "user1820151046732198393"},
	{3, 1, true, "user4052466453699787802"},
	{10, 1, true, "user2408371864701034737"},
	{999, 1, true, "user2071219101098386137"},
	{1000, 1, true, "user5952875239596136740"},
	{123456789, 1, true, "user2350796791908741607"},
	{0, 1, false, "user0"},
	{10, 12, false, "user000000000010"},
	{UINT64_MAX, 1, false, "user18446744073709551615"},
	{12345678901234567, 20, false, "user00012345678901234567"},
	{7, 32, false, "user00000000000000000000000000000007"},
};

TEST_EACH(key_build_vectors, keys)
{
	struct key_format f;
	char key[KEY_CAP];
	unsigned n;

	ck_assert(key_format_init(&f, "user", keys[_i].padding,
				  keys[_i].hashed));
	key_prepare(&f, key);
	n = key_build(&f, keys[_i].number, key);
	ck_assert_uint_eq(n, strlen(keys[_i].key));
	ck_assert_mem_eq(key, keys[_i].key, n);
	ck_assert_uint_le(n, key_max_len(&f));
}

TEST(key_build_all_lengths_agree_with_printf)
{
	struct key_format f;
	char key[KEY_CAP], want[64];
	uint64_t v = 1;

	for (uint64_t padding = 0; padding <= 24; padding += 3) {
		ck_assert(key_format_init(&f, "k:", padding, false));
		key_prepare(&f, key);
		for (v = 1; v; v = v > UINT64_MAX / 10 ? 0 : v * 10) {
			uint64_t near[] = {v - 1, v, v + 1, v * 7 / 3};

			for (unsigned i = 0; i < 4; i++) {
				int n = snprintf(want, sizeof(want), "k:%0*llu",
						 (int)padding,
						 (unsigned long long)near[i]);

				ck_assert_uint_eq(key_build(&f, near[i], key),
						  n);
				ck_assert_mem_eq(key, want, n);
			}
		}
	}
}

/* Numbers of all lengths, as they are and hashed. */
TEST(key_build_of_random_numbers_agrees_with_printf)
{
	struct key_format f;
	char key[KEY_CAP], want[64];
	struct rng r;

	rng_seed(&r, 4, 0);
	for (int hashed = 0; hashed < 2; hashed++) {
		ck_assert(key_format_init(&f, "user", 1, hashed));
		key_prepare(&f, key);
		for (int i = 0; i < 200000; i++) {
			uint64_t v = rng_next(&r) >> i % 64;
			int n = snprintf(want, sizeof(want), "user%llu",
					 (unsigned long long)(hashed ? fnvhash64(v)
								     : v));

			ck_assert_uint_eq(key_build(&f, v, key), n);
			ck_assert_mem_eq(key, want, n);
		}
	}
}

/* ---- generators ------------------------------------------------------------------ */

TEST(zipfian_zeta_and_eta_vectors)
{
	struct gen_zipfian g;

	NEAR(gen_zipfian_zeta(0, 2, 0.99, 0), 1.5034777750283594, 1e-15);
	NEAR(gen_zipfian_zeta(0, 1000, 0.99, 0), 7.728953217284729, 1e-14);
	NEAR(gen_zipfian_zeta(0, 1000000, 0.99, 0), 15.391849746037371, 1e-13);
	NEAR(gen_zipfian_zeta(0, SCRAMBLED_ITEMS + 1, 0.99, 0), SCRAMBLED_ZETA,
	     1e-9);
	gen_zipfian_init(&g, 0, 999, 0.99);
	NEAR(g.eta, 0.07480608670689805, 1e-12);
	NEAR(g.alpha, 100.0, 1e-12);
	gen_zipfian_init_zeta(&g, 0, SCRAMBLED_ITEMS, 0.99, SCRAMBLED_ZETA);
	NEAR(g.eta, 0.21220003380967406, 1e-9);
}

/* Octet by octet, as it is defined. */
TEST(fnvhash_uses_every_octet)
{
	struct rng r;

	rng_seed(&r, 5, 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t v = rng_next(&r) >> i % 64, h = FNV64_OFFSET;

		for (int k = 0; k < 64; k += 8)
			h = (h ^ (v >> k & 0xff)) * FNV64_PRIME;
		ck_assert_uint_eq(fnvhash64(v), (int64_t)h < 0 ? 0 - h : h);
	}
}

TEST(modulo_is_the_remainder)
{
	const uint64_t top = UINT64_C(1) << 63;
	struct modulo m;
	struct rng r;

	rng_seed(&r, 6, 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t by = 1 + (i < 1000 ? (uint64_t)i
					 : rng_next(&r) >> (1 + i % 63));
		uint64_t n[] = {rng_next(&r) >> 1, 0, by - 1, by, top - 1, top,
				top / by * by, top / by * by - 1};

		modulo_init(&m, by);
		for (size_t k = 0; k < ARRAY_SIZE(n); k++)
			ck_assert_uint_eq(modulo_of(&m, n[k]), n[k] % by);
	}
	modulo_init(&m, top);
	ck_assert_uint_eq(modulo_of(&m, top), 0);
	ck_assert_uint_eq(modulo_of(&m, top - 1), top - 1);
}

TEST(zipfian_grow_continues_the_sum)
{
	struct gen_zipfian g;

	gen_zipfian_init(&g, 0, 499, 0.99);
	gen_zipfian_grow(&g, 1000);
	NEAR(g.zeta_n, 7.728953217284729, 1e-13);
	gen_zipfian_grow(&g, 700);
	NEAR(g.zeta_n, 7.728953217284729, 1e-13);
}

TEST(counter_shows_acknowledged_numbers_without_a_gap)
{
	struct gen_counter g;

	ck_assert(gen_counter_init(&g, 100));
	for (uint64_t i = 100; i < 105; i++)
		ck_assert_uint_eq(gen_counter_next(&g), i);
	ck_assert_uint_eq(gen_counter_limit(&g), 100);
	ck_assert(gen_counter_ack(&g, 101));
	ck_assert_uint_eq(gen_counter_limit(&g), 100);
	ck_assert(gen_counter_ack(&g, 100));
	ck_assert_uint_eq(gen_counter_limit(&g), 102);
	ck_assert(gen_counter_ack(&g, 104));
	ck_assert(gen_counter_ack(&g, 103));
	ck_assert(gen_counter_ack(&g, 102));
	ck_assert_uint_eq(gen_counter_limit(&g), 105);
	ck_assert(!gen_counter_ack(&g, 105 + COUNTER_WINDOW));
	gen_counter_fini(&g);
}

TEST(rng_streams_differ_and_repeat)
{
	struct rng a, b, c;

	rng_seed(&a, 7, 0);
	rng_seed(&b, 7, 1);
	rng_seed(&c, 7, 0);
	for (int i = 0; i < 100; i++) {
		uint64_t v = rng_next(&a);

		ck_assert_uint_ne(v, rng_next(&b));
		ck_assert_uint_eq(v, rng_next(&c));
	}
}

/* ---- values ---------------------------------------------------------------------- */

TEST(random_value_is_printable)
{
	char buf[128];
	struct rng r;

	rng_seed(&r, 1, 0);
	for (size_t len = 0; len < 100; len++) {
		memset(buf, 0, sizeof(buf));
		value_random(&r, buf, len);
		for (size_t i = 0; i < len; i++)
			ck_assert(buf[i] >= ' ' && buf[i] <= 127);
	}
}

#define LONGEST 5000u

/* Two processes with the same pattern, and a buffer of the first. */
static struct value_spec mine, theirs;
static struct value_buf draft;
static const size_t value_lens[] = {0, 1, 8, 31, 32, 33, 100, 4096, LONGEST};

static void values_up(void)
{
	memset(&mine, 0, sizeof(mine));
	memset(&theirs, 0, sizeof(theirs));
	memset(&draft, 0, sizeof(draft));
	ck_assert_int_eq(value_init(&mine, LONGEST), 0);
	ck_assert_int_eq(value_init(&theirs, LONGEST), 0);
	ck_assert(mine.phase != theirs.phase);
	draft.at = malloc(LONGEST + VALUE_SLACK);
	ck_assert_ptr_nonnull(draft.at);
}

static void values_down(void)
{
	free(draft.at);
	value_fini(&mine);
	value_fini(&theirs);
}

static enum value_verdict check(const void *data, size_t len, const char *key,
				uint64_t least)
{
	struct db_value v = {data, len};

	return value_check(&mine, value_hash(key, strlen(key)), least, &v);
}

TEST(value_slice_is_a_part_of_the_pattern_without_a_copy)
{
	const void *first;
	bool others = false;
	struct rng r;

	values_up();
	rng_seed(&r, 1, 0);
	first = value_slice(&mine, &r, LONGEST).data;
	for (int i = 0; i < 1000; i++) {
		struct db_value v = value_slice(&mine, &r, LONGEST);
		const char *at = v.data;

		ck_assert(at >= mine.pattern && at + LONGEST <=
				  mine.pattern + mine.pattern_len);
		others = others || at != first;
	}
	ck_assert(others);
	values_down();
}

TEST(checked_value_of_any_length_is_good_and_of_another_key_is_not)
{
	uint64_t a = value_hash("a", 1);

	values_up();
	for (size_t i = 0; i < ARRAY_SIZE(value_lens); i++)
		for (uint64_t version = 0; version < 600; version++) {
			size_t len = value_lens[i];
			struct db_value v = value_stamp(&mine, &draft, a,
							version, len);

			ck_assert_uint_eq(v.len, len);
			ck_assert_int_eq(check(v.data, len, "a", version),
					 VALUE_GOOD);
			if (len >= 8)
				ck_assert_int_eq(check(v.data, len, "b", 0),
						 VALUE_OTHER_KEY);
		}
	values_down();
}

/* Every byte of a value is covered, and so is its length. */
TEST_LOOP(checked_value_with_a_wrong_byte_or_length_is_told, 0, 5)
{
	static const size_t lens[] = {8, 31, 32, 33, 200};
	size_t len = lens[_i];
	struct db_value v;
	char *copy;

	values_up();
	v = value_stamp(&mine, &draft, value_hash("a", 1), 7, len);
	copy = (char *)(uintptr_t)v.data;
	for (size_t i = 0; i < len; i++) {
		copy[i] ^= 1;
		ck_assert_int_ne(check(copy, len, "a", 0), VALUE_GOOD);
		copy[i] ^= 1;
	}
	ck_assert_int_eq(check(copy, len, "a", 0), VALUE_GOOD);
	if (len > VALUE_STAMPED)
		ck_assert_int_eq(check(copy, len - 1, "a", 0),
				 len - 1 < VALUE_STAMPED ? VALUE_OTHER_KEY
							 : VALUE_TORN);
	if (len >= VALUE_STAMPED)
		ck_assert_int_eq(check(copy, len + 1, "a", 0), VALUE_TORN);
	values_down();
}

TEST(checked_value_mixed_of_two_versions_is_torn)
{
	static char one[LONGEST], two[LONGEST], mixed[LONGEST];
	uint64_t a = value_hash("a", 1);

	values_up();
	for (uint64_t version = 1; version < 100; version++) {
		memcpy(one, value_stamp(&mine, &draft, a, version, LONGEST).data,
		       LONGEST);
		memcpy(two, value_stamp(&mine, &draft, a, version + 1,
					LONGEST).data, LONGEST);
		for (size_t cut = 64; cut < LONGEST; cut += 64) {
			memcpy(mixed, one, cut);
			memcpy(mixed + cut, two + cut, LONGEST - cut);
			ck_assert_int_eq(check(mixed, LONGEST, "a", 0),
					 VALUE_TORN);
		}
		/* Both ends of one; the same bytes between if the offsets are equal. */
		memcpy(mixed, one, LONGEST);
		memcpy(mixed + 2048, two + 2048, 1024);
		if (memcmp(mixed, one, LONGEST) != 0)
			ck_assert_int_eq(check(mixed, LONGEST, "a", 0),
					 VALUE_TORN);
	}
	values_down();
}

TEST(checked_value_older_than_the_least_version_is_old)
{
	uint64_t a = value_hash("a", 1);
	struct db_value v;

	values_up();
	v = value_stamp(&mine, &draft, a, 3, LONGEST);
	ck_assert_int_eq(check(v.data, v.len, "a", 3), VALUE_GOOD);
	ck_assert_int_eq(check(v.data, v.len, "a", 4), VALUE_OLD);
	/* Versions of another phase have no order, except that of a load. */
	v = value_stamp(&theirs, &draft, a, 3, LONGEST);
	ck_assert_int_eq(check(v.data, v.len, "a", 4), VALUE_GOOD);
	v = value_stamp(&theirs, &draft, a, 0, LONGEST);
	ck_assert_int_eq(check(v.data, v.len, "a", 0), VALUE_GOOD);
	ck_assert_int_eq(check(v.data, v.len, "a", 1), VALUE_OLD);
	values_down();
}

TEST(ages_least_rises_with_a_write_that_was_alone_and_succeeded)
{
	struct value_age age[2] = {{0}};
	struct value_ages all = {age, 2};
	struct value_write first, second, third;

	first = ages_begin(&all, 1);
	ck_assert_uint_eq(first.version, 1);
	ck_assert_uint_eq(ages_least(&all, 1), 0);
	second = ages_begin(&all, 1);
	ages_end(&first, true);
	ck_assert_uint_eq(ages_least(&all, 1), 1);
	/* Began while the first was open: either may be the last. */
	ages_end(&second, true);
	ck_assert_uint_eq(ages_least(&all, 1), 1);
	third = ages_begin(&all, 1);
	ck_assert_uint_eq(third.version, 3);
	ages_end(&third, false);
	ck_assert_uint_eq(ages_least(&all, 1), 1);
	third = ages_begin(&all, 1);
	ages_end(&third, true);
	ck_assert_uint_eq(ages_least(&all, 1), 4);
	/* One of unknown outcome: no later one is alone. */
	ages_begin(&all, 1);
	third = ages_begin(&all, 1);
	ages_end(&third, true);
	ck_assert_uint_eq(ages_least(&all, 1), 4);
	ck_assert_uint_eq(ages_least(&all, 0), 0);
	/* Not tracked. */
	third = ages_begin(&all, 2);
	ages_end(&third, true);
	ck_assert_uint_eq(third.version, 1);
	ck_assert_uint_eq(ages_least(&all, 2), 0);
}

/* ---- histogram ------------------------------------------------------------------- */

static const uint64_t hist_vectors[][3] = {
	{0, 0, 0},
	{2047, 2047, 2047},
	{2048, 2048, 2049},
	{10000, 10000, 10007},
	{65536, 65536, 65599},
	{1000000, 999936, 1000447},
};

TEST_EACH(hist_counters_vectors, hist_vectors)
{
	const uint64_t *v = hist_vectors[_i];

	ck_assert_uint_eq(hist_value(hist_index(v[0])), v[1]);
	ck_assert_uint_eq(hist_highest(v[0]), v[2]);
}

TEST(hist_of_one_to_hundred_thousand)
{
	struct hist *h = hist_new(), *sum = hist_new();
	struct hist_summary s;

	for (uint64_t i = 1; i <= 100000; i++)
		hist_record(h, i);
	hist_summarize(h, &s);
	ck_assert_uint_eq(s.count, 100000);
	NEAR(s.mean, 50000.99488, 1e-9);
	ck_assert_uint_eq(s.min, 1);
	ck_assert_uint_eq(s.max, 100031);
	ck_assert_uint_eq(hist_percentile(h, s.count, 50), 50015);
	ck_assert_uint_eq(hist_percentile(h, s.count, 95), 95039);
	ck_assert_uint_eq(hist_percentile(h, s.count, 99), 99007);
	ck_assert_uint_eq(hist_percentile(h, s.count, 99.9), 99903);
	ck_assert_uint_eq(hist_percentile(h, s.count, 100), 100031);
	hist_merge(sum, h);
	hist_merge(sum, h);
	hist_subtract(sum, h);
	hist_summarize(sum, &s);
	ck_assert_uint_eq(s.count, 100000);
	hist_record(h, UINT64_MAX);
	hist_summarize(h, &s);
	ck_assert_uint_gt(s.max, INT64_MAX / 2);
	hist_free(h);
	hist_free(sum);
}

/* ---- properties ------------------------------------------------------------------ */

static char path[64];

static int load_text(struct props *p, const char *text)
{
	int fd, err;

	strcpy(path, "/tmp/farkv-props-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	err = props_load(p, path);
	unlink(path);
	return err;
}

static const char *value_of(const struct props *p, const char *key)
{
	const struct prop *e = props_find(p, key);

	return e ? e->value : "(none)";
}

TEST(props_load_java_syntax)
{
	struct props p = {0};

	ck_assert_int_eq(load_text(&p, "# comment\n! another\n\n"
				       "a=1\n b = 2 \nc:3\nd 4\ne\n"
				       "f=one\\\n   two\ng=\\t\\u0041\\\\\r\n"
				       "h=x=y\na=5\n"
				       "i=\\u00e9\\u20AC\\ud83d\\ude00\\:\n"),
			 0);
	ck_assert_str_eq(value_of(&p, "a"), "5");
	ck_assert_str_eq(value_of(&p, "b"), "2 ");
	ck_assert_str_eq(value_of(&p, "c"), "3");
	ck_assert_str_eq(value_of(&p, "d"), "4");
	ck_assert_str_eq(value_of(&p, "e"), "");
	ck_assert_str_eq(value_of(&p, "f"), "onetwo");
	ck_assert_str_eq(value_of(&p, "g"), "\tA\\");
	ck_assert_str_eq(value_of(&p, "h"), "x=y");
	ck_assert_str_eq(value_of(&p, "i"), "\u00e9\u20ac\U0001f600:");
	ck_assert_int_eq(props_set_arg(&p, "a=6"), 0);
	ck_assert_str_eq(value_of(&p, "a"), "6");
	ck_assert_int_eq(props_set_arg(&p, "a"), FARKV_EINVAL);
	ck_assert_int_eq(props_set_arg(&p, "=a"), FARKV_EINVAL);
	ck_assert_int_eq(props_load(&p, "/nowhere/x"), FARKV_ESYS);
	props_free(&p);
}

TEST(props_load_text_from_elsewhere_is_read_or_named)
{
	struct props p = {0};

	ck_assert_int_eq(load_text(&p, "\xEF\xBB\xBF" "a=1\r\nb=2\r\nc=3"), 0);
	ck_assert_str_eq(value_of(&p, "a"), "1");
	ck_assert_str_eq(value_of(&p, "b"), "2");
	ck_assert_str_eq(value_of(&p, "c"), "3");
	ck_assert_int_eq(load_text(&p, "\x1f\x8b\x08" "d=4\n"), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), "this is a gzip file; decompress it first: zcat"));
	ck_assert_str_eq(value_of(&p, "d"), "(none)");
	props_free(&p);
}

TEST_LOOP(props_load_refuses_invalid_characters, 0, 8)
{
	static const char *const bad[] = {
		"a=\\u12", "a=\\u00zz", "a=\\u0000", "a=\\ud83d", "a=\\ude00",
		"a=\\ud83d\\u0041", "a=\\ud83d\\n", "a=\\ude00\\ud83d",
	};
	struct props p = {0};

	ck_assert_int_eq(load_text(&p, bad[_i]), FARKV_EINVAL);
	props_free(&p);
}

struct wanted {
	uint64_t n;
	double d;
	bool b;
	int e;
};

TEST(props_read_names_the_place_of_an_error)
{
	static const char *const choices[] = {"one", "two", NULL};
	static const struct prop_spec specs[] = {
		{"n", PROP_U64, offsetof(struct wanted, n), "5", 1, 10, NULL},
		{"d", PROP_DOUBLE, offsetof(struct wanted, d), "0.5", 0, 1, NULL},
		{"b", PROP_BOOL, offsetof(struct wanted, b), "false", 0, 0, NULL},
		{"e", PROP_ENUM, offsetof(struct wanted, e), "two", 0, 0, choices},
	};
	static const char *const bad[][2] = {
		{"\nn=11\n", ":2: n: "}, {"n=x\n", ":1: n: 'x'"},
		{"n=-1\n", ":1: n: "}, {"d=half\n", ":1: d: 'half'"},
		{"d=nan\n", ":1: d: "}, {"b=maybe\n", ":1: b: "},
		{"e=three\n", ":1: e: "},
	};
	struct wanted w;
	struct props none = {0};

	ck_assert_int_eq(props_read(&none, specs, 4, &w), 0);
	ck_assert_uint_eq(w.n, 5);
	ck_assert_double_eq(w.d, 0.5);
	ck_assert_int_eq(w.e, 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct props p = {0};

		ck_assert_int_eq(load_text(&p, bad[i][0]), 0);
		ck_assert_int_eq(props_read(&p, specs, 4, &w), FARKV_EINVAL);
		ck_assert_msg(strstr(err_detail(), bad[i][1]) &&
				      strstr(err_detail(), "farkv-props"),
			      "'%s' lacks '%s'", err_detail(), bad[i][1]);
		props_free(&p);
	}
}

TEST_SUITE("bench")
