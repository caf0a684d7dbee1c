/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child that copies the keys of server a into server b (server/follower/follower.h), and what
 * server a does for it (server/loop/passes.h). The child is this program again.
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "client/follow.h"
#include "client/open.h"
#include "common/base/atomic.h"
#include "common/proto/clustermap.h"
#include "server/follower/follower.h"
#include "tests/rig/e2e.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"
#include "tests/rig/test_main.h"

#define TIMEOUT_MS 60000u /* of a busy machine */
#define LARGE_BYTES (1u << 20)

static struct real_server srv[2];
static struct clustermap *map;
static char map_path[128];
static struct farkv *kv;             /* the cluster */
static struct farkv *a, *b;          /* its servers */
static struct follower_order order;  /* what a has, to b */
static struct follower child;
static struct follower_report last;

/* ---- servers ------------------------------------------------------------------------------ */

static void map_write(void)
{
	char text[CLUSTERMAP_TEXT_MAX + 1];
	size_t len = clustermap_print(map, text);
	FILE *f = fopen(map_path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
}

static void server_start(unsigned i, const char *memory, const char *when_full)
{
	const char *const args[] = {"-m", memory, "--cluster-map", map_path, "--node-name",
				    i ? "b" : "a", "--when-full", when_full, NULL};

	real_server_start(&srv[i], args);
}

static void order_make(void)
{
	memset(&order, 0, sizeof(order));
	snprintf(order.own, sizeof(order.own), "%s", srv[1].path);
	snprintf(order.source, sizeof(order.source), "%s", map->server[0].address);
	order.kind = FOLLOWER_FOLLOW;
	order.map_id = map->id;
	order.seed = map->seed;
	for (unsigned p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		if (map->owner[p] == 0)
			order.partition[p / 8] |= (uint8_t)(1u << p % 8);
}

static struct farkv *member(size_t i)
{
	struct farkv_server s = {.size = sizeof(s)};

	OK(farkv_server(kv, i, &s));
	return s.handle;
}

static void start(const char *memory_a, const char *when_full_a)
{
	static const char *const plain[] = {"-m", "4m", NULL};
	char list[2 * 100];

	for (unsigned i = 0; i < 2; i++) {
		real_server_init(&srv[i], plain);
		(void)real_server_end(&srv[i], SIGTERM);
	}
	snprintf(map_path, sizeof(map_path), "%s/map", srv[0].dir);
	snprintf(list, sizeof(list), "a=%s,b=%s", srv[0].path, srv[1].path);
	ck_assert_int_eq(clustermap_make(list, &map), 0);
	map_write();
	server_start(0, memory_a, when_full_a);
	server_start(1, "128m", "refuse");
	kv = e2e_open(srv[0].path, TIMEOUT_MS);
	a = member(0);
	b = member(1);
	order_make();
}

static void setup(void)
{
	start("96m", "refuse");
}

static void setup_cache(void)
{
	start("8m", "evict");
}

static void teardown(void)
{
	if (child.pid > 0)
		follower_stop(&child);
	farkv_close(kv);
	for (unsigned i = 0; i < 2; i++)
		real_server_fini(&srv[i]);
	free(map);
}

/* ---- the child ------------------------------------------------------------------------------ */

static void child_start(void)
{
	memset(&last, 0, sizeof(last));
	ck_assert_int_eq(follower_start(&order, &child), 0);
}

/* Take the next report into `last`; false: the child has ended. */
static bool next_report(void)
{
	struct pollfd p = {.fd = child.fd, .events = POLLIN};
	int got;

	ck_assert_int_eq(poll(&p, 1, (int)TIMEOUT_MS), 1);
	got = follower_report(&child, &last);
	ck_assert_int_ne(got, 0);
	return got > 0;
}

static void await_passes(uint32_t n)
{
	while (last.passes < n) {
		ck_assert(next_report());
		ck_assert_msg(last.err == 0, "%s", last.detail);
	}
}

/* Wait until a pass that begins from now on is complete. */
static void settle(void)
{
	while (follower_report(&child, &last) > 0)
		ck_assert_msg(last.err == 0, "%s", last.detail);
	await_passes(last.passes + 2);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

static bool is_of(unsigned server, const char *key)
{
	return clustermap_owner(map, key, strlen(key)) == server;
}

/* Put `n` keys of a family that server a has; their values are numbers from `value` on. */
static void store(const char *family, unsigned n, unsigned value)
{
	for (unsigned i = 0; n > 0; i++) {
		char key[32], text[120];

		snprintf(key, sizeof(key), "%s%u", family, i);
		if (!is_of(0, key))
			continue;
		n--;
		snprintf(text, sizeof(text), "%0100u", value + i);
		OK(e2e_put(kv, key, text));
	}
}

/* b has exactly what a has, of all partitions of a. */
static size_t check_same(void)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n, keys = 0, copies = 0;

	do {
		OK(farkv_scan(a, &cursor, SIZE_MAX, &items, &n));
		for (size_t i = 0; i < n; i++) {
			struct farkv_value va, vb;

			OK(farkv_get(a, items[i].key, items[i].key_len, &va));
			ck_assert_msg(farkv_get(b, items[i].key, items[i].key_len, &vb) == 0, "%.*s",
				      (int)items[i].key_len, (const char *)items[i].key);
			ck_assert_uint_eq(vb.len, va.len);
			ck_assert_msg(memcmp(va.data, vb.data, va.len) == 0, "%.*s: %.*s, %.*s",
				      (int)items[i].key_len, (const char *)items[i].key, 100,
				      (const char *)va.data, 100, (const char *)vb.data);
			ck_assert_uint_eq(vb.user, va.user);
			ck_assert(!vb.ttl_ms == !va.ttl_ms);
		}
		keys += n;
	} while (cursor);
	do {
		OK(farkv_scan(b, &cursor, SIZE_MAX, &items, &n));
		for (size_t i = 0; i < n; i++)
			copies += clustermap_owner(map, items[i].key, items[i].key_len) == 0;
	} while (cursor);
	ck_assert_uint_eq(copies, keys);
	return keys;
}

static struct farkv_stats stats_of_a(void)
{
	struct farkv_stats st = {.size = sizeof(st)};

	OK(farkv_stats(a, &st));
	return st;
}

/* ---- cases --------------------------------------------------------------------------------------
 */

START_TEST(first_pass__all_keys_are_there_and_no_others)
{
	uint64_t hits;

	store("key", 5000, 1);
	/* What b has of a's partitions from before is gone afterwards, what it has of its own
	 * stays. */
	for (unsigned i = 0; i < 300; i++) {
		char key[16];

		snprintf(key, sizeof(key), "old%u", i);
		OK(e2e_put(b, key, "old"));
	}
	hits = stats_of_a().hits;
	child_start();
	await_passes(1);
	ck_assert_uint_eq(stats_of_a().hits, hits); /* a copy is no use of a value */
	ck_assert_uint_eq(check_same(), 5000);
	ck_assert_uint_ge(last.keys, 5000);
	for (unsigned i = 0; i < 300; i++) {
		char key[16];

		snprintf(key, sizeof(key), "old%u", i);
		ck_assert_int_eq(e2e_probe(b, key), is_of(1, key) ? 0 : FARKV_ENOTFOUND);
	}
}
END_TEST

static int write_with(const char *key, const struct farkv_write_options *o)
{
	struct farkv_request r = {.kind = FARKV_REQUEST_PUT, .key = key, .key_len = strlen(key),
				  .value = "value", .value_len = 5, .options = o};

	return farkv_write(kv, &r, NULL);
}

START_TEST(later_passes__every_kind_of_change_arrives)
{
	static uint8_t large[LARGE_BYTES];
	struct farkv_write_options ttl = {.size = sizeof(ttl), .ttl_ms = 3600000},
				   user = {.size = sizeof(user), .user = 77};
	uint64_t copied;

	store("key", 3000, 1);
	child_start();
	await_passes(1);
	settle();
	copied = last.keys;
	settle();
	ck_assert_uint_eq(last.keys, copied); /* nothing changes: nothing is copied */
	store("key", 100, 7000); /* overwritten */
	store("new", 100, 9000);
	e2e_fill(large, sizeof(large), 5);
	for (unsigned i = 0; i < 3000; i++) {
		char key[32];

		snprintf(key, sizeof(key), "key%u", i);
		if (!is_of(0, key) || i % 7)
			continue;
		if (i % 5 == 0)
			OK(farkv_put(kv, key, strlen(key), large, i % 100 ? i : sizeof(large)));
		else if (i % 5 == 1)
			OK(write_with(key, &ttl));
		else if (i % 5 == 2)
			OK(write_with(key, &user));
		else
			OK(e2e_del(kv, key));
	}
	settle();
	ck_assert_uint_gt(check_same(), 2000);
	/* A few changes copy a few keys. */
	settle();
	copied = last.keys;
	store("new", 10, 1);
	settle();
	ck_assert_uint_ge(last.keys, copied + 10);
	ck_assert_uint_le(last.keys, copied + 20);
	check_same();
}
END_TEST

static unsigned halt;

static void *write_on(void *arg)
{
	struct farkv *h = arg;

	for (unsigned round = 0; !atom_load_relaxed(&halt); round++) {
		for (unsigned i = 0; i < 20000; i++) {
			char key[32], text[120];

			snprintf(key, sizeof(key), "%u.%u", round % 2, i);
			if (!is_of(0, key))
				continue;
			snprintf(text, sizeof(text), "%0*u", (int)(i % 110) + 1, round);
			if ((i + round) % 3)
				OK(e2e_put(h, key, text));
			else
				(void)e2e_del(h, key);
		}
	}
	return NULL;
}

START_TEST(writer__splits_and_compactions_while_copying)
{
	struct farkv *h = e2e_open(srv[0].path, TIMEOUT_MS);
	pthread_t thread;

	atom_store_relaxed(&halt, 0);
	child_start();
	ck_assert_int_eq(pthread_create(&thread, NULL, write_on, h), 0);
	await_passes(test_rounds(30));
	atom_store_relaxed(&halt, 1);
	pthread_join(thread, NULL);
	settle();
	ck_assert_uint_gt(check_same(), 1000);
	farkv_close(h);
}
END_TEST

START_TEST(cache__evictions_arrive)
{
	uint64_t before;

	child_start();
	for (unsigned i = 0; i < 4; i++) {
		char family[8];

		snprintf(family, sizeof(family), "%u.", i);
		store(family, 25000, i);
	}
	do { /* the server evicts a little more than was asked for */
		before = stats_of_a().evictions;
		settle();
	} while (stats_of_a().evictions != before);
	ck_assert_uint_gt(before, 1000);
	ck_assert_uint_gt(check_same(), 1000);
}
END_TEST

START_TEST(child__killed_and_started_again)
{
	store("key", 20000, 1);
	for (unsigned i = 0; i < 5; i++) {
		child_start();
		if (i % 2)
			await_passes(1);
		follower_stop(&child);
		store("key", 500, i);
		(void)e2e_del(kv, "key0");
	}
	child_start();
	await_passes(1);
	check_same();
}
END_TEST

START_TEST(source__ends__child_reports_and_ends)
{
	store("key", 100, 1);
	child_start();
	await_passes(2);
	(void)real_server_end(&srv[0], SIGKILL);
	while (last.err == 0)
		ck_assert(next_report());
	ck_assert_int_eq(last.err, FARKV_EDISCONNECTED);
	ck_assert_str_ne(last.detail, "");
	while (next_report())
		;
	follower_stop(&child);
	child.pid = 0;
	server_start(0, "96m", "refuse");
}
END_TEST

START_TEST(source__another_map__refused)
{
	order.map_id++;
	child_start();
	while (last.err == 0)
		ck_assert(next_report());
	ck_assert_int_eq(last.err, FARKV_EREFUSED);
}
END_TEST

START_TEST(purge__keys_of_other_partitions_go)
{
	store("key", 3000, 1);
	for (unsigned i = 0; i < 1000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "any%u", i);
		OK(e2e_put(b, key, "x"));
	}
	order.kind = FOLLOWER_PURGE;
	for (unsigned i = 0; i < sizeof(order.partition); i++)
		order.partition[i] = (uint8_t)~order.partition[i];
	child_start();
	while (next_report())
		;
	ck_assert_int_eq(last.err, 0);
	ck_assert_uint_eq(last.passes, 1);
	for (unsigned i = 0; i < 1000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "any%u", i);
		ck_assert_int_eq(e2e_probe(b, key), is_of(1, key) ? 0 : FARKV_ENOTFOUND);
	}
}
END_TEST

/* ---- kvserver itself is the child
 * ------------------------------------------------------------------ */

START_TEST(kvserver__runs_the_child)
{
	char name[sizeof(child.name)] = FOLLOWER_NAME "test";
	const char *program = getenv("KVSERVER");
	int fds[2];

	store("key", 200, 1);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(send(fds[0], &order, sizeof(order), 0), sizeof(order));
	ck_assert_int_eq(send(fds[0], name, sizeof(name), 0), sizeof(name));
	child.fd = fds[0];
	child.pid = fork();
	if (child.pid == 0) {
		dup2(fds[1], 0);
		execl(program, program, FOLLOWER_ARGUMENT, NULL);
		_exit(127);
	}
	close(fds[1]);
	memset(&last, 0, sizeof(last));
	await_passes(1);
	ck_assert_uint_eq(check_same(), 200);
}
END_TEST

/* ---- PASS and WAIT_REQ
 * ------------------------------------------------------------------------------ */

/* A session of server a. */
static struct farkv *session_of_a(void)
{
	struct farkv_options o;
	struct farkv *h;
	struct uri uri;

	farkv_options_init(&o);
	o.op_timeout_ms = TIMEOUT_MS;
	OK(uri_resolve(srv[0].path, &uri));
	OK(handle_open_server(&uri, &o, map->id, 0, &h));
	return h;
}

static struct msg pass(struct farkv *h, enum msg_pass kind)
{
	struct msg m = {.type = MSG_PASS}, answer;

	m.epoch.number = kind;
	OK(session_call(h->conn.session, &m, MSG_PASSED, &answer, UINT64_MAX));
	return answer;
}

static bool has(const struct msg *m, uint16_t id)
{
	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return true;
	return false;
}

/* A session of server a that waits, message by message. */
static int waiter(void)
{
	struct msg m = {.type = MSG_HELLO, .req = 1}, ready = {.type = MSG_READY};
	int fd = raw_dial(srv[0].path);

	m.hello.role = MSG_ROLE_RO;
	m.hello.pid = (uint32_t)getpid();
	m.hello.map = map->id;
	raw_say(fd, &m, NULL);
	ck_assert_int_eq(raw_hear(fd).type, MSG_WELCOME);
	raw_say(fd, &ready, NULL);
	return fd;
}

/* What WAITED says, if it has come; otherwise -1. */
static int waited(int fd)
{
	struct msg m = {.type = MSG_PING, .req = 7};
	int result = -1;

	raw_say(fd, &m, NULL);
	for (;;) {
		m = raw_next(fd);
		if (m.type == MSG_PONG)
			return result;
		ck_assert_int_eq(m.type, MSG_WAITED);
		ck_assert_int_eq(result, -1);
		result = (int)m.epoch.number;
	}
}

static int await_waited(int fd)
{
	struct msg m = raw_next(fd);

	ck_assert_int_eq(m.type, MSG_WAITED);
	return (int)m.epoch.number;
}

/* Ask; the server has the question afterwards. */
static int wait_begin(int fd)
{
	struct msg m = {.type = MSG_WAIT_REQ, .req = 6};

	raw_say(fd, &m, NULL);
	return waited(fd);
}

START_TEST(wait__answered_when_a_later_pass_is_applied)
{
	struct farkv *f = session_of_a(), *f2 = session_of_a();
	int w = waiter();

	ck_assert_int_eq(wait_begin(w), 0); /* nobody follows */
	(void)pass(f, MSG_PASS_MOVE);
	ck_assert_int_eq(wait_begin(w), 0);
	(void)pass(f, MSG_PASS_FOLLOW);
	for (unsigned i = 0; i < 100; i++) /* the last one is answered, the others are given up */
		ck_assert_int_eq(wait_begin(w), -1);
	(void)pass(f, MSG_PASS_FOLLOW); /* begins the pass that counts */
	(void)pass(f, MSG_PASS_MORE);
	(void)pass(f2, MSG_PASS_MOVE);
	ck_assert_int_eq(waited(w), -1);
	(void)pass(f, MSG_PASS_FOLLOW);
	ck_assert_int_eq(waited(w), 1);
	/* The follower ends, or another one begins. */
	ck_assert_int_eq(wait_begin(w), -1);
	farkv_close(f);
	ck_assert_int_eq(await_waited(w), 0);
	f = session_of_a();
	(void)pass(f, MSG_PASS_FOLLOW);
	ck_assert_int_eq(wait_begin(w), -1);
	(void)pass(f, MSG_PASS_FOLLOW);
	(void)pass(f2, MSG_PASS_FOLLOW);
	ck_assert_int_eq(await_waited(w), 0);
	/* A waiting session ends. */
	ck_assert_int_eq(wait_begin(w), -1);
	close(w);
	(void)pass(f2, MSG_PASS_FOLLOW);
	(void)pass(f2, MSG_PASS_FOLLOW);
	farkv_close(f);
	farkv_close(f2);
}
END_TEST

START_TEST(pass__of_a_session_that_may_only_read__refused)
{
	struct msg m = {.type = MSG_PASS, .req = 3};
	int w = waiter();

	raw_say(w, &m, NULL);
	m = raw_next(w);
	ck_assert_int_eq(m.type, MSG_REFUSE);
	ck_assert_int_eq(m.refuse.reason, MSG_REASON_PERMISSION);
	close(w);
}
END_TEST

START_TEST(pass__names_pages_where_incarnations_began_again)
{
	struct farkv *f = session_of_a(), *f2;
	struct msg m = pass(f, MSG_PASS_MOVE);
	static char value[100000];

	ck_assert(has(&m, MSG_PASSED_ALL));
	m = pass(f, MSG_PASS_MOVE);
	ck_assert_uint_eq(m.stats.n, 1); /* the fence, which a map that does not change has from the begin */
	ck_assert(has(&m, MSG_PASSED_FENCED));
	/* New segments. */
	for (unsigned i = 0; i < 400; i++) {
		char key[16];

		snprintf(key, sizeof(key), "big%u", i);
		OK(farkv_put(a, key, strlen(key), value, sizeof(value)));
	}
	m = pass(f, MSG_PASS_MOVE);
	ck_assert(!has(&m, MSG_PASSED_ALL));
	ck_assert(has(&m, MSG_PASSED_PAGES));
	f2 = session_of_a();
	m = pass(f2, MSG_PASS_FOLLOW);
	ck_assert(has(&m, MSG_PASSED_ALL));
	farkv_close(f);
	farkv_close(f2);
}
END_TEST

/* Parts of a pass; a segment is cut when `cut` of them were listed. */
static unsigned parts(struct follow *f, unsigned cut)
{
	static char value[100000];
	struct follow_part p;
	uint64_t fenced;
	unsigned n = 0;
	int err;

	ck_assert_int_eq(follow_pass(f, &fenced), 0);
	ck_assert_uint_eq(fenced, map->epoch);
	while ((err = follow_next(f, &p)) == 0)
		if (++n == cut)
			OK(farkv_put(a, "big", 3, value, sizeof(value)));
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	ck_assert_int_eq(follow_next(f, &p), FARKV_ENOTFOUND);
	return n;
}

START_TEST(pass__compares_once_more_if_incarnations_began_again_meanwhile)
{
	struct follow_options o = {.address = srv[0].path, .map_id = map->id, .timeout_ms = TIMEOUT_MS};
	struct follow *f;
	unsigned n;

	store("key", 10000, 1);
	ck_assert_int_eq(follow_open(&o, &f), 0);
	do /* the index may still grow */
		n = parts(f, 0);
	while (parts(f, 0) != n);
	ck_assert_uint_eq(parts(f, 1), 2 * n);
	ck_assert_uint_eq(parts(f, 0), n);
	follow_close(f);
}
END_TEST

static void add_what_knows_no_transport(TCase *t)
{
	tcase_add_test(t, first_pass__all_keys_are_there_and_no_others);
	tcase_add_test(t, writer__splits_and_compactions_while_copying);
	tcase_add_test(t, source__ends__child_reports_and_ends);
	tcase_add_test(t, source__another_map__refused);
	tcase_add_test(t, purge__keys_of_other_partitions_go);
	tcase_add_test(t, kvserver__runs_the_child);
	tcase_add_test(t, wait__answered_when_a_later_pass_is_applied);
	tcase_add_test(t, pass__of_a_session_that_may_only_read__refused);
	tcase_add_test(t, pass__names_pages_where_incarnations_began_again);
	tcase_add_test(t, pass__compares_once_more_if_incarnations_began_again_meanwhile);
}

static Suite *suite(void)
{
	Suite *s = suite_create("follow");
	TCase *t = tcase_create("copies"), *c = tcase_create("cache");
	bool all = !real_server_skips("other cases", "they take minutes, or speak to sockets");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, later_passes__every_kind_of_change_arrives);
	tcase_add_test(t, child__killed_and_started_again);
	if (all)
		add_what_knows_no_transport(t);
	suite_add_tcase(s, t);
	if (all)
		suite_add_tcase(s, c);
	tcase_add_checked_fixture(c, setup_cache, teardown);
	tcase_add_test(c, cache__evictions_arrive);
	return s;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], FOLLOWER_ARGUMENT))
		return follower_main();
	real_server_require();
	TEST_RUN(suite());
}
