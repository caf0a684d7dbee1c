/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that stop: between their READs and the swap that depends on them, while the
 * subtable is split and rebuilt many times; and right after a swap, while a dead client's
 * blocks are swept. Then they continue. Also a server that is stopped while a client
 * dies.
 */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <check.h>

#include "scale.h"
#include "scale_hook.h"
#include "tests/rig/test_main.h"

#define LEN 100u
#define OLD 1u   /* write of a key before, */
#define NEW 2u   /* by the stopped client, */
#define RIVAL 5u /* and by another one meanwhile */
#define BATCH 50u
#define CHURN_FROM UINT64_C(10000000)

static struct real_server srv;
static struct stage {
	struct scale_home home;
	struct hook_seen seen[32];
	int result[32];
	uint32_t stop;
} *stage;
static struct farkv *kv;

/* ---- stopped before its swap ------------------------------------------------ */

enum rival { NOBODY, OVERWRITES, INSERTS, DELETES, REINSERTS };

struct stopped {
	const char *name;
	char what; /* p put, a add, r replace, c cas, d delete, g get */
	bool there; /* a value before */
	enum rival rival;
	/* The possible results: the call's, and the write seen then. */
	struct { int result; uint32_t round; } may[3];
};

#define END {-1, 99}

static const struct stopped cases[] = {
	{"put, nobody else", 'p', true, NOBODY, {{0, NEW}, END}},
	{"put, overwritten", 'p', true, OVERWRITES,
	 {{0, NEW}, {0, RIVAL}, END}},
	{"put, deleted", 'p', true, DELETES, {{0, NEW}, {0, 0}, END}},
	{"put, deleted and back", 'p', true, REINSERTS,
	 {{0, NEW}, {0, RIVAL}, END}},
	{"insert, nobody else", 'p', false, NOBODY, {{0, NEW}, END}},
	{"insert, inserted", 'p', false, INSERTS,
	 {{0, NEW}, {0, RIVAL}, END}},
	{"add, nobody else", 'a', false, NOBODY, {{0, NEW}, END}},
	{"add, inserted", 'a', false, INSERTS, {{FARKV_EEXISTS, RIVAL}, END}},
	{"replace, nobody else", 'r', true, NOBODY, {{0, NEW}, END}},
	{"replace, deleted", 'r', true, DELETES, {{FARKV_ENOTFOUND, 0}, END}},
	{"cas, nobody else", 'c', true, NOBODY, {{0, NEW}, END}},
	{"cas, overwritten", 'c', true, OVERWRITES,
	 {{FARKV_EVERSION, RIVAL}, END}},
	{"cas, deleted", 'c', true, DELETES, {{FARKV_ENOTFOUND, 0}, END}},
	{"cas, deleted and back", 'c', true, REINSERTS,
	 {{FARKV_EVERSION, RIVAL}, END}},
	{"delete, nobody else", 'd', true, NOBODY, {{0, 0}, END}},
	{"delete, overwritten", 'd', true, OVERWRITES, {{0, 0}, END}},
	{"delete, deleted", 'd', true, DELETES, {{FARKV_ENOTFOUND, 0}, END}},
	{"delete, deleted and back", 'd', true, REINSERTS, {{0, 0}, END}},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static uint64_t key_of(unsigned c)
{
	return 2000000 + c;
}

static int act(struct farkv *h, uint64_t i, char what, uint64_t version)
{
	uint64_t key = scale_key(i), words[LEN / 8 + 1];

	for (unsigned at = 0; at < LEN / 8 + 1; at++)
		words[at] = scale_value(i, NEW);
	switch (what) {
	case 'p':
		return farkv_put(h, &key, sizeof(key), words, LEN);
	case 'a':
		return farkv_add(h, &key, sizeof(key), words, LEN);
	case 'r':
		return farkv_replace(h, &key, sizeof(key), words, LEN);
	case 'c':
		return farkv_cas(h, &key, sizeof(key), words, LEN, version,
				 NULL);
	default:
		return farkv_delete(h, &key, sizeof(key));
	}
}

static void stopped_main(unsigned c, void *arg)
{
	struct hook_plan plan = {.at = 1, .only_cas = true, .sig = SIGSTOP,
				 .seen = &stage->seen[c]};
	uint64_t key = scale_key(key_of(c));
	struct farkv_value v = {0};
	struct farkv *h;

	(void)arg;
	hook_install(true);
	h = worker_open(srv.path, 0);
	if (cases[c].what == 'c')
		MUST(farkv_get(h, &key, sizeof(key), &v) == 0, "get");
	hook_arm(&plan);
	stage->result[c] = act(h, key_of(c), cases[c].what, v.version);
	hook_arm(NULL);
	worker_say('d');
	worker_wait();
	/* It works like any other client. */
	for (unsigned n = 0; n < 300; n++) {
		uint64_t i = 3000000 + c * 1000 + n % 50;

		MUST(scale_put(h, i, n + 1, LEN) == 0, "put afterwards");
		MUST(scale_get(h, i, LEN) == n + 1, "get afterwards");
	}
	farkv_close(h);
	_exit(0);
}

static void rival_put(uint64_t i, uint32_t round)
{
	ck_assert_int_eq(scale_put(kv, i, round, LEN), 0);
}

static void rival_acts(unsigned c)
{
	uint64_t i = key_of(c);

	switch (cases[c].rival) {
	case NOBODY:
		return;
	case OVERWRITES:
	case INSERTS:
		rival_put(i, RIVAL - 1);
		rival_put(i, RIVAL);
		return;
	case DELETES:
		ck_assert_int_eq(scale_delete(kv, i), 0);
		return;
	case REINSERTS:
		ck_assert_int_eq(scale_delete(kv, i), 0);
		rival_put(i, RIVAL - 1);
		ck_assert_int_eq(scale_delete(kv, i), 0);
		rival_put(i, RIVAL);
	}
}

/*
 * Over RDMA a client that does not answer for long is cut off, so the outcome of its
 * requests in flight is unknown.
 */
static void check_outcome(unsigned c)
{
	int result = stage->result[c];
	uint32_t round = scale_get(kv, key_of(c), LEN);

	if (real_server_is_remote() && result == FARKV_EMAYBE)
		return;
	for (unsigned m = 0; cases[c].may[m].result != -1; m++)
		if (result == cases[c].may[m].result &&
		    round == cases[c].may[m].round)
			return;
	ck_abort_msg("%s: %s, and write %u is seen", cases[c].name,
		     farkv_strerror(result), round);
}

/* ---- migrations ------------------------------------------------------------- */

static void put_batch(uint64_t from)
{
	struct farkv_put_item it[BATCH];
	uint64_t keys[BATCH], words[BATCH];

	for (unsigned j = 0; j < BATCH; j++) {
		keys[j] = scale_key(from + j);
		words[j] = scale_value(from + j, OLD);
		it[j] = (struct farkv_put_item){
			.key = &keys[j], .key_len = sizeof(keys[j]),
			.value = &words[j], .value_len = sizeof(words[j])};
	}
	ck_assert_int_eq(farkv_mput(kv, it, BATCH), 0);
}

/*
 * Keys come and go in waves until every subtable was rebuilt `times` times on
 * average, and for `ms` at least.
 */
static void churn(unsigned times, uint64_t ms)
{
	static const char *const names[] = {"splits", "compactions",
					    "subtables"};
	unsigned keys = real_server_is_remote() ? 15000 : 60000;
	uint64_t end = scale_now_ns() + ms * 1000000, v[3];
	uint64_t late = end + UINT64_C(240000000000), from = CHURN_FROM;

	do {
		for (uint64_t i = from; i < from + keys; i += BATCH)
			put_batch(i);
		for (uint64_t i = from; i < from + keys; i++)
			ck_assert_int_eq(scale_delete(kv, i), 0);
		from += keys;
		scale_stats(&srv, names, v, 3);
		ck_assert_uint_lt(scale_now_ns(), late);
		if (scale_now_ns() < end)
			usleep(100000);
	} while (v[1] < times * v[2] || scale_now_ns() < end);
	scale_say("%" PRIu64 " splits to %" PRIu64 " subtables, %" PRIu64
		  " compactions", v[0], v[2], v[1]);
	ck_assert_uint_ge(v[0], keys / 8000);
}

static void bystanders_start(struct scale_worker *home)
{
	stage->home.uri = srv.path;
	*home = scale_start(scale_home_main, 0, &stage->home);
	scale_expect(home, 'r', 60000);
	kv = worker_open(srv.path, 0);
	for (uint64_t i = 5000000; i < 5003000; i++)
		rival_put(i, OLD);
}

static void bystanders_end(struct scale_worker *home, const char *what)
{
	for (uint64_t i = 5000000; i < 5003000; i++)
		ck_assert_uint_eq(scale_get(kv, i, LEN), OLD);
	farkv_close(kv);
	scale_home_stop(&stage->home, home);
	scale_fsck_swept(&srv, what);
	ck_assert_uint_eq(scale_stat(&srv, "protocol_errors"), 0);
}

START_TEST(client_stopped_before_its_swap_goes_on)
{
	struct scale_worker w[CASES], home;

	bystanders_start(&home);
	for (unsigned c = 0; c < CASES; c++) {
		if (cases[c].there)
			rival_put(key_of(c), OLD);
		w[c] = scale_start(stopped_main, c, NULL);
		scale_expect_stopped(&w[c], 60000);
	}
	for (unsigned c = 0; c < CASES; c++)
		rival_acts(c);
	churn((unsigned)scale_pick(2, 4, 6), scale_pick(500, 20000, 30000));
	for (unsigned c = 0; c < CASES; c++) {
		scale_continue(&w[c]);
		scale_expect(&w[c], 'd', 60000);
		check_outcome(c);
		scale_tell(&w[c], 'g');
		scale_join(&w[c], 0, 60000);
	}
	for (unsigned c = 0; c < CASES; c++)
		ck_assert_int_ne(scale_delete(kv, key_of(c)),
				 FARKV_ECORRUPT);
	bystanders_end(&home, "after those that stopped before their swap");
}
END_TEST

/* ---- stopped after its swap, while others are swept -------------------------- */

/* Dies with blocks of the sizes that the others use. */
static void mortal_main(unsigned me, void *arg)
{
	struct farkv *h = worker_open(srv.path, 0);

	(void)arg;
	for (unsigned n = 0; n < 200; n++)
		MUST(scale_put(h, 4000000 + me * 50 + n % 50, n + 1, LEN) == 0,
		     "put of a mortal");
	worker_say('r');
	for (;;)
		pause();
}

/*
 * Overwrites, inserts and deletes forever, and stops itself right after some swap; when
 * it continues it must still hold the same blocks.
 */
static void stopping_main(unsigned me, void *arg)
{
	struct hook_plan plan = {.only_cas = true, .after = true,
				 .sig = SIGSTOP, .seen = &stage->seen[me]};
	uint32_t round[16] = {0};
	uint64_t x = me;
	struct farkv *h;

	(void)arg;
	hook_install(true);
	h = worker_open(srv.path, 0);
	worker_say('r');
	for (uint32_t n = 1; !__atomic_load_n(&stage->stop, __ATOMIC_ACQUIRE);
	     n++) {
		uint64_t r = scale_random(&x), k = r % 16;
		uint64_t i = 2000000 + me * 100 + k;

		/* Operations between two stops, by which the test counts. */
		if (n % 2048 == 0) {
			plan.at = 1 + (uint32_t)(r >> 32) % 3;
			hook_arm(&plan);
		}
		MUST(scale_get(h, i, LEN) == round[k],
		     "key %" PRIu64 " is not at write %u", i, round[k]);
		round[k] = round[k] && r >> 20 & 1 ? 0 : n;
		MUST((round[k] ? scale_put(h, i, n, LEN) : scale_delete(h, i))
		     == 0, "write");
	}
	farkv_close(h);
	_exit(0);
}

/* New values meanwhile: they would reuse blocks freed by mistake. */
static void grab_blocks(uint64_t from, unsigned n)
{
	if (real_server_is_remote())
		n /= 5;
	for (uint64_t i = from; i < from + n; i++)
		rival_put(i, OLD);
	for (uint64_t i = from; i < from + n; i++) {
		ck_assert_uint_eq(scale_get(kv, i, LEN), OLD);
		ck_assert_int_eq(scale_delete(kv, i), 0);
	}
}

START_TEST(client_stopped_after_its_swap_goes_on)
{
	unsigned rounds = real_server_is_remote() ? 1 :
				  (unsigned)scale_pick(5, 25, 40);
	uint64_t x = 99, swept = scale_stat(&srv, "blocks_swept");
	struct scale_worker home, stopping[3], mortal;

	bystanders_start(&home);
	for (unsigned i = 0; i < 3; i++) {
		stopping[i] = scale_start(stopping_main, i, NULL);
		scale_expect(&stopping[i], 'r', 60000);
	}
	for (unsigned r = 0; r < rounds; r++) {
		mortal = scale_start(mortal_main, r, NULL);
		scale_expect(&mortal, 'r', 60000);
		scale_kill(&mortal);
		/* They stop many times: before, during and after a sweep. */
		for (unsigned n = 0; n < 8; n++)
			for (unsigned i = 0; i < 3; i++) {
				scale_expect_stopped(&stopping[i], 60000);
				if (i == n % 3)
					usleep(scale_random(&x) % 60000);
				scale_continue(&stopping[i]);
			}
		grab_blocks(6000000 + r * 1000, 1000);
	}
	/* One stays stopped for longer than the server waits. */
	mortal = scale_start(mortal_main, rounds, NULL);
	scale_expect(&mortal, 'r', 60000);
	scale_expect_stopped(&stopping[0], 60000);
	scale_kill(&mortal);
	usleep((useconds_t)scale_pick(300000, 5000000, 5000000));
	grab_blocks(7000000, 5000);
	scale_continue(&stopping[0]);
	__atomic_store_n(&stage->stop, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 3; i++)
		scale_let_end(&stopping[i], 60000);
	bystanders_end(&home, "after those that stopped after their swap");
	scale_say("%u deaths, %" PRIu64 " sweeps, %" PRIu64 " blocks swept",
		  rounds + 1, scale_stat(&srv, "sweeps"),
		  scale_stat(&srv, "blocks_swept") - swept);
	ck_assert_uint_ge(scale_stat(&srv, "blocks_swept") - swept, rounds);
}
END_TEST

/* ---- the server stopped ------------------------------------------------------ */

START_TEST(client_that_dies_while_the_server_is_stopped_is_swept)
{
	uint64_t swept = scale_stat(&srv, "blocks_swept"), ops;
	struct scale_worker home, mortal[4];

	bystanders_start(&home);
	for (unsigned i = 0; i < 4; i++) {
		mortal[i] = scale_start(mortal_main, i, NULL);
		scale_expect(&mortal[i], 'r', 60000);
	}
	real_server_pause(&srv);
	ops = stage->home.ops;
	for (unsigned i = 0; i < 4; i++) {
		scale_kill(&mortal[i]);
		usleep(50000);
	}
	/* A client with blocks goes on without the server. */
	for (unsigned n = 0; n < 500; n++)
		rival_put(5000000 + n, OLD);
	usleep((useconds_t)scale_pick(100000, 3000000, 3000000));
	real_server_resume(&srv);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned n = 150; n < 200; n++)
			ck_assert_uint_eq(scale_get(kv, 4000000 + i * 50 +
						    n % 50, LEN), n + 1);
	grab_blocks(6000000, 1000);
	bystanders_end(&home, "after deaths that the server slept through");
	ck_assert_uint_gt(stage->home.ops, ops);
	ck_assert_uint_ge(scale_stat(&srv, "blocks_swept") - swept, 4);
}
END_TEST

static void setup(void)
{
	const char *args[] = {"-m", real_server_is_remote() ? "64m" : "256m",
			      NULL};

	stage = scale_shared(sizeof(*stage));
	real_server_init(&srv, args);
}

static void teardown(void)
{
	real_server_fini(&srv);
}

static Suite *suite(void)
{
	Suite *s = suite_create("stopped");
	TCase *t = tcase_create("stopped");

	real_server_require();
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, (double)scale_pick(60, 200, 200));
	tcase_add_test(t, client_stopped_before_its_swap_goes_on);
	tcase_add_test(t, client_stopped_after_its_swap_goes_on);
	tcase_add_test(t, client_that_dies_while_the_server_is_stopped_is_swept);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
