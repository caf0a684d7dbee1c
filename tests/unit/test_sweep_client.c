/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's answers when the server asks which blocks it holds. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/session_state.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/sweep_peer.h"

static struct block_ref refs[1u << 16];

/* ---- begin and questions ------------------------------------------------------ */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(idle_handle_claims_what_it_holds_and_nothing_else)
{
	uint32_t n;

	put_n(0, 100);
	put_n(0, 30); /* 30 deferred */
	no_grant_out();
	begin_acked(1);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_gt(n, 30);
	ck_assert_uint_eq(claims(1, refs, n), n);
	n = blocks_out(true, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(n, 100);
	ck_assert_uint_eq(claims(1, refs, n), 0);
	ck_assert_uint_eq(claims(1, refs, 0), 0);
	/* Linked blocks that are replaced from now on are recorded. */
	put_n(40, 10);
	ck_assert_int_eq(farkv_delete(kv, "55", 2), 0); /* in place */
	ck_assert_uint_eq(claims(1, refs, n), 10);
	send_epoch(MSG_SWEEP_END, 1);
	/* The next sweep has the current blocks, not earlier ones. */
	begin_acked(2);
	n = blocks_out(true, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(2, refs, n), 0);
}

TEST(readonly_session_acknowledges_and_claims_nothing)
{
	farkv_close(kv);
	srv.role = MSG_ROLE_RO;
	kv = open_handle();
	begin_acked(4);
	refs[0] = (struct block_ref){.off = META_ALIGN + PAGE_BYTES};
	ck_assert_uint_eq(claims(4, refs, 1), 0);
	enter();
	query(4, 9, refs, 1);
	seen_by_client();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 1);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, 2));
	send_epoch(MSG_SWEEP_END, 4);
	send_epoch(MSG_RECLAIM, 1 << 20);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_RETURN), 0);
}

TEST(begin_in_the_middle_of_an_operation_waits_for_its_end)
{
	struct block_ref r;

	put_n(0, 5);
	no_grant_out();
	enter();
	ck_assert(alloc_take(kv->conn.alloc, 0, 0, &r));
	send_epoch(MSG_SWEEP_BEGIN, 3);
	query(3, 1, &r, 1); /* too early; but answered in order, and rightly */
	seen_by_client();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
	/* It is returned last. */
	ck_assert_int_eq(alloc_put(kv->conn.alloc, r), 0);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, 1));
	ck_assert_uint_eq(srv.claimed, 1);
}

/* One operation ends and another begins between the answers to two questions. */
TEST(questions_are_answered_in_order)
{
	struct session *s = kv->conn.session;

	/* The control thread's list is only manipulated by the test. */
	if (TEST_UNDER_TSAN)
		return;
	begin_acked(3);
	enter();
	query(3, 1, refs, 0);
	query(3, 2, refs, 0);
	seen_by_client();
	ck_assert_uint_eq(s->n_acks, 2);
	s->acks[0].mark += 2;
	__atomic_store_n(&s->qsbr.seq, s->acks[0].mark, __ATOMIC_SEQ_CST);
	clock_sleep_ns(20 * NS_PER_MS);
	heard_by_server();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, 2));
	ck_assert_uint_eq(srv.claim_req, 2);
}

/*
 * The handle's thread does the work before the control thread; the control thread sends
 * the answer.
 */
TEST(begin_is_handled_by_the_next_operation)
{
	uint32_t n;

	put_n(0, 20);
	no_grant_out();
	enter();
	send_epoch(MSG_SWEEP_BEGIN, 3);
	seen_by_client();
	ck_assert_uint_ne(qsbr_pending(kv->qsbr) & PENDING_SWEEP, 0);
	conn_handle_pending(&kv->conn);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(3, refs, n), n);
}

/* ---- operations that wait ---------------------------------------------------------- */

static void slots_flip(uint64_t bit)
{
	uint64_t *w = (uint64_t *)(void *)srv.data;

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		__atomic_fetch_xor(&w[i], bit, __ATOMIC_SEQ_CST);
}

static void *put_k(void *arg)
{
	(void)arg;
	ck_assert_int_eq(put("k", "two"), 0);
	return NULL;
}

/* A waiting operation does not delay the answer, and its blocks are claimed. */
TEST(begin_does_not_wait_for_an_operation_that_waits_for_a_migration)
{
	uint64_t seq;
	pthread_t t;
	uint32_t n;

	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	seq = qsbr_snapshot(kv->qsbr);
	slots_flip(SLOT_FROZEN);
	pthread_create(&t, NULL, put_k, NULL);
	while (qsbr_snapshot(kv->qsbr) < seq + 2 || qsbr_active(kv->qsbr))
		clock_sleep_ns(NS_PER_MS / 10);
	begin_acked(1);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_eq(claims(1, refs, n), n);
	slots_flip(SLOT_FROZEN);
	pthread_join(t, NULL);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(1, refs, n), n);
}

struct batch {
	struct farkv_put_item item[2];
	int err;
};

static void *put_batch(void *arg)
{
	struct batch *b = arg;

	b->err = farkv_mput(kv, b->item, 2);
	return NULL;
}

static uint64_t *only_slot(void)
{
	uint64_t *w = (uint64_t *)(void *)srv.data, *found = NULL;

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		if (!slot_is_null(__atomic_load_n(&w[i], __ATOMIC_ACQUIRE))) {
			if (found)
				return NULL;
			found = &w[i];
		}
	return found;
}

/*
 * The first item of a batch waits for a migration and has returned its block; the second
 * must not take that block and wait for the first, but request another.
 */
TEST(batch_with_a_waiting_item_gives_the_next_its_own_block)
{
	struct batch b = {.item = {{.key = "k", .key_len = 1, .value = "two",
				    .value_len = 3},
				   {.key = "other", .key_len = 5, .value = "x",
				    .value_len = 1}}};
	uint64_t *slot, until = clock_now_ns() + FAKE_WAIT_S / 2 * NS_PER_SEC;
	pthread_t t;

	srv.grant_each = 1;
	ck_assert_int_eq(put("k", "one"), 0);
	no_grant_out();
	slot = only_slot();
	__atomic_fetch_or(slot, SLOT_FROZEN, __ATOMIC_SEQ_CST);
	pthread_create(&t, NULL, put_batch, &b);
	while (only_slot() == slot && clock_now_ns() < until)
		clock_sleep_ns(NS_PER_MS);
	ck_assert_msg(only_slot() == NULL, "the second waits for the first");
	__atomic_fetch_and(slot, ~SLOT_FROZEN, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	ck_assert_int_eq(b.err, 0);
}

/* ---- grants ----------------------------------------------------------------------- */

TEST(grants_in_transit_are_claimed)
{
	unsigned asked;
	uint32_t n;

	ck_assert_int_eq(put("k", "v"), 0);
	no_grant_out();
	asked = fake_server_count(&srv, MSG_GRANT_REQ);
	fake_server_set(&srv, hold_grants, true);
	kv->op_timeout_ns = 20 * NS_PER_MS;
	ck_assert_int_eq(farkv_put(kv, "big", 3, srv.meta, 5000),
			 FARKV_ETIMEDOUT);
	/* Between BEGIN and its acknowledgement. */
	enter();
	send_epoch(MSG_SWEEP_BEGIN, 1);
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, asked + 1));
	fake_server_release(&srv);
	ck_assert_uint_gt(srv.granted, 2);
	while (session_grants_out(kv->conn.session) > 0)
		clock_sleep_ns(NS_PER_MS / 10);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 1));
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(1, refs, n), n);
	/* After it, and still in the inbox: no call has been made since. */
	fake_server_set(&srv, hold_grants, true);
	ck_assert_int_eq(farkv_put(kv, "big", 3, srv.meta, 20000),
			 FARKV_ETIMEDOUT);
	fake_server_release(&srv);
	while (session_grants_out(kv->conn.session) > 0)
		clock_sleep_ns(NS_PER_MS / 10);
	ck_assert_uint_ne(qsbr_pending(kv->qsbr) & PENDING_GRANTS, 0);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(1, refs, n), n);
	/* Also in the inbox when a sweep begins. */
	begin_acked(2);
	ck_assert_uint_eq(claims(2, refs, n), n);
}

/* ---- numbers ------------------------------------------------------------------------ */

TEST(messages_of_older_sweeps_are_ignored)
{
	uint32_t n;

	put_n(0, 5);
	no_grant_out();
	begin_acked(5);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	send_epoch(MSG_SWEEP_BEGIN, 4);
	query(4, 1, refs, n);
	send_epoch(MSG_SWEEP_END, 4);
	ck_assert_uint_eq(claims(5, refs, n), n);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 1);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 1);
	/* A new sweep ends the previous one, and its waiting questions. */
	enter();
	query(5, 2, refs, n);
	send_epoch(MSG_SWEEP_BEGIN, 6);
	send_epoch(MSG_SWEEP_BEGIN, 7);
	seen_by_client();
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, 2));
	ck_assert_uint_eq(srv.ack_number, 7);
	ck_assert_uint_eq(claims(7, refs, n), n);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 2);
	/* After the end nothing is answered or recorded. */
	send_epoch(MSG_SWEEP_END, 7);
	query(7, 3, refs, n);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 2);
	ck_assert(!journal_add(kv->conn.inv->journal, refs[0]));
}

TEST(end_before_the_acknowledgement_ends_the_sweep)
{
	put_n(0, 5);
	no_grant_out();
	enter();
	send_epoch(MSG_SWEEP_BEGIN, 1);
	send_epoch(MSG_SWEEP_END, 1);
	seen_by_client();
	ck_assert_uint_eq(qsbr_pending(kv->qsbr) & PENDING_SWEEP, 0);
	qsbr_leave(kv->qsbr);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_ACK), 0);
	put_n(0, 5);
}

/* ---- leaving ------------------------------------------------------------------------- */

static bool claimed_now(struct block_ref r)
{
	for (uint32_t i = 0; i < srv.claimed; i++)
		if (srv.claims[i].off == r.off && srv.claims[i].cls == r.cls)
			return true;
	return false;
}

TEST(close_during_a_sweep_names_what_was_held)
{
	struct block_ref linked[3];

	put_n(0, 3);
	no_grant_out();
	begin_acked(8);
	ck_assert_uint_eq(blocks_out(true, linked, 3), 3);
	put_n(0, 3);
	close_at_leisure();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 1);
	ck_assert_uint_ge(srv.unasked, 6);
	ck_assert_uint_eq(srv.unasked, srv.claimed); /* one message of them */
	ck_assert_uint_eq(srv.claim_number, 8);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(claimed_now(linked[i]));
	ck_assert_uint_eq(srv.granted - srv.returned, 3);
	kv = open_handle();
}

TEST(close_after_a_sweep_names_nothing)
{
	put_n(0, 3);
	begin_acked(8);
	send_epoch(MSG_SWEEP_END, 8);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	close_at_leisure();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 1);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
	kv = open_handle();
}

static bool is_mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	ck_assert_ptr_nonnull(f);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, name) != NULL;
	fclose(f);
	return found;
}

/* It cannot name its blocks, so it must not appear to have left properly. */
TEST(close_with_a_full_journal_sends_no_bye)
{
	struct block_ref r = {0};

	put_n(0, 3);
	no_grant_out();
	ck_assert(is_mapped("fake-session"));
	begin_acked(8);
	for (uint64_t i = 0; i <= JOURNAL_MAX; i++) {
		r.off = META_ALIGN + i * PTR_UNIT;
		ck_assert(journal_add(kv->conn.inv->journal, r));
	}
	r.off = FAKE_HEAP_BYTES;
	ck_assert_uint_eq(claims(8, &r, 1), 1);
	farkv_close(kv);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 0);
	/* No message follows the last RETURN that could be awaited. */
	for (unsigned i = 0; i < 3000 && srv.granted - srv.returned != 3; i++)
		clock_sleep_ns(10 * NS_PER_MS);
	ck_assert_uint_eq(srv.granted - srv.returned, 3);
	/* Its process still need not be waited for. */
	ck_assert(!is_mapped("fake-session"));
	kv = open_handle();
}

TEST(reconnect_in_a_sweep_claims_nothing_of_the_old_session)
{
	uint32_t n;

	put_n(0, 5);
	no_grant_out();
	begin_acked(2);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	fake_server_hangup(&srv);
	while (!(qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		clock_sleep_ns(NS_PER_MS / 10);
	put_n(0, 5);
	no_grant_out();
	/* The new session has not received BEGIN yet. */
	query(2, 1, refs, n);
	send_epoch(MSG_BARRIER, 1);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_SWEEP_CLAIM), 0);
	begin_acked(2);
	/* It does not hold the blocks of the old one. */
	ck_assert_uint_eq(claims(2, refs, n), 0);
	put_n(0, 5);
	ck_assert_uint_eq(claims(2, refs, n), 0);
}

TEST(fork_in_a_sweep_leaves_it_to_the_parent)
{
	uint32_t n;
	int status;
	pid_t pid;

	put_n(0, 5);
	no_grant_out();
	begin_acked(2);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (put("0", "child") != FARKV_EDISCONNECTED)
			_exit(1);
		farkv_close(kv);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	put_n(0, 5);
	n = blocks_out(false, refs, ARRAY_SIZE(refs));
	ck_assert_uint_eq(claims(2, refs, n), n);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BYE), 0);
}

TEST_SUITE("sweep, client")
