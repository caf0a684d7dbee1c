/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvserver --memory-file: servers that end in different ways, the next one that adopts the region,
 * and the clients of both.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/entries.h"
#include "tests/rig/real_server.h"
#include "tests/rig/shm_folder.h"

#define LONG_MS 60000 /* a deadline that no call should need */
#define KEYS 200
#define GROWN 6000 /* keys that need several subtables */

static char file[128];
static const char *args[] = {"-m", "64m", "--grace-ms", "5", "--memory-file", file, NULL};
static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	snprintf(file, sizeof(file), "%s/%d", shm_folder, (int)getpid());
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, LONG_MS);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

static void key_of(int i, char key[24])
{
	snprintf(key, 24, "key %d", i);
}

static void put_all(struct farkv *h, int n, const char *value)
{
	char key[24];

	for (int i = 0; i < n; i++) {
		key_of(i, key);
		OK(e2e_put(h, key, value));
	}
}

static void expect_all(struct farkv *h, int n, const char *value)
{
	char key[24];

	for (int i = 0; i < n; i++) {
		key_of(i, key);
		e2e_expect_str(h, key, value);
	}
}

static void server_dies(void)
{
	ck_assert_int_eq(WTERMSIG(real_server_end(&srv, SIGKILL)), SIGKILL);
}

/* Nothing is wrong, and nothing is lost: no block is out but those of keys and of `kv`. */
static void check_store(struct farkv *h, uint64_t items)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(h, &f));
	ck_assert_uint_eq(f.items, items);
	ck_assert_uint_eq(f.bad_directory + f.bad_empty + f.bad_words + f.damaged + f.shared +
				  f.misplaced + f.behind_empty + f.duplicates + f.bad_sums,
			  0);
}

TEST_GROUP(.setup = setup, .teardown = teardown,
	   .begin = shm_folder_make, .end = shm_folder_remove);

TEST(server_killed_the_next_one_has_all_values)
{
	put_all(kv, GROWN, "before");
	server_dies();
	real_server_start(&srv, args);
	expect_all(kv, GROWN, "before");
	put_all(kv, GROWN, "after");
	check_store(kv, GROWN);
	expect_all(kv, GROWN, "after");
}

TEST_LOOP(server_gone_clients_of_its_host_go_on, 0, 2)
{
	if (real_server_skips("clients go on", "an RDMA client needs the server's process"))
		return;
	put_all(kv, KEYS, "before");
	if (_i == 0)
		server_dies();
	else
		ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
	expect_all(kv, KEYS, "before");
	put_all(kv, KEYS, "away");
	put_all(kv, KEYS, "away, 2");
	OK(e2e_del(kv, "key 1"));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "key 1"));
	OK(e2e_put(kv, "key 1", "away, 2"));
	real_server_start(&srv, args);
	expect_all(kv, KEYS, "away, 2");
	check_store(kv, KEYS);
}

static void *put_a_new_size(void *arg)
{
	static char value[30000];

	OK(farkv_put(kv, "large", 5, value, sizeof(value)));
	return arg;
}

TEST(server_gone_a_put_that_needs_it_waits_for_the_next)
{
	pthread_t t;

	OK(e2e_put(kv, "small", "before"));
	server_dies();
	ck_assert_int_eq(pthread_create(&t, NULL, put_a_new_size, NULL), 0);
	real_server_start(&srv, args);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	e2e_expect_str(kv, "small", "before");
	check_store(kv, 2);
}

TEST(server_gone_calls_that_need_it_time_out)
{
	struct farkv *h = e2e_open(srv.path, 50);

	if (!real_server_skips("calls time out", "such a call fails at once")) {
		/* A put asks the server for a block: not with so short a deadline. */
		OK(e2e_put(kv, "k", "v"));
		server_dies();
		FAILS(FARKV_ETIMEDOUT, farkv_ping(h, NULL));
		e2e_expect_str(h, "k", "v");
		real_server_start(&srv, args);
	}
	farkv_close(h);
}

TEST(handle_closed_while_there_is_no_server_memory_comes_back)
{
	struct farkv *h = e2e_open(srv.path, LONG_MS);
	struct farkv_fsck f = {.size = sizeof(f)};

	put_all(h, KEYS, "before");
	server_dies();
	farkv_close(h);
	real_server_start(&srv, args);
	expect_all(kv, KEYS, "before");
	/* The sweep waits for nobody: this process is alive, but has unmapped the session. */
	do
		OK(farkv_fsck(kv, &f));
	while (f.blocks_leaked);
	check_store(kv, KEYS);
}

TEST(idle_handle_holds_up_nobody)
{
	struct farkv *idle = e2e_open(srv.path, LONG_MS);
	struct farkv_stats s = {.size = sizeof(s)};

	put_all(idle, KEYS, "before");
	server_dies();
	real_server_start(&srv, args);
	do
		OK(farkv_stats(kv, &s));
	while (!s.sweeps || !s.barriers);
	expect_all(idle, KEYS, "before");
	farkv_close(idle);
}

TEST(client_stopped_its_memory_is_left_alone_until_it_goes_on)
{
	struct farkv_stats s = {.size = sizeof(s)};
	pid_t child;
	int status;

	if (real_server_skips("a stopped client", "its queue pair ended with the server"))
		return;
	put_all(kv, KEYS, "before");
	child = fork();
	if (child == 0) {
		struct farkv *h = e2e_open(srv.path, LONG_MS);

		put_all(h, KEYS, "child");
		raise(SIGSTOP);
		expect_all(h, KEYS, "child");
		put_all(h, KEYS, "child, again");
		farkv_close(h);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
	ck_assert(WIFSTOPPED(status));
	server_dies();
	real_server_start(&srv, args);
	expect_all(kv, KEYS, "child");
	OK(farkv_stats(kv, &s));
	ck_assert_uint_eq(s.barriers, 0);
	ck_assert_uint_eq(s.sweeps, 0);
	kill(child, SIGCONT);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	do
		OK(farkv_stats(kv, &s));
	while (!s.sweeps || !s.barriers);
	expect_all(kv, KEYS, "child, again");
	check_store(kv, KEYS);
}

TEST(versions_and_sessions_go_on)
{
	uint64_t before;

	OK(e2e_put(kv, "k", "before"));
	before = e2e_version(kv, "k");
	server_dies();
	real_server_start(&srv, args);
	OK(farkv_ping(kv, NULL));
	OK(farkv_cas(kv, "k", 1, "after", 5, before, NULL));
	/* A number that a session or a prefix has had is never given again. */
	ck_assert_uint_gt(e2e_version(kv, "k") >> 32, before >> 32);
}

TEST(values_that_expire_have_their_rest)
{
	struct farkv_value v;

	OK(e2e_put(kv, "k", "v"));
	OK(farkv_touch(kv, "k", 1, 3600000));
	server_dies();
	real_server_start(&srv, args);
	OK(farkv_get(kv, "k", 1, &v));
	ck_assert_uint_gt(v.ttl_ms, 3000000);
	ck_assert_uint_le(v.ttl_ms, 3600000);
	OK(farkv_touch(kv, "k", 1, 1));
	while (farkv_get(kv, "k", 1, &v) == 0)
		;
}

/* ---- over and over, with clients that write all the time ------------------------------ */

#define WRITERS 2
#define KILLS 20

struct writer {
	pthread_t thread;
	int number;
	uint64_t done;
};

static bool stop;

/*
 * Each overwrites keys of its own, and expects what it wrote last. By RDMA the outcome of a write
 * whose CAS was in flight may be unknown.
 */
static void *write_all_the_time(void *arg)
{
	struct farkv *h = e2e_open(srv.path, LONG_MS);
	struct writer *w = arg;
	char key[24], value[24], was[24] = "";
	int err;

	for (uint64_t n = 0; !atom_load_relaxed(&stop); n++) {
		snprintf(key, sizeof(key), "%d of %d", (int)(n % 50), w->number);
		if (n >= 50) {
			snprintf(was, sizeof(was), "%d", (int)(n - 50));
			e2e_expect_str(h, key, was);
		}
		snprintf(value, sizeof(value), "%d", (int)n);
		do
			err = e2e_put(h, key, value);
		while (err == FARKV_EMAYBE && real_server_is_remote());
		OK(err);
		atom_count(&w->done, 1);
	}
	farkv_close(h);
	return NULL;
}

/* Put keys that are new, and get 300 others in turn, which were put first. */
static void read_while_putting(const char *kind, int n)
{
	static const char value[2000];
	char key[24];

	for (int i = 0; i < n; i++) {
		int len = snprintf(key, sizeof(key), "%s %d", kind, i);
		int err;

		OK(farkv_put(kv, key, (size_t)len, value, sizeof(value)));
		key_of(i % 300, key);
		err = e2e_probe(kv, key);
		ck_assert(err == 0 || err == FARKV_ENOTFOUND);
	}
}

/* The next server evicts, too, though it is not told to. */
TEST(store_that_evicts_does_so_with_the_next_server)
{
	static const char *evict[] = {"-m", "32m", "--memory-file", file, "--when-full", "evict",
				      NULL};
	struct farkv_stats s = {.size = sizeof(s)};
	struct farkv *other;
	unsigned found = 0;
	char key[24];

	if (real_server_skips("eviction", "takes long by RDMA"))
		return;
	teardown();
	strcat(file, ".evict"); /* another store */
	real_server_init(&srv, evict);
	kv = e2e_open(srv.path, LONG_MS);
	other = e2e_open(srv.path, LONG_MS); /* uses the former mapping when kv joins */
	put_all(kv, 300, "read");
	read_while_putting("before", 20000);
	server_dies();
	real_server_start(&srv, args);
	/* Whatever was marked before. */
	put_all(kv, 300, "read");
	read_while_putting("after", 60000);
	OK(farkv_stats(kv, &s));
	ck_assert_uint_eq(s.cache, 1);
	ck_assert_uint_gt(s.evictions, 40000);
	for (int i = 0; i < 300; i++) {
		key_of(i, key);
		found += farkv_exists(kv, key, strlen(key)) == 0;
	}
	/* Without marks: none. */
	ck_assert_uint_ge(found, 50);
	farkv_close(other);
}

/* The next one asks this one to end, and waits for that. */
static void server_is_replaced(void)
{
	static const char *replacing[] = {"-m", "64m", "--grace-ms", "5", "--memory-file", file,
					  "--replace", NULL};
	pid_t old = srv.pid;
	int status;

	srv.pid = 0;
	real_server_start(&srv, replacing);
	ck_assert_int_eq(waitpid(old, &status, 0), old);
	ck_assert_int_eq(status, 0);
}

static void server_dies_and_another_starts(void)
{
	server_dies();
	real_server_start(&srv, args);
}

static void change_servers(void (*next)(void), int times)
{
	struct writer w[WRITERS] = {0};

	atom_store_relaxed(&stop, false);
	for (int i = 0; i < WRITERS; i++) {
		w[i].number = i;
		ck_assert_int_eq(pthread_create(&w[i].thread, NULL, write_all_the_time, &w[i]),
				 0);
	}
	for (int n = 0; n < times; n++) {
		for (int i = 0; i < WRITERS; i++) {
			uint64_t before = atom_load_relaxed(&w[i].done);

			while (atom_load_relaxed(&w[i].done) < before + 200)
				usleep(100);
		}
		next();
	}
	atom_store_relaxed(&stop, true);
	for (int i = 0; i < WRITERS; i++)
		ck_assert_int_eq(pthread_join(w[i].thread, NULL), 0);
	check_store(kv, (uint64_t)50 * WRITERS);
}

TEST(servers_killed_in_a_row_no_operation_fails)
{
	change_servers(server_dies_and_another_starts, KILLS);
}

TEST(servers_replaced_in_a_row_no_operation_fails)
{
	change_servers(server_is_replaced, 5);
}

/* ---- all -------------------------------------------------------------------------------- */

TEST_SUITE("restart", real_server_require())
