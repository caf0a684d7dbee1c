/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvserver when memory, descriptors and system calls fail: each call from
 * its start to its end fails in turn, while a client writes, reads, makes the
 * index grow, has the store checked and leaves. A server that cannot start gives
 * the reason in one line, with an exit status, and does not hinder the
 * next one; one that runs goes on, keeps its data, and ends as it
 * should.
 */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/e2e.h"
#include "tests/rig/test_main.h"

#include "fail_run.h"

/* The shorter, the sooner is over what can only time out. */
#define OP_TIMEOUT_MS 1000
/* These are for what hangs: a minute or two more than a busy machine needs. */
#define PATIENT_MS 60000
#define START_MS 60000
#define END_MS 60000
#define RUN_S 200
#define KEYS 3000 /* more than a subtable holds */
#define LARGE 200000

/* The cases, as $CK_RUN_CASE calls them. */
#define ONCE "a life of a server, each call once"
#define SOME "a life of a server, each call and some that follow"

static char dir[64], sock[80], log_path[80], report_path[80];

/* ---- the server
 * ----------------------------------------------------------------- */

struct server {
	pid_t pid;
	int ready;
};

static void exec_server(const char *program, int ready)
{
	char fd[16];
	int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	snprintf(fd, sizeof(fd), "%d", ready);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    dup2(log, STDOUT_FILENO) < 0)
		_exit(126);
	execl(program, program, "-q", "--transport=shm", "-m", "32", "-s", sock,
	      "--ready-fd", fd, NULL);
	_exit(127);
}

static struct server start(const char *program, uint64_t at, uint64_t times)
{
	struct server s;
	char text[24];
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	s.ready = fds[0];
	fflush(NULL);
	s.pid = fork();
	ck_assert_int_ge(s.pid, 0);
	if (s.pid == 0) {
		fcntl(fds[1], F_SETFD, 0);
		if (at) {
			snprintf(text, sizeof(text), "%llu",
				 (unsigned long long)at);
			setenv("FAILING_AT", text, 1);
			snprintf(text, sizeof(text), "%llu",
				 (unsigned long long)times);
			setenv("FAILING_TIMES", text, 1);
			setenv("FAILING_REPORT", report_path, 1);
		}
		exec_server(program, fds[1]);
	}
	close(fds[1]);
	return s;
}

/* Does it serve? It has logged it, or it has ended. */
static bool is_ready(struct fail_report *r, struct server *s)
{
	struct pollfd p = {.fd = s->ready, .events = POLLIN};
	char text[8] = "";
	ssize_t n = 0;

	if (poll(&p, 1, START_MS) != 1)
		fail_wrong(r, "neither ready nor gone after %d ms", START_MS);
	else
		n = read(s->ready, text, sizeof(text) - 1);
	close(s->ready);
	return n == 6;
}

/* Its status, as waitpid(2) gives it; killed if it does not end in time. */
static int reap(struct fail_report *r, struct server *s)
{
	uint64_t end = e2e_now_ms() + END_MS;
	int status = 0;

	while (waitpid(s->pid, &status, WNOHANG) == 0) {
		if (e2e_now_ms() > end) {
			fail_wrong(r, "has not ended after %d ms", END_MS);
			kill(s->pid, SIGKILL);
			waitpid(s->pid, &status, 0);
			break;
		}
		usleep(500);
	}
	s->pid = 0;
	return status;
}

/* ---- what it said
 * ------------------------------------------------------------------ */

static size_t slurp(const char *path, char *buf, size_t cap)
{
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(buf, 1, cap - 1, f) : 0;

	if (f)
		fclose(f);
	buf[n] = '\0';
	return n;
}

/* The report of failing.h: the failed call, and the blocks never freed. */
static void read_report(struct fail_report *r)
{
	char text[4096], *at;
	unsigned left = 0;

	slurp(report_path, text, sizeof(text));
	unlink(report_path);
	if (sscanf(text, "failed %*u %23s", r->which) == 1)
		r->reached = true;
	at = strstr(text, "live ");
	if (!at || sscanf(at, "live %u", &left) != 1)
		fail_wrong(r, "it did not end by itself");
	else if (left)
		fail_wrong(r, "%u blocks of memory were not freed", left);
	if (r->why[0]) {
		char log[2000];

		slurp(log_path, log, sizeof(log));
		fprintf(stderr, "%s%s", text, log);
	}
}

/* It did not start: an exit status, one line, no files left. */
static void refused_properly(struct fail_report *r, int status)
{
	char text[2000];
	size_t n = slurp(log_path, text, sizeof(text));
	unsigned lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 0)
		fail_wrong(r, "status 0x%x instead of a start: %s",
			   (unsigned)status, text);
	else if (lines != 1 || !strstr(text, "kvserver: "))
		fail_wrong(r, "not one line: '%s'", text);
}

/* ---- a client
 * --------------------------------------------------------------------- */

struct told {
	int put[KEYS];
	int large;
};
static struct told *told;

static struct farkv *handle_open(struct fail_report *r, uint32_t timeout_ms)
{
	struct farkv_options o;
	struct farkv *kv = NULL;

	farkv_options_init(&o);
	o.op_timeout_ms = timeout_ms;
	o.connect_timeout_ms = timeout_ms;
	if (!fail_typed(r, "open", farkv_open(sock, &o, &kv)))
		return NULL;
	return kv;
}

static size_t key_of(unsigned i, char *key)
{
	return (size_t)sprintf(key, "key number %u", i);
}

static void load(struct fail_report *r, struct farkv *kv)
{
	static uint8_t large[LARGE];
	char key[32];
	unsigned broken = 0;

	/* One answer that is late is enough to know. */
	for (unsigned i = 0; i < KEYS && broken < 3; i++) {
		size_t n = key_of(i, key);

		told->put[i] = farkv_put(kv, key, n, key, n);
		fail_typed(r, "put", told->put[i]);
		broken += told->put[i] != 0;
	}
	e2e_fill(large, LARGE, 1);
	told->large = farkv_put(kv, "large", 5, large, LARGE);
	fail_typed(r, "put of a large value", told->large);
}

static void check_one(struct fail_report *r, struct farkv *kv, unsigned i)
{
	char key[32];
	size_t n = key_of(i, key);
	struct farkv_value v;
	int err = farkv_get(kv, key, n, &v);

	if (!fail_typed(r, "get", err))
		return;
	if (told->put[i] == 0 &&
	    (err || v.len != n || memcmp(v.data, key, n) != 0))
		fail_wrong(r, "key %u was stored and is %s", i,
			   err ? farkv_errdetail() : "another");
	if (told->put[i] < 0 && told->put[i] != FARKV_EMAYBE &&
	    err != FARKV_ENOTFOUND)
		fail_wrong(r, "key %u was not stored and is there", i);
}

static void first_client(struct fail_report *r, void *arg)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	struct farkv_stats st = {.size = sizeof(st)};
	struct farkv *kv;

	(void)arg;
	snprintf(r->at, sizeof(r->at), "the first client");
	kv = handle_open(r, OP_TIMEOUT_MS);
	/* The one whose connection failed was one. */
	if (!kv)
		kv = handle_open(r, OP_TIMEOUT_MS);
	if (!kv)
		return;
	load(r, kv);
	fail_typed(r, "stats", farkv_stats(kv, &st));
	fail_typed(r, "fsck", farkv_fsck(kv, &f));
	fail_typed(r, "delete", e2e_del(kv, "no such key"));
	farkv_close(kv);
}

/* By now nothing fails any more, or never will. */
static void second_client(struct fail_report *r, void *arg)
{
	uint64_t end = e2e_now_ms() + PATIENT_MS;
	struct farkv *kv;

	(void)arg;
	snprintf(r->at, sizeof(r->at), "the second client");
	while (!(kv = handle_open(r, PATIENT_MS)) && e2e_now_ms() < end)
		usleep(1000);
	if (!kv) {
		fail_wrong(r, "cannot be opened: %s", farkv_errdetail());
		return;
	}
	for (unsigned i = 0; i < KEYS; i++)
		check_one(r, kv, i);
	fail_fsck(r, kv);
	farkv_close(kv);
}

/* ---- a run
 * ------------------------------------------------------------------------ */

/* It serves: clients come and go, then it is to leave. */
static void serve_and_end(struct fail_report *r, struct server *s)
{
	int status;

	memset(told, 1, sizeof(*told)); /* not tried */
	fail_process(r, first_client, NULL, RUN_S);
	fail_process(r, second_client, NULL, RUN_S);
	if (!r->why[0])
		snprintf(r->at, sizeof(r->at), "leaving");
	kill(s->pid, SIGTERM);
	status = reap(r, s);
	if (status)
		fail_wrong(r, "ended with status 0x%x", (unsigned)status);
}

/* The next one must be able to serve at once. */
static void next_one(struct fail_report *r)
{
	struct server s = start(getenv("KVSERVER"), 0, 0);
	bool ready = is_ready(r, &s);
	char text[500];

	if (ready)
		kill(s.pid, SIGTERM);
	if (reap(r, &s) || !ready) {
		slurp(log_path, text, sizeof(text));
		fail_wrong(r, "the next server does not start: %s", text);
	}
}

static void run(struct fail_report *r, uint64_t at, uint64_t times)
{
	char program[512];
	struct server s;

	snprintf(program, sizeof(program), "%s/tests/lab/failing_kvserver",
		 getenv("top_builddir"));
	snprintf(r->at, sizeof(r->at), "start");
	s = start(program, at, times);
	if (is_ready(r, &s)) {
		serve_and_end(r, &s);
		read_report(r);
		return;
	}
	refused_properly(r, reap(r, &s));
	read_report(r);
	snprintf(r->at, sizeof(r->at), "after a start that failed");
	next_one(r);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	told = fail_shared(sizeof(*told));
	snprintf(dir, sizeof(dir), "%.30s/farkv-XXXXXX",
		 tmp && strlen(tmp) < 30 ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(sock, sizeof(sock), "%s/sock", dir);
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	snprintf(report_path, sizeof(report_path), "%s/report", dir);
}

static void teardown(void)
{
	unlink(log_path);
	unlink(report_path);
	/* Empty: no socket, no lock. */
	ck_assert_int_eq(rmdir(dir), 0);
}

static void each(const char *name, unsigned stride, uint64_t times)
{
	fail_each(&(struct fail_case){.program = "tests/lab/test_fail_server",
				      .name = name,
				      .stride = stride,
				      .times = times,
				      .run = run});
}

START_TEST(each_call_once)
{
	each(ONCE, 40, 1);
}
END_TEST

START_TEST(each_call_and_some_that_follow)
{
	each(SOME, 100, 12);
}
END_TEST

static void add(Suite *s, const char *name, const TTest *test)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 900);
	tcase_add_test(t, test);
	suite_add_tcase(s, t);
}

static Suite *suite(void)
{
	Suite *s = suite_create("failing calls, server");

	if (!getenv("top_builddir") || !getenv("KVSERVER")) {
		fprintf(stderr, "SKIP: run by make check\n");
		exit(77);
	}
	add(s, ONCE, each_call_once);
	add(s, SOME, each_call_and_some_that_follow);
	return s;
}

TEST_MAIN(suite())
