/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers of a memory file that end, as by kill -9, at each step of server/memory/step.h, with
 * clients that write, that are stopped, and that die. Then the next server serves: no operation
 * failed, no acknowledged write is lost, nothing is wrong, and no memory is missing.
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
#include "server/memory/step.h"
#include "tests/rig/e2e.h"
#include "tests/rig/entries.h"
#include "tests/rig/real_server.h"
#include "tests/rig/shm_folder.h"
#include "tests/rig/test_main.h"

#define LONG_MS 60000 /* a deadline that no call should need */
#define KEYS 40000    /* of a writer: the index doubles some times */
#define FIRST 10      /* writes of each before the step counts */
#define CHECKED 16    /* every 16th write is followed by a read of some key */

static char file[128], arm[140];
static const char *args[] = {"-m", "64m", "--grace-ms", "5", "--memory-file", file, NULL};
static struct real_server srv;

/* ---- writers ----------------------------------------------------------------------- */

/* Each writer has keys of its own, so that it knows every value. */
static struct writer {
	pthread_t thread;
	unsigned number;
	uint64_t random;
	uint32_t value[KEYS]; /* 0: none */
	uint32_t n;	      /* keys that were ever written */
	uint64_t done;
} writers[2];
static bool stop;
static bool armed = true; /* false: a writer waits after its first FIRST writes */

static size_t key_of(const struct writer *w, uint32_t i, char key[32])
{
	return (size_t)snprintf(key, 32, "%u of %u", i, w->number);
}

/* Values have several sizes, so that segments of several classes come and go. */
static size_t value_of(uint32_t v, char *value)
{
	static const unsigned more[] = {0, 40, 300, 1500};
	size_t n = (size_t)snprintf(value, 16, "%u;", v);

	memset(value + n, 'x', 1500);
	return n + more[v % 4];
}

static void expect(struct farkv *kv, const struct writer *w, uint32_t i)
{
	char key[32], value[1600];
	size_t len = key_of(w, i, key), n = value_of(w->value[i], value);
	struct farkv_value v;

	if (!w->value[i]) {
		FAILS(FARKV_ENOTFOUND, farkv_get(kv, key, len, &v));
		return;
	}
	OK(farkv_get(kv, key, len, &v));
	ck_assert_uint_eq(v.len, n);
	ck_assert_mem_eq(v.data, value, n);
}

static uint64_t below(struct writer *w, uint64_t limit)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (w->random >> 33) % limit;
}

static void write_one(struct farkv *kv, struct writer *w, uint32_t v)
{
	bool fresh = w->n < 100 || (w->n < KEYS && below(w, 3));
	uint32_t i = fresh ? w->n++ : (uint32_t)below(w, w->n);
	char key[32], value[1600];
	size_t len = key_of(w, i, key);

	if (!fresh && w->value[i] && below(w, 2)) {
		OK(farkv_delete(kv, key, len));
		w->value[i] = 0;
	} else {
		OK(farkv_put(kv, key, len, value, value_of(v, value)));
		w->value[i] = v;
	}
	if (v % CHECKED == 0)
		expect(kv, w, (uint32_t)below(w, w->n));
}

static void *write_all_the_time(void *arg)
{
	struct farkv *kv = e2e_open(srv.path, LONG_MS);
	struct writer *w = arg;

	for (uint32_t v = 1; !atom_load_relaxed(&stop); v++) {
		/* What grows the index comes after: it must be there for the step. */
		while (v > FIRST && !atom_load_relaxed(&armed))
			usleep(100);
		write_one(kv, w, v);
		atom_count(&w->done, 1);
	}
	for (uint32_t i = 0; i < w->n; i++)
		expect(kv, w, i);
	farkv_close(kv);
	return NULL;
}

static void writers_start(void)
{
	atom_store_relaxed(&stop, false);
	for (unsigned i = 0; i < 2; i++) {
		memset(&writers[i], 0, sizeof(writers[i]));
		writers[i].number = i;
		writers[i].random = i + 1;
		ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_all_the_time,
						&writers[i]), 0);
	}
}

static void await_done(const struct writer *w, uint64_t n)
{
	while (atom_load_relaxed(&w->done) < n)
		usleep(100);
}

static void writers_proceed(uint64_t n)
{
	for (unsigned i = 0; i < 2; i++)
		await_done(&writers[i], atom_load_relaxed(&writers[i].done) + n);
}

static uint64_t writers_end(void)
{
	uint64_t items = 0;

	atom_store_relaxed(&stop, true);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
		for (uint32_t k = 0; k < writers[i].n; k++)
			items += writers[i].value[k] != 0;
	}
	return items;
}

/* ---- clients that are stopped, or die ------------------------------------------------ */

/* A process that holds blocks, writes, says so through `fd`, and then waits for a signal. */
static void client_main(const char *path, int fd)
{
	struct farkv *kv = NULL;

	/* The server may be gone already, and nobody starts another one. */
	if (farkv_open(path, NULL, &kv) == 0)
		for (int i = 0; i < 300; i++)
			if (farkv_put(kv, "client", 6, "value", 5))
				break;
	(void)!write(fd, "", 1);
	for (;;)
		pause();
}

/* This program once more: a child of fork() has the locks of its parent's threads. */
static pid_t client(void)
{
	char number[16], byte;
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	snprintf(number, sizeof(number), "%d", fds[1]);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		execl("/proc/self/exe", "test_kill", srv.path, number, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static void end_client(pid_t pid)
{
	int status;

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}

/* ---- servers that end at a step --------------------------------------------------------- */

static void set_step(int step, unsigned skip)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", step);
	ck_assert_int_eq(setenv("FARKV_STEP", text, 1), 0);
	snprintf(text, sizeof(text), "%u", skip);
	ck_assert_int_eq(setenv("FARKV_STEP_SKIP", text, 1), 0);
}

static void next_server(void)
{
	unsetenv("FARKV_STEP");
	unsetenv("FARKV_STEP_ARM");
	real_server_start(&srv, args);
}

/* From here on the step counts. */
static void arm_server(void)
{
	FILE *f = fopen(arm, "w");

	ck_assert_ptr_nonnull(f);
	fclose(f);
}

static void expect_killed(int status)
{
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		      "the server ended with 0x%x", (unsigned)status);
}

/* Wait until the server has ended at its step, while clients begin and die. */
static void await_end(void)
{
	int status = 0;
	pid_t got;

	for (unsigned n = 0; (got = waitpid(srv.pid, &status, WNOHANG)) == 0; n++)
		if (n < 200)
			end_client(client());
		else
			usleep(1000);
	ck_assert_int_eq(got, srv.pid);
	expect_killed(status);
	srv.pid = 0;
}

/* A server that ends before it serves: the next one has to cope with what it left. */
static void run_to_step(int step)
{
	int status;
	pid_t pid;

	set_step(step, 0);
	unsetenv("FARKV_STEP_ARM");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		execl(getenv("KVSERVER"), "kvserver", "-q", "-s", srv.path, "-m", "64m",
		      "--grace-ms", "5", "--memory-file", file, (char *)NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	expect_killed(status);
}

/* Everything is accounted for, now that nobody else is connected. */
static void check_store(uint64_t items)
{
	struct farkv *kv = e2e_open(srv.path, LONG_MS);
	struct farkv_fsck f = {.size = sizeof(f)};
	int err = farkv_delete(kv, "client", 6);

	ck_assert(err == 0 || err == FARKV_ENOTFOUND);
	do
		OK(farkv_fsck(kv, &f));
	while (f.undecided || f.blocks_leaked || f.retired_bytes || f.exhausted_bytes);
	ck_assert_uint_eq(f.items, items);
	ck_assert_uint_eq(f.bad_directory + f.bad_empty + f.bad_words + f.damaged + f.shared +
				  f.misplaced + f.behind_empty + f.duplicates + f.bad_sums, 0);
	ck_assert_uint_le(f.blocks_held, 64); /* this handle's */
	ck_assert_uint_eq(f.meta_bytes + f.index_bytes + f.out_bytes + f.deferred_bytes +
				  f.free_bytes + f.slack_bytes + f.unused_bytes,
			  f.region_bytes);
	farkv_close(kv);
}

static void setup(void)
{
	const char *dir = getenv("top_builddir");
	char program[400];

	snprintf(program, sizeof(program), "%s/tests/lab/kvserver-steps", dir ? dir : ".");
	ck_assert_int_eq(setenv("KVSERVER", program, 1), 0);
	real_server_require();
	snprintf(file, sizeof(file), "%s/%d", shm_folder, (int)getpid());
	snprintf(arm, sizeof(arm), "%s.arm", file);
}

static void teardown(void)
{
	real_server_fini(&srv);
}

/* ---- cases ------------------------------------------------------------------------------ */

/* Barriers pass and sweeps end while no client is stopped. */
static bool needs_all(int step)
{
	return step == STEP_BARRIER_OVER || step == STEP_PAGES_FREE || step == STEP_SWEEP_ASK ||
	       step == STEP_SWEPT;
}

/* Clients of all kinds, and a server that has just ended at the step. */
static pid_t begin_and_end_at(int step, unsigned skip)
{
	pid_t stopped;

	ck_assert_int_eq(setenv("FARKV_STEP_ARM", arm, 1), 0);
	set_step(step, skip);
	real_server_init(&srv, args);
	atom_store_relaxed(&armed, false);
	stopped = client();
	if (!needs_all(step))
		ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
	writers_start();
	await_done(&writers[0], FIRST);
	await_done(&writers[1], FIRST);
	arm_server();
	atom_store_relaxed(&armed, true);
	await_end();
	ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
	return stopped;
}

/* A sweep and a barrier wait for the client that is stopped. */
static void go_on_and_check(pid_t stopped)
{
	next_server();
	writers_proceed(500);
	end_client(stopped);
	writers_proceed(500);
	check_store(writers_end());
}

START_TEST(server_ends_at_a_step_the_next_one_goes_on)
{
	go_on_and_check(begin_and_end_at(_i, 0));
}
END_TEST

START_TEST(server_ends_while_it_makes_the_region_the_next_one_makes_another)
{
	snprintf(srv.path, sizeof(srv.path), "%.80s.sock", file);
	run_to_step(STEP_CREATED);
	run_to_step(STEP_CREATED);
	unlink(srv.path);
	unsetenv("FARKV_STEP");
	real_server_init(&srv, args);
	writers_start();
	writers_proceed(10);
	check_store(writers_end());
}
END_TEST

START_TEST(server_ends_later_at_a_step_the_next_one_goes_on)
{
	go_on_and_check(begin_and_end_at(_i, 3));
}
END_TEST

/* The first one ends in the middle of a publication, others while they adopt the region. */
START_TEST(adoption_ends_at_a_step_the_next_one_goes_on)
{
	pid_t stopped = begin_and_end_at(STEP_PUBLISHED, 0);

	run_to_step(_i);
	run_to_step(_i);
	go_on_and_check(stopped);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("kill");
	TCase *t = tcase_create("kill");

	tcase_add_unchecked_fixture(t, shm_folder_make, shm_folder_remove);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, server_ends_while_it_makes_the_region_the_next_one_makes_another);
	tcase_add_loop_test(t, server_ends_at_a_step_the_next_one_goes_on, STEP_ENTERED,
			    STEP_ADOPT);
	tcase_add_loop_test(t, server_ends_later_at_a_step_the_next_one_goes_on, STEP_SEGMENT,
			    STEP_BARRIER);
	tcase_add_loop_test(t, adoption_ends_at_a_step_the_next_one_goes_on, STEP_ADOPT,
			    STEP_COUNT);
	suite_add_tcase(s, t);
	return s;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		client_main(argv[1], atoi(argv[2]));
	TEST_RUN(suite());
}
