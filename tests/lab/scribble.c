/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that may write damages data, index, everything that it can
 * reach. It must not crash, hang or occupy kvserver, nor the other clients: each call
 * of theirs ends by its deadline with a result or an error of farkv.h, and
 * nobody reads outside of the region (as the sanitizers' build sees).
 *
 * $LAB_SECONDS is the duration (default 1, or 30 in make check-lab), $LAB_SEED the seed.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/proto/msg.h"
#include "tests/rig/e2e.h"
#include "scribbler.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"
#include "tests/scale/scale.h"
#include "tests/rig/test_main.h"

#define OP_TIMEOUT_MS 50
/* Extra time of a call: machines are busy, sanitizers slow. */
#define SLACK_MS 4000
#define VICTIMS 2u
#define VALUE_MAX 20000u
/* Between two scribblers, each of which keeps what it has been granted. */
#define ROUNDS_EACH 400u

struct shared {
	uint32_t stop;
	uint64_t seed;
	struct {
		uint64_t calls, ok, max_ns;
	} victim[VICTIMS];
	uint64_t rounds;
};

static struct shared *sh;
static struct real_server srv;

static uint64_t env_number(const char *name, uint64_t deflt)
{
	const char *v = getenv(name);

	return v && *v ? strtoull(v, NULL, 0) : deflt;
}

static uint64_t lab_seconds(void)
{
	return env_number("LAB_SECONDS", getenv("FARKV_LAB") ? 30 : 1);
}

/* ---- the malicious client ------------------------------------------------------ */

static void scribbler_main(unsigned me, void *arg)
{
	uint64_t rnd = sh->seed + me;

	(void)arg;
	worker_say('r');
	while (!__atomic_load_n(&sh->stop, __ATOMIC_RELAXED)) {
		struct scribbler *s = scribbler_open(srv.path,
						     scale_random(&rnd));

		for (unsigned i = 0; i < ROUNDS_EACH; i++) {
			uint64_t kind = scale_random(&rnd) %
					(2 * SCRIBBLE_KINDS);

			if (__atomic_load_n(&sh->stop, __ATOMIC_RELAXED))
				break;
			if (kind >= SCRIBBLE_KINDS)
				kind = SCRIBBLE_RIVAL;
			scribbler_round(s, (enum scribble)kind);
			scribbler_answer(s);
			sh->rounds++;
			if (i % 8 == 0)
				usleep(500);
		}
		scribbler_close(s);
	}
	_exit(0);
}

/* ---- its victims --------------------------------------------------------------- */

static bool is_typed(int err)
{
	switch (err) {
	case 0:
	case FARKV_ENOTFOUND:
	case FARKV_EEXISTS:
	case FARKV_EVERSION:
	case FARKV_ENOSPC:
	case FARKV_EINDEXFULL:
	case FARKV_ETOOSMALL:
	case FARKV_ETIMEDOUT:
	case FARKV_EMAYBE:
	case FARKV_EABORTED:
	case FARKV_EDISCONNECTED:
	case FARKV_ECORRUPT:
		return true;
	default:
		return false;
	}
}

/* Every byte, so that a sanitizer sees where it lies. */
static uint64_t look_at(const struct farkv_value *v)
{
	const uint8_t *p = v->data;
	uint64_t sum = 0;

	MUST(v->len <= 1u << 20, "a value of %zu bytes", v->len);
	for (size_t i = 0; i < v->len; i++)
		sum += p[i];
	return sum;
}

static int many(struct farkv *kv, uint64_t *rnd, bool get, uint8_t *value)
{
	struct farkv_get_item g[40] = {0};
	struct farkv_put_item p[40] = {0};
	uint8_t key[40][8];
	int err;

	for (int i = 0; i < 40; i++) {
		scribbler_victim(scale_random(rnd) % SCRIBBLER_VICTIMS + 1,
				 key[i]);
		g[i].key = p[i].key = key[i];
		g[i].key_len = p[i].key_len = 8;
		p[i].value = value;
		p[i].value_len = scale_random(rnd) % 500;
	}
	err = get ? farkv_mget(kv, g, 40) : farkv_mput(kv, p, 40);
	for (int i = 0; i < 40; i++) {
		int one = get ? g[i].result : p[i].result;

		MUST(is_typed(one), "item: %d", one);
		if (get && one == 0)
			look_at(&g[i].value);
	}
	return err;
}

static int one(struct farkv *kv, uint64_t *rnd, uint8_t *value)
{
	uint64_t r = scale_random(rnd), len = r >> 32 & 255;
	struct farkv_stats st = {.size = sizeof(st)};
	struct farkv_fsck f = {.size = sizeof(f)};
	struct farkv_value v = {0};
	uint8_t key[8];
	int err;

	if ((r >> 40) % 16 == 0)
		len = (r >> 44) % VALUE_MAX;
	scribbler_victim((r >> 8) % SCRIBBLER_VICTIMS + 1, key);
	switch (r % 16) {
	case 0: case 1: case 2: case 3:
		err = farkv_get(kv, key, 8, &v);
		if (!err)
			look_at(&v);
		return err;
	case 4: case 5: case 6: case 7:
		return farkv_put(kv, key, 8, value, len);
	case 8:
		return farkv_add(kv, key, 8, value, len);
	case 9:
		return farkv_replace(kv, key, 8, value, len);
	case 10:
		err = farkv_get(kv, key, 8, &v);
		return err ? err : farkv_cas(kv, key, 8, value, len, v.version,
					     NULL);
	case 11: case 12:
		return farkv_delete(kv, key, 8);
	case 13:
		return many(kv, rnd, true, value);
	case 14:
		return many(kv, rnd, false, value);
	default:
		if ((r >> 50) % 16)
			return farkv_stats(kv, &st);
		return farkv_fsck(kv, &f);
	}
}

static struct farkv *victim_open(void)
{
	struct farkv_options o;
	struct farkv *kv = NULL;

	farkv_options_init(&o);
	o.op_timeout_ms = OP_TIMEOUT_MS;
	o.connect_timeout_ms = 20000;
	MUST(farkv_open(srv.path, &o, &kv) == 0, "a client cannot connect");
	return kv;
}

static void victim_main(unsigned me, void *arg)
{
	uint64_t rnd = sh->seed * 77 + me, took;
	struct farkv *kv = victim_open();
	static uint8_t value[VALUE_MAX];

	(void)arg;
	memset(value, (int)me + 1, sizeof(value));
	worker_say('r');
	while (!__atomic_load_n(&sh->stop, __ATOMIC_RELAXED)) {
		uint64_t began = scale_now_ns();
		int err = one(kv, &rnd, value);

		took = scale_now_ns() - began;
		MUST(is_typed(err), "a call said %d", err);
		MUST(took < (OP_TIMEOUT_MS + SLACK_MS) * NS_PER_MS,
		     "a call took %llu ms", (unsigned long long)(took / NS_PER_MS));
		sh->victim[me].calls++;
		sh->victim[me].ok += err == 0;
		if (took > sh->victim[me].max_ns)
			sh->victim[me].max_ns = took;
		if (scale_random(&rnd) % 5000)
			continue;
		farkv_close(kv);
		kv = victim_open();
	}
	farkv_close(kv);
	_exit(0);
}

/* ---- the server, from outside ----------------------------------------------------- */

/* The time of a round trip to the server's loop. */
static uint64_t server_answers(void)
{
	struct msg m = {.type = MSG_PING, .req = 2};
	uint64_t began = scale_now_ns();
	int fd;

	ck_assert_msg(waitpid(srv.pid, NULL, WNOHANG) == 0,
		      "kvserver has ended");
	fd = raw_session(srv.path, MSG_ROLE_RO, NULL);
	raw_say(fd, &m, NULL);
	do {
		m = raw_hear(fd);
		ck_assert_uint_ne(m.type, 0);
	} while (m.type != MSG_PONG);
	/* BYE: the server need not wait for this process. */
	m = (struct msg){.type = MSG_BYE};
	raw_say(fd, &m, NULL);
	close(fd);
	return scale_now_ns() - began;
}

/* When nobody wants anything, it sleeps. */
static void check_idle(void)
{
	struct scale_usage before, after;

	for (int i = 0; i < 100; i++) {
		uint64_t began = scale_now_ns();

		scale_usage(srv.pid, &before);
		usleep(50000);
		scale_usage(srv.pid, &after);
		if (after.cpu_ns - before.cpu_ns <
		    (scale_now_ns() - began) / 4)
			return;
	}
	ck_abort_msg("the server does not come to rest");
}

START_TEST(scribbler_damages_data_and_nothing_else)
{
	static const char *const args[] = {"-m", "48", "--max-item-size", "256k",
					   "--grace-ms", "10", NULL};
	uint64_t seconds = lab_seconds();
	struct scale_worker bad, good[VICTIMS];
	uint64_t until, worst = 0, pings = 0;

	sh = scale_shared(sizeof(*sh));
	sh->seed = env_number("LAB_SEED", (uint64_t)getpid() ^
						       scale_now_ns());
	printf("  seed %llu, %llu s\n", (unsigned long long)sh->seed,
	       (unsigned long long)seconds);
	fflush(stdout);
	real_server_init(&srv, args);
	for (unsigned i = 0; i < VICTIMS; i++) {
		good[i] = scale_start(victim_main, i, NULL);
		scale_expect(&good[i], 'r', 30000);
	}
	bad = scale_start(scribbler_main, VICTIMS, NULL);
	scale_expect(&bad, 'r', 30000);
	for (until = scale_now_ns() + seconds * NS_PER_SEC;
	     scale_now_ns() < until; usleep(5000)) {
		uint64_t t = server_answers();

		worst = t > worst ? t : worst;
		pings++;
		scale_expect_alive(&bad);
		for (unsigned i = 0; i < VICTIMS; i++)
			scale_expect_alive(&good[i]);
	}
	__atomic_store_n(&sh->stop, 1, __ATOMIC_RELAXED);
	scale_join(&bad, 0, 60000);
	for (unsigned i = 0; i < VICTIMS; i++) {
		scale_join(&good[i], 0, 60000);
		ck_assert_uint_gt(sh->victim[i].calls, 0);
		scale_say("client %u: %llu calls, %llu succeeded, the longest "
			  "%.1f ms", i,
			  (unsigned long long)sh->victim[i].calls,
			  (unsigned long long)sh->victim[i].ok,
			  (double)sh->victim[i].max_ns / 1e6);
	}
	scale_say("scribbler: %llu rounds; server: %llu connections answered, "
		  "the slowest in %.1f ms",
		  (unsigned long long)sh->rounds, (unsigned long long)pings,
		  (double)worst / 1e6);
	ck_assert_uint_lt(worst, SLACK_MS * NS_PER_MS);
	check_idle();
	real_server_fini(&srv);
}
END_TEST

/* ---- a migration that cannot end -------------------------------------------------- */

static void besieger_main(unsigned me, void *arg)
{
	struct scribbler *s = scribbler_open(srv.path, 11 + me);

	(void)arg;
	for (unsigned i = 0;; i++) {
		scribbler_siege(s, 200 * NS_PER_MS);
		scribbler_answer(s);
		if (i == 0)
			worker_say('r');
	}
}

START_TEST(subtable_under_siege_does_not_occupy_the_server)
{
	static const char *const args[] = {"-m", "16", NULL};
	struct farkv_stats st = {.size = sizeof(st)};
	uint64_t worst = 0;
	struct scale_worker w;
	struct farkv *kv;

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 5000);
	for (unsigned i = 0; i < 2000; i++)
		OK(farkv_put(kv, &i, sizeof(i), "v", 1));
	w = scale_start(besieger_main, 0, NULL);
	scale_expect(&w, 'r', 20000);
	for (int i = 0; i < 50; i++) {
		uint64_t t = server_answers();

		worst = t > worst ? t : worst;
		usleep(10000);
	}
	OK(farkv_stats(kv, &st));
	scale_say("under siege: %llu splits, the slowest answer in %.1f ms",
		  (unsigned long long)st.splits, (double)worst / 1e6);
	ck_assert_uint_gt(st.splits + st.compactions, 0);
	ck_assert_uint_lt(worst, SLACK_MS * NS_PER_MS);
	scale_expect_alive(&w);
	scale_kill(&w);
	check_idle();
	farkv_close(kv);
	real_server_fini(&srv);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("scribble");
	TCase *t = tcase_create("scribble");

	real_server_require();
	tcase_set_timeout(t, 120 + (double)lab_seconds());
	tcase_add_test(t, scribbler_damages_data_and_nothing_else);
	tcase_add_test(t, subtable_under_siege_does_not_occupy_the_server);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
