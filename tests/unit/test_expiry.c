/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that expire, with a real kvserver: what a user sees. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", "-I", "1m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- requests ------------------------------------------------------------------------ */

static struct farkv_write_options options;

/* A write of `value` under `key` with this time to live. */
static struct farkv_request dated(uint32_t kind, const char *key, const char *value,
				  uint64_t ttl_ms)
{
	options = (struct farkv_write_options){.size = sizeof(options), .ttl_ms = ttl_ms,
					       .user = 4711};
	return (struct farkv_request){.kind = kind, .key = key, .key_len = strlen(key),
				      .value = value, .value_len = strlen(value),
				      .options = &options};
}

static int write_dated(uint32_t kind, const char *key, const char *value, uint64_t ttl_ms,
		       uint64_t expected)
{
	struct farkv_request req = dated(kind, key, value, ttl_ms);
	uint64_t version = 0;
	int err;

	req.expected = expected;
	err = farkv_write(kv, &req, &version);
	ck_assert_int_eq(err == 0, version != 0);
	return err;
}

static struct farkv_value got(const char *key)
{
	struct farkv_value v;

	OK(farkv_get(kv, key, strlen(key), &v));
	return v;
}

/* Get a dated value until that fails. */
static int outlive(const char *key)
{
	struct farkv_value v;
	int err;

	while ((err = farkv_get(kv, key, strlen(key), &v)) == 0)
		ck_assert_uint_ne(v.ttl_ms, 0);
	return err;
}

static void await_end(const char *key)
{
	FAILS(FARKV_ENOTFOUND, outlive(key));
}

/* Until a statistic of the server is at least this. */
static void await_expired(uint64_t n)
{
	struct farkv_stats st = {.size = sizeof(st)};

	do
		OK(farkv_stats(kv, &st));
	while (st.expired < n);
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(each_write_with_options_reads_back_what_it_wrote)
{
	struct farkv_value v;

	OK(write_dated(FARKV_REQUEST_PUT, "k", "put", 100000, 0));
	v = got("k");
	ck_assert_mem_eq(v.data, "put", 3);
	ck_assert_uint_eq(v.user, 4711);
	ck_assert(v.ttl_ms > 0 && v.ttl_ms <= 100000);
	FAILS(FARKV_EEXISTS, write_dated(FARKV_REQUEST_ADD, "k", "x", 1000, 0));
	OK(write_dated(FARKV_REQUEST_REPLACE, "k", "replace", 200000, 0));
	v = got("k");
	ck_assert(v.ttl_ms > 100000 && v.ttl_ms <= 200000);
	OK(write_dated(FARKV_REQUEST_CAS, "k", "cas", 0, v.version));
	v = got("k");
	ck_assert_uint_eq(v.ttl_ms, 0);
	ck_assert_uint_eq(v.user, 4711);
	FAILS(FARKV_EVERSION, write_dated(FARKV_REQUEST_CAS, "k", "x", 0, v.version - 1));
	OK(write_dated(FARKV_REQUEST_ADD, "n", "add", FARKV_TTL_MAX_MS, 0));
	v = got("n");
	ck_assert(v.ttl_ms <= FARKV_TTL_MAX_MS && v.ttl_ms > FARKV_TTL_MAX_MS - 100000);
	/* Without options neither survives. */
	OK(e2e_put(kv, "n", "plain"));
	v = got("n");
	ck_assert_uint_eq(v.ttl_ms + v.user, 0);
}

TEST(options_that_are_not_valid_are_refused)
{
	struct farkv_request req = dated(FARKV_REQUEST_PUT, "k", "v", 1);
	struct farkv_value v;

	options.ttl_ms = FARKV_TTL_MAX_MS + 1;
	FAILS(FARKV_EINVAL, farkv_write(kv, &req, NULL));
	FAILS(FARKV_EINVAL, farkv_submit(kv, &req, 1));
	FAILS(FARKV_EINVAL, farkv_touch(kv, "k", 1, FARKV_TTL_MAX_MS + 1));
	options.ttl_ms = 1;
	options.flags = 1;
	FAILS(FARKV_EINVAL, farkv_write(kv, &req, NULL));
	options.flags = 0;
	options.size--;
	FAILS(FARKV_EINVAL, farkv_write(kv, &req, NULL));
	options.size++;
	req.kind = FARKV_REQUEST_GET;
	FAILS(FARKV_EINVAL, farkv_write(kv, &req, NULL));
	FAILS(FARKV_EINVAL, farkv_submit(kv, &req, 1));
	FAILS(FARKV_EINVAL, farkv_write(kv, NULL, NULL));
	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "k", 1, &v));
}

TEST(time_passes_and_the_key_is_absent_for_every_call)
{
	struct farkv_request req = dated(FARKV_REQUEST_PUT, "k", "v", 60);
	struct farkv_get_item item = {.key = "k", .key_len = 1};
	struct farkv_value v;
	uint64_t version;

	OK(farkv_write(kv, &req, &version));
	await_end("k");
	OK(farkv_mget(kv, &item, 1));
	ck_assert_int_eq(item.result, FARKV_ENOTFOUND);
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "k", 1));
	FAILS(FARKV_ENOTFOUND, farkv_append(kv, "k", 1, "x", 1));
	FAILS(FARKV_ENOTFOUND, farkv_incr(kv, "k", 1, NULL, NULL));
	FAILS(FARKV_ENOTFOUND, farkv_replace(kv, "k", 1, "x", 1));
	FAILS(FARKV_ENOTFOUND, farkv_cas(kv, "k", 1, "x", 1, version, NULL));
	FAILS(FARKV_ENOTFOUND, e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_touch(kv, "k", 1, 1000));
	OK(farkv_add(kv, "k", 1, "new", 3));
	v = got("k");
	ck_assert_mem_eq(v.data, "new", 3);
}

TEST(touch_writes_only_what_has_less_than_seven_eighths_left)
{
	struct farkv_value v, w;

	OK(write_dated(FARKV_REQUEST_PUT, "k", "value", 100000, 0));
	v = got("k");
	OK(farkv_touch(kv, "k", 1, 100000));
	ck_assert_uint_eq(got("k").version, v.version);
	OK(farkv_get_touch(kv, "k", 1, 200000, &w));
	ck_assert_mem_eq(w.data, "value", 5);
	ck_assert_uint_eq(w.len, 5);
	ck_assert_uint_eq(w.user, 4711);
	ck_assert_uint_ne(w.version, v.version);
	v = got("k");
	ck_assert_uint_eq(v.version, w.version);
	ck_assert(v.ttl_ms > 100000);
	ck_assert_uint_eq(v.user, 4711);
	OK(farkv_touch(kv, "k", 1, 50000)); /* shorter, too */
	ck_assert(got("k").ttl_ms <= 50000);
	OK(farkv_touch(kv, "k", 1, 0));
	ck_assert_uint_eq(got("k").ttl_ms, 0);
	FAILS(FARKV_ENOTFOUND, farkv_touch(kv, "none", 4, 1000));
	FAILS(FARKV_EINVAL, farkv_get_touch(kv, "k", 1, 1000, NULL));
	FAILS(FARKV_EINVAL, farkv_touch(NULL, "k", 1, 1000));
}

#define BATCH 200
#define LONG_KEY 60000 /* so many of a batch are more than a handle keeps */

TEST(touch_takes_a_key_that_the_previous_call_returned)
{
	static struct farkv_get_item items[BATCH];
	static char names[BATCH][16], value[LONG_KEY];
	struct farkv_value v;

	memset(value, 'k', sizeof(value));
	OK(farkv_put(kv, value, sizeof(value), "x", 1));
	for (int i = 0; i < BATCH; i++) {
		items[i] = (struct farkv_get_item){.key = names[i]};
		items[i].key_len = (size_t)snprintf(names[i], sizeof(names[i]), "name %d", i);
		OK(farkv_put(kv, names[i], items[i].key_len, value, sizeof(value)));
	}
	for (int i = 0; i < BATCH; i += BATCH - 1) {
		uint64_t ttl_ms = i ? 120000 : 60000;

		OK(farkv_mget(kv, items, BATCH));
		OK(farkv_get_touch(kv, items[i].value.data, items[i].value.len, ttl_ms, &v));
		ck_assert_uint_eq(v.ttl_ms, ttl_ms);
		ck_assert_uint_eq(v.len, 1);
	}
}

TEST(submitted_request_has_options_of_its_own)
{
	struct farkv_request req = dated(FARKV_REQUEST_PUT, "k", "v", 100000);
	struct farkv_completion c;

	ck_assert_int_eq(farkv_submit(kv, &req, 1), 1);
	options = (struct farkv_write_options){0}; /* read by farkv_submit() alone */
	ck_assert_int_eq(farkv_wait(kv, &c, 1, 20000), 1);
	OK(c.result);
	req = (struct farkv_request){.kind = FARKV_REQUEST_GET, .key = "k", .key_len = 1};
	ck_assert_int_eq(farkv_submit(kv, &req, 1), 1);
	ck_assert_int_eq(farkv_wait(kv, &c, 1, 20000), 1);
	OK(c.result);
	ck_assert(c.value.ttl_ms > 0 && c.value.ttl_ms <= 100000);
	ck_assert_uint_eq(c.value.user, 4711);
}

TEST(server_is_stopped_so_nothing_expires_and_a_first_dated_value_waits)
{
	struct farkv *hasty = e2e_open(srv.path, 50);
	struct farkv_request req;
	uint64_t end;
	int err;

	/* Blocks, before the server stops; CLOCK does not run yet. */
	do
		err = farkv_put(hasty, "k", 1, "v", 1);
	while (err == FARKV_ETIMEDOUT);
	OK(err);
	real_server_pause(&srv);
	req = dated(FARKV_REQUEST_PUT, "k", "v", 20);
	FAILS(FARKV_ETIMEDOUT, farkv_write(hasty, &req, NULL));
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "clock"));
	real_server_resume(&srv);
	OK(write_dated(FARKV_REQUEST_PUT, "k", "v", 200, 0));
	real_server_pause(&srv);
	if (farkv_get(kv, "k", 1, &(struct farkv_value){0}) == 0) {
		end = clock_now_ns() + 400 * NS_PER_MS;
		while (clock_now_ns() < end)
			ck_assert_mem_eq(got("k").data, "v", 1);
	}
	real_server_resume(&srv);
	await_end("k");
	farkv_close(hasty);
}

TEST(nobody_asks_and_the_reaper_frees)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	char key[16];

	for (unsigned i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "%u", i);
		OK(write_dated(FARKV_REQUEST_PUT, key, "value", i % 3 ? 50 : 0, 0));
	}
	await_expired(2000);
	OK(farkv_fsck(kv, &f));
	ck_assert_uint_eq(f.items, 1000);
	ck_assert_uint_eq(f.expired, 0);
	/* Compactions free their slots. */
	while (f.dead_slots >= 1000)
		OK(farkv_fsck(kv, &f));
	for (unsigned i = 0; i < 3000; i += 3) {
		snprintf(key, sizeof(key), "%u", i);
		ck_assert_mem_eq(got(key).data, "value", 5);
	}
}

/* They are few of the keys, and most of the memory. */
TEST(large_expired_values_do_not_wait_for_small_ones)
{
	static char large[1 << 20];
	struct farkv_request req = dated(FARKV_REQUEST_PUT, "", "", 20);
	struct farkv_fsck f = {.size = sizeof(f)};
	char key[16];

	for (unsigned i = 0; i < 3000; i++) {
		snprintf(key, sizeof(key), "small%u", i);
		OK(e2e_put(kv, key, "value"));
	}
	req.value = large;
	req.value_len = sizeof(large);
	req.key = key;
	for (unsigned i = 0; i < 20; i++) {
		req.key_len = (size_t)snprintf(key, sizeof(key), "large%u", i);
		OK(farkv_write(kv, &req, NULL));
	}
	await_expired(20);
	do
		OK(farkv_fsck(kv, &f));
	while (f.dead_slots);
	ck_assert_uint_eq(f.items, 3000);
}

/* A CLOCK that did not run on the new server would let no value expire. */
TEST(server_is_started_again_and_values_expire)
{
	static const char *const args[] = {"-m", "64m", "-I", "1m", NULL};
	int err;

	OK(write_dated(FARKV_REQUEST_PUT, "k", "v", 100000, 0));
	real_server_end(&srv, 9);
	real_server_start(&srv, args);
	/* Until the client has seen that the first server is gone it writes to that one's memory.
	 */
	do {
		err = write_dated(FARKV_REQUEST_PUT, "k", "v", 30, 0);
		if (!err)
			err = outlive("k");
	} while (err == FARKV_EDISCONNECTED || err == FARKV_EMAYBE);
	FAILS(FARKV_ENOTFOUND, err);
}

TEST_SUITE("expiry")
