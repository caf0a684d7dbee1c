/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets, hits, misses and sets of all sessions, as farkv_stats() tells them. */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

static struct real_server srv;
static struct farkv *kv;
static struct farkv_stats seen;

/* What has been counted since the last call. */
static void check(uint64_t hits, uint64_t misses, uint64_t sets)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(kv, &s));
	ck_assert_uint_eq(s.hits - seen.hits, hits);
	ck_assert_uint_eq(s.misses - seen.misses, misses);
	ck_assert_uint_eq(s.sets - seen.sets, sets);
	ck_assert_uint_eq(s.gets, s.hits + s.misses);
	seen = s;
}

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", "--grace-ms", "20", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
	memset(&seen, 0, sizeof(seen));
	check(0, 0, 0);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(calls_of_one_key_count_their_outcome)
{
	static char large[100000];
	struct farkv_value v;
	char buf[4];
	uint64_t version;
	size_t len;

	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "k", 1, &v));
	FAILS(FARKV_ENOTFOUND, farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL));
	check(0, 2, 0);
	OK(farkv_put(kv, "k", 1, "value", 5)); /* a new key */
	OK(farkv_put(kv, "k", 1, "other", 5)); /* overwritten */
	OK(farkv_put(kv, "large", 5, large, sizeof(large)));
	OK(farkv_add(kv, "a", 1, "x", 1));
	FAILS(FARKV_EEXISTS, farkv_add(kv, "a", 1, "x", 1));
	OK(farkv_replace(kv, "a", 1, "y", 1));
	FAILS(FARKV_ENOTFOUND, farkv_replace(kv, "b", 1, "y", 1));
	check(0, 0, 5);
	for (unsigned i = 0; i < 3; i++)
		OK(farkv_get(kv, "k", 1, &v));
	OK(farkv_get(kv, "large", 5, &v));
	version = v.version;
	FAILS(FARKV_ETOOSMALL, farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL));
	check(5, 0, 0);
	OK(farkv_cas(kv, "large", 5, "z", 1, version, &version));
	FAILS(FARKV_EVERSION, farkv_cas(kv, "large", 5, "z", 1, version + 1, NULL));
	check(0, 0, 1);
	/* Neither deletes nor wrong calls are gets or sets. */
	OK(farkv_delete(kv, "k", 1));
	FAILS(FARKV_ENOTFOUND, farkv_delete(kv, "k", 1));
	FAILS(FARKV_EINVAL, farkv_get(kv, "", 0, &v));
	FAILS(FARKV_EINVAL, farkv_put(kv, "", 0, "x", 1));
	OK(farkv_ping(kv, NULL));
	check(0, 0, 0);
	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "k", 1, &v)); /* a tombstone */
	check(0, 1, 0);
}

TEST(get_of_an_expired_value_is_a_miss)
{
	struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = 30};
	struct farkv_request req = {.kind = FARKV_REQUEST_PUT, .key = "k", .key_len = 1,
				    .value = "v", .value_len = 1, .options = &o};
	struct farkv_value v;
	unsigned hits = 0;
	int err;

	OK(farkv_write(kv, &req, NULL));
	while ((err = farkv_get(kv, "k", 1, &v)) == 0)
		hits++;
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	check(hits, 1, 1);
}

#define N 200
static uint32_t key[N];
static struct farkv_get_item get_items[N];
static struct farkv_put_item put_items[N];

TEST(batches_count_each_item)
{
	for (unsigned i = 0; i < N; i++) {
		key[i] = i;
		put_items[i] = (struct farkv_put_item){.key = &key[i], .key_len = sizeof(key[i]),
						  .value = "value", .value_len = 5};
		get_items[i] = (struct farkv_get_item){.key = &key[i], .key_len = sizeof(key[i])};
	}
	OK(farkv_mput(kv, put_items, N / 2));
	check(0, 0, N / 2);
	OK(farkv_mget(kv, get_items, N));
	check(N / 2, N / 2, 0);
	get_items[3].key_len = 0;
	FAILS(FARKV_EINVAL, farkv_mget(kv, get_items, 10));
	check(9, 0, 0);
}

static void run(const struct farkv_request *r, int want)
{
	struct farkv_completion c;

	ck_assert_int_eq(farkv_submit(kv, r, 1), 1);
	while (farkv_wait(kv, &c, 1, 1000) == 0)
		;
	ck_assert_int_eq(c.result, want);
}

TEST(submitted_requests_count_their_outcome)
{
	struct farkv_request get = {.kind = FARKV_REQUEST_GET, .key = "k", .key_len = 1};
	struct farkv_request put = {.kind = FARKV_REQUEST_PUT, .key = "k", .key_len = 1,
				    .value = "v", .value_len = 1};
	struct farkv_request del = {.kind = FARKV_REQUEST_DELETE, .key = "k", .key_len = 1};

	run(&get, FARKV_ENOTFOUND);
	run(&put, 0);
	run(&get, 0);
	run(&get, 0);
	run(&del, 0);
	check(2, 1, 1);
}

TEST(sessions_that_ended_are_in_the_sums)
{
	struct farkv *other = e2e_open(srv.path, 20000);
	struct farkv *reader = e2e_open_readonly(srv.path, 20000);

	OK(e2e_put(other, "k", "v"));
	e2e_expect_str(other, "k", "v");
	e2e_expect_str(reader, "k", "v");
	farkv_close(other);
	farkv_close(reader);
	check(2, 0, 1);
}

/* A process that is killed has counted until its last call; by RDMA that is not told. */
TEST(killed_process_is_in_the_sums)
{
	struct farkv_stats s = {.size = sizeof(s)};
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct farkv *mine = e2e_open(srv.path, 20000);

		OK(e2e_put(mine, "k", "v"));
		e2e_expect_str(mine, "k", "v");
		ck_assert_int_eq(write(ready[1], "r", 1), 1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	do
		OK(farkv_stats(kv, &s));
	while (s.sessions > 1);
	check(!real_server_is_remote(), 0, !real_server_is_remote());
	close(ready[0]);
	close(ready[1]);
}

TEST(presence_is_neither_get_nor_set)
{
	struct farkv_request ask = {.kind = FARKV_REQUEST_EXISTS, .key = "k", .key_len = 1};
	struct farkv_key keys[2] = {{"k", 1}, {"none", 4}};
	size_t prefix;

	OK(e2e_put(kv, "k", "v"));
	check(0, 0, 1);
	OK(farkv_exists(kv, "k", 1));
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "none", 4));
	run(&ask, 0);
	OK(farkv_mexists(kv, keys, 2, NULL, &prefix));
	check(0, 0, 0);
}

TEST(counts_and_appends_that_store_are_sets)
{
	struct farkv_incr_options create = {.size = sizeof(create), .flags = FARKV_INCR_CREATE};

	FAILS(FARKV_ENOTFOUND, farkv_incr(kv, "n", 1, NULL, NULL));
	FAILS(FARKV_ENOTFOUND, farkv_append(kv, "n", 1, "0", 1));
	check(0, 0, 0);
	OK(farkv_incr(kv, "n", 1, &create, NULL));
	OK(farkv_incr(kv, "n", 1, NULL, NULL));
	OK(farkv_decr(kv, "n", 1, NULL, NULL));
	OK(farkv_append(kv, "n", 1, "x", 1));
	OK(farkv_prepend(kv, "n", 1, "x", 1));
	FAILS(FARKV_EINVAL, farkv_incr(kv, "n", 1, NULL, NULL));
	check(0, 0, 5);
}

TEST(borrow_mget_into_and_touch_are_gets)
{
	struct farkv_get_into_item items[2] = {{.key = "k", .key_len = 1},
					       {.key = "none", .key_len = 4}};
	struct farkv_value v;
	struct farkv_view view;

	OK(e2e_put(kv, "k", "v"));
	FAILS(FARKV_ETOOSMALL, farkv_mget_into(kv, items, 2));
	check(1, 1, 1);
	OK(farkv_touch(kv, "k", 1, 1000000));
	OK(farkv_get_touch(kv, "k", 1, 1000000, &v)); /* is not written again */
	FAILS(FARKV_ENOTFOUND, farkv_touch(kv, "none", 4, 1));
	check(2, 1, 1);
	if (real_server_skips("farkv_borrow", "by RDMA nothing is borrowed"))
		return;
	OK(farkv_borrow(kv, "k", 1, &view));
	OK(farkv_borrow_check(kv, &view));
	FAILS(FARKV_ENOTFOUND, farkv_borrow(kv, "none", 4, &view));
	FAILS(FARKV_EINVAL, farkv_borrow(kv, "", 0, &view));
	check(1, 1, 0);
}

TEST_SUITE("hits")
