/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real server that stops, dies, leaves and comes back; fork(), threads, and leaks of
 * open and close.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/entries.h"
#include "tests/rig/real_server.h"

/* By how much a call may exceed its deadline on a busy machine. */
#define SLACK_MS 4000 /* on a busy machine; less than a default deadline */
/* Deadline of a call that needs no answer or an immediate one, on a busy machine. */
#define LONG_MS 20000

static const char *const args[] = {"-m", "64m", "--grace-ms", "5", NULL};
static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, LONG_MS);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* Reopen with another deadline. */
static void reopen(unsigned op_timeout_ms)
{
	farkv_close(kv);
	kv = e2e_open(srv.path, op_timeout_ms);
}

/* 200 ms are short for a server that has slept, on a busy machine. */
#define OK_SOON(call)                                                    \
	do {                                                             \
		uint64_t end = e2e_now_ms() + 10000;                     \
		int err;                                                 \
                                                                         \
		do                                                       \
			err = (call);                                    \
		while (err == FARKV_ETIMEDOUT && e2e_now_ms() < end);    \
		OK(err);                                                 \
	} while (0)

/* The call fails with `want`, not before `min_ms` and by `max_ms`. */
#define FAILS_WITHIN(want, min_ms, max_ms, call)                         \
	do {                                                             \
		uint64_t t0 = e2e_now_ms();                              \
                                                                         \
		FAILS(want, call);                                       \
		t0 = e2e_now_ms() - t0;                                  \
		ck_assert_uint_ge(t0 + 1, min_ms);                       \
		ck_assert_uint_le(t0, max_ms);                           \
	} while (0)

/* ---- stopped --------------------------------------------------------------- */

static void use_k_while_stopped(void)
{
	char key[16], value[16];

	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		e2e_expect_str(kv, key, "before");
		for (int j = 0; j < 3; j++) {
			snprintf(value, sizeof(value), "during %d", j);
			OK(e2e_put(kv, key, value));
			e2e_expect_str(kv, key, value);
		}
	}
	OK(farkv_replace(kv, "k0", 2, "replaced", 8));
	OK(farkv_cas(kv, "k1", 2, "cas", 3, e2e_version(kv, "k1"), NULL));
	OK(e2e_del(kv, "k2"));
	OK(e2e_put(kv, "k2", "again"));
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(server_stopped_stored_keys_can_be_used)
{
	static uint8_t huge[70000];
	char key[16];

	for (int i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		OK(e2e_put(kv, key, "before"));
	}
	OK(farkv_put(kv, "huge", 4, huge, sizeof(huge)));
	real_server_pause(&srv);
	use_k_while_stopped();
	OK(e2e_del(kv, "huge"));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "huge"));
	FAILS(FARKV_ENOTFOUND, e2e_del(kv, "nobody"));

	real_server_resume(&srv);
	e2e_expect_str(kv, "k0", "replaced");
	e2e_expect_str(kv, "k1", "cas");
	e2e_expect_str(kv, "k2", "again");
	e2e_expect_str(kv, "k49", "during 2");
}

TEST(server_stopped_calls_time_out)
{
	struct farkv_stats s = {.size = sizeof(s)};
	struct farkv_fsck f = {.size = sizeof(f)};
	struct farkv *hasty = e2e_open(srv.path, 200), *h = NULL;
	struct farkv_options o;
	static uint8_t big[8000];

	real_server_pause(&srv);
	FAILS_WITHIN(FARKV_ETIMEDOUT, 200, 200 + SLACK_MS,
		     farkv_ping(hasty, NULL));
	e2e_detail("is it stopped");
	memset((uint8_t *)&s + sizeof(s.size), POISON,
	       sizeof(s) - sizeof(s.size));
	FAILS_WITHIN(FARKV_ETIMEDOUT, 200, 200 + SLACK_MS,
		     farkv_stats(hasty, &s));
	ck_assert(e2e_poisoned((uint8_t *)&s + sizeof(s.size),
			       sizeof(s) - sizeof(s.size)));
	FAILS_WITHIN(FARKV_ETIMEDOUT, 200, 200 + SLACK_MS,
		     farkv_fsck(hasty, &f));
	e2e_detail("large store needs a longer op_timeout_ms");
	FAILS_WITHIN(FARKV_ETIMEDOUT, 200, 200 + SLACK_MS,
		     farkv_put(hasty, "big", 3, big, sizeof(big)));
	e2e_detail("server stopped");
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "big"));
	farkv_options_init(&o);
	o.connect_timeout_ms = 200;
	FAILS_WITHIN(FARKV_ETIMEDOUT, 200, 200 + SLACK_MS,
		     farkv_open(srv.path, &o, &h));
	ck_assert_ptr_null(h);

	real_server_resume(&srv);
	OK_SOON(farkv_ping(hasty, NULL));
	OK_SOON(farkv_put(hasty, "big", 3, big, sizeof(big)));
	e2e_expect(kv, "big", 3, big, sizeof(big));
	OK_SOON(farkv_stats(hasty, &s));
	ck_assert_uint_eq(s.protocol_errors, 0);
	farkv_close(hasty);
}

/* After one put a key can be overwritten again and again without the server. */
TEST(server_stopped_overwrites_go_on)
{
	static const size_t sizes[] = {1, 100, 3000, 100000, 1 << 20};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *value = malloc(sizes[i]);

		reopen(LONG_MS);
		memset(value, 'a', sizes[i]);
		OK(farkv_put(kv, "one", 3, value, sizes[i]));
		real_server_pause(&srv);
		for (int j = 0; j < 3; j++) {
			memset(value, 'b' + j, sizes[i]);
			OK(farkv_put(kv, "one", 3, value, sizes[i]));
			e2e_expect(kv, "one", 3, value, sizes[i]);
		}
		OK(e2e_del(kv, "one"));
		FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "one"));
		real_server_resume(&srv);
		free(value);
	}
}

TEST(server_stopped_close_ends_in_time)
{
	uint64_t t;

	OK(e2e_put(kv, "k", "v"));
	real_server_pause(&srv);
	t = e2e_now_ms();
	farkv_close(kv);
	ck_assert_uint_le(e2e_now_ms() - t, 1000 + SLACK_MS);
	real_server_resume(&srv);
	kv = e2e_open(srv.path, LONG_MS);
	e2e_expect_str(kv, "k", "v");
}

/* ---- gone ------------------------------------------------------------------ */

/* Until the handle has noticed it returns the right value or "disconnected". */
static void wait_noticed(const char *key, const char *value)
{
	uint64_t end = e2e_now_ms() + LONG_MS;
	struct farkv_value v;
	int err;

	while ((err = farkv_get(kv, key, strlen(key), &v)) == 0) {
		ck_assert_uint_eq(v.len, strlen(value));
		ck_assert_mem_eq(v.data, value, v.len);
		ck_assert_uint_lt(e2e_now_ms(), end);
	}
	FAILS(FARKV_EDISCONNECTED, err);
}

/* Until it is connected again. */
static void wait_connected(void)
{
	uint64_t end = e2e_now_ms() + LONG_MS;
	int err;

	while ((err = farkv_ping(kv, NULL)) != 0) {
		FAILS(FARKV_EDISCONNECTED, err);
		ck_assert_uint_lt(e2e_now_ms(), end);
	}
}

static void expect_gone(void)
{
	static uint8_t big[50000];
	struct farkv_get_item g = {.key = "k", .key_len = 1};
	struct farkv_stats s = {.size = sizeof(s)};
	uint64_t version = 7;

	FAILS_WITHIN(FARKV_EDISCONNECTED, 0, SLACK_MS, farkv_ping(kv, NULL));
	FAILS_WITHIN(FARKV_EDISCONNECTED, 0, SLACK_MS, farkv_stats(kv, &s));
	FAILS_WITHIN(FARKV_EDISCONNECTED, 0, SLACK_MS,
		     farkv_put(kv, "k", 1, big, sizeof(big)));
	FAILS(FARKV_EDISCONNECTED, e2e_probe(kv, "k"));
	FAILS(FARKV_EDISCONNECTED, e2e_del(kv, "k"));
	FAILS(FARKV_EDISCONNECTED, farkv_add(kv, "k", 1, "x", 1));
	FAILS(FARKV_EDISCONNECTED,
	      farkv_cas(kv, "k", 1, "x", 1, 1, &version));
	ck_assert_uint_eq(version, 7);
	FAILS(FARKV_EDISCONNECTED, farkv_mget(kv, &g, 1));
	ck_assert_int_eq(g.result, FARKV_EABORTED);
	ck_assert_str_ne(farkv_errdetail(), "");
}

static void expect_fresh(void)
{
	wait_connected();
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
	OK(farkv_add(kv, "k", 1, "new", 3));
	e2e_expect_str(kv, "k", "new");
	OK(e2e_del(kv, "k"));
}

TEST(server_killed_next_one_is_found)
{
	struct farkv_counters c = {.size = sizeof(c)};
	uint64_t messages, version;

	OK(e2e_put(kv, "k", "old"));
	version = e2e_version(kv, "k");
	OK(farkv_counters(kv, &c));
	messages = c.control_msgs;
	ck_assert_int_eq(real_server_end(&srv, SIGKILL), SIGKILL);
	expect_gone();
	real_server_start(&srv, args);
	/* Its versions differ for the same operations. */
	wait_connected();
	OK(e2e_put(kv, "k", "new"));
	FAILS(FARKV_EVERSION, farkv_cas(kv, "k", 1, "x", 1, version, NULL));
	OK(e2e_del(kv, "k"));
	expect_fresh();
	OK(farkv_counters(kv, &c));
	ck_assert_uint_gt(c.control_msgs, messages);
}

/* The old region stays mapped until the handle notices, and is never used after that. */
TEST(server_replaced_old_region_is_left)
{
	OK(e2e_put(kv, "k", "old"));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(real_server_end(&srv, SIGKILL), SIGKILL);
		real_server_start(&srv, args);
		wait_noticed("k", i ? "new" : "old");
		wait_connected();
		FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
		OK(e2e_put(kv, "k", "new"));
	}
}

TEST(server_terminated_ends_in_time_and_is_found_again)
{
	uint64_t t;

	OK(e2e_put(kv, "k", "old"));
	t = e2e_now_ms();
	ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
	ck_assert_uint_le(e2e_now_ms() - t, 1000 + SLACK_MS);
	wait_noticed("k", "old");
	expect_gone();
	real_server_start(&srv, args);
	expect_fresh();
}

static void *kill_soon(void *arg)
{
	(void)arg;
	usleep(100000);
	kill(srv.pid, SIGKILL);
	return NULL;
}

/* It dies during a call that waits for it: the call ends before its deadline. */
TEST(server_killed_under_a_call_ends_it_early)
{
	static uint8_t big[50000];
	uint64_t began;
	pthread_t t;
	int status;

	OK(e2e_put(kv, "k", "v"));
	real_server_pause(&srv);
	began = e2e_now_ms();
	ck_assert_int_eq(pthread_create(&t, NULL, kill_soon, NULL), 0);
	FAILS_WITHIN(FARKV_EDISCONNECTED, 0, LONG_MS / 2,
		     farkv_put(kv, "k", 1, big, sizeof(big)));
	ck_assert_uint_ge(e2e_now_ms() + 1 - began, 100);
	pthread_join(t, NULL);
	ck_assert_int_eq(waitpid(srv.pid, &status, 0), srv.pid);
	srv.pid = 0;
	real_server_start(&srv, args);
	expect_fresh();
}

/* ---- fork ------------------------------------------------------------------ */

#define CHILD(cond)                                                      \
	do {                                                             \
		if (!(cond)) {                                           \
			fprintf(stderr, "child: %s: %s\n", #cond,        \
				farkv_errdetail());                      \
			_exit(1);                                        \
		}                                                        \
	} while (0)

static void child_main(void)
{
	struct farkv_value v;
	struct farkv *own;

	CHILD(farkv_get(kv, "k", 1, &v) == FARKV_EDISCONNECTED);
	CHILD(strstr(farkv_errdetail(), "fork"));
	CHILD(e2e_put(kv, "k", "no") == FARKV_EDISCONNECTED);
	CHILD(e2e_del(kv, "k") == FARKV_EDISCONNECTED);
	CHILD(farkv_ping(kv, NULL) == FARKV_EDISCONNECTED);
	CHILD(farkv_open(srv.path, NULL, &own) == 0);
	CHILD(e2e_put(own, "child", "was here") == 0);
	CHILD(farkv_get(own, "k", 1, &v) == 0);
	CHILD(farkv_get(kv, "k", 1, &v) == FARKV_EDISCONNECTED);
	farkv_close(kv);
	CHILD(farkv_get(own, "k", 1, &v) == 0);
	CHILD(e2e_put(own, "k", "from the child") == 0);
	farkv_close(own);
	_exit(0);
}

static uint64_t sessions_open(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(kv, &s));
	return s.sessions;
}

/* The child may have left without waiting for a busy server. */
static void wait_for_sessions(uint64_t want)
{
	uint64_t end = e2e_now_ms() + LONG_MS;

	while (sessions_open() != want) {
		ck_assert_uint_lt(e2e_now_ms(), end);
		usleep(10000);
	}
}

TEST(child_of_fork_may_not_use_the_handle)
{
	struct farkv_stats s = {.size = sizeof(s)};

	if (test_tsan_skips("fork"))
		return;
	OK(e2e_put(kv, "k", "v"));
	for (int i = 0; i < 3; i++) {
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0)
			child_main();
		OK(e2e_put(kv, "parent", "goes on"));
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		e2e_expect_str(kv, "k", "from the child");
		e2e_expect_str(kv, "child", "was here");
		OK(farkv_ping(kv, NULL));
	}
	wait_for_sessions(1);
	OK(farkv_stats(kv, &s));
	ck_assert_uint_eq(s.sessions_total, 4);
}

/* Descriptors that a child inherited do not keep its dead parent's session open. */
TEST(child_that_outlives_its_parent_holds_no_session)
{
	int up[2], hold[2];
	char c;
	pid_t pid;

	if (test_tsan_skips("child outlives its parent"))
		return;
	ck_assert_int_eq(pipe(up), 0);
	ck_assert_int_eq(pipe(hold), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct farkv *own;

		CHILD(farkv_open(srv.path, NULL, &own) == 0);
		CHILD(e2e_put(own, "k", "v") == 0);
		pid = fork();
		if (pid == 0) {
			close(hold[1]);
			CHILD(read(hold[0], &c, 1) == 0);
			_exit(0);
		}
		CHILD(write(up[1], "u", 1) == 1);
		pause();
	}
	ck_assert_int_eq(read(up[0], &c, 1), 1);
	ck_assert_uint_eq(sessions_open(), 2);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	wait_for_sessions(1);
	close(hold[1]);
}

/* ---- threads and leaks ----------------------------------------------------- */

static size_t count_region_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	size_t n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:") != NULL;
	fclose(f);
	return n;
}

enum { THREADS = 4, ROUNDS = 25 };

/* Only the main thread asserts: returns the number of the first failed step. */
static long churn(unsigned me)
{
	unsigned shared[64];
	struct farkv_value v;
	struct farkv *h;

	memset(shared, (int)me, sizeof(shared));
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned key = me * 1000 + i;

		if (farkv_open(srv.path, NULL, &h))
			return 1;
		for (unsigned j = 0; j < 20; j++) {
			unsigned got;

			if (farkv_put(h, &key, sizeof(key), &j, sizeof(j)) ||
			    farkv_get(h, &key, sizeof(key), &v) ||
			    v.len != sizeof(got))
				return 2;
			memcpy(&got, v.data, sizeof(got));
			if (got != j)
				return 3;
			/* Values of one writer, whichever. */
			if (farkv_put(h, "shared", 6, shared, sizeof(shared)) ||
			    farkv_get(h, "shared", 6, &v) ||
			    v.len != sizeof(shared))
				return 4;
			memset(shared, *(const uint8_t *)v.data,
			       sizeof(shared));
			if (memcmp(v.data, shared, sizeof(shared)) != 0)
				return 6;
		}
		if (i % 2 && farkv_delete(h, &key, sizeof(key)))
			return 5;
		farkv_close(h);
	}
	return 0;
}

static void *churn_thread(void *arg)
{
	return (void *)(intptr_t)churn((unsigned)(uintptr_t)arg);
}

TEST(handles_of_many_threads_lose_no_block)
{
	struct farkv_stats s = {.size = sizeof(s)};
	size_t fds = entries(ENTRIES_FDS);
	size_t maps = count_region_maps();
	pthread_t t[THREADS];
	void *result;

	ck_assert_int_eq(maps == 0, real_server_is_remote());
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, churn_thread,
						(void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i], &result);
		ck_assert_int_eq((intptr_t)result, 0);
	}
	ck_assert_uint_eq(entries(ENTRIES_FDS), fds);
	ck_assert_uint_eq(count_region_maps(), maps);
	wait_for_sessions(1);
	/* Every block is published or came back, by a sweep if need be. */
	for (uint64_t end = e2e_now_ms() + LONG_MS;;) {
		OK(farkv_stats(kv, &s));
		if (s.blocks_granted == s.items + s.dead_slots)
			break;
		ck_assert_uint_lt(e2e_now_ms(), end);
		usleep(10000);
	}
	ck_assert_uint_eq(s.items, THREADS * ((ROUNDS + 1) / 2) + 1);
	ck_assert_uint_eq(s.dead_slots, THREADS * (ROUNDS / 2));
	ck_assert_uint_eq(s.protocol_errors, 0);
}

/* Failed opens and servers that go leak nothing. */
TEST(failed_opens_leak_nothing)
{
	size_t fds, maps;
	struct farkv *h;

	farkv_close(kv);
	fds = entries(ENTRIES_FDS);
	maps = count_region_maps();
	ck_assert_uint_eq(maps, 0);
	for (int i = 0; i < 20; i++) {
		FAILS(FARKV_EUNREACHABLE,
		      farkv_open("/nobody/home", NULL, &h));
		FAILS(FARKV_EURI, farkv_open("shm://?", NULL, &h));
		kv = e2e_open(srv.path, LONG_MS);
		OK(e2e_put(kv, "k", "v"));
		if (i % 10 == 0) {
			real_server_end(&srv, SIGKILL);
			FAILS(FARKV_EDISCONNECTED, farkv_ping(kv, NULL));
			real_server_start(&srv, args);
			if (i == 0)
				wait_connected();
		}
		farkv_close(kv);
	}
	ck_assert_uint_eq(entries(ENTRIES_FDS), fds);
	ck_assert_uint_eq(count_region_maps(), 0);
	kv = e2e_open(srv.path, LONG_MS);
}

TEST_SUITE("outage", real_server_require())
