/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle of a cluster and its servers: addresses, maps that differ, and a server that is away and
 * takes only its own keys with it.
 */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cluster_rig.h"
#include "tests/rig/test_main.h"

/* ---- addresses, maps ------------------------------------------------------------------ */

START_TEST(open_takes_any_server_that_answers)
{
	char list[400];
	struct farkv *h = NULL;

	snprintf(list, sizeof(list), "shm:///nobody/here,%s%s", srv[2].path[0] == '/' ? "shm://" : "",
		 srv[2].path);
	h = e2e_open(list, CLUSTER_TIMEOUT_MS);
	ck_assert_int_eq(farkv_put(h, "k", 1, "v", 1), 0);
	farkv_close(h);
	ck_assert_int_eq(farkv_exists(kv, "k", 1), 0);
	ck_assert_int_eq(farkv_open("shm:///nobody/a,shm:///nobody/b", NULL, &h), FARKV_EUNREACHABLE);
}
END_TEST

START_TEST(open_several_servers_that_are_no_cluster_is_refused)
{
	struct real_server plain;
	struct farkv *h = NULL;
	struct farkv_server s = {.size = sizeof(s)};
	char list[400];

	real_server_init(&plain, (const char *const[]){"-m", "16m", NULL});
	snprintf(list, sizeof(list), "%s%s,shm:///nobody/b", plain.path[0] == '/' ? "shm://" : "",
		 plain.path);
	ck_assert_int_eq(farkv_open(list, NULL, &h), FARKV_EURI);
	h = e2e_open(plain.path, CLUSTER_TIMEOUT_MS);
	ck_assert_int_eq(farkv_server(h, 0, &s), 0);
	ck_assert_str_eq(s.name, "");
	ck_assert_uint_eq(s.epoch, 0);
	ck_assert_ptr_eq(s.handle, h);
	ck_assert_int_eq(farkv_server(h, 1, &s), FARKV_ENOTFOUND);
	farkv_close(h);
	real_server_fini(&plain);
}
END_TEST

START_TEST(a_server_with_another_map_or_name_refuses_the_client)
{
	const char *b = key_of(1);
	struct farkv_value v;

	(void)real_server_end(&srv[1], SIGTERM);
	cluster_start(1, "c");
	while (farkv_get(kv, b, strlen(b), &v) != FARKV_EDISCONNECTED ||
	       !strstr(farkv_errdetail(), "cannot reconnect"))
		;
	check_names_server(FARKV_EDISCONNECTED, "b");
	if (!real_server_is_remote()) /* a peer that proved no key is told no reason */
		ck_assert_msg(strstr(farkv_errdetail(), "this is server c, not b"), "%s",
			      farkv_errdetail());
	(void)real_server_end(&srv[1], SIGTERM);
	map->epoch = 2;
	cluster_map_write();
	cluster_start(1, "b");
	while (!strstr(farkv_errdetail(), "another map, of epoch 2"))
		check_names_server(farkv_get(kv, b, strlen(b), &v), "b");
	ck_assert_int_eq(farkv_exists(kv, key_of(0), strlen(key_of(0))), FARKV_ENOTFOUND);
}
END_TEST

/* ---- a server is away ----------------------------------------------------------------- */

static void check_others_go_on(void)
{
	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		struct farkv_value v;
		int err = farkv_get(kv, keys[i], strlen(keys[i]), &v);

		if (owner(i) == 1)
			check_names_server(err, "b");
		else
			ck_assert_int_eq(err, 0);
	}
}

static void check_batch_of_others(void)
{
	static struct farkv_get_item get[CLUSTER_KEYS];
	unsigned first = 0;
	char says[64];

	for (unsigned i = 0; i < CLUSTER_KEYS; i++)
		get[i] = (struct farkv_get_item){.key = keys[i], .key_len = strlen(keys[i])};
	while (owner(first) != 1)
		first++;
	check_names_server(farkv_mget(kv, get, CLUSTER_KEYS), "b");
	snprintf(says, sizeof(says), "item %u of %u: server b: ", first + 1, CLUSTER_KEYS);
	ck_assert_msg(strstr(farkv_errdetail(), says), "%s", farkv_errdetail());
	for (unsigned i = 0; i < CLUSTER_KEYS; i++)
		ck_assert_int_eq(get[i].result == 0, owner(i) != 1);
}

static void check_requests_of_others(void)
{
	static struct farkv_request reqs[CLUSTER_KEYS];
	struct farkv_completion c[100];

	requests_make(reqs, 100, FARKV_REQUEST_GET);
	ck_assert_int_eq(farkv_submit(kv, reqs, 100), 100);
	for (unsigned left = 100; left > 0;) {
		int n = farkv_wait(kv, c, 100, CLUSTER_TIMEOUT_MS);

		ck_assert_int_gt(n, 0);
		for (int i = 0; i < n; i++) {
			if (owner((unsigned)c[i].tag) != 1) {
				ck_assert_int_eq(c[i].result, 0);
				continue;
			}
			ck_assert_int_eq(c[i].result, FARKV_EDISCONNECTED);
			ck_assert_msg(strstr(c[i].detail, "server b: "), "%s", c[i].detail);
		}
		left -= (unsigned)n;
	}
}

START_TEST(a_server_that_is_killed_takes_only_its_keys_with_it)
{
	uint64_t cursor = 0, deleted;
	const struct farkv_scan_item *items;
	struct farkv_value v;
	struct farkv *h;
	const char *b;
	size_t n;
	int err;

	store_all();
	b = key_of(1);
	(void)real_server_end(&srv[1], SIGKILL);
	while (farkv_get(kv, b, strlen(b), &v) == 0)
		; /* until the control thread has seen it */
	check_others_go_on();
	check_batch_of_others();
	check_requests_of_others();
	while (!(err = farkv_scan(kv, &cursor, SIZE_MAX, &items, &n)) && cursor)
		;
	check_names_server(err, "b");
	check_names_server(farkv_stats(kv, &(struct farkv_stats){.size = sizeof(struct farkv_stats)}),
			   "b");
	h = e2e_open(srv[0].path, CLUSTER_TIMEOUT_MS);
	b = key_of(1);
	check_names_server(farkv_get(h, b, strlen(b), &v), "b");
	/* The others' keys are gone; the first failure is told. */
	check_names_server(farkv_clear(h, &deleted), "b");
	cluster_start(1, "b");
	while ((err = farkv_get(kv, b, strlen(b), &v)) == FARKV_EDISCONNECTED)
		;
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	while ((err = farkv_put(h, b, strlen(b), "new", 3)) == FARKV_EDISCONNECTED)
		;
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(farkv_get(kv, b, strlen(b), &v), 0);
	farkv_close(h);
}
END_TEST

START_TEST(open_needs_one_server_of_the_map)
{
	struct farkv *h;
	struct farkv_value v;
	const char *a = key_of(0);

	ck_assert_int_eq(farkv_put(kv, a, strlen(a), "v", 1), 0);
	(void)real_server_end(&srv[1], SIGKILL);
	(void)real_server_end(&srv[2], SIGKILL);
	h = e2e_open(srv[0].path, CLUSTER_TIMEOUT_MS);
	ck_assert_int_eq(farkv_get(h, a, strlen(a), &v), 0);
	farkv_close(h);
}
END_TEST

START_TEST(fork_a_child_cannot_use_the_handle)
{
	int status;
	pid_t pid;

	ck_assert_int_ge(farkv_event_fd(kv), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct pollfd p = {.fd = farkv_event_fd(kv), .events = POLLIN};
		struct farkv_get_item it = {.key = "k", .key_len = 1};
		struct farkv_value v;
		int wrong = 0;

		wrong += farkv_get(kv, "k", 1, &v) != FARKV_EDISCONNECTED;
		wrong += farkv_mget(kv, &it, 1) != FARKV_EDISCONNECTED;
		wrong += farkv_clear(kv, NULL) != FARKV_EDISCONNECTED;
		wrong += p.fd != FARKV_EDISCONNECTED;
		wrong += farkv_in_flight(kv) != 0;
		farkv_close(kv);
		_exit(wrong);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(farkv_put(kv, "k", 1, "v", 1), 0);
}
END_TEST

static void add_others(TCase *t)
{
	tcase_add_test(t, open_takes_any_server_that_answers);
	tcase_add_test(t, open_several_servers_that_are_no_cluster_is_refused);
	tcase_add_test(t, a_server_with_another_map_or_name_refuses_the_client);
	tcase_add_test(t, open_needs_one_server_of_the_map);
	tcase_add_test(t, fork_a_child_cannot_use_the_handle);
}

static Suite *suite(void)
{
	Suite *s = suite_create("cluster_servers");
	TCase *t = tcase_create("cluster_servers");

	real_server_require();
	tcase_add_checked_fixture(t, cluster_setup, cluster_teardown);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, a_server_that_is_killed_takes_only_its_keys_with_it);
	if (!real_server_skips("other cases", "each starts six servers"))
		add_others(t);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
