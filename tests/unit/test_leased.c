/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle of two servers whose map changes, and which lease counts for what: the servers are
 * played, so that the test chooses when a map and a lease arrive. doc/cluster.md, "Followers and
 * moves: the rules".
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "client/handle.h"
#include "client/router.h"
#include "client/router_map.h"
#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/proto/clustermap.h"
#include "tests/rig/cases.h"
#include "tests/rig/fake_server.h"
#include "tests/rig/handle_rig.h"

enum { A, B, HALVES };

static struct fake_server server[2];
static struct farkv *leased;
static char key[16]; /* of the partition that moves */

/* ---- maps and leases ---------------------------------------------------------------------------
 */

/* Of an epoch by which all partitions are `owner`'s, or half are A's, half are B's; fenced if
 * `fenced`. */
static struct clustermap *map_make(uint64_t epoch, unsigned owner, bool fenced)
{
	static const char *const owners[] = {
		[A] = "partitions 0-4095 a\n",
		[B] = "partitions 0-4095 b\n",
		[HALVES] = ("follower a b\nfollower b a\n"
			    "partitions 0-2047 a\npartitions 2048-4095 b\n"),
	};
	char text[1024];
	struct clustermap *map;
	int n = snprintf(text, sizeof(text),
			 "farkv cluster 1\nepoch %llu\nseed 0123456789abcdef\nlease 60000\nreplicas 1\n"
			 "server a shm://%s\nserver b shm://%s\n%s%s",
			 (unsigned long long)epoch, server[A].path, server[B].path, owners[owner],
			 fenced ? "move 0-4095 b fenced\n" : "");

	ck_assert_int_eq(clustermap_parse("map", text, (size_t)n, &map), 0);
	return map;
}

static void map_send(unsigned to, uint64_t epoch, unsigned owner, bool fenced)
{
	struct clustermap *map = map_make(epoch, owner, fenced);
	char text[CLUSTERMAP_TEXT_MAX + 1];
	struct msg m = {.type = MSG_MAP};

	m.map.text = (const uint8_t *)text;
	m.map.text_len = (uint16_t)clustermap_print(map, text);
	fake_server_send(&server[to], &m, NULL);
	free(map);
}

static void lease_send(unsigned to, uint64_t ms)
{
	const struct msg m = {.type = MSG_LEASE, .epoch = {ms * NS_PER_MS}};

	fake_server_send(&server[to], &m, NULL);
}

/* What the client's control thread was sent before this is done. */
static void control_sync(unsigned at)
{
	unsigned n = fake_server_count(&server[at], MSG_BARRIER_ACK) + 1;
	const struct msg m = {.type = MSG_BARRIER, .epoch = {n}};

	fake_server_send(&server[at], &m, NULL);
	ck_assert(fake_server_wait(&server[at], MSG_BARRIER_ACK, n));
}

/* ---- the handle --------------------------------------------------------------------------------
 */

static struct farkv *member(unsigned i)
{
	struct farkv_server s = {.size = sizeof(s)};

	ck_assert_int_eq(farkv_server(leased, i, &s), 0);
	return s.handle;
}

static void store(unsigned at, const char *value)
{
	ck_assert_int_eq(farkv_put(member(at), key, strlen(key), value, strlen(value)), 0);
}

static int fetch(char out[16])
{
	size_t len = 0;
	int err = farkv_get_into(leased, key, strlen(key), out, 15, &len, NULL);

	out[err ? 0 : len] = '\0';
	return err;
}

static void leased_setup(void)
{
	struct clustermap *map;
	static uint8_t bytes[MSG_MAX_BYTES];
	char text[CLUSTERMAP_TEXT_MAX + 1], uri[128];
	struct msg m = {.type = MSG_MAP, .req = 1};
	struct farkv_options o;

	strcpy(key, "key");
	for (unsigned i = 0; i < 2; i++)
		fake_server_init(&server[i], F_SEAL_SHRINK | F_SEAL_GROW);
	map = map_make(1, A, false);
	m.map.text = (const uint8_t *)text;
	m.map.text_len = (uint16_t)clustermap_print(map, text);
	free(map);
	ck_assert_int_eq(msg_encode(&m, NULL, bytes, sizeof(bytes), &server[A].n_bytes), 0);
	server[A].bytes = bytes;
	server[A].hello = FAKE_BYTES;
	server[A].refuse_times = 1;
	for (unsigned i = 0; i < 2; i++)
		fake_server_start(&server[i]);
	farkv_options_init(&o);
	o.op_timeout_ms = o.connect_timeout_ms = LONG_MS;
	snprintf(uri, sizeof(uri), "shm://%s", server[A].path);
	ck_assert_int_eq(farkv_open(uri, &o, &leased), 0);
	/* Maps come by the sessions alone: a played server has one connection. */
	leased->router->asked_ns = clock_now_ns() + 3600 * NS_PER_SEC;
}

static void leased_teardown(void)
{
	farkv_close(leased);
	for (unsigned i = 0; i < 2; i++)
		fake_server_fini(&server[i]);
}

static void timeout_set(unsigned ms)
{
	leased->op_timeout_ns = ms * NS_PER_MS;
}

/* ---- tests --------------------------------------------------------------------------------------
 */

TEST_GROUP(.setup = leased_setup, .teardown = leased_teardown, .timeout_s = 120);

TEST(lease__covers_a_call_that_ended_before_it_came)
{
	char out[16];

	store(A, "old");
	timeout_set(50);
	ck_assert_int_eq(fetch(out), FARKV_EDISCONNECTED);
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "its lease has ended"));
	timeout_set(LONG_MS);
	lease_send(A, 60000);
	ck_assert_int_eq(fetch(out), 0);
	ck_assert_str_eq(out, "old");
}

/* A get waits for a lease. Then its server sends a newer map, and a lease after that. */
static void *moves_during_the_call(void *unused)
{
	const uint32_t *routed = &leased->router->member[A]->routed;

	(void)unused;
	while (!atom_load_follow(routed))
		sched_yield();
	map_send(A, 2, B, false);
	lease_send(A, 60000);
	map_send(B, 2, B, false);
	lease_send(B, 60000);
	return NULL;
}

TEST(lease__after_a_newer_map__does_not_cover_the_call_before)
{
	pthread_t thread;
	char out[16];

	store(A, "old");
	store(B, "new");
	pthread_create(&thread, NULL, moves_during_the_call, NULL);
	ck_assert_int_eq(fetch(out), 0);
	pthread_join(thread, NULL);
	ck_assert_str_eq(out, "new");
	ck_assert(fake_server_wait(&server[A], MSG_MAP_ACK, 1));
}

TEST(map__of_another_server__its_partitions_wait_for_their_own)
{
	char out[16];

	store(A, "old");
	store(B, "copy");
	lease_send(A, 60000);
	lease_send(B, 60000);
	map_send(A, 2, B, false);
	control_sync(A);
	control_sync(B);
	timeout_set(50);
	ck_assert_int_eq(fetch(out), FARKV_ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "partition is moving"));
	timeout_set(LONG_MS);
	map_send(B, 2, B, false);
	lease_send(B, 60000);
	ck_assert_int_eq(fetch(out), 0);
	ck_assert_str_eq(out, "copy");
}

TEST(fence__calls_wait_for_the_next_map)
{
	char out[16];

	store(A, "old");
	store(B, "moved");
	lease_send(A, 60000);
	map_send(A, 2, A, true);
	ck_assert(fake_server_wait(&server[A], MSG_MAP_ACK, 1));
	timeout_set(50);
	ck_assert_int_eq(fetch(out), FARKV_ETIMEDOUT);
	timeout_set(LONG_MS);
	map_send(B, 3, B, false);
	lease_send(B, 60000);
	ck_assert_int_eq(fetch(out), 0);
	ck_assert_str_eq(out, "moved");
}

/* A put waits for a block. */
TEST(map__not_acknowledged_while_a_request_by_an_older_one_runs)
{
	struct farkv_request req = {.kind = FARKV_REQUEST_PUT, .key = key, .key_len = strlen(key),
				    .value = "value", .value_len = 5};
	struct farkv_completion done;

	lease_send(A, 60000);
	fake_server_set(&server[A], hold_grants, true);
	ck_assert_int_eq(farkv_submit(leased, &req, 1), 1);
	ck_assert_int_eq(farkv_poll(leased, &done, 1), 0);
	map_send(A, 2, A, false);
	control_sync(A);
	ck_assert_uint_eq(fake_server_count(&server[A], MSG_MAP_ACK), 0);
	fake_server_set(&server[A], hold_grants, false);
	fake_server_release(&server[A]);
	ck_assert_int_eq(farkv_wait(leased, &done, 1, LONG_MS), 1);
	ck_assert_int_eq(done.result, 0);
	ck_assert(fake_server_wait(&server[A], MSG_MAP_ACK, 1));
}

/* The part of a server that is not reached keeps its lease from before the map. */
TEST(batch__a_map_that_comes_after_its_begin__does_not_cover_it)
{
	struct farkv_get_item item = {.key = key, .key_len = strlen(key)};
	pthread_t thread;

	store(A, "old");
	store(B, "new");
	pthread_create(&thread, NULL, moves_during_the_call, NULL);
	ck_assert_int_eq(farkv_mget(leased, &item, 1), FARKV_EDISCONNECTED);
	ck_assert_int_eq(item.result, FARKV_EDISCONNECTED);
	pthread_join(thread, NULL);
	ck_assert_int_eq(farkv_mget(leased, &item, 1), 0);
	ck_assert_uint_eq(item.value.len, 3);
	ck_assert_mem_eq(item.value.data, "new", 3);
}

/* ---- servers at the same time
 * --------------------------------------------------------------------- */

static struct farkv_get_item halves[2]; /* a key of each server */
static bool ended;

static void halves_setup(void)
{
	static char keys[2][16];

	for (unsigned i = 0; i < 2; i++)
		map_send(i, 2, HALVES, false);
	for (unsigned i = 0; i < 2; i++)
		control_sync(i);
	ck_assert(router_take_maps(leased));
	for (unsigned i = 0; i < 2; i++) {
		unsigned n = 0;

		do
			snprintf(keys[i], sizeof(keys[i]), "%u", n++);
		while (clustermap_owner(&leased->router->map, keys[i], strlen(keys[i])) != i);
		halves[i] = (struct farkv_get_item){.key = keys[i], .key_len = strlen(keys[i])};
	}
}

static void *pings(void *unused)
{
	int err = farkv_ping(leased, NULL);

	(void)unused;
	(void)err;
	return NULL;
}

/* Nobody answers: the second one is asked while the first one is. */
TEST(call_on_all__asks_the_servers_at_the_same_time)
{
	pthread_t thread;

	halves_setup();
	for (unsigned i = 0; i < 2; i++)
		fake_server_set(&server[i], ignore_requests, true);
	pthread_create(&thread, NULL, pings, NULL);
	for (unsigned i = 0; i < 2; i++)
		ck_assert(fake_server_wait(&server[i], MSG_PING, 1));
	/* It is asked again after it was cut off. */
	for (unsigned i = 0; i < 2; i++) {
		fake_server_set(&server[i], ignore_requests, false);
		fake_server_hangup(&server[i]);
	}
	pthread_join(thread, NULL);
}

static void *gets(void *unused)
{
	(void)unused;
	ck_assert_int_ne(farkv_mget(leased, halves, 2), 0);
	atom_store_publish(&ended, true);
	return NULL;
}

/* Both are away, and silent when the batch connects: it waits for both at once. */
TEST(batch__waits_for_servers_at_the_same_time)
{
	bool both = false;
	pthread_t thread;

	halves_setup();
	for (unsigned i = 0; i < 2; i++) {
		fake_server_set(&server[i], hello, FAKE_SILENT);
		fake_server_hangup(&server[i]);
		member(i)->op_timeout_ns = 3 * NS_PER_SEC;
	}
	/* The first one is told that the connections have ended. */
	while (farkv_mget(leased, halves, 2) == 0)
		;
	atom_store_publish(&ended, false);
	pthread_create(&thread, NULL, gets, NULL);
	while (!both && !atom_load_follow(&ended))
		both = handle_is_busy(member(A)) && handle_is_busy(member(B));
	pthread_join(thread, NULL);
	ck_assert(both);
}

/* The other one does not answer: the call must not wait for it. */
TEST_LOOP(wait_followers__a_server_is_away__ends_with_its_name, 0, 2)
{
	const unsigned away = (unsigned)_i;
	struct farkv_value v;

	halves_setup();
	fake_server_set(&server[!away], ignore_requests, true);
	server[away].refuse_text = "no";
	server[away].refuse_reason = MSG_REASON_FULL;
	server[away].refuse_times = 0;
	fake_server_set(&server[away], hello, FAKE_REFUSE);
	fake_server_hangup(&server[away]);
	/* Until the handle knows it. */
	for (unsigned i = 0; i < 2; i++)
		while (farkv_get(leased, halves[away].key, halves[away].key_len, &v) != FARKV_EDISCONNECTED)
			;
	ck_assert_int_eq(farkv_wait_followers(leased, LONG_MS), FARKV_EDISCONNECTED);
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), away ? "server b" : "server a"));
}

TEST_SUITE("leased")
