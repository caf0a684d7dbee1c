/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptor of farkv_event_fd(): a thread that sleeps on it alone takes all
 * completions, and is not woken without reason.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/queue_turn.h"
#include "client/session_state.h"
#include "common/base/clock.h"
#include "common/index/index.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/event_rig.h"
#include "tests/rig/queue_rig.h"
#include "tests/rig/sweep_peer.h"

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = LONG_MS / 1000.0 * 3);

TEST(idle_handle_is_quiet)
{
	struct rusage before, after;

	open_fd();
	ck_assert_int_eq(farkv_event_fd(kv), fd);
	ck_assert(!readable(0));
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	getrusage(RUSAGE_SELF, &before);
	ck_assert(!readable(300));
	getrusage(RUSAGE_SELF, &after);
	ck_assert_int_le(after.ru_nvcsw - before.ru_nvcsw, 10);
	/* Calls of other kinds, with their grants, do not wake. */
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	assert_value("k", "v");
	ck_assert(!readable(20));
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	drive();
	assert_got(0, "v");
	quiet();
	assert_value("k", "v");
	ck_assert(!readable(20));
}

TEST(bad_arguments_are_refused)
{
	ck_assert_int_eq(farkv_event_fd(NULL), FARKV_EINVAL);
	assert_detail("NULL");
}

TEST(descriptor_is_closed_with_the_handle)
{
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	farkv_close(kv);
	kv = NULL;
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

/* By nested epoll(7), without polling: each wake has a completion. */
TEST(ten_thousand_requests_each_wake_with_a_completion)
{
	enum { N = 10000, KEYS = 500, EACH = 16 };
	static char key[KEYS][8];
	struct farkv_completion c[EACH];
	struct epoll_event ev = {.events = EPOLLIN};
	int outer = epoll_create1(0), n;
	unsigned begun = 0, over = 0, woken = 0;

	open_fd();
	ck_assert_int_eq(epoll_ctl(outer, EPOLL_CTL_ADD, fd, &ev), 0);
	for (unsigned i = 0; i < KEYS; i++)
		snprintf(key[i], sizeof(key[i]), "%u", i);
	while (over < N) {
		while (begun < N && farkv_in_flight(kv) < 3 * EACH) {
			struct farkv_request r = request(
				begun % 3 ? FARKV_REQUEST_GET :
					    FARKV_REQUEST_PUT,
				begun, key[begun % KEYS],
				begun % 3 ? NULL : key[begun % KEYS]);

			ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
			begun++;
		}
		ck_assert_int_eq(epoll_wait(outer, &ev, 1, (int)LONG_MS), 1);
		woken++;
		while ((n = farkv_poll(kv, c, EACH)) > 0)
			over += (unsigned)n;
		ck_assert_int_eq(n, 0);
	}
	ck_assert_uint_eq(over, N);
	/* Full queues at first: a third of the requests needs blocks, once in a while. */
	ck_assert_uint_lt(woken, N / EACH);
	close(outer);
	quiet();
}

TEST(untaken_completions_keep_the_descriptor_readable)
{
	struct farkv_completion c;

	open_fd();
	for (unsigned i = 0; i < 4; i++)
		submit(FARKV_REQUEST_GET, i, "k", NULL);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert(readable(0));
		ck_assert_int_eq(farkv_poll(kv, &c, 1), 1);
	}
	ck_assert(!readable(0));
	ck_assert_int_eq(farkv_poll(kv, &c, 1), 0);
	ck_assert(!readable(0));
}

/* Requests completed by calls of other kinds, and farkv_wait() for some. */
TEST(completions_by_other_calls_wake)
{
	struct farkv_completion c;

	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	open_fd();
	ck_assert(readable(0));
	ck_assert_int_eq(put("l", "v"), 0);
	ck_assert(readable(0));
	ck_assert_int_eq(farkv_wait(kv, &c, 1, LONG_MS), 1);
	ck_assert(readable(0));
	ck_assert_int_eq(farkv_wait(kv, &c, 1, LONG_MS), 1);
	ck_assert(!readable(0));
}

/* Sleeps until the blocks come, and not less. */
TEST(late_blocks_wake)
{
	open_fd();
	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	submit(FARKV_REQUEST_PUT, 1, "b", "2");
	wait_readable();
	poll_out();
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	quiet();
	ck_assert_uint_eq(farkv_in_flight(kv), 2);
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	drive();
	ck_assert_uint_le(wakes, WAKES_FEW);
	ENDED(0, 0);
	ENDED(1, 0);
	quiet();
}

/* Fill a window, and name one key more. */
static char crowd[WINDOW_SLOTS + 1][16];

static void crowd_window(void)
{
	for (unsigned i = 0; i <= WINDOW_SLOTS; i++)
		crowded_key(crowd[i]);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		ck_assert_int_eq(put(crowd[i], "v"), 0);
}

/* Growth, with a server that works on it, and then refuses it. */
TEST(growth_wakes)
{
	crowd_window();
	open_fd();
	fake_server_set(&srv, hint_status, MSG_HINT_WORKING);
	submit(FARKV_REQUEST_PUT, 0, crowd[WINDOW_SLOTS], "v");
	for (wakes = 0; wakes < 5; wakes++) {
		wait_readable();
		poll_out();
	}
	ck_assert_uint_eq(farkv_in_flight(kv), 1);
	fake_server_set(&srv, hint_status, MSG_HINT_FULL);
	drive();
	ENDED(0, FARKV_EINDEXFULL);
}

/* The answer to a request that is over does not wake for another. */
TEST_LOOP(late_answers_do_not_wake, 0, 2)
{
	struct msg m = {.type = MSG_HINT_REPLY};
	char large[5000];
	struct farkv_request r;

	crowd_window();
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	open_fd();
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(100);
	submit(FARKV_REQUEST_PUT, 0, crowd[WINDOW_SLOTS], "v");
	set_timeout_ms(LONG_MS);
	r = request(FARKV_REQUEST_PUT, 1, "other", large);
	done[1].result = 1;
	if (_i == 0)
		ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	while (farkv_in_flight(kv) > (_i == 0)) {
		wait_readable();
		poll_out();
	}
	ENDED(0, FARKV_ETIMEDOUT);
	m.req = kv->conn.session->next_req - (_i == 0);
	for (unsigned i = 0; i < 4; i++, m.req--) {
		m.hint_reply.status = MSG_HINT_WORKING;
		fake_server_send(&srv, &m, NULL);
	}
	clock_sleep_ns(SETTLE_NS);
	quiet();
	ck_assert(!session_call_ready(kv->conn.session));
	fake_server_set(&srv, ignore_requests, false);
	fake_server_hangup(&srv);
	drive();
	ck_assert_int_eq(_i == 0 ? done[1].result : 0, 0);
}

TEST(deadlines_under_a_silent_server_wake)
{
	uint64_t start = clock_now_ns();

	open_fd();
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(100);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	drive();
	ENDED(0, FARKV_ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ns() - start, 100 * NS_PER_MS);
	ck_assert_uint_le(wakes, WAKES_FEW);
	fake_server_release(&srv);
	quiet();
}

TEST_LOOP(late_versions_wake, 0, 2)
{
	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	if (_i)
		fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(_i ? 50 : LONG_MS);
	open_fd();
	submit(FARKV_REQUEST_PUT, 0, "k", "w");
	drive();
	ENDED(0, _i ? FARKV_ETIMEDOUT : 0);
	ck_assert_uint_le(wakes, WAKES_FEW);
	fake_server_set(&srv, ignore_requests, false);
}

/* The descriptor stays the same, and serves the new connection like the old one. */
TEST(reconnect_wakes_waiting_requests)
{
	open_fd();
	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	wait_readable();
	poll_out();
	quiet();
	fake_server_hangup(&srv);
	wait_readable();
	/* The request for blocks of that session gets no answer. */
	fake_server_set(&srv, n_held, 0);
	poll_out();
	ck_assert(fake_server_wait(&srv, MSG_HELLO, 2));
	ck_assert_uint_eq(farkv_in_flight(kv), 1);
	ck_assert_int_eq(farkv_event_fd(kv), fd);
	while (fake_server_count(&srv, MSG_GRANT_REQ) < 2)
		if (readable(1))
			poll_out();
	quiet();
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	drive();
	ENDED(0, 0);
	quiet();
}

/* The server is gone; idle, waiting, or opened for the first time then. */
TEST_LOOP(server_that_is_gone_wakes, 0, 3)
{
	if (_i < 2)
		open_fd();
	fake_server_set(&srv, hold_grants, true);
	if (_i == 0) {
		submit(FARKV_REQUEST_PUT, 0, "a", "1");
		wait_readable();
		poll_out();
		quiet();
	}
	fake_server_fini(&srv);
	if (_i == 2) {
		wait_broken();
		open_fd();
	}
	wait_readable();
	if (_i == 0) {
		drive();
		ENDED(0, FARKV_EDISCONNECTED);
	}
	quiet();
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	drive();
	ENDED(1, FARKV_EDISCONNECTED);
	quiet();
	farkv_close(kv);
	kv = NULL;
	fake_server_init(&srv, 0);
	fake_server_start(&srv);
}

/* Idle; a synchronous call reconnects, and the end of that connection wakes as well. */
TEST(each_disconnect_wakes)
{
	open_fd();
	for (unsigned i = 1; i < 4; i++) {
		fake_server_hangup(&srv);
		wait_readable();
		quiet();
		ck_assert_int_eq(put("k", "v"), 0);
		ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 1 + i);
		if (i < 3)
			ck_assert(!readable(20));
	}
	quiet();
}

static int in_child(void)
{
	struct farkv_completion c;

	if (!readable(1000) || !readable(0))
		return 1;
	if (farkv_poll(kv, &c, 1) != FARKV_EDISCONNECTED)
		return 2;
	if (farkv_event_fd(kv) != FARKV_EDISCONNECTED)
		return 3;
	farkv_close(kv);
	return fcntl(fd, F_GETFD) == -1 ? 0 : 4;
}

/* Between the start of the connection and the attach of the notifier. */
TEST(disconnect_before_the_notifier_is_attached_wakes)
{
	open_fd();
	fake_server_hangup(&srv);
	wait_readable();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	drive();
	queue_event_detach(kv);
	session_wakes(kv->conn.session, NULL, false);
	fake_server_hangup(&srv);
	wait_broken();
	ck_assert(!readable(20));
	queue_event_attach(kv);
	ck_assert(readable(0));
	quiet();
}

TEST(child_of_fork_has_another_descriptor)
{
	int status;
	pid_t pid;

	open_fd();
	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	wait_readable();
	poll_out();
	quiet();
	pid = fork();
	if (pid == 0)
		_exit(in_child());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(!readable(0));
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	drive();
	ENDED(0, 0);
	quiet();
}

static void *watch(void *arg)
{
	*(bool *)arg = readable((int)LONG_MS);
	return NULL;
}

TEST(another_thread_may_wait_on_the_descriptor)
{
	bool seen = false;
	pthread_t thread;

	open_fd();
	fake_server_set(&srv, hold_grants, true);
	submit(FARKV_REQUEST_PUT, 0, "a", "1");
	poll_out();
	(void)take();
	ck_assert(!readable(0));
	ck_assert_int_eq(pthread_create(&thread, NULL, watch, &seen), 0);
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	pthread_join(thread, NULL);
	ck_assert(seen);
	drive();
	ENDED(0, 0);
}

TEST_SUITE("queue_event")
