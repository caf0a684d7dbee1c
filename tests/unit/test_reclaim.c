/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle whose blocks are claimed and returned while it works: by its own thread or by
 * the control thread, between two operations and never inside one.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/control.h"
#include "client/session_state.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/sweep_peer.h"

static struct block_ref refs[1u << 16];

/* ---- in the middle of an operation ----------------------------------------------- */

static void (*at_cas)(void);
static bool at_cas_after, at_cas_breaks;

static int cas_hook(void *arg, const struct xport_chain *c, unsigned i,
		    bool after)
{
	void (*act)(void) = at_cas;

	(void)arg;
	if (!act || c->wr[i].opcode != XPORT_CAS || after != at_cas_after)
		return 0;
	at_cas = NULL;
	act();
	return at_cas_breaks ? FARKV_EDISCONNECTED : 0;
}

static struct xport_lane *wrap(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hide_direct = true,
						      .hook = cas_hook};

	return xport_fault_open(lane, &cfg);
}

static void setup_wrapped(void)
{
	conn_wrap_lane = wrap;
	setup();
}

static void ask_for_linked(void)
{
	query(1, 1, refs, 1);
	seen_by_client();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
}

TEST_GROUP(.setup = setup_wrapped, .teardown = teardown);

/*
 * Between the CAS that unlinks a block and the record of it no list has the block, so the
 * question must wait (trap 15).
 */
TEST(question_between_unlink_and_record_is_answered_later)
{
	ck_assert_int_eq(put("k", "one"), 0);
	ck_assert_int_eq(put("k", "two"), 0);
	no_grant_out();
	begin_acked(1);
	ck_assert_uint_eq(blocks_out(true, refs, 1), 1);
	at_cas = ask_for_linked;
	at_cas_after = true;
	ck_assert_int_eq(put("k", "three"), 0);
	ck_assert_ptr_null(at_cas);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, 1));
	ck_assert_uint_eq(srv.claimed, 1);
	ck_assert_uint_eq(srv.claims[0].off, refs[0].off);
}

static void begin_now(void)
{
	send_epoch(MSG_SWEEP_BEGIN, 1);
	seen_by_client();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
}

/* No list has the operation's own block; it is linked when the walk begins. */
TEST(begin_before_a_cas_is_acknowledged_after_it)
{
	uint32_t n;

	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	at_cas = begin_now;
	at_cas_after = false;
	ck_assert_int_eq(put("k", "two"), 0);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
	ck_assert_uint_eq(blocks_out(true, refs, 1), 1);
	ck_assert_uint_eq(claims(1, refs, 1), 0);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(1, refs, n), n);
}

static void barrier_now(void)
{
	send_epoch(MSG_BARRIER, 1);
	seen_by_client();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 0);
}

/* Before, it holds the expected word; after, the block that it unlinked. */
TEST_LOOP(barrier_at_the_cas_is_acknowledged_after_the_operation, 0, 2)
{
	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	at_cas = barrier_now;
	at_cas_after = _i == 1;
	ck_assert_int_eq(put("k", "two"), 0);
	ck_assert_ptr_null(at_cas);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	assert_value("k", "two");
}

/* The previous operation is over, and the next one has not read its pending flags yet. */
TEST(begin_is_not_acknowledged_before_it_is_recorded)
{
	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	enter();
	begin_now();
	(void)__atomic_add_fetch(&kv->qsbr->seq, 2, __ATOMIC_SEQ_CST);
	usleep(50000);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
}

/*
 * A remote compare-and-swap may still be in flight after the lane broke, so the session
 * cannot say that its operations are over.
 */
TEST_LOOP(broken_remote_lane_answers_nothing, 0, 2)
{
	struct channel *ch = kv->conn.session->ch;

	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	begin_acked(1);
	/* The control thread reads it, so it is halted, as for a fork. */
	control_fork_prepare();
	ch->pollable = _i == 0;
	control_fork_parent();
	xport_break(kv->conn.lane, FARKV_EDISCONNECTED);
	send_epoch(MSG_BARRIER, 1);
	query(1, 1, refs, 0);
	if (_i == 0) {
		ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, 1));
		ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
		return;
	}
	usleep(50000);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
}

/* ---- a new session is asked before it is used --------------------------------------- */

int __real_control_add(struct control_source *src);
int __wrap_control_add(struct control_source *src);
static bool barrier_at_once;

int __wrap_control_add(struct control_source *src)
{
	int err = __real_control_add(src);

	if (!err && barrier_at_once) {
		send_epoch(MSG_BARRIER, 1);
		ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	}
	return err;
}

static void nothing(void)
{
}

/*
 * The words of a compare-and-swap without an answer may be in use again by the time of
 * the lookup: the new session has answered a barrier.
 */
TEST_LOOP(barrier_before_the_lookup_leaves_a_cas_unknown, 0, 2)
{
	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	at_cas = nothing;
	at_cas_after = at_cas_breaks = true;
	barrier_at_once = _i;
	ck_assert_int_eq(put("k", "two"), _i ? FARKV_EMAYBE : 0);
	ck_assert_ptr_null(at_cas);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 2);
	barrier_at_once = false;
	ck_assert_int_eq(put("k", "three"), 0);
}

/* ---- RECLAIM ------------------------------------------------------------------------- */

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

TEST(reclaim_from_an_idle_handle_in_a_sweep)
{
	unsigned asked;
	uint32_t n;

	put_n(0, 1500);
	put_n(0, 1500);
	put_n(0, 500);
	no_grant_out();
	begin_acked(1);
	n = blocks_out(false, refs, MSG_REFS_MAX * 8);
	ck_assert_uint_ge(n, 1000);
	send_epoch(MSG_RECLAIM, 1 << 20);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(srv.granted - srv.returned, 1500);
	/* Held since the beginning, if no longer. */
	ck_assert_uint_eq(claims(1, refs, 1000), 1000);
	/* The next request is a small one. */
	n = srv.granted;
	asked = fake_server_count(&srv, MSG_GRANT_REQ);
	fake_server_set(&srv, hold_grants, true);
	kv->op_timeout_ns = 10 * NS_PER_MS;
	ck_assert_int_eq(put("0", "w"), FARKV_ETIMEDOUT);
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, asked + 1));
	fake_server_release(&srv);
	ck_assert_uint_eq(srv.granted - n, 2);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(reclaim_from_a_busy_handle_is_handled_by_the_next_operation)
{
	struct block_ref r;

	put_n(0, 10);
	no_grant_out();
	enter();
	ck_assert(alloc_take(kv->conn.alloc, 0, 0, &r));
	send_epoch(MSG_RECLAIM, 1 << 20);
	seen_by_client();
	clock_sleep_ns(5 * NS_PER_MS); /* for a control thread that cannot wait */
	ck_assert_uint_eq(srv.returned, 0);
	ck_assert_int_eq(alloc_put(kv->conn.alloc, r), 0);
	conn_handle_pending(&kv->conn);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr), 0);
	qsbr_leave(kv->qsbr);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_uint_eq(srv.granted - srv.returned, 10);
}

static bool waits_for_room(void)
{
	size_t n;

	inventory_lock(kv->conn.inv);
	n = kv->conn.inv->n_ret;
	inventory_unlock(kv->conn.inv);
	return n > 0;
}

/* The server does not read: nothing is lost or sent twice. */
TEST(reclaim_with_a_full_socket_is_finished_later)
{
	uint32_t n;

	put_n(0, 1500);
	put_n(0, 1500);
	no_grant_out();
	fake_server_set(&srv, deaf, true);
	kv->op_timeout_ns = 1;
	do
		ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_ETIMEDOUT);
	while (!strstr(farkv_errdetail(), "reads no requests"));
	send_epoch(MSG_RECLAIM, 1 << 20);
	/* The pending flag may be cleared by now; the unsent rest stays. */
	while (!waits_for_room())
		clock_sleep_ns(NS_PER_MS / 10);
	while (qsbr_pending(kv->qsbr) & PENDING_RECLAIM)
		clock_sleep_ns(NS_PER_MS);
	ck_assert_uint_gt(kv->conn.inv->n_ret, 0);
	fake_server_set(&srv, deaf, false);
	kv->op_timeout_ns = FAKE_WAIT_S * NS_PER_SEC;
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	/* Blocks that wait for room in the socket are held, too. */
	begin_acked(1);
	ck_assert_uint_gt(kv->conn.inv->n_ret, 0);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	for (uint32_t at = 0; at < n; at += MSG_REFS_MAX) {
		uint32_t part = UTIL_MIN(n - at, MSG_REFS_MAX);

		ck_assert_uint_eq(claims(1, refs + at, part), part);
	}
	send_epoch(MSG_RECLAIM, 1 << 20);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_uint_eq(srv.granted - srv.returned, 1500);
	put_n(0, 10);
}

/* ---- all of it at once ------------------------------------------------------------ */

static bool stop;

static void *worker(void *arg)
{
	char key[16];

	(void)arg;
	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		snprintf(key, sizeof(key), "%u", i * 7919 % 300);
		if (i % 5 == 4)
			(void)!farkv_delete(kv, key, strlen(key));
		else
			ck_assert_int_eq(put(key, i % 3 ? "v" : key), 0);
		if (i % 64 == 0) /* idle now and then */
			clock_sleep_ns(NS_PER_MS / 5);
	}
	return NULL;
}

/*
 * A living session leaks nothing: every granted block that a walk over the slots, begun
 * after the acknowledgement, did not meet must be claimed, every time.
 */
TEST(sweeps_beside_a_busy_session_find_no_leak)
{
	uint64_t until = clock_now_ns() + NS_PER_SEC;
	uint64_t number = 1, total = 0;
	pthread_t t;

	pthread_create(&t, NULL, worker, NULL);
	for (; clock_now_ns() < until || number <= 10 || total <= 100;
	     number++) {
		uint32_t n;

		begin_acked(number);
		n = blocks_out(false, refs, ARRAY_SIZE(refs));
		for (uint32_t at = 0; at < n; at += 1000) {
			uint32_t part = UTIL_MIN(n - at, 1000u);

			ck_assert_uint_eq(claims(number, refs + at, part),
					  part);
		}
		total += n;
		if (number % 4 == 0)
			send_epoch(MSG_RECLAIM, 1 << 20);
		if (number % 2)
			send_epoch(MSG_SWEEP_END, number);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}

TEST_SUITE("reclaim and sweep")
