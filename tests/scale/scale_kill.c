/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill -9 at every step of every operation: a child counts the requests that the
 * operation makes, then for each of them a child dies just before it and another
 * just after. What it did takes place or does not, by whether its swap was
 * carried out; what it held comes back; and nobody else notices.
 */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <check.h>

#include "scale.h"
#include "scale_hook.h"
#include "tests/rig/test_main.h"

#define OLD 1u
#define NEW 2u
#define MANY 6u
#define KEYS_GROWING 400u
#define DEATHS_GROWING 24u

static struct real_server srv;
static struct stage {
	struct hook_seen seen;
	uint64_t key;    /* what the child is to work on */
	uint32_t done;   /* calls of it that returned */
	uint64_t random;
	struct scale_home home;
} *stage;
static struct farkv *kv;
static unsigned deaths;

/* ---- operations ------------------------------------------------------------ */

enum before { NOTHING, VALUE, DELETED };

struct kind {
	const char *name;
	int (*act)(struct farkv *kv, uint64_t i, size_t len);
	size_t len;
	enum before before;
	int result;
	uint32_t then;   /* the round after a swap; 0: no value */
};

static int act_put(struct farkv *h, uint64_t i, size_t len)
{
	return scale_put(h, i, NEW, len);
}

/* The other writes, from the words that scale_put() would store. */
static int write_as(struct farkv *h, uint64_t i, size_t len, char how,
		    uint64_t version)
{
	static uint64_t words[4096];
	uint64_t key = scale_key(i);

	for (size_t at = 0; at < (len + 7) / 8; at++)
		words[at] = scale_value(i, NEW);
	if (how == 'a')
		return farkv_add(h, &key, sizeof(key), words, len);
	if (how == 'r')
		return farkv_replace(h, &key, sizeof(key), words, len);
	return farkv_cas(h, &key, sizeof(key), words, len, version, NULL);
}

static int act_add(struct farkv *h, uint64_t i, size_t len)
{
	return write_as(h, i, len, 'a', 0);
}

static int act_replace(struct farkv *h, uint64_t i, size_t len)
{
	return write_as(h, i, len, 'r', 0);
}

static int act_cas(struct farkv *h, uint64_t i, size_t len)
{
	uint64_t key = scale_key(i);
	struct farkv_value v;
	int err = farkv_get(h, &key, sizeof(key), &v);

	return err ? err : write_as(h, i, len, 'c', v.version);
}

static int act_cas_late(struct farkv *h, uint64_t i, size_t len)
{
	return write_as(h, i, len, 'c', 1);
}

static int act_delete(struct farkv *h, uint64_t i, size_t len)
{
	(void)len;
	return scale_delete(h, i);
}

static int act_get(struct farkv *h, uint64_t i, size_t len)
{
	return scale_get(h, i, len) ? 0 : FARKV_ENOTFOUND;
}

static const struct kind kinds[] = {
	{"put of a new key", act_put, 100, NOTHING, 0, NEW},
	{"put over a value", act_put, 100, VALUE, 0, NEW},
	{"put over a large value", act_put, 20000, VALUE, 0, NEW},
	{"put of a deleted key", act_put, 100, DELETED, 0, NEW},
	{"add", act_add, 100, NOTHING, 0, NEW},
	{"add of a deleted key", act_add, 100, DELETED, 0, NEW},
	{"add to a value", act_add, 100, VALUE, FARKV_EEXISTS, OLD},
	{"replace", act_replace, 100, VALUE, 0, NEW},
	{"replace of nothing", act_replace, 100, NOTHING, FARKV_ENOTFOUND, 0},
	{"cas", act_cas, 100, VALUE, 0, NEW},
	{"cas of an old version", act_cas_late, 100, VALUE, FARKV_EVERSION,
	 OLD},
	{"delete", act_delete, 100, VALUE, 0, 0},
	{"delete of a large value", act_delete, 20000, VALUE, 0, 0},
	{"delete of nothing", act_delete, 100, NOTHING, FARKV_ENOTFOUND, 0},
	{"get", act_get, 100, VALUE, 0, OLD},
};

/* ---- one child, one death -------------------------------------------------- */

struct death {
	const struct kind *kind;
	struct hook_plan plan;
	bool all; /* no plain loads and stores */
};

static void child_main(unsigned me, void *arg)
{
	const struct death *d = arg;
	struct farkv *h;
	int err;

	(void)me;
	hook_install(d->all);
	h = worker_open(srv.path, 0);
	hook_arm(&d->plan);
	err = d->kind->act(h, stage->key, d->kind->len);
	hook_arm(NULL);
	MUST(err == d->kind->result, "%s: %s", d->kind->name,
	     farkv_strerror(err));
	farkv_close(h);
	_exit(0);
}

static void prepare(const struct kind *k)
{
	int err;

	stage->key++;
	if (k->before == NOTHING)
		return;
	err = scale_put(kv, stage->key, OLD, k->len);
	ck_assert_int_eq(err, 0);
	if (k->before == DELETED)
		ck_assert_int_eq(scale_delete(kv, stage->key), 0);
}

/* One swap decides; then somebody else can work with the key. */
static void look(const struct death *d)
{
	const struct kind *k = d->kind;
	uint32_t was = k->before == VALUE ? OLD : 0;
	uint32_t want = stage->seen.swaps ? k->then : was;
	uint32_t is = scale_get(kv, stage->key, k->len);

	ck_assert_msg(is == want, "%s, killed %s request %u: write %u is seen "
		      "and not %u", k->name, d->plan.after ? "after" : "before",
		      d->plan.at, is, want);
	ck_assert_int_eq(scale_put(kv, stage->key, NEW + 1, k->len), 0);
	ck_assert_uint_eq(scale_get(kv, stage->key, k->len), NEW + 1);
	ck_assert_int_eq(scale_delete(kv, stage->key), 0);
	ck_assert_uint_eq(scale_get(kv, stage->key, k->len), 0);
}

static void die(struct death *d, uint32_t at, bool after)
{
	struct scale_worker w;
	bool died;

	prepare(d->kind);
	d->plan = (struct hook_plan){.at = at, .after = after, .sig = SIGKILL,
				     .seen = &stage->seen};
	w = scale_start(child_main, 0, d);
	died = scale_killed(&w, 60000);
	/* A slow machine may have counted steps that were repeated. */
	ck_assert(died == (at > 0) || stage->seen.requests < at);
	if (died)
		deaths++;
	if (at)
		look(d);
}

static unsigned die_everywhere(const struct kind *k, bool all)
{
	struct death d = {.kind = k, .all = all};
	uint32_t n;

	die(&d, 0, false);
	n = stage->seen.requests;
	if (k->result == 0 && k->act != act_get)
		ck_assert_uint_eq(stage->seen.swaps, 1);
	if (all)
		ck_assert_uint_gt(n, 0);
	for (uint32_t at = 1; at <= n; at++)
		for (unsigned after = 0; after < 2; after++)
			die(&d, at, after);
	return n;
}

static void all_kinds(bool all)
{
	char text[512] = "";
	size_t len = 0;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned n = die_everywhere(&kinds[i], all);

		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%s %u", i ? ", " : "",
					kinds[i].name, n);
		ck_assert_uint_lt(len, sizeof(text));
	}
	scale_say("requests: %s", text);
}

/* ---- many keys in one call ------------------------------------------------- */

static int act_mput(struct farkv *h, uint64_t i, size_t len)
{
	struct farkv_put_item it[MANY];
	uint64_t keys[MANY], words[MANY];

	for (unsigned j = 0; j < MANY; j++) {
		keys[j] = scale_key(i + j);
		words[j] = scale_value(i + j, NEW);
		it[j] = (struct farkv_put_item){
			.key = &keys[j], .key_len = sizeof(keys[j]),
			.value = &words[j], .value_len = len};
	}
	return farkv_mput(h, it, MANY);
}

/* The number of new values is the number of swaps. */
static void mput_everywhere(void)
{
	static const struct kind k = {"mput", act_mput, 8, VALUE, 0, NEW};
	struct death d = {.kind = &k, .all = true};
	uint32_t n = 1;

	for (uint32_t step = 0; step <= 2 * n; step++) {
		struct scale_worker w;
		unsigned fresh = 0;

		for (unsigned j = 0; j < MANY; j++)
			ck_assert_int_eq(scale_put(kv, stage->key + j, OLD,
						   k.len), 0);
		d.plan = (struct hook_plan){.at = (step + 1) / 2,
					    .after = step % 2 == 0,
					    .sig = SIGKILL,
					    .seen = &stage->seen};
		w = scale_start(child_main, 0, &d);
		deaths += scale_killed(&w, 60000);
		if (step == 0)
			n = stage->seen.requests;
		for (unsigned j = 0; j < MANY; j++) {
			uint32_t is = scale_get(kv, stage->key + j, k.len);

			ck_assert(is == OLD || is == NEW);
			fresh += is == NEW;
		}
		ck_assert_uint_eq(fresh, stage->seen.swaps);
	}
	scale_say("mput of %u keys: %u requests", MANY, n);
}

/* ---- while the index grows ------------------------------------------------- */

/* Inserts so many that subtables fill up, split and are waited for. */
static int act_insert_many(struct farkv *h, uint64_t i, size_t len)
{
	for (unsigned j = 0; j < KEYS_GROWING; j++) {
		int err = scale_put(h, i + j, NEW, len);

		if (err)
			return err;
		stage->done = j + 1;
	}
	return 0;
}

static void growing(void)
{
	static const struct kind k = {"inserts", act_insert_many, 8, NOTHING, 0,
				      NEW};
	struct death d = {.kind = &k, .all = true};
	uint64_t splits = scale_stat(&srv, "splits");
	uint32_t n = KEYS_GROWING * 3;

	for (unsigned i = 0; i < DEATHS_GROWING; i++) {
		struct scale_worker w;

		stage->key += KEYS_GROWING;
		stage->done = 0;
		d.plan = (struct hook_plan){
			.at = (uint32_t)(scale_random(&stage->random) % n) + 1,
			.after = i % 2, .sig = SIGKILL, .seen = &stage->seen};
		w = scale_start(child_main, 0, &d);
		deaths += scale_killed(&w, 60000);
		ck_assert_uint_le(stage->seen.swaps, stage->done + 1);
		for (unsigned j = 0; j < KEYS_GROWING; j++)
			ck_assert_uint_eq(scale_get(kv, stage->key + j, k.len),
					  j < stage->seen.swaps ? NEW : 0);
	}
	scale_say("%u deaths during inserts, %" PRIu64 " splits",
		  DEATHS_GROWING, scale_stat(&srv, "splits") - splits);
}

/* ---- the test -------------------------------------------------------------- */

START_TEST(client_killed_at_any_step_loses_nothing)
{
	const char *args[] = {"-m", "64m", NULL};
	struct scale_worker home;
	uint64_t swept;

	stage = scale_shared(sizeof(*stage));
	stage->key = 1000000;
	stage->random = 4711;
	real_server_init(&srv, args);
	stage->home.uri = srv.path;
	home = scale_start(scale_home_main, 0, &stage->home);
	scale_expect(&home, 'r', 60000);
	kv = worker_open(srv.path, 0);
	all_kinds(true);
	if (!real_server_is_remote())
		all_kinds(false);
	mput_everywhere();
	growing();
	farkv_close(kv);
	scale_home_stop(&stage->home, &home);
	scale_fsck_swept(&srv, "after all deaths");
	swept = scale_stat(&srv, "blocks_swept");
	scale_say("%u deaths, %" PRIu64 " sweeps, %" PRIu64 " blocks swept",
		  deaths, scale_stat(&srv, "sweeps"), swept);
	ck_assert_uint_ge(deaths, 100);
	ck_assert_uint_ge(swept, deaths / 4);
	ck_assert_uint_eq(scale_stat(&srv, "protocol_errors"), 0);
	real_server_fini(&srv);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("kill");
	TCase *t = tcase_create("kill");

	real_server_require();
	tcase_set_timeout(t, 120);
	tcase_add_test(t, client_killed_at_any_step_loses_nothing);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
