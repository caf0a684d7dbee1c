/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that exhaust a server's connections, memory, processes, time, and
 * log. A client that follows the rules is served meanwhile, within the time below, and
 * when they are gone the server holds nothing of them.
 *
 * With FARKV_TEST_TRANSPORT=rdma they come by RDMA; cases that need a socket are left out.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/region/layout.h"
#include "common/proto/msg.h"
#include "tests/rig/e2e.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"
#include "tests/scale/scale.h"
#include "tests/rig/test_main.h"

#include "attack.h"
#include "line.h"

#define SESSIONS "64"
#define SESSIONS_MAX 64u
/*
 * A good client gets in, and is served, within this time. An attack that keeps clients
 * out delays each one, a busy machine only a few: one in ten may take longer.
 */
#define GOOD_MS (real_server_is_remote() ? 30000u : 3000u) /* in an emulated guest */
#define LATE_OF(n) (1 + (n) / 10)
/* For what never comes. */
#define NEVER_MS 60000u
/*
 * The growth of a server's private memory. AddressSanitizer keeps
 * 256 MiB of freed memory. By RDMA the region counts, and 64 MiB of messages.
 */
#define OWN_MAX ((TEST_UNDER_ASAN ? UINT64_C(304) : UINT64_C(48)) << 20)
#define OWN_MAX_REMOTE (OWN_MAX + (UINT64_C(96) << 20))
#define LOG_LINES_MAX 120u

static struct real_server srv;
static unsigned idle_fds;
static struct scale_usage idle;
static char dir[32], log_path[64], program_path[64];

/* ---- the server ------------------------------------------------------------------ */

/* A program that starts the server without the first option, which is -q. */
static void talkative(void)
{
	char text[512];
	int fd = open(program_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		      0700);
	int n = snprintf(text, sizeof(text), "#!/bin/sh\nshift\nexec '%s' \"$@\"\n",
			 getenv("KVSERVER"));

	ck_assert_int_eq(write(fd, text, (size_t)n), n);
	close(fd);
	setenv("KVSERVER", program_path, 1);
}

/* Its log goes into a file, to be counted. */
static void setup(void)
{
	static const char *const args[] = {"-m", "32", "--grace-ms", "10",
					   "--max-sessions", SESSIONS, NULL};
	int fd, my_stderr;

	strcpy(dir, "/tmp/farkv-flood-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	snprintf(program_path, sizeof(program_path), "%s/kvserver", dir);
	talkative();
	fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	fflush(stderr);
	my_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	real_server_init(&srv, args);
	dup2(my_stderr, STDERR_FILENO);
	close(my_stderr);
	close(fd);
	idle_fds = real_server_fds(&srv);
	scale_usage(srv.pid, &idle);
}

static unsigned log_lines(void)
{
	FILE *f = fopen(log_path, "r");
	unsigned n = 0;
	char line[1200];

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

static uint64_t check_own(void)
{
	struct scale_usage now;

	scale_usage(srv.pid, &now);
	ck_assert_uint_lt(now.own,
			  idle.own + (real_server_is_remote() ? OWN_MAX_REMOTE :
								OWN_MAX));
	return now.own;
}

/* As at the start: nothing of the bad ones stays. */
static void check_as_before(void)
{
	uint64_t own;

	scale_fsck_swept(&srv, "after the flood");
	for (int i = 0; i < 1000 && real_server_fds(&srv) != idle_fds; i++)
		usleep(10000);
	ck_assert_uint_eq(real_server_fds(&srv), idle_fds);
	ck_assert_uint_eq(scale_stat(&srv, "sessions"), 1);
	own = check_own();
	scale_say("server: %llu KiB of its own before, %llu KiB after; %u "
		  "lines of log",
		  (unsigned long long)idle.own >> 10,
		  (unsigned long long)own >> 10, log_lines());
	ck_assert_uint_lt(log_lines(), LOG_LINES_MAX);
}

static void teardown(void)
{
	real_server_fini(&srv);
	unlink(log_path);
	unlink(program_path);
	rmdir(dir);
}

/* ---- good clients ------------------------------------------------------------------ */

/* Others may have taken all memory: then a write fails as soon. */
static bool may_be_full;

static struct farkv *good_open(void)
{
	struct farkv_options o;
	struct farkv *kv = NULL;

	farkv_options_init(&o);
	o.connect_timeout_ms = NEVER_MS;
	o.op_timeout_ms = NEVER_MS;
	OK(farkv_open(srv.path, &o, &kv));
	return kv;
}

/* Connect, write, read, leave: the time of it. */
static uint64_t visit(unsigned i)
{
	uint64_t began = scale_now_ns();
	struct farkv *kv = good_open();
	char value[16];
	int err;

	snprintf(value, sizeof(value), "%u", i);
	err = e2e_put(kv, "good", value);
	ck_assert(err == 0 || (err == FARKV_ENOSPC && may_be_full));
	if (err == 0)
		e2e_expect_str(kv, "good", value);
	farkv_close(kv);
	return scale_now_ns() - began;
}

/* The times of `n` of them. */
struct times {
	uint64_t worst;
	unsigned n, late;
};

static void times_add(struct times *t, uint64_t ns)
{
	t->worst = ns > t->worst ? ns : t->worst;
	t->late += ns >= GOOD_MS * NS_PER_MS;
	t->n++;
}

static void times_check(const struct times *t, const char *what)
{
	scale_say("%s: %u, the longest %.1f ms, %u late", what, t->n,
		  (double)t->worst / 1e6, t->late);
	ck_assert_uint_le(t->late, LATE_OF(t->n));
}

static void visits(unsigned n, const char *what)
{
	struct times t = {0};

	for (unsigned i = 0; i < n; i++) {
		times_add(&t, visit(i));
		(void)check_own();
	}
	times_check(&t, what);
}

/* ---- connections that say nothing ----------------------------------------------------- */

static int try_dial(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0);

	strcpy(a.sun_path, srv.path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* As many at a time as it can, for ever; it writes 'x' when it has had `arg`. */
static void mute_main(unsigned me, void *arg)
{
	enum { AT_ONCE = 300 };
	int fd[AT_ONCE];
	const unsigned *want = arg;

	(void)me;
	memset(fd, -1, sizeof(fd));
	worker_say('r');
	for (unsigned i = 0, had = 0;; i = (i + 1) % AT_ONCE) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = try_dial();
		if (fd[i] < 0)
			usleep(100);
		else if (++had == *want)
			worker_say('x');
	}
}

START_TEST(thousands_of_mute_connections_keep_nobody_out)
{
	unsigned want = 5000;
	struct scale_worker w = scale_start(mute_main, 0, &want);

	scale_expect(&w, 'r', NEVER_MS);
	visits(30, "beside connections that say nothing");
	scale_expect(&w, 'x', 60000);
	visits(10, "after 5000 of them");
	scale_kill(&w);
	check_as_before();
}
END_TEST

/* ---- sessions that come and go ---------------------------------------------------------- */

START_TEST(sessions_without_goodbye_do_not_fill_the_log)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	static const struct msg ready = {.type = MSG_READY};
	unsigned n = 2000;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (unsigned i = 0; i < n; i++) {
			int fd = raw_dial(srv.path);

			raw_say(fd, &hello, NULL);
			if (i % 2)
				(void)raw_hear(fd);
			if (i % 4 > 1)
				raw_say(fd, &ready, NULL);
			close(fd);
			if (i % 2)
				raw_untie();
		}
		_exit(0);
	}
	visits(5, "beside sessions that come and go");
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	check_as_before();
}
END_TEST

/* ---- lingering processes ------------------------------------------------------------------- */

/* A session that ends without goodbye; its process lives on. */
static void lingering_main(unsigned me, void *arg)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	static const struct msg ready = {.type = MSG_READY};
	int fd = raw_dial(srv.path);
	bool in;

	(void)me;
	(void)arg;
	raw_say(fd, &hello, NULL);
	in = raw_hear(fd).type == MSG_WELCOME;
	if (in)
		raw_say(fd, &ready, NULL);
	worker_say(in ? 'w' : 'n');
	close(fd);
	for (;;)
		pause();
}

START_TEST(processes_that_left_without_goodbye_use_up_no_descriptors)
{
	enum { MANY = 2 * SESSIONS_MAX };
	struct scale_worker w[MANY];
	struct farkv *kv;
	unsigned in = 0;

	for (unsigned i = 0; i < MANY; i++) {
		struct pollfd p;
		char c = 0;

		w[i] = scale_start(lingering_main, i, NULL);
		p = (struct pollfd){.fd = w[i].hear, .events = POLLIN};
		ck_assert_int_eq(poll(&p, 1, NEVER_MS), 1);
		ck_assert_int_eq(read(w[i].hear, &c, 1), 1);
		in += c == 'w';
	}
	/* The last ones may have come before the first were seen to have left. */
	ck_assert_uint_le(in, SESSIONS_MAX + 4);
	FAILS(FARKV_EREFUSED, farkv_open(srv.path, NULL, &kv));
	e2e_detail("without goodbye");
	for (unsigned i = 0; i < MANY; i++)
		scale_kill(&w[i]);
	visits(3, "after they are gone");
	check_as_before();
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------ */

static bool grab(struct line *l, uint8_t cls, uint32_t n)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2, .grant_req = {cls, n}};

	return line_say(l, &m, NULL);
}

/* Sessions that ask for all blocks of every class, and return none. */
static void hoarder_main(unsigned me, void *arg)
{
	struct line *l[8];
	struct msg m;

	(void)me;
	(void)arg;
	for (int i = 0; i < 8; i++)
		MUST((l[i] = line_open(srv.path, false)) != NULL, "no session");
	for (unsigned round = 0;; round++) {
		for (int i = 0; i < 8; i++)
			for (uint8_t cls = 0; cls < CLASS_COUNT; cls++)
				MUST(grab(l[i],
					  (uint8_t)((cls * 37u + round) %
						    CLASS_COUNT),
					  MSG_REFS_MAX), "closed");
		for (int i = 0; i < 8; i++) {
			while (line_hear(l[i], &m, 10))
				;
			MUST(!line_over(l[i]), "closed");
		}
		if (round == 1)
			worker_say('r');
	}
}

START_TEST(hoarders_of_all_memory_take_no_values_and_no_time)
{
	struct farkv *kv = good_open();
	struct scale_worker w;
	struct times t = {0};
	char value[16], last[16] = "before";

	OK(e2e_put(kv, "k", last));
	w = scale_start(hoarder_main, 0, NULL);
	scale_expect(&w, 'r', 60000);
	/* There may be no memory for a value, but there is an answer. */
	for (int i = 0; i < 100; i++) {
		uint64_t began = scale_now_ns();
		int err;

		snprintf(value, sizeof(value), "v%d", i);
		err = e2e_put(kv, "k", value);
		ck_assert(err == 0 || err == FARKV_ENOSPC);
		if (!err)
			snprintf(last, sizeof(last), "%s", value);
		e2e_expect_str(kv, "k", last);
		times_add(&t, scale_now_ns() - began);
	}
	times_check(&t, "writes beside hoarders");
	scale_kill(&w);
	scale_await_exactly(&srv, "sweep_deaths", 0, 60000);
	for (int i = 0; i < 200; i++) {
		snprintf(value, sizeof(value), "k%d", i);
		OK(e2e_put(kv, value, "there is memory again"));
	}
	farkv_close(kv);
	check_as_before();
}
END_TEST

/* ---- storms -------------------------------------------------------------------------------- */

static struct msg storm_message(unsigned i)
{
	const struct msg kinds[] = {
		{.type = MSG_GRANT_REQ, .req = 2, .grant_req = {3, 1024}},
		{.type = MSG_HINT, .req = 3, .hint = {64 + i % 64, i % 4, 1}},
		{.type = MSG_STATS_REQ, .req = 4},
		{.type = MSG_PREFIX_REQ, .req = 5},
		{.type = MSG_PING, .req = 6},
		{.type = MSG_FSCK_REQ, .req = 7},
		{.type = MSG_SWEEP_CLAIM, .blocks = {.n = 1}},
	};

	return kinds[i % 7];
}

/* All requests at full rate; reads the answers, or does not. */
static void storm_main(unsigned me, void *arg)
{
	static const struct block_ref ref = {.off = UINT64_C(1) << 25, .cls = 3};
	struct line *l = line_open(srv.path, false);
	struct msg answer;

	(void)arg;
	MUST(l != NULL, "no session");
	worker_say('r');
	for (unsigned i = me;; i++) {
		struct msg m = storm_message(me < 7 ? me : i);

		if (me % 3)
			while (line_hear(l, &answer, 0))
				;
		if (line_try(l, &m, &ref) <= EAGAIN && !line_over(l))
			continue;
		line_close(l); /* cut off, with right */
		while (!(l = line_open(srv.path, false)))
			usleep(10000);
	}
}

START_TEST(storms_of_every_request_leave_time_for_others)
{
	struct scale_home home = {.uri = srv.path, .may_be_full = true};
	struct scale_worker w[9], good;

	may_be_full = true;
	for (unsigned i = 0; i < 9; i++)
		w[i] = scale_start(storm_main, i, NULL);
	for (unsigned i = 0; i < 9; i++)
		scale_expect(&w[i], 'r', NEVER_MS);
	good = scale_start(scale_home_main, 0, &home);
	scale_expect(&good, 'r', NEVER_MS);
	visits(5, "beside storms");
	for (unsigned i = 0; i < 9; i++)
		scale_kill(&w[i]);
	may_be_full = false;
	scale_expect_alive(&good);
	scale_kill(&good);
	check_as_before();
}
END_TEST

/* ---- attacks on the server's time and memory ----------------------------------------------- */

#define ATTACKERS 4u

static void attack_began(void)
{
	worker_say('r');
}

static void attacker_main(unsigned me, void *arg)
{
	uint64_t ended = 0;

	attack_run(srv.path, *(const enum attack *)arg, me, attack_began,
		   &ended);
}

START_TEST(attacks_leave_time_and_memory_for_others)
{
	struct scale_worker w[ATTACKERS];
	enum attack a = (enum attack)_i;

	for (unsigned i = 0; i < ATTACKERS; i++) {
		w[i] = scale_start(attacker_main, i, &a);
		scale_expect(&w[i], 'r', NEVER_MS);
	}
	visits(20, attack_name(a));
	for (unsigned i = 0; i < ATTACKERS; i++)
		scale_kill(&w[i]);
	visits(3, "after them");
	scale_await_exactly(&srv, "sweep_deaths", 0, NEVER_MS);
	check_as_before();
}
END_TEST

/* ---- deaths in a row ------------------------------------------------------------------------ */

/* A session with memory, which ends with its process. */
static void dying_main(unsigned me, void *arg)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2, .grant_req = {2, 1}};
	int fd = raw_session(srv.path, MSG_ROLE_RW, NULL);

	(void)me;
	(void)arg;
	raw_say(fd, &m, NULL);
	MUST(raw_next(fd).type == MSG_GRANT, "no grant");
	worker_say('r');
	/* It answers no question of a sweep, which waits for it in vain. */
	for (;;)
		pause();
}

#define VICTIMS (SESSIONS_MAX - 8)

struct massacre {
	struct scale_worker w[VICTIMS];
	unsigned dead;
};

/* One dies during each sweep: it starts again, and again. The
 * first one lives, and is waited for. */
static void killer_main(unsigned me, void *arg)
{
	struct massacre *m = arg;

	(void)me;
	worker_say('r');
	for (unsigned i = 1; i < VICTIMS; i++) {
		kill(m->w[i].pid, SIGKILL);
		__atomic_store_n(&m->dead, i, __ATOMIC_RELAXED);
		usleep(300000);
	}
	worker_say('x');
	pause();
}

/* A client that deaths keep out is kept out until the last of them. */
static void visit_beside_deaths(const struct massacre *m, unsigned i)
{
	unsigned before = __atomic_load_n(&m->dead, __ATOMIC_RELAXED), after;
	uint64_t ns = visit(i);

	after = __atomic_load_n(&m->dead, __ATOMIC_RELAXED);
	scale_say("beside deaths in a row: a visit from the %u. to the %u., "
		  "%.1f ms", before, after, (double)ns / 1e6);
	if (before < VICTIMS / 2)
		ck_assert_uint_lt(after, VICTIMS - 1);
}

START_TEST(deaths_in_a_row_do_not_keep_writers_out)
{
	struct massacre *m = scale_shared(sizeof(*m));
	struct scale_worker killer;
	struct pollfd told;
	unsigned visited = 0;

	for (unsigned i = 0; i < VICTIMS; i++)
		m->w[i] = scale_start(dying_main, i, NULL);
	for (unsigned i = 0; i < VICTIMS; i++)
		scale_expect(&m->w[i], 'r', NEVER_MS);
	killer = scale_start(killer_main, 0, m);
	scale_expect(&killer, 'r', NEVER_MS);
	told = (struct pollfd){.fd = killer.hear, .events = POLLIN};
	do
		visit_beside_deaths(m, visited++);
	while (poll(&told, 1, 200) == 0);
	scale_expect(&killer, 'x', NEVER_MS);
	visits(3, "visits after them");
	scale_kill(&killer);
	for (unsigned i = 0; i < VICTIMS; i++)
		scale_kill(&m->w[i]);
	check_as_before();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("flood");
	TCase *t = tcase_create("flood");

	real_server_require();
	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, hoarders_of_all_memory_take_no_values_and_no_time);
	tcase_add_test(t, storms_of_every_request_leave_time_for_others);
	tcase_add_loop_test(t, attacks_leave_time_and_memory_for_others, 0,
			    ATTACKS);
	suite_add_tcase(s, t);
	if (real_server_is_remote()) /* what follows needs a socket */
		return s;
	tcase_add_test(t, thousands_of_mute_connections_keep_nobody_out);
	tcase_add_test(t, sessions_without_goodbye_do_not_fill_the_log);
	tcase_add_test(t,
		       processes_that_left_without_goodbye_use_up_no_descriptors);
	if (getenv("FARKV_LAB")) /* takes its time */
		tcase_add_test(t, deaths_in_a_row_do_not_keep_writers_out);
	return s;
}

TEST_MAIN(suite())
