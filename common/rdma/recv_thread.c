/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive thread. It waits for completions, copies each message out of its receive
 * buffer, posts the buffer again at once and queues the message. So receive buffers stay
 * available however busy the server's loop is. inbox.c bounds the queue.
 */
#include "config.h"

#include "recv_thread.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "inbox.h"

#define WC_MAX 32

int verbs_recv_post(struct verbs_server *vs, uint64_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(vs->recv_bufs + i * vs->cfg.msg_max),
		.length = vs->cfg.msg_max,
		.lkey = vs->recv_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(vs->srq, &wr, &bad);
}

static void move_send(struct verbs_server *vs, const struct ibv_wc *wc)
{
	struct arrival *a = verbs_arrival_new(vs, wc);

	if (a)
		STAILQ_INSERT_TAIL(&vs->arrivals, a, link);
	else
		log_error("rdma: out of memory, the end of a send is lost");
}

/* Queue a received message and post its buffer again. */
static void move_message(struct verbs_server *vs, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		verbs_inbox_add(vs, wc);
	if (verbs_recv_post(vs, wc->wr_id))
		log_error("rdma: a receive buffer could not be posted again");
	atom_count(&vs->n.refills, 1);
}

/* Called by the receive thread and by the loop; the lock keeps each session's messages in order. */
void verbs_move_all(struct verbs_server *vs)
{
	struct ibv_wc wc[WC_MAX];
	bool any = false;
	int n;

	pthread_mutex_lock(&vs->lock);
	while ((n = ibv_poll_cq(vs->cq, WC_MAX, wc)) > 0)
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & WR_SEND)
				move_send(vs, &wc[i]);
			else
				move_message(vs, &wc[i]);
			any = true;
		}
	pthread_mutex_unlock(&vs->lock);
	if (any)
		(void)eventfd_write(vs->arrived_fd, 1);
}

/*
 * A message that finds no posted receive draws an RNR NAK and stalls its sender. This
 * thread's work is short, so it runs at real-time priority where that is allowed
 * (CAP_SYS_NICE, RLIMIT_RTPRIO).
 */
static void raise_priority(void)
{
	struct sched_param sp = {.sched_priority = 1};

	(void)pthread_setschedparam(pthread_self(), SCHED_RR, &sp);
}

/* Take the event, arm for the next one, and only then poll. */
static void *recv_thread_main(void *arg)
{
	struct verbs_server *vs = arg;
	struct pollfd p[2] = {{.fd = vs->comp->fd, .events = POLLIN},
			      {.fd = vs->quit_fd, .events = POLLIN}};
	unsigned unacked = 0;

	raise_priority();
	for (;;) {
		struct ibv_cq *cq;
		void *ctx;

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			break;
		while (!ibv_get_cq_event(vs->comp, &cq, &ctx))
			unacked++;
		if (unacked >= 64) {
			ibv_ack_cq_events(vs->cq, unacked);
			unacked = 0;
		}
		if (ibv_req_notify_cq(vs->cq, 0))
			log_error("rdma: the completion queue cannot be armed");
		verbs_move_all(vs);
	}
	ibv_ack_cq_events(vs->cq, unacked);
	return NULL;
}

int verbs_recv_thread_start(struct verbs_server *vs)
{
	int rc;

	if (ibv_req_notify_cq(vs->cq, 0))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot arm a completion queue");
	rc = thread_create_masked(&vs->recv_thread, recv_thread_main, vs);
	if (rc)
		return err_set_errno(FARKV_ESYS, rc, "cannot start a thread");
	(void)pthread_setname_np(vs->recv_thread, "farkv-recv");
	vs->recv_thread_runs = true;
	return 0;
}

void verbs_recv_thread_stop(struct verbs_server *vs)
{
	if (!vs->recv_thread_runs)
		return;
	(void)eventfd_write(vs->quit_fd, 1);
	pthread_join(vs->recv_thread, NULL);
	vs->recv_thread_runs = false;
}
