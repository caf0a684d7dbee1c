/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that clients have sent over RDMA and that the server's loop has not handled
 * yet, with a device that the test plays: they are bounded, and handled in turn, for a
 * short time per round.
 */
#include "config.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/rdma/arrivals.h"
#include "common/rdma/inbox.h"
#include "common/rdma/peer.h"
#include "common/rdma/recv_thread.h"
#include "tests/rig/cases.h"

#define MSG_BYTES 16384u
#define RECVS 4u
#define PEERS 6u
#define HELD_PEER (16u << 20)
#define HELD_ALL (64u << 20)

static struct verbs_server *vs;
static struct verbs_peer *peers[PEERS];
static struct ibv_qp qps[PEERS];

/* Events of the loop, as letters: a message of A, overrun of a, ... */
static char told[4096];
static size_t n_told;
static uint64_t message_ns; /* how long one takes */
static unsigned busy;       /* a bit for each peer */

static bool starved, no_memory;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

/* ---- the device ------------------------------------------------------------------ */

static struct ibv_wc next_wc;
static unsigned n_wc, posted;

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	if (!n_wc || n < 1)
		return 0;
	n_wc--;
	*wc = next_wc;
	return 1;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	posted++;
	return 0;
}

static struct ibv_context context = {
	.ops = {.poll_cq = poll_cq, .post_srq_recv = post_srq_recv}};
static struct ibv_cq cq = {.context = &context};
static struct ibv_srq srq = {.context = &context};
static struct ibv_mr mr;

/* No connection exists that could be destroyed. */
void __wrap_verbs_conn_disconnect(struct verbs_conn *c);
void __wrap_verbs_conn_disconnect(struct verbs_conn *c)
{
	(void)c;
}

/* `n` messages of `len` bytes arrive. */
static void arrive(unsigned peer, unsigned n, uint32_t len)
{
	next_wc = (struct ibv_wc){.wr_id = 1,
				  .status = IBV_WC_SUCCESS,
				  .byte_len = len,
				  .qp_num = peer};
	n_wc = n;
	no_memory = starved; /* libcheck needs some */
	verbs_move_all(vs);
	no_memory = false;
	ck_assert_uint_eq(n_wc, 0);
}

/* ---- the loop --------------------------------------------------------------------- */

static void tell(char what, const struct verbs_peer *p)
{
	ck_assert_uint_lt(n_told, sizeof(told) - 1);
	told[n_told++] = (char)(what + p->control.qp->qp_num);
}

static bool may_take(void *arg, struct verbs_peer *p)
{
	(void)arg;
	return !(busy & 1u << p->control.qp->qp_num);
}

static void on_message(void *arg, struct verbs_peer *p, const void *buf,
		       size_t len)
{
	uint64_t until = clock_now_ns() + message_ns;

	(void)arg;
	ck_assert_mem_eq(buf, "said", UTIL_MIN(len, (size_t)4));
	tell('A', p);
	while (clock_now_ns() < until)
		;
}

static void on_overrun(void *arg, struct verbs_peer *p, bool memory)
{
	(void)arg;
	ck_assert(memory == starved);
	tell('a', p);
	verbs_peer_close(p);
}

static void on_gone(void *arg, struct verbs_peer *p, const char *why)
{
	(void)arg;
	ck_assert_str_eq(why, "hung up");
	tell('0', p);
}

static void on_tick_due(void *arg)
{
	(void)arg;
}

static const struct verbs_server_ops ops = {
	.may_take = may_take,
	.on_message = on_message,
	.on_overrun = on_overrun,
	.on_gone = on_gone,
	.on_tick_due = on_tick_due,
};

/* True if there is more to do. */
static bool due(void)
{
	struct pollfd p = {.fd = vs->arrived_fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void round_of_the_loop(void)
{
	n_told = 0;
	memset(told, 0, sizeof(told));
	verbs_arrivals_dispatch(vs);
}

static void setup(void)
{
	vs = calloc(1, sizeof(*vs));
	vs->cfg = (struct verbs_server_config){.msg_max = MSG_BYTES,
					       .n_recv = RECVS,
					       .ops = &ops};
	vs->recv_bufs = calloc(RECVS, MSG_BYTES);
	memcpy(vs->recv_bufs + MSG_BYTES, "said", 4);
	vs->recv_mr = &mr;
	vs->cq = &cq;
	vs->srq = &srq;
	vs->arrived_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&vs->lock, NULL);
	STAILQ_INIT(&vs->arrivals);
	TAILQ_INIT(&vs->ready);
	for (unsigned i = 0; i < PEERS; i++) {
		qps[i].qp_num = i;
		peers[i] = calloc(1, sizeof(**peers));
		peers[i]->server = vs;
		peers[i]->control.qp = &qps[i];
		peers[i]->up = true;
		verbs_inbox_join(peers[i]);
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < PEERS; i++)
		if (!peers[i]->ending)
			verbs_peer_close(peers[i]);
	for (unsigned i = 0; i < PEERS; i++)
		free(peers[i]);
	ck_assert_uint_eq(vs->held, 0);
	ck_assert_uint_eq(vs->n_ready, 0);
	pthread_mutex_destroy(&vs->lock);
	close(vs->arrived_fd);
	free(vs->recv_bufs);
	free(vs);
}

/* ---- turns ------------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(peers_are_served_in_turn_one_message_each)
{
	arrive(0, 5, 100);
	arrive(1, 2, 100);
	arrive(2, 1, 100);
	ck_assert(due());
	round_of_the_loop();
	while (due()) { /* longer than a round may take */
		char before[64];

		strcpy(before, told);
		round_of_the_loop();
		strcat(before, told);
		strcpy(told, before);
		n_told = strlen(told);
	}
	ck_assert_str_eq(told, "ABCABAAA");
	ck_assert_uint_eq(posted, 8);
}

TEST(round_ends_after_a_short_time_and_the_next_continues)
{
	message_ns = NS_PER_MS;
	arrive(0, 2, 100);
	arrive(1, 1, 100);
	for (const char *want = "ABA"; *want; want++) {
		ck_assert(due());
		round_of_the_loop();
		ck_assert_uint_eq(n_told, 1);
		ck_assert_int_eq(told[0], *want);
	}
	ck_assert(!due());
}

TEST(busy_peer_is_skipped)
{
	arrive(0, 2, 100);
	arrive(1, 1, 100);
	busy = 1;
	round_of_the_loop();
	ck_assert_str_eq(told, "B");
	ck_assert(due());
	round_of_the_loop();
	ck_assert_str_eq(told, "");
	busy = 0;
	message_ns = NS_PER_MS;
	round_of_the_loop();
	ck_assert_str_eq(told, "A");
}

TEST(messages_before_a_disconnect_come_first)
{
	message_ns = NS_PER_MS;
	arrive(0, 2, 100);
	verbs_peer_hang_up(peers[0], "hung up");
	round_of_the_loop();
	ck_assert_str_eq(told, "A");
	round_of_the_loop();
	ck_assert_str_eq(told, "A0");
	n_told = 0;
	verbs_peer_hang_up(peers[1], "hung up");
	ck_assert_str_eq(told, "10");
}

/* ---- bounds ------------------------------------------------------------------------- */

TEST(peer_over_its_own_bound_is_ended_alone)
{
	unsigned n = HELD_PEER / MSG_BYTES;

	arrive(1, 1, 100);
	arrive(0, n - 10, MSG_BYTES);
	ck_assert_uint_gt(vs->held, HELD_PEER / 2);
	arrive(0, 20, MSG_BYTES);
	ck_assert_uint_lt(vs->held, 1000);
	arrive(0, 10 * n, MSG_BYTES);
	ck_assert_uint_lt(vs->held, 1000);
	ck_assert_uint_eq(posted, 1 + n + 10 + 10 * n);
	round_of_the_loop();
	ck_assert_str_eq(told, "Ba");
	/* It is no peer any more. */
	arrive(0, 1, MSG_BYTES);
	ck_assert_uint_eq(vs->held, 0);
	round_of_the_loop();
	ck_assert_str_eq(told, "");
}

TEST(peer_with_most_messages_is_ended_at_the_total_bound)
{
	unsigned n = HELD_PEER / MSG_BYTES;

	arrive(3, n - 50, MSG_BYTES);
	for (unsigned i = 0; i < 3; i++)
		arrive(i, n - 100, MSG_BYTES);
	arrive(4, n / 2, MSG_BYTES);
	ck_assert_uint_le(vs->held, HELD_ALL);
	ck_assert_int_eq(peers[3]->overrun, VERBS_OVERRUN_BOUND);
	for (unsigned i = 0; i < PEERS; i++)
		ck_assert(i == 3 || !peers[i]->overrun);
	ck_assert_uint_eq(peers[3]->held, 0);
	ck_assert_uint_gt(peers[0]->held, HELD_PEER / 2);
}

TEST(message_without_memory_ends_its_peer)
{
	starved = true;
	arrive(0, 3, 100);
	ck_assert_uint_eq(posted, 3);
	round_of_the_loop();
	ck_assert_str_eq(told, "a");
}

TEST(message_of_an_unknown_peer_is_dropped_and_its_buffer_reposted)
{
	arrive(77, 3, 100);
	ck_assert_uint_eq(posted, 3);
	ck_assert_uint_eq(vs->held, 0);
	round_of_the_loop();
	ck_assert_str_eq(told, "");
}

TEST_SUITE("inbox")
