/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a hundred keys to millions, while other processes read and write. Each
 * value says which write of which key it is, and writers note before a write
 * what may be seen from now on and after it what must be: so a reader knows of
 * every value whether it may be there, and of every miss that it is wrong.
 *
 * Writers insert and overwrite in phases of growth, and only overwrite in the
 * pauses between: the same processes, with and without migrations.
 */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include <check.h>

#include "scale.h"
#include "tests/rig/test_main.h"

#define CLIENTS_MAX 2u /* writers, and as many readers */
#define LEN 8u
#define FIRST 100u
#define PAUSE_EACH 4u /* samples from one pause to the next */
#define ROUND_MAX 250u
#define SLOW_NS 200000u
#define BATCH 64u

enum phase { GROW, PAUSE, STOP };

struct writer {
	uint64_t inserted, overwritten;
	uint64_t longest_ns;  /* of one put */
	uint64_t longest_own; /* the same without the wait for a CPU */
	uint64_t over_5ms;
	struct hist put[2]; /* by phase */
};

struct reader {
	uint64_t hits, misses;
	struct hist get[2];
};

struct stage {
	uint64_t goal; /* keys */
	uint64_t inserted; /* by all writers, as far as the growth went */
	uint64_t limit; /* ... and may go for now */
	uint32_t phase;
	struct writer writer[CLIENTS_MAX];
	struct reader reader[CLIENTS_MAX];
};

static struct real_server srv;
static struct stage *stage;
/* Of each key the write that was seen through, and the last one begun. */
static uint8_t *done, *begun;
/* Writers, and readers; the second reader's session can only read. */
static unsigned clients;
/* Of the index's size, over the growth. */
static unsigned samples;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

/* ---- writers --------------------------------------------------------------- */

/* How long this thread was ready to run and did not; 0 if nobody counts it. */
static uint64_t cpu_wait_ns(int fd)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *end;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	strtoull(text, &end, 10);
	return strtoull(end, NULL, 10);
}

struct writing {
	struct farkv *kv;
	struct writer *w;
	uint64_t random, waited;
	int schedstat;
};

static void timed_put(struct writing *g, uint64_t i, uint8_t round,
		      unsigned phase)
{
	uint64_t t = scale_now_ns(), waited;
	int err;

	STORE(begun[i], round);
	err = scale_put(g->kv, i, round, LEN);
	MUST(err == 0, "put of key %" PRIu64 ": %s", i, farkv_strerror(err));
	STORE(done[i], round);
	t = scale_now_ns() - t;
	hist_record(&g->w->put[phase], t);
	g->w->over_5ms += t > 5000000;
	if (t > g->w->longest_ns)
		g->w->longest_ns = t;
	if (t < SLOW_NS)
		return;
	waited = cpu_wait_ns(g->schedstat);
	t -= waited - g->waited < t ? waited - g->waited : t;
	g->waited = waited;
	if (t > g->w->longest_own)
		g->w->longest_own = t;
}

/* A key of this writer's that is there. */
static uint64_t own_key(struct writing *g, unsigned me)
{
	return scale_random(&g->random) % g->w->inserted * clients + me;
}

static void write_some(struct writing *g, unsigned me, unsigned phase)
{
	g->waited = cpu_wait_ns(g->schedstat);
	for (unsigned n = 0; n < BATCH; n++) {
		uint64_t i = g->w->inserted * clients + me;

		if (phase == GROW && n % 8 && i < LOAD(stage->limit)) {
			timed_put(g, i, 1, phase);
			g->w->inserted++;
			__atomic_add_fetch(&stage->inserted, 1,
					   __ATOMIC_RELEASE);
			continue;
		}
		i = own_key(g, me);
		if (done[i] == ROUND_MAX)
			continue;
		timed_put(g, i, done[i] + 1, phase);
		g->w->overwritten++;
	}
}

static void writer_main(unsigned me, void *arg)
{
	struct writing g = {.w = &stage->writer[me], .random = me};
	uint32_t phase;

	(void)arg;
	g.kv = worker_open(srv.path, 0);
	g.schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	worker_say('r');
	worker_wait();
	while (g.w->inserted < FIRST / clients)
		timed_put(&g, g.w->inserted++ * clients + me, 1, GROW);
	__atomic_add_fetch(&stage->inserted, FIRST / clients,
			   __ATOMIC_RELEASE);
	worker_say('f');
	while ((phase = LOAD(stage->phase)) != STOP)
		write_some(&g, me, phase);
	farkv_close(g.kv);
	_exit(0);
}

/* ---- readers --------------------------------------------------------------- */

static void read_one(struct farkv *kv, struct reader *r, uint64_t i,
		     unsigned phase)
{
	uint8_t least = LOAD(done[i]);
	uint64_t t = scale_now_ns();
	uint32_t round = scale_get(kv, i, LEN);

	hist_record(&r->get[phase], scale_now_ns() - t);
	MUST(round >= least, "key %" PRIu64 " shows write %u, %u was done", i,
	     round, least);
	MUST(round <= LOAD(begun[i]), "key %" PRIu64 " shows write %u of %u", i,
	     round, begun[i]);
	if (round)
		r->hits++;
	else
		r->misses++;
}

/* Keys that are there, keys that just come, and keys that never were. */
static void reader_main(unsigned me, void *arg)
{
	struct reader *r = &stage->reader[me];
	struct farkv *kv = worker_open(srv.path,
				       me ? FARKV_OPEN_READONLY : 0);
	uint64_t x = 1000 + me;
	uint32_t phase;

	(void)arg;
	worker_say('r');
	worker_wait();
	while ((phase = LOAD(stage->phase)) != STOP)
		for (unsigned n = 0; n < BATCH; n++) {
			uint64_t among = LOAD(stage->inserted);
			uint64_t i = scale_random(&x);

			if (n % 16 == 0)
				MUST(!scale_get(kv, SCALE_ABSENT + i %
						SCALE_ABSENT, LEN),
				     "a key that never was has a value");
			else if (n % 16 == 1 && among > 64)
				read_one(kv, r, among - 32 + i % 64, phase);
			else if (among)
				read_one(kv, r, i % among, phase);
		}
	farkv_close(kv);
	_exit(0);
}

/* ---- afterwards ------------------------------------------------------------ */

/* Every key with its last write, by batches. */
static void verify_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, FARKV_OPEN_READONLY);
	uint64_t from = stage->goal / 2 * me;
	uint64_t to = me ? stage->goal : stage->goal / 2;
	struct farkv_get_item it[BATCH];
	uint64_t keys[BATCH];

	(void)arg;
	for (uint64_t i = from; i < to; i += BATCH) {
		unsigned n = (unsigned)(to - i < BATCH ? to - i : BATCH);

		for (unsigned j = 0; j < n; j++) {
			keys[j] = scale_key(i + j);
			it[j] = (struct farkv_get_item){
				.key = &keys[j], .key_len = sizeof(keys[j])};
		}
		MUST(farkv_mget(kv, it, n) == 0, "mget");
		for (unsigned j = 0; j < n; j++) {
			MUST(it[j].result == 0, "key %" PRIu64 ": %s", i + j,
			     farkv_strerror(it[j].result));
			MUST(scale_round(i + j, &it[j].value, LEN) ==
			     done[i + j], "key %" PRIu64 ": an old value",
			     i + j);
		}
	}
	farkv_close(kv);
	_exit(0);
}

static void verify(void)
{
	struct scale_worker w[2];

	for (unsigned i = 0; i < 2; i++)
		w[i] = scale_start(verify_main, i, NULL);
	for (unsigned i = 0; i < 2; i++)
		scale_join(&w[i], 0, 300000);
}

/* ---- the growth ------------------------------------------------------------ */

struct growth {
	double sum; /* index bytes for each item, over the samples */
	double most;
	uint64_t pause_migrations;
	uint64_t grew_ns;
};

static void take_sample(struct growth *g, bool show)
{
	static const char *const names[] = {
		"index_bytes", "index_slots", "splits", "used_bytes",
		"subtables"};
	uint64_t v[5], items = LOAD(stage->inserted);
	double each;

	scale_stats(&srv, names, v, 5);
	each = (double)v[0] / (double)items;
	g->sum += each;
	if (each > g->most)
		g->most = each;
	if (show)
		scale_say("%9" PRIu64 " items: index %.2f bytes an item, load "
			  "%.3f, %" PRIu64 " subtables, %" PRIu64 " splits, %"
			  PRIu64 " MiB in use", items, each,
			  (double)items / (double)v[1], v[4], v[2],
			  v[3] >> 20);
}

static uint64_t migrations(void)
{
	static const char *const names[] = {"splits", "compactions"};
	uint64_t v[2];

	scale_stats(&srv, names, v, 2);
	return v[0] + v[1];
}

static void pause_growth(struct growth *g)
{
	uint64_t before;

	STORE(stage->phase, PAUSE);
	before = migrations();
	usleep((useconds_t)scale_pick(20000, 400000, 400000));
	g->pause_migrations += migrations() - before;
	STORE(stage->phase, GROW);
}

static void grow(struct growth *g, struct scale_worker *w)
{
	uint64_t t, end = scale_now_ns() + UINT64_C(400000000000);

	for (unsigned s = 1; s <= samples; s++) {
		uint64_t until = stage->goal * s / samples;

		t = scale_now_ns();
		STORE(stage->limit, until);
		while (LOAD(stage->inserted) < until) {
			for (unsigned i = 0; i < 2 * clients; i++)
				scale_expect_alive(&w[i]);
			ck_assert_uint_lt(scale_now_ns(), end);
			usleep(1000);
		}
		g->grew_ns += scale_now_ns() - t;
		take_sample(g, s % (samples / 4) == 0);
		if (s % PAUSE_EACH == 0)
			pause_growth(g);
	}
}

static void report(const struct growth *g)
{
	static const char *const names[] = {
		"splits", "compactions", "dir_doublings", "migration_ns",
		"migration_ns_max"};
	uint64_t v[5];

	scale_stats(&srv, names, v, 5);
	scale_say("%" PRIu64 " splits, %" PRIu64 " compactions, %" PRIu64
		  " doublings; a migration took %.3f ms, the longest %.3f ms; "
		  "%" PRIu64 " in the pauses", v[0], v[1], v[2],
		  (double)v[3] / 1e6 / (double)(v[0] + v[1] + !(v[0] + v[1])),
		  (double)v[4] / 1e6, g->pause_migrations);
	scale_say("%.2f index bytes an item on average over the growth, at "
		  "most %.2f; %.0f inserts a second", g->sum / samples,
		  g->most, (double)stage->goal / ((double)g->grew_ns / 1e9));
	for (unsigned i = 0; i < clients; i++) {
		const struct writer *w = &stage->writer[i];

		scale_say("writer %u: longest put %.3f ms, %.3f ms without the "
			  "wait for a CPU; %" PRIu64 " over 5 ms", i,
			  (double)w->longest_ns / 1e6,
			  (double)w->longest_own / 1e6, w->over_5ms);
	}
}

/* What was seen by all of a kind, while the store grew and in the pauses. */
static void report_latencies(void)
{
	static const char *const title[2][2] = {
		{"puts, growing", "puts, not growing"},
		{"gets, growing", "gets, not growing"}};
	struct hist *h;

	for (unsigned phase = GROW; phase <= PAUSE; phase++) {
		h = hist_new();
		ck_assert_ptr_nonnull(h);
		for (unsigned i = 0; i < clients; i++)
			hist_merge(h, &stage->writer[i].put[phase]);
		scale_print_hist(title[0][phase], h);
		hist_free(h);
		h = hist_new();
		ck_assert_ptr_nonnull(h);
		for (unsigned i = 0; i < clients; i++)
			hist_merge(h, &stage->reader[i].get[phase]);
		scale_print_hist(title[1][phase], h);
		hist_free(h);
	}
}

static void setup(void)
{
	const char *args[] = {"-m", scale_pick(0, 1, 1) ? "2560m" : "128m",
			      NULL};

	/* For the figures no more processes than two CPUs can take. */
	clients = (unsigned)scale_pick(2, 2, 1);
	samples = (unsigned)scale_pick(16, 40, 40);
	stage = scale_shared(sizeof(*stage));
	stage->goal = scale_pick(120000, 20000000, 20000000);
	done = scale_shared(stage->goal);
	begun = scale_shared(stage->goal);
	real_server_init(&srv, args);
}

static void teardown(void)
{
	real_server_fini(&srv);
}

/*
 * Writers wait for a part of each migration. A single one may meet a busy CPU; all of them
 * together do not in make check-scale. The time is not checked beside other tests, nor with a
 * sanitizer.
 */
static void expect_short_migrations(void)
{
	static const char *const names[] = {"migration_ns", "splits",
					    "compactions"};
	const char *sanitized = getenv("SANITIZED");
	uint64_t v[3];

	scale_stats(&srv, names, v, 3);
	ck_assert_uint_gt(v[1] + v[2], 0);
	if (scale_pick(0, 1, 1) && (!sanitized || strcmp(sanitized, "no") == 0))
		ck_assert_uint_lt(v[0] / (v[1] + v[2]), 5000000);
}

START_TEST(index_that_grows_loses_nothing_and_stays_small)
{
	struct scale_worker w[2 * CLIENTS_MAX];
	struct growth g = {0};

	for (unsigned i = 0; i < 2 * clients; i++) {
		w[i] = i < clients ? scale_start(writer_main, i, NULL) :
			scale_start(reader_main, i - clients, NULL);
		scale_expect(&w[i], 'r', 60000);
	}
	for (unsigned i = 0; i < 2 * clients; i++)
		scale_tell(&w[i], 'g');
	for (unsigned i = 0; i < clients; i++)
		scale_expect(&w[i], 'f', 60000);
	grow(&g, w);
	STORE(stage->phase, STOP);
	for (unsigned i = 0; i < 2 * clients; i++)
		scale_join(&w[i], 0, 60000);
	report(&g);
	report_latencies();
	verify();
	scale_fsck(&srv, "after the growth");

	for (unsigned i = 0; i < clients; i++)
		ck_assert_uint_gt(stage->reader[i].hits, stage->goal / 100);
	ck_assert_uint_gt(stage->writer[0].overwritten, stage->goal / 100);
	ck_assert_uint_ge(scale_stat(&srv, "splits"), stage->goal / 8192);
	/* It swings by half; a small growth may end at the wrong moment. */
	ck_assert_double_le(g.sum / samples, (double)scale_pick(18, 16, 16));
	expect_short_migrations();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("growth");
	TCase *t = tcase_create("growth");

	real_server_require();
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, (double)scale_pick(60, 600, 600));
	tcase_add_test(t, index_that_grows_loses_nothing_and_stays_small);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
