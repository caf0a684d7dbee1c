/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptor of farkv_event_fd(), where a card reports completions. */
#include "config.h"

#include <string.h>

#include "client/queue_turn.h"
#include "common/base/clock.h"
#include "tests/rig/cases.h"
#include "tests/rig/event_rig.h"
#include "tests/rig/queue_rig.h"
#include "tests/rig/sweep_peer.h"

/* Put; from then on the card executes requests on demand. */
static void card_put(const char *key, const char *value)
{
	ck_assert_int_eq(put(key, value), 0);
	lane->over = 0;
}

TEST_GROUP(.setup = setup_card, .teardown = teardown, .timeout_s = LONG_MS / 1000.0 * 3);

TEST(each_completion_wakes_once)
{
	card_put("k", "v");
	open_fd();
	for (unsigned i = 0; i < 8; i++)
		submit(FARKV_REQUEST_GET, i, "k", NULL);
	for (wakes = 0; farkv_in_flight(kv); wakes++) {
		poll_out();
		ck_assert(!readable(0));
		step_lane_card(lane, 1);
		ck_assert(readable(0));
		poll_out();
		ck_assert_uint_lt(wakes, 100);
	}
	for (unsigned i = 0; i < 8; i++)
		ENDED(i, 0);
	/* Not armed again for polls that found nothing. */
	ck_assert_uint_le(lane->arms, wakes + 1);
	quiet();
}

/* A completion just before the lane is armed raises no event: a poll finds it. */
TEST(completion_before_arming_is_seen)
{
	card_put("k", "v");
	open_fd();
	lane->slip = 1;
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	for (wakes = 0; farkv_in_flight(kv); wakes++) {
		ck_assert_msg(readable(1000), "lost after %u wakes", wakes);
		lane->slip = 1;
		poll_out();
	}
	ENDED(0, 0);
	quiet();
}

/* An event whose completion another call has already taken: one idle wake, then quiet. */
TEST(event_of_a_completion_already_seen_is_cleared)
{
	card_put("k", "v");
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	ck_assert(lane->armed);
	step_lane_card(lane, 1000);
	assert_value("k", "v");
	ck_assert(readable(0));
	poll_out();
	ENDED(0, 0);
	ck_assert(!readable(0));
}

/* Another call completes it, without an event of the card. */
TEST(completions_by_another_call_wake)
{
	card_put("k", "v");
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	poll_out();
	ck_assert(!readable(0));
	lane->over = 1000;
	assert_value("k", "v");
	ck_assert(readable(0));
	poll_out();
	ENDED(0, 0);
	ck_assert(!readable(0));
}

/* A silent card: the deadline wakes, and some polls later the lane is broken. */
TEST(silent_card_ends_at_the_deadline)
{
	uint64_t start;

	card_put("k", "v");
	no_grant_out();
	open_fd();
	set_timeout_ms(50);
	start = clock_now_ns();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	poll_out();
	quiet();
	wait_readable();
	ck_assert_uint_ge(clock_now_ns() - start, 50 * NS_PER_MS);
	drive();
	ck_assert_uint_le(wakes, 200);
	ENDED(0, FARKV_ETIMEDOUT);
	quiet();
}

/* Restarted on a new connection, whose card raises events on the same descriptor. */
TEST(broken_lane_is_replaced)
{
	card_put("k", "v");
	no_grant_out();
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	poll_out();
	ck_assert(!readable(0));
	fake_server_hangup(&srv);
	wait_readable();
	poll_out();
	ck_assert(fake_server_wait(&srv, MSG_HELLO, 2));
	ck_assert_int_eq(farkv_event_fd(kv), fd);
	drive();
	assert_got(0, "v");
	lane->over = 0;
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	poll_out();
	ck_assert(!readable(0));
	step_lane_card(lane, 1);
	ck_assert(readable(0));
	lane->over = 1000;
	drive();
	assert_got(1, "v");
}

static void send_drop(void)
{
	uint64_t end = clock_now_ns() + LONG_MS * NS_PER_MS;

	send_epoch(MSG_BARRIER, 1);
	while (!(qsbr_pending(kv->qsbr) & PENDING_DROP)) {
		ck_assert_uint_lt(clock_now_ns(), end);
		clock_sleep_ns(NS_PER_MS / 10);
	}
}

/* During a barrier new requests wait for those in flight, asleep. */
TEST(request_during_a_barrier_sleeps)
{
	card_put("k", "v");
	no_grant_out();
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	send_drop();
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	ck_assert_uint_eq(lane->waiting, 1);
	poll_out();
	ck_assert(!readable(0));
	step_lane_card(lane, 1000);
	drive();
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	assert_got(1, "v");
	quiet();
}

/* Deadlines of waiting requests do not wake before: they could not be handled. */
TEST(deadlines_during_a_barrier_do_not_wake)
{
	char large[5000];

	card_put("k", "v");
	no_grant_out();
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\0';
	open_fd();
	fake_server_set(&srv, hold_grants, true);
	set_timeout_ms(50);
	submit(FARKV_REQUEST_PUT, 0, "l", large);
	set_timeout_ms(LONG_MS);
	for (unsigned i = 0; !kv->queue->waiting.first; i++) {
		ck_assert_uint_lt(i, 100);
		lane->over = 1;
		poll_out();
	}
	lane->over = 0;
	submit(FARKV_REQUEST_GET, 1, "k", NULL);
	ck_assert_uint_eq(lane->waiting, 1);
	send_drop();
	poll_out();
	clock_sleep_ns(60 * NS_PER_MS);
	quiet();
	ck_assert_uint_eq(farkv_in_flight(kv), 2);
	step_lane_card(lane, 1000);
	drive();
	ENDED(0, FARKV_ETIMEDOUT);
	assert_got(1, "v");
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
}

/* Errors after the completions do not change their line. */
TEST(error_line_is_that_of_the_last_taken_completion)
{
	card_put("k", "v");
	no_grant_out();
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	submit(FARKV_REQUEST_GET, 1, "", NULL);
	lane->unarmable = true;
	ck_assert_uint_eq(take(), 1);
	ck_assert(xport_broken(&lane->lane));
	ENDED(1, FARKV_EINVAL);
	assert_detail("the key is empty");
	drive();
	assert_got(0, "v");
}

TEST_GROUP(.timeout_s = LONG_MS / 1000.0 * 3);

/*
 * A lane without a descriptor has to be polled, so the descriptor is readable while in
 * flight.
 */
TEST(lane_without_events_stays_readable_in_flight)
{
	setup_stepping();
	ck_assert_int_eq(put("k", "v"), 0);
	open_fd();
	submit(FARKV_REQUEST_GET, 0, "k", NULL);
	drive();
	assert_got(0, "v");
	quiet();
	teardown();
}

TEST_SUITE("queue_event_card")
