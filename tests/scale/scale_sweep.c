/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a sweep: a store of many items, a reader, and a client that holds blocks and is
 * killed, several times. Compared with the same number of statistics requests without
 * deaths. For make scale-figures; SCALE_ITEMS and SCALE_ROUNDS set the size.
 */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "scale.h"
#include "tests/rig/test_main.h"

#define LEN 8u
#define QUIET 0u
#define SWEEP 1u
#define NEITHER 2u
#define LOADERS 2u
/* The server waits this long for more deaths before it sweeps. */
#define BATCH_US 200000u
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

static struct real_server srv;
static struct stage {
	uint64_t items;
	uint32_t stop, phase;
	struct hist get[3];
} *stage;
static struct farkv *watcher;

static void load_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, 0);

	(void)arg;
	for (uint64_t i = me; i < stage->items; i += LOADERS)
		MUST(scale_put(kv, i, 1, LEN) == 0, "load");
	farkv_close(kv);
	_exit(0);
}

static void reader_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, FARKV_OPEN_READONLY);
	uint64_t x = me, t, i;

	(void)arg;
	worker_say('r');
	while (!LOAD(stage->stop)) {
		i = scale_random(&x) % stage->items;
		t = scale_now_ns();
		MUST(scale_get(kv, i, LEN) == 1, "get");
		hist_record(&stage->get[LOAD(stage->phase)],
			    scale_now_ns() - t);
	}
	farkv_close(kv);
	_exit(0);
}

/* Holds as many blocks as a busy client. */
static void mortal_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, 0);

	(void)arg;
	(void)me;
	for (unsigned n = 0; n < 20000; n++)
		MUST(scale_put(kv, n, 1, LEN) == 0, "put");
	worker_say('r');
	for (;;)
		pause();
}

struct period {
	uint64_t took_ns, cpu_ns;
};

static struct farkv_stats stats(void)
{
	struct farkv_stats s = {.size = sizeof(s)};
	int err = farkv_stats(watcher, &s);

	ck_assert_msg(err == 0, "stats: %s", farkv_errdetail());
	return s;
}

/* Ask until `sweeps` are done, or, if that is 0, for as long as `ns`. */
static void watch(struct period *p, uint64_t sweeps, uint64_t ns)
{
	struct scale_usage before, after;
	uint64_t t = scale_now_ns(), done;

	scale_usage(srv.pid, &before);
	do {
		usleep(5000);
		done = stats().sweeps;
		ck_assert_uint_lt(scale_now_ns() - t, UINT64_C(120000000000));
	} while (sweeps ? done < sweeps : scale_now_ns() - t < ns);
	scale_usage(srv.pid, &after);
	p->took_ns = scale_now_ns() - t;
	p->cpu_ns = after.cpu_ns - before.cpu_ns;
}

static double p99(const struct hist *h)
{
	struct hist_summary s;

	hist_summarize(h, &s);
	return (double)hist_percentile(h, s.count, 99) / 1e3;
}

static double one_round(unsigned r)
{
	struct farkv_stats before = stats(), after;
	struct period quiet, busy;
	struct scale_worker w = scale_start(mortal_main, r, NULL);
	double ratio;

	scale_expect(&w, 'r', 60000);
	/* A pause follows each sweep: let it pass. */
	sleep(4);
	memset(stage->get, 0, sizeof(stage->get));
	scale_kill(&w);
	usleep(BATCH_US);
	STORE(stage->phase, SWEEP);
	watch(&busy, before.sweeps + 1, 0);
	STORE(stage->phase, NEITHER);
	after = stats();
	sleep(1);
	STORE(stage->phase, QUIET);
	watch(&quiet, 0, busy.took_ns);
	STORE(stage->phase, NEITHER);
	ratio = p99(&stage->get[SWEEP]) / p99(&stage->get[QUIET]);
	scale_say("%5u %9.0f ms %9.1f ms %8.1f ms %8.1f ms %8" PRIu64
		  " %8.2f us %8.2f us %6.3f", r + 1,
		  (double)busy.took_ns / 1e6, (double)after.sweep_ns / 1e6,
		  (double)busy.cpu_ns / 1e6, (double)quiet.cpu_ns / 1e6,
		  after.blocks_swept - before.blocks_swept,
		  p99(&stage->get[SWEEP]), p99(&stage->get[QUIET]), ratio);
	scale_print_hist("  gets, sweep", &stage->get[SWEEP]);
	scale_print_hist("  gets, quiet", &stage->get[QUIET]);
	return ratio;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static unsigned number(const char *name, unsigned deflt)
{
	const char *text = getenv(name);

	return text ? (unsigned)atoi(text) : deflt;
}

START_TEST(sweep_of_a_large_index_is_measured)
{
	unsigned rounds = number("SCALE_ROUNDS", 5);
	const char *args[] = {"-m", "2g", NULL};
	struct scale_worker w[LOADERS], reader;
	double ratio[64];

	ck_assert_uint_lt(rounds - 1, 64);
	stage = scale_shared(sizeof(*stage));
	stage->items = number("SCALE_ITEMS", 10000000);
	real_server_init(&srv, args);
	for (unsigned i = 0; i < LOADERS; i++)
		w[i] = scale_start(load_main, i, NULL);
	for (unsigned i = 0; i < LOADERS; i++)
		scale_join(&w[i], 0, 600000);
	stage->phase = NEITHER;
	reader = scale_start(reader_main, 0, NULL);
	scale_expect(&reader, 'r', 60000);
	watcher = worker_open(srv.path, FARKV_OPEN_READONLY);
	scale_say("sweeps of %" PRIu64 " items after a kill -9: until it is "
		  "seen to be done, its own time, the server's CPU meanwhile "
		  "and for as long without a sweep, blocks swept, p99 of gets "
		  "with and without, their ratio", stage->items);
	for (unsigned r = 0; r < rounds; r++)
		ratio[r] = one_round(r);
	STORE(stage->stop, 1);
	scale_join(&reader, 0, 60000);
	farkv_close(watcher);
	qsort(ratio, rounds, sizeof(ratio[0]), by_size);
	scale_say("p99 of gets during a sweep: %.3f of that without, median "
		  "of %u rounds", ratio[rounds / 2], rounds);
	scale_fsck_swept(&srv, "after the sweeps");
	real_server_fini(&srv);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sweep");
	TCase *t = tcase_create("sweep");

	real_server_require();
	tcase_set_timeout(t, 1200);
	tcase_add_test(t, sweep_of_a_large_index_is_measured);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
