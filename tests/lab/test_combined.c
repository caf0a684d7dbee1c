/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of one process that put, get and compare-and-set two keys through lanes that are
 * not mapped, so that they share writes: what all of them were told is linearizable.
 */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "client/combine.h"
#include "client/link.h"
#include "common/clock.h"
#include "common/util.h"
#include "common/xport.h"
#include "tests/e2e.h"
#include "tests/lab/linear.h"
#include "tests/lab/recorder.h"
#include "tests/real_server.h"
#include "tests/test_main.h"

#define THREADS 6u
#define KEYS 2u
#define OPS 4000u

static struct real_server srv;
static struct client {
	pthread_t thread;
	struct farkv *kv;
	struct recorder rec;
	struct history_op note[OPS];
	uint64_t puts, writes;
	uint32_t number;
} clients[THREADS];

/* Others come between two requests. */
static int on_request(void *arg, const struct xport_chain *chain, unsigned i,
		      bool after)
{
	(void)arg;
	(void)chain;
	(void)i;
	if (!after)
		sched_yield();
	return 0;
}

static struct xport_lane *wrap(struct xport_lane *inner)
{
	struct xport_fault_config cfg = {.hide_direct = true,
					 .hook = on_request};

	return xport_fault_open(inner, &cfg);
}

static const char *const names[KEYS] = {"one", "another"};

/* A get, and if it found anything a cas with what it saw. Its notes. */
static void look_and_swap(struct client *c, uint32_t key, uint64_t id, bool swap)
{
	struct history_op op = {.client = c->number, .key = key,
				.kind = HISTORY_GET}, *at;
	uint64_t found = 0, version = 0, made = 0;
	uint8_t result;
	size_t len;
	int err;

	at = recorder_begin(&c->rec, &op, 1);
	err = farkv_get_into(c->kv, names[key], strlen(names[key]), &found, 8,
			     &len, &version);
	ck_assert_msg(err == 0 || err == FARKV_ENOTFOUND, "%s",
		      farkv_errdetail());
	at->value = err ? HISTORY_ABSENT : found;
	at->version = err ? 0 : version;
	result = err ? HISTORY_NOTFOUND : HISTORY_OK;
	recorder_end(at, 1, &result);
	if (err || !swap)
		return;
	op.kind = HISTORY_CAS;
	op.value = id;
	op.expected = found;
	at = recorder_begin(&c->rec, &op, 1);
	err = farkv_cas(c->kv, names[key], strlen(names[key]), &id, 8, version,
			&made);
	ck_assert_msg(err == 0 || err == FARKV_EVERSION, "%s",
		      farkv_errdetail());
	at->version = err ? 0 : made;
	result = err ? HISTORY_CHANGED : HISTORY_OK;
	c->puts += err == 0;
	recorder_end(at, 1, &result);
}

static void put(struct client *c, uint32_t key, uint64_t id)
{
	struct history_op op = {.client = c->number, .key = key,
				.kind = HISTORY_PUT, .value = id}, *at;
	uint8_t result = HISTORY_OK;

	at = recorder_begin(&c->rec, &op, 1);
	OK(farkv_put(c->kv, names[key], strlen(names[key]), &id, 8));
	c->puts++;
	recorder_end(at, 1, &result);
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	uint64_t x = c->number + 1;
	struct farkv_counters before = {.size = sizeof(before)};
	struct farkv_counters after = {.size = sizeof(after)};

	c->kv = e2e_open(srv.path, 20000);
	OK(farkv_counters(c->kv, &before));
	for (uint64_t n = 1; recorder_has_room(&c->rec, 2); n++) {
		uint64_t id = history_id(c->number, n);
		unsigned what;

		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		what = (unsigned)(x >> 33) % 10;
		if (what < 7)
			put(c, (x >> 50) % 8 == 0, id);
		else
			look_and_swap(c, (x >> 50) % 8 == 0, id, what == 9);
	}
	OK(farkv_counters(c->kv, &after));
	c->writes = after.writes - before.writes;
	farkv_close(c->kv);
	return NULL;
}

static void judge(void)
{
	struct linear_report report;
	struct history all = {0};

	for (unsigned i = 0; i < THREADS; i++) {
		struct history part = {.op = clients[i].note,
				       .n = clients[i].rec.n};

		history_join(&all, &part);
	}
	linear_check(&all, 0, &report);
	if (report.verdict != LINEAR_YES)
		linear_print(&report, stdout);
	fflush(stdout);
	ck_assert_int_eq(report.verdict, LINEAR_YES);
	ck_assert_int_eq(history_versions(&all, stdout), 0);
	history_free(&all);
}

START_TEST(threads_share_writes_and_nobody_can_tell)
{
	uint64_t puts = 0, writes = 0;

	combine_set_patience(NS_PER_SEC);
	link_wrap_lane = wrap;
	real_server_init(&srv, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		struct client *c = &clients[i];

		c->number = i;
		recorder_init(&c->rec, c->note, OPS);
		ck_assert_int_eq(pthread_create(&c->thread, NULL, client_main,
						c), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(clients[i].thread, NULL), 0);
		puts += clients[i].puts;
		writes += clients[i].writes;
	}
	real_server_fini(&srv);
	printf("  %" PRIu64 " writes succeeded, of %" PRIu64
	       " that were carried out\n", puts, writes);
	judge();
	/* What is not carried out was done by another thread. */
	ck_assert_uint_lt(writes, puts);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("combined");
	TCase *t = tcase_create("combined");

	real_server_require();
	tcase_add_test(t, threads_share_writes_and_nobody_can_tell);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
