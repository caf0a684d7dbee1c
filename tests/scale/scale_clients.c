/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hundred clients a second (few, by RDMA) that come, work and leave, and each
 * fourth of them is killed at its work; beside them clients that stay: one that writes,
 * one that reads, and one that holds blocks and does nothing. What the dead
 * held is large enough that the region would be full without a sweep.
 */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <check.h>

#include "scale.h"
#include "tests/rig/test_main.h"

#define KEYS 8u   /* of each */
#define FLYING 128u
#define DEADLY 4u /* each fourth */
#define STAYING 3u
#define HOME_KEYS 500u
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

struct client {
	uint32_t steps; /* puts that returned */
	uint32_t open_us;
	uint32_t total_us;
};

static struct real_server srv;
static unsigned rate; /* clients a second */
static struct stage {
	uint32_t stop;
	uint64_t home_ops;
	uint64_t home_begun[HOME_KEYS], home_done[HOME_KEYS];
	struct client client[];
} *stage;

/* ---- those that come and go ------------------------------------------------ */

static uint64_t key_of(unsigned me, unsigned k)
{
	return 1000000 + (uint64_t)me * KEYS + k;
}

/* Few sizes, so that blocks change hands. */
static size_t len_of(unsigned me, unsigned k)
{
	static const size_t len[] = {100, 3000, 24, 20000};

	return len[(me / DEADLY + k) % 4];
}

/* After which of its puts it dies; more than there are: it does not. */
static unsigned death_of(unsigned me)
{
	return me % DEADLY ? KEYS + 1 : me / DEADLY % (KEYS + 1);
}

static void client_main(unsigned me)
{
	struct client *c = &stage->client[me];
	uint64_t t = scale_now_ns();
	struct farkv *kv = worker_open(srv.path, 0);

	STORE(c->open_us, (uint32_t)((scale_now_ns() - t) / 1000));
	for (unsigned k = 0; k < KEYS; k++) {
		int err;

		if (k == death_of(me))
			raise(SIGKILL);
		err = scale_put(kv, key_of(me, k), me + 1, len_of(me, k));
		MUST(err == 0, "client %u, put %u: %s", me, k,
		     farkv_strerror(err));
		STORE(c->steps, k + 1);
		MUST(scale_get(kv, key_of(me, k), len_of(me, k)) == me + 1,
		     "client %u does not see its own value", me);
	}
	if (death_of(me) == KEYS)
		raise(SIGKILL);
	farkv_close(kv);
	STORE(c->total_us, (uint32_t)((scale_now_ns() - t) / 1000));
	_exit(0);
}

static pid_t client_start(unsigned me)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client_main(me);
	}
	return pid;
}

/* Its stored keys are present, others absent; delete them. */
static void client_ended(struct farkv *kv, unsigned me, int status)
{
	unsigned steps = LOAD(stage->client[me].steps), last = death_of(me);

	ck_assert_msg(last > KEYS ? status == 0 :
				    WIFSIGNALED(status) &&
					    WTERMSIG(status) == SIGKILL,
		      "client %u ended with 0x%x", me, (unsigned)status);
	ck_assert_uint_eq(steps, last > KEYS ? KEYS : last);
	for (unsigned k = 0; k < KEYS; k++) {
		uint32_t want = k < steps ? me + 1 : 0;

		ck_assert_uint_eq(scale_get(kv, key_of(me, k), len_of(me, k)),
				  want);
		if (want)
			ck_assert_int_eq(scale_delete(kv, key_of(me, k)), 0);
	}
}

/* ---- those that stay ------------------------------------------------------- */

static void writer_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, 0);
	uint64_t x = me;

	(void)arg;
	worker_say('r');
	for (uint64_t n = 0; !LOAD(stage->stop); n++) {
		uint64_t i = scale_random(&x) % HOME_KEYS;
		uint64_t round = stage->home_done[i] + 1;

		STORE(stage->home_begun[i], round);
		if (round % 16 == 0) {
			MUST(scale_delete(kv, i) == 0, "delete at home");
			MUST(scale_get(kv, i, 200) == 0, "a key came back");
		}
		MUST(scale_put(kv, i, (uint32_t)round, 200) == 0,
		     "put at home");
		STORE(stage->home_done[i], round);
		stage->home_ops++;
		if (n % 256 == 0)
			usleep(1000); /* leave CPU time to the others */
	}
	farkv_close(kv);
	_exit(0);
}

static void reader_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, FARKV_OPEN_READONLY);
	uint64_t x = me;

	(void)arg;
	worker_say('r');
	for (uint64_t n = 0; !LOAD(stage->stop); n++) {
		uint64_t i = scale_random(&x) % HOME_KEYS;
		uint64_t least = LOAD(stage->home_done[i]), most;
		uint32_t round = scale_get(kv, i, 200);

		most = LOAD(stage->home_begun[i]);
		/* It may be between delete and put. */
		if (round)
			MUST(round >= least && round <= most,
			     "write %u is seen, not %" PRIu64 " to %" PRIu64,
			     round, least, most);
		else
			MUST(!least || most / 16 > least / 16,
			     "a key is lost");
		if (n % 256 == 0)
			usleep(1000);
	}
	farkv_close(kv);
	_exit(0);
}

/* Holds some blocks of many sizes from the beginning on, and uses them last. */
static void idle_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, 0);

	(void)arg;
	for (unsigned n = 0; n < 2; n++) {
		for (unsigned k = 0; k < 40; k++)
			MUST(scale_put(kv, 600000 + k, n + 1, len_of(4 * k, 0))
			     == 0, "put of the idle one");
		for (unsigned k = 0; k < 40; k++)
			MUST(scale_get(kv, 600000 + k, len_of(4 * k, 0)) ==
			     n + 1, "the idle one's value");
		if (n == 0) {
			worker_say('r');
			worker_wait();
		}
	}
	(void)me;
	farkv_close(kv);
	_exit(0);
}

/* ---- all of them ----------------------------------------------------------- */

struct crowd {
	struct farkv *kv;
	pid_t pid[FLYING];
	unsigned who[FLYING];
	unsigned ended;
};

static void reap(struct crowd *c, unsigned slot, bool wait)
{
	int status;
	pid_t pid;

	if (!c->pid[slot])
		return;
	pid = waitpid(c->pid[slot], &status, wait ? 0 : WNOHANG);
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		return;
	c->pid[slot] = 0;
	c->ended++;
	client_ended(c->kv, c->who[slot], status);
}

static void crowd_run(struct crowd *c, unsigned n, struct scale_worker *stay)
{
	uint64_t begin = scale_now_ns(), due;

	for (unsigned i = 0; i < n; i++) {
		unsigned slot = i % FLYING;

		due = begin + i * (UINT64_C(1000000000) / rate);
		while (scale_now_ns() < due)
			usleep(500);
		reap(c, slot, true);
		c->pid[slot] = client_start(i);
		c->who[slot] = i;
		for (unsigned k = 1; k < 32; k++)
			reap(c, (slot + FLYING - k) % FLYING, false);
		for (unsigned k = 0; k < STAYING; k++)
			scale_expect_alive(&stay[k]);
	}
	for (unsigned slot = 0; slot < FLYING; slot++)
		reap(c, slot, true);
}

static void report(unsigned n, uint64_t took_ns)
{
	static const char *const names[] = {"sweeps", "blocks_swept",
					    "sweep_ns", "barriers",
					    "sessions_total"};
	uint64_t v[5], most_open = 0, most_total = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct client *c = &stage->client[i];

		if (c->open_us > most_open)
			most_open = c->open_us;
		if (c->total_us > most_total)
			most_total = c->total_us;
	}
	scale_stats(&srv, names, v, 5);
	scale_say("%u clients in %.1f s, one of %u killed; longest open "
		  "%.1f ms, longest life %.1f ms", n, (double)took_ns / 1e9,
		  DEADLY, (double)most_open / 1e3, (double)most_total / 1e3);
	scale_say("%" PRIu64 " sweeps freed %" PRIu64 " blocks, the last took "
		  "%.1f ms; %" PRIu64 " barriers, %" PRIu64 " sessions; %"
		  PRIu64 " writes by the one that stayed", v[0], v[1],
		  (double)v[2] / 1e6, v[3], v[4], stage->home_ops);
	ck_assert_uint_gt(v[0], 0);
	ck_assert_uint_ge(v[1], n / DEADLY / 2);
}

START_TEST(clients_of_short_lives_leave_nothing_behind)
{
	const char *args[] = {"-m", "64m", NULL};
	unsigned n = 200 * (unsigned)scale_pick(3, 35, 60);
	struct scale_worker stay[STAYING];
	struct crowd c = {0};
	uint64_t t;

	rate = 200;
	/* An emulated machine does not connect more by RDMA. */
	if (real_server_is_remote()) {
		rate = 8;
		n = 80;
	}
	stage = scale_shared(sizeof(*stage) + n * sizeof(stage->client[0]));
	real_server_init(&srv, args);
	stay[0] = scale_start(writer_main, 0, NULL);
	stay[1] = scale_start(reader_main, 1, NULL);
	stay[2] = scale_start(idle_main, 2, NULL);
	for (unsigned k = 0; k < STAYING; k++)
		scale_expect(&stay[k], 'r', 60000);
	c.kv = worker_open(srv.path, 0);
	t = scale_now_ns();
	crowd_run(&c, n, stay);
	t = scale_now_ns() - t;
	ck_assert_uint_eq(c.ended, n);
	STORE(stage->stop, 1);
	scale_tell(&stay[2], 'g');
	for (unsigned k = 0; k < STAYING; k++)
		scale_join(&stay[k], 0, 60000);
	farkv_close(c.kv);
	scale_fsck_swept(&srv, "after the crowd");
	report(n, t);
	ck_assert_uint_le(scale_stat(&srv, "items"), HOME_KEYS + 40);
	ck_assert_uint_eq(scale_stat(&srv, "protocol_errors"), 0);
	real_server_fini(&srv);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("clients");
	TCase *t = tcase_create("clients");

	real_server_require();
	tcase_set_timeout(t, (double)scale_pick(60, 300, 300));
	tcase_add_test(t, clients_of_short_lives_leave_nothing_behind);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
