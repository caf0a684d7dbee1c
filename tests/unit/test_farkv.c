/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every public function with a real kvserver: its effect, each error that its arguments
 * can cause, and that a failure leaves outputs unchanged.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", "--grace-ms", "20",
					   "-I", "1m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 5000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- get ------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(get_of_a_key_gives_its_value)
{
	struct farkv_value v;

	memset(&v, POISON, sizeof(v));
	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "k", 1, &v));
	ck_assert(e2e_poisoned(&v, sizeof(v)));
	OK(e2e_put(kv, "k", "value"));
	OK(farkv_get(kv, "k", 1, &v));
	ck_assert_uint_eq(v.len, 5);
	ck_assert_mem_eq(v.data, "value", 5);
	ck_assert_uint_ne(v.version, 0);
	OK(e2e_del(kv, "k"));
	memset(&v, POISON, sizeof(v));
	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "k", 1, &v));
	ck_assert(e2e_poisoned(&v, sizeof(v)));
}

TEST(get_into_a_buffer_gives_value_and_length)
{
	uint64_t version;
	uint8_t buf[8];
	size_t len;

	memset(buf, POISON, sizeof(buf));
	memset(&len, POISON, sizeof(len));
	memset(&version, POISON, sizeof(version));
	FAILS(FARKV_ENOTFOUND,
	      farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, &version));
	ck_assert(e2e_poisoned(&len, sizeof(len)));
	OK(e2e_put(kv, "k", "value"));
	FAILS(FARKV_ETOOSMALL,
	      farkv_get_into(kv, "k", 1, buf, 4, &len, &version));
	ck_assert_uint_eq(len, 5);
	len = 99;
	FAILS(FARKV_ETOOSMALL,
	      farkv_get_into(kv, "k", 1, NULL, 0, &len, &version));
	ck_assert_uint_eq(len, 5);
	e2e_detail("5 bytes");
	ck_assert(e2e_poisoned(buf, sizeof(buf)));
	ck_assert(e2e_poisoned(&version, sizeof(version)));

	OK(farkv_get_into(kv, "k", 1, buf, 5, &len, &version));
	ck_assert_uint_eq(len, 5);
	ck_assert_mem_eq(buf, "value", 5);
	ck_assert(e2e_poisoned(buf + 5, sizeof(buf) - 5));
	ck_assert_uint_eq(version, e2e_version(kv, "k"));
	OK(farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL));
}

TEST(exists_tells_whether_a_key_has_a_value)
{
	struct farkv *reader;

	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "k", 1));
	OK(e2e_put(kv, "k", ""));
	OK(farkv_exists(kv, "k", 1));
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "kk", 2));
	reader = e2e_open_readonly(srv.path, 5000);
	OK(farkv_exists(reader, "k", 1));
	OK(e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "k", 1));
	FAILS(FARKV_ENOTFOUND, farkv_exists(reader, "k", 1));
	farkv_close(reader);
}

TEST(value_empty_is_a_value)
{
	struct farkv_get_item it = {.key = "k", .key_len = 1};
	struct farkv_value v;
	size_t len = 99;

	OK(farkv_put(kv, "k", 1, NULL, 0));
	OK(farkv_get(kv, "k", 1, &v));
	ck_assert_uint_eq(v.len, 0);
	ck_assert_ptr_nonnull(v.data);
	OK(farkv_get_into(kv, "k", 1, NULL, 0, &len, NULL));
	ck_assert_uint_eq(len, 0);
	OK(farkv_mget(kv, &it, 1));
	ck_assert_int_eq(it.result, 0);
	ck_assert_uint_eq(it.value.len, 0);
	ck_assert_ptr_nonnull(it.value.data);
	FAILS(FARKV_EEXISTS, farkv_add(kv, "k", 1, "x", 1));
	OK(e2e_put(kv, "k", "x"));
	OK(farkv_replace(kv, "k", 1, "ignored", 0));
	e2e_expect(kv, "k", 1, "", 0);
}

/* A value is a copy that later writes do not change. */
TEST(value_read_stays_whatever_others_write)
{
	struct farkv *other = e2e_open(srv.path, 5000);
	uint8_t want[1000], junk[1000];
	struct farkv_value v;

	e2e_fill(want, sizeof(want), 1);
	e2e_fill(junk, sizeof(junk), 2);
	OK(farkv_put(other, "k", 1, want, sizeof(want)));
	OK(farkv_get(kv, "k", 1, &v));
	/* Longer than T, so that the block itself is reused. */
	for (uint64_t end = e2e_now_ms() + 100; e2e_now_ms() < end;)
		OK(farkv_put(other, "k", 1, junk, sizeof(junk)));
	OK(e2e_del(other, "k"));
	ck_assert_uint_eq(v.len, sizeof(want));
	ck_assert_mem_eq(v.data, want, sizeof(want));
	farkv_close(other);
	ck_assert_mem_eq(v.data, want, sizeof(want));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
}

/* ---- writes ---------------------------------------------------------------- */

TEST(put_copies_its_value)
{
	char key[] = "key", value[] = "value";

	OK(e2e_put(kv, key, value));
	memset(key, 'x', 3);
	memset(value, 'x', 5);
	e2e_expect_str(kv, "key", "value");
	OK(e2e_put(kv, "key", "shorter"));
	OK(e2e_put(kv, "key", ""));
	e2e_expect_str(kv, "key", "");
}

TEST(add_of_a_key_that_is_there_is_refused)
{
	uint64_t version;

	OK(farkv_add(kv, "k", 1, "one", 3));
	version = e2e_version(kv, "k");
	FAILS(FARKV_EEXISTS, farkv_add(kv, "k", 1, "two", 3));
	ck_assert_uint_eq(e2e_version(kv, "k"), version);
	e2e_expect_str(kv, "k", "one");
	OK(e2e_del(kv, "k"));
	OK(farkv_add(kv, "k", 1, "two", 3));
	FAILS(FARKV_EEXISTS, farkv_add(kv, "k", 1, "three", 5));
	e2e_expect_str(kv, "k", "two");
}

TEST(replace_of_a_missing_key_is_refused)
{
	FAILS(FARKV_ENOTFOUND, farkv_replace(kv, "k", 1, "x", 1));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
	OK(e2e_put(kv, "k", "one"));
	OK(farkv_replace(kv, "k", 1, "two", 3));
	e2e_expect_str(kv, "k", "two");
	OK(e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_replace(kv, "k", 1, "three", 5));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
}

static void cas_fails(int want, uint64_t expected)
{
	uint64_t out;

	memset(&out, POISON, sizeof(out));
	FAILS(want, farkv_cas(kv, "k", 1, "no", 2, expected, &out));
	ck_assert(e2e_poisoned(&out, sizeof(out)));
}

TEST(cas_of_an_old_version_is_refused)
{
	uint64_t first, second, third;

	cas_fails(FARKV_ENOTFOUND, 0);
	cas_fails(FARKV_ENOTFOUND, 1);
	OK(e2e_put(kv, "k", "same"));
	first = e2e_version(kv, "k");
	cas_fails(FARKV_EVERSION, 0);
	cas_fails(FARKV_EVERSION, first + 1);
	OK(farkv_cas(kv, "k", 1, "same", 4, first, &second));
	ck_assert_uint_ne(second, first);
	ck_assert_uint_eq(e2e_version(kv, "k"), second);
	/* The bytes are the same, the value is not. */
	cas_fails(FARKV_EVERSION, first);
	OK(farkv_cas(kv, "k", 1, "third", 5, second, NULL));
	e2e_expect_str(kv, "k", "third");
	third = e2e_version(kv, "k");
	OK(e2e_del(kv, "k"));
	cas_fails(FARKV_ENOTFOUND, third);
	OK(e2e_put(kv, "k", "third"));
	cas_fails(FARKV_EVERSION, third);
	e2e_expect_str(kv, "k", "third");
}

TEST(delete_of_a_key_removes_it_once)
{
	FAILS(FARKV_ENOTFOUND, e2e_del(kv, "k"));
	for (int i = 0; i < 3; i++) {
		OK(e2e_put(kv, "k", "v"));
		OK(e2e_del(kv, "k"));
		FAILS(FARKV_ENOTFOUND, e2e_del(kv, "k"));
		FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
	}
}

/* A value of 4 KiB leaves a tombstone of its own. */
TEST(delete_cas_of_an_old_version_is_refused)
{
	static uint8_t bytes[4096];
	uint64_t first, second;

	for (size_t len = 1; len <= sizeof(bytes); len = len * 4095 + 1) {
		FAILS(FARKV_ENOTFOUND, farkv_delete_cas(kv, "k", 1, 1));
		OK(farkv_put(kv, "k", 1, bytes, len));
		first = e2e_version(kv, "k");
		FAILS(FARKV_EVERSION, farkv_delete_cas(kv, "k", 1, 0));
		FAILS(FARKV_EVERSION, farkv_delete_cas(kv, "k", 1, first + 1));
		OK(farkv_put(kv, "k", 1, bytes, len));
		second = e2e_version(kv, "k");
		FAILS(FARKV_EVERSION, farkv_delete_cas(kv, "k", 1, first));
		e2e_expect(kv, "k", 1, bytes, len);
		OK(farkv_delete_cas(kv, "k", 1, second));
		FAILS(FARKV_ENOTFOUND, farkv_delete_cas(kv, "k", 1, second));
		FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

TEST(version_differs_for_each_write)
{
	struct farkv *two[2] = {kv, e2e_open(srv.path, 5000)};
	uint64_t all[600], last[2] = {0, 0};
	size_t n = 0;

	OK(e2e_put(kv, "k", "v"));
	for (int i = 0; i < 600; i++) {
		struct farkv *h = two[i % 2];

		switch (i / 2 % 3) {
		case 0:
			OK(e2e_put(h, "k", "v"));
			all[n] = e2e_version(kv, "k");
			break;
		case 1:
			OK(farkv_cas(h, "k", 1, "w", 1, e2e_version(h, "k"),
				     &all[n]));
			break;
		default:
			OK(e2e_del(h, "k"));
			OK(farkv_add(h, "k", 1, "v", 1));
			all[n] = e2e_version(kv, "k");
		}
		ck_assert_uint_gt(all[n], last[i % 2]);
		last[i % 2] = all[n++];
	}
	qsort(all, n, sizeof(all[0]), compare_u64);
	for (size_t i = 1; i < n; i++)
		ck_assert_uint_ne(all[i], all[i - 1]);
	farkv_close(two[1]);
}

/* ---- keys ------------------------------------------------------------------ */

static const size_t key_lens[] = {1,   2,   3,    7,    8,    9,     31,
				  32,  33,  63,   64,   65,   127,   128,
				  255, 256, 1023, 4096, 4097, 32767, 65534,
				  65535};
#define N_KEY_LENS (sizeof(key_lens) / sizeof(key_lens[0]))

/* Each key is a prefix of the next; then twins that differ in the last byte. */
static void each_key(void (*f)(const uint8_t *key, size_t len, unsigned i))
{
	static uint8_t bytes[65535];

	e2e_fill(bytes, sizeof(bytes), 3);
	memset(bytes, 0, 3); /* begins with NULs */
	for (unsigned i = 0; i < N_KEY_LENS; i++) {
		uint8_t *end = &bytes[key_lens[i] - 1];

		f(bytes, key_lens[i], 2 * i);
		*end ^= 0x80;
		f(bytes, key_lens[i], 2 * i + 1);
		*end ^= 0x80;
	}
}

static void key_store(const uint8_t *key, size_t len, unsigned i)
{
	FAILS(FARKV_ENOTFOUND, farkv_delete(kv, key, len));
	OK(farkv_add(kv, key, len, &i, sizeof(i)));
}

static void key_check(const uint8_t *key, size_t len, unsigned i)
{
	e2e_expect(kv, key, len, &i, sizeof(i));
}

static void key_delete(const uint8_t *key, size_t len, unsigned i)
{
	if (i % 3 == 0)
		OK(farkv_delete(kv, key, len));
}

static void key_check_deleted(const uint8_t *key, size_t len, unsigned i)
{
	struct farkv_value v;

	if (i % 3 == 0)
		FAILS(FARKV_ENOTFOUND, farkv_get(kv, key, len, &v));
	else
		key_check(key, len, i);
}

TEST(key_of_any_bytes_and_length_is_found)
{
	each_key(key_store);
	each_key(key_check);
	each_key(key_delete);
	each_key(key_check_deleted);
}

/* ---- arguments ------------------------------------------------------------- */

/* The result of every call with a key for (key, len). */
static void key_refused(struct farkv *h, const void *key, size_t len, int want)
{
	struct farkv_get_item g = {.key = key, .key_len = len};
	struct farkv_put_item p = {.key = key, .key_len = len, .value = "x",
				   .value_len = 1};
	uint64_t version = 7;
	struct farkv_value v;
	size_t n = 7;
	char buf[1];

	memset(&v, POISON, sizeof(v));
	memset(&g.value, POISON, sizeof(g.value));
	FAILS(want, farkv_get(h, key, len, &v));
	ck_assert(e2e_poisoned(&v, sizeof(v)));
	FAILS(want, farkv_get_into(h, key, len, buf, 1, &n, &version));
	FAILS(want, farkv_put(h, key, len, "x", 1));
	FAILS(want, farkv_add(h, key, len, "x", 1));
	FAILS(want, farkv_replace(h, key, len, "x", 1));
	FAILS(want, farkv_cas(h, key, len, "x", 1, 1, &version));
	FAILS(want, farkv_delete(h, key, len));
	FAILS(want, farkv_delete_cas(h, key, len, 1));
	FAILS(want, farkv_exists(h, key, len));
	FAILS(want, farkv_mexists(h, &(struct farkv_key){key, len}, 1, NULL, NULL));
	ck_assert(n == 7 && version == 7);
	FAILS(want, farkv_mget(h, &g, 1));
	FAILS(want, farkv_mput(h, &p, 1));
	ck_assert(e2e_poisoned(&g.value, sizeof(g.value)));
	if (h) {
		ck_assert_int_eq(g.result, want);
		ck_assert_int_eq(p.result, want);
	}
	ck_assert_str_ne(farkv_errdetail(), "");
}

TEST(key_of_a_bad_length_is_refused)
{
	static const uint8_t big[65536];

	key_refused(kv, NULL, 3, FARKV_EINVAL);
	key_refused(kv, NULL, 0, FARKV_EINVAL);
	key_refused(kv, "key", 0, FARKV_EINVAL);
	key_refused(kv, big, sizeof(big), FARKV_ETOOLARGE);
	e2e_detail("65536");
	key_refused(kv, big, SIZE_MAX, FARKV_ETOOLARGE);
	key_refused(NULL, "key", 3, FARKV_EINVAL);
}

/* The result of every write for (value, len). */
static void value_refused(const void *value, size_t len, int want)
{
	struct farkv_put_item p = {.key = "k", .key_len = 1, .value = value,
				   .value_len = len};

	FAILS(want, farkv_put(kv, "k", 1, value, len));
	FAILS(want, farkv_add(kv, "k", 1, value, len));
	FAILS(want, farkv_replace(kv, "k", 1, value, len));
	FAILS(want, farkv_cas(kv, "k", 1, value, len, 1, NULL));
	FAILS(want, farkv_mput(kv, &p, 1));
	ck_assert_int_eq(p.result, want);
	e2e_detail(want == FARKV_EINVAL ? "NULL" : "--max-item-size");
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
}

TEST(value_of_a_bad_length_is_refused)
{
	static uint8_t big[(1 << 20) + 1];

	value_refused(NULL, 1, FARKV_EINVAL);
	value_refused(big, sizeof(big), FARKV_ETOOLARGE);
	value_refused(big, SIZE_MAX, FARKV_ETOOLARGE);
	e2e_fill(big, sizeof(big), 4);
	OK(farkv_put(kv, "k", 1, big, 1 << 20));
	e2e_expect(kv, "k", 1, big, 1 << 20);
}

TEST(output_null_is_not_written)
{
	size_t len;

	OK(e2e_put(kv, "k", "v"));
	FAILS(FARKV_EINVAL, farkv_get(kv, "k", 1, NULL));
	FAILS(FARKV_EINVAL, farkv_get_into(kv, "k", 1, &len, 8, NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_get_into(kv, "k", 1, NULL, 8, &len, NULL));
	FAILS(FARKV_EINVAL, farkv_mget(kv, NULL, 1));
	FAILS(FARKV_EINVAL, farkv_mput(kv, NULL, 1));
	FAILS(FARKV_EINVAL, farkv_mexists(kv, NULL, 1, NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_stats(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_counters(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_open(srv.path, NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_ping(NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_stats(NULL, &(struct farkv_stats){
		.size = sizeof(struct farkv_stats)}));
	FAILS(FARKV_EINVAL, farkv_counters(NULL, &(struct farkv_counters){
		.size = sizeof(struct farkv_counters)}));
	OK(farkv_mget(kv, NULL, 0));
	OK(farkv_mput(kv, NULL, 0));
	OK(farkv_mexists(kv, NULL, 0, NULL, NULL));
	farkv_options_init(NULL);
	farkv_close(NULL);
	e2e_expect_str(kv, "k", "v");
}

TEST(handle_read_only_may_not_write)
{
	struct farkv_put_item p = {.key = "k", .key_len = 1, .value = "x",
				   .value_len = 1};
	struct farkv_options o;
	struct farkv *ro;
	uint64_t version = 7;

	OK(e2e_put(kv, "k", "v"));
	farkv_options_init(&o);
	o.flags = FARKV_OPEN_READONLY;
	OK(farkv_open(srv.path, &o, &ro));
	e2e_expect_str(ro, "k", "v");
	FAILS(FARKV_EPERM, farkv_put(ro, "k", 1, "x", 1));
	FAILS(FARKV_EPERM, farkv_add(ro, "new", 3, "x", 1));
	FAILS(FARKV_EPERM, farkv_replace(ro, "k", 1, "x", 1));
	FAILS(FARKV_EPERM, farkv_cas(ro, "k", 1, "x", 1, e2e_version(ro, "k"),
				     &version));
	ck_assert_uint_eq(version, 7);
	FAILS(FARKV_EPERM, farkv_delete(ro, "k", 1));
	FAILS(FARKV_EPERM, farkv_delete_cas(ro, "k", 1, e2e_version(ro, "k")));
	FAILS(FARKV_EPERM, farkv_mput(ro, &p, 1));
	e2e_detail("read-only");
	OK(farkv_ping(ro, NULL));
	FAILS(FARKV_ENOTFOUND, e2e_probe(ro, "new"));
	e2e_expect_str(ro, "k", "v");
	OK(e2e_put(kv, "k", "w"));
	e2e_expect_str(ro, "k", "w");
	farkv_close(ro);
}

/* ---- server and texts ------------------------------------------------------ */

TEST(ping_and_stats_answer)
{
	struct farkv_stats s = {.size = sizeof(s)};
	uint64_t rtt = 0, cpu_ns;

	OK(farkv_ping(kv, &rtt));
	ck_assert_uint_gt(rtt, 0);
	OK(farkv_ping(kv, NULL));
	for (int i = 0; i < 5; i++)
		OK(farkv_put(kv, &i, sizeof(i), "value", 5));
	OK(farkv_delete(kv, &(int){0}, sizeof(int)));
	OK(farkv_stats(kv, &s));
	ck_assert_uint_eq(s.items, 4);
	ck_assert_uint_eq(s.dead_slots, 1);
	ck_assert_uint_eq(s.sessions, 1);
	ck_assert_uint_eq(s.sessions_total, 1);
	ck_assert_uint_eq(s.max_value, 1 << 20);
	ck_assert_uint_eq(s.max_key, FARKV_KEY_MAX);
	ck_assert_uint_eq(s.grace_ns, 20000000);
	ck_assert_uint_eq(s.protocol_errors, 0);
	ck_assert_uint_ge(s.region_bytes, 64 << 20);
	ck_assert_uint_le(s.used_bytes, s.heap_bytes);
	ck_assert_uint_lt(s.heap_bytes, s.region_bytes);
	ck_assert_uint_gt(s.index_slots, 5);
	cpu_ns = s.cpu_ns;
	ck_assert_uint_gt(cpu_ns, 0);
	ck_assert_uint_lt(cpu_ns, UINT64_C(1000000000000));
	/* Each request is counted. */
	OK(farkv_stats(kv, &s));
	ck_assert_uint_gt(s.cpu_ns, cpu_ns);
}

/* The sessions of the store: their number, and the newest one. */
static unsigned sessions(struct farkv_client *newest)
{
	struct farkv_client c = {.size = sizeof(c)};
	unsigned n = 0;
	uint64_t last = 0;

	while (farkv_client_next(kv, &c) == 0) {
		ck_assert_uint_gt(c.session, last);
		last = c.session;
		*newest = c;
		n++;
	}
	FAILS(FARKV_ENOTFOUND, farkv_client_next(kv, &c));
	ck_assert_uint_eq(c.session, last);
	return n;
}

TEST(client_that_is_killed_connects_again)
{
	struct farkv *other = e2e_open(srv.path, 5000), *ro;
	struct farkv_client c = {0}, again = {0};
	struct farkv_options o;

	OK(e2e_put(other, "k", "v"));
	ck_assert_uint_eq(sessions(&c), 2);
	ck_assert_uint_eq(c.flags & (FARKV_CLIENT_READONLY | FARKV_CLIENT_SELF), 0);
	ck_assert(c.peer[0]);
	FAILS(FARKV_ENOTFOUND, farkv_kill(kv, c.session + 1));
	FAILS(FARKV_ENOTFOUND, farkv_kill(other, c.session)); /* itself */
	farkv_options_init(&o);
	o.flags = FARKV_OPEN_READONLY;
	OK(farkv_open(srv.path, &o, &ro));
	FAILS(FARKV_EPERM, farkv_kill(ro, c.session));
	farkv_close(ro);
	OK(farkv_kill(kv, c.session));
	FAILS(FARKV_ENOTFOUND, farkv_kill(kv, c.session));
	/* The handle learns of it, and goes on as a new session. */
	do {
		int err = farkv_ping(other, NULL);

		ck_assert(err == FARKV_OK || err == FARKV_EDISCONNECTED);
	} while (sessions(&again) != 2 || again.session == c.session);
	ck_assert_uint_gt(again.session, c.session);
	e2e_expect_str(other, "k", "v");
	OK(e2e_put(other, "k", "w"));
	farkv_close(other);
}

TEST(class_sizes_are_listed_once_each)
{
	struct farkv_class c = {.size = sizeof(c)};
	char value[5000] = {0};
	uint64_t last = 0, out = 0;

	OK(farkv_put(kv, "small", 5, "x", 1));
	OK(farkv_put(kv, "large", 5, value, sizeof(value)));
	while (farkv_class_next(kv, &c) == 0) {
		ck_assert_uint_gt(c.block_bytes, last);
		ck_assert_uint_gt(c.out + c.free + c.deferred + c.exhausted, 0);
		last = c.block_bytes;
		out += c.out;
	}
	ck_assert_uint_gt(last, sizeof(value));
	ck_assert_uint_ge(out, 2);
	FAILS(FARKV_EINVAL, farkv_class_next(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_client_next(kv, NULL));
}

/* What this handle asked for so far is among them. */
TEST(pauses_are_listed_the_longest_first)
{
	struct farkv_pause p = {.size = sizeof(p)};
	struct farkv_fsck f = {.size = sizeof(f)};
	uint64_t last = UINT64_MAX, n = 0, checks = 0, messages = 0;

	OK(farkv_fsck(kv, &f));
	while (farkv_pause_next(kv, &p) == 0) {
		ck_assert_uint_eq(p.rank, ++n);
		ck_assert_uint_le(p.ns, last);
		ck_assert_uint_gt(p.ns, 0);
		last = p.ns;
		checks += strcmp(p.what, "check") == 0;
		messages += strcmp(p.what, "message") == 0;
	}
	ck_assert_uint_le(n, 32);
	ck_assert_uint_ge(checks, 1);
	ck_assert_uint_ge(messages, 1);
	FAILS(FARKV_EINVAL, farkv_pause_next(kv, NULL));
}

TEST(error_has_a_text)
{
	static const int errs[] = {
		FARKV_ENOTFOUND, FARKV_EEXISTS, FARKV_EVERSION,
		FARKV_ENOSPC, FARKV_EINDEXFULL, FARKV_ETOOLARGE,
		FARKV_ETOOSMALL, FARKV_ETIMEDOUT, FARKV_EMAYBE, FARKV_EPERM,
		FARKV_EINVAL, FARKV_ENOMEM, FARKV_EABORTED, FARKV_EAGAIN, FARKV_ESTALE,
		FARKV_EDISCONNECTED, FARKV_EUNREACHABLE, FARKV_EREFUSED,
		FARKV_EPROTOCOL, FARKV_EFORMAT, FARKV_ECORRUPT, FARKV_EURI,
		FARKV_ENOTSUP, FARKV_ESYS};

	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		const char *text = farkv_strerror(errs[i]);

		ck_assert_ptr_nonnull(text);
		ck_assert_str_ne(text, farkv_strerror(12345));
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(text, farkv_strerror(errs[j]));
	}
	ck_assert_ptr_nonnull(farkv_strerror(INT32_MIN));
	ck_assert_str_eq(farkv_version(), PACKAGE_VERSION);
	FAILS(FARKV_EINVAL, farkv_put(kv, "", 0, "v", 1));
	e2e_detail("empty");
	OK(e2e_put(kv, "k", "v"));
	ck_assert_str_eq(farkv_errdetail(), "");
}

TEST_SUITE("farkv", real_server_require())
