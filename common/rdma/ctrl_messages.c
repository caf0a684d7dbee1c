/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages, and events of rdma_cm and of the device. One thread receives, any may
 * send.
 */
#include "config.h"

#include "ctrl_messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"

int verbs_ctrl_post_recv(struct verbs_ctrl *l, unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)verbs_ctrl_buf(l, i),
			      .length = VERBS_CTRL_BUF,
			      .lkey = l->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(l->control.qp, &wr, &bad);
}

int verbs_ctrl_fd(const struct verbs_ctrl *l)
{
	return l->epoll_fd;
}

const char *verbs_ctrl_why(const struct verbs_ctrl *l)
{
	return l->why;
}

static void over(struct verbs_ctrl *l, const char *why)
{
	pthread_mutex_lock(&l->lock);
	if (!l->over)
		snprintf(l->why, sizeof(l->why), "%s", why);
	l->over = true;
	pthread_mutex_unlock(&l->lock);
	/* The caller may be the reader of another connection. */
	(void)wakeup_ring(&l->more);
}

/* Free the buffers of completed sends. With the lock held. */
static int sends_reap(struct verbs_ctrl *l)
{
	struct ibv_wc wc[VERBS_SENDS];
	int n = ibv_poll_cq(l->send_cq, VERBS_SENDS, wc);

	for (int i = 0; i < n; i++) {
		const char *why;

		if (wc[i].status == IBV_WC_SUCCESS) {
			l->sends_free |= 1u << wc[i].wr_id;
			continue;
		}
		(void)verbs_status_error(wc[i].status, &why);
		if (!l->over)
			snprintf(l->why, sizeof(l->why), "%s", why);
		l->over = true;
	}
	return n < 0 ? EIO : 0;
}

int verbs_ctrl_send(struct verbs_ctrl *l, const void *buf, size_t len)
{
	struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_sge sge = {.length = (uint32_t)len, .lkey = l->mr->lkey};
	int rc;

	if (len > VERBS_CTRL_BUF)
		return EMSGSIZE;
	pthread_mutex_lock(&l->lock);
	rc = sends_reap(l);
	if (!rc && l->over)
		rc = EPIPE;
	if (!rc && !l->sends_free)
		rc = EAGAIN;
	if (!rc) {
		unsigned i = (unsigned)__builtin_ctz(l->sends_free);

		memcpy(verbs_ctrl_buf(l, VERBS_CTRL_RECVS + i), buf, len);
		sge.addr = (uintptr_t)verbs_ctrl_buf(l, VERBS_CTRL_RECVS + i);
		wr.wr_id = i;
		wr.sg_list = &sge;
		wr.send_flags = IBV_SEND_SIGNALED;
		if (len <= l->control.max_inline)
			wr.send_flags |= IBV_SEND_INLINE;
		rc = ibv_post_send(l->control.qp, &wr, &bad);
		if (!rc)
			l->sends_free &= ~(1u << i);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* Events of either connection. */
static void cm_events(struct verbs_ctrl *l)
{
	struct rdma_cm_event *ev;

	while (!rdma_get_cm_event(l->channel, &ev)) {
		enum rdma_cm_event_type type = ev->event;

		rdma_ack_cm_event(ev);
		switch (type) {
		case RDMA_CM_EVENT_DISCONNECTED:
			over(l, "the server closed the connection; has it "
				"stopped?");
			break;
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
			over(l, "the RDMA device was removed");
			break;
		case RDMA_CM_EVENT_ADDR_CHANGE:
			over(l, "the network address moved to another device");
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		default:
			log_debug("rdma: %s was not expected",
				  rdma_event_str(type));
		}
	}
}

/*
 * End the connection that owns the device's object. A port that goes down ends nothing: the
 * device retries until it is answered or the retries are exhausted.
 */
static void async_event(struct verbs_ctrl *reader,
			const struct ibv_async_event *e)
{
	const char *name = ibv_event_type_str(e->event_type);
	struct verbs_ctrl *owner = NULL;

	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		owner = e->element.cq->cq_context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		owner = e->element.qp->qp_context;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		owner = reader;
		break;
	default:
		log_debug("rdma: %s", name);
	}
	if (owner)
		over(owner, name);
}

/*
 * All connections of the process to one device share this descriptor, and one thread serves
 * them all. An object cannot be destroyed before its event is acknowledged, so its owner
 * exists.
 */
static void async_events(struct verbs_ctrl *l)
{
	struct ibv_async_event e;

	while (!ibv_get_async_event(l->pd->context, &e)) {
		async_event(l, &e);
		ibv_ack_async_event(&e);
	}
}

static void arm(struct verbs_ctrl *l)
{
	struct ibv_cq *cq;
	void *ctx;

	(void)wakeup_clear(&l->more);
	while (!ibv_get_cq_event(l->comp, &cq, &ctx)) {
		if (++l->unacked == 64) {
			ibv_ack_cq_events(l->recv_cq, l->unacked);
			l->unacked = 0;
		}
	}
	/* Arm before the last poll, so that every later completion raises an event. */
	if (ibv_req_notify_cq(l->recv_cq, 0))
		over(l, "the RDMA device takes no more requests");
}

static ssize_t take_one(struct verbs_ctrl *l, void *buf, size_t cap)
{
	const char *why;
	struct ibv_wc wc;
	int n = ibv_poll_cq(l->recv_cq, 1, &wc);

	if (n == 0)
		return -1;
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		(void)verbs_status_error(n < 0 ? IBV_WC_FATAL_ERR : wc.status,
					 &why);
		over(l, wc.status == IBV_WC_WR_FLUSH_ERR ?
				"the server closed the connection" : why);
		return 0;
	}
	if (wc.byte_len > cap) {
		over(l, "a message was too long");
		return 0;
	}
	memcpy(buf, verbs_ctrl_buf(l, (unsigned)wc.wr_id), wc.byte_len);
	if (verbs_ctrl_post_recv(l, (unsigned)wc.wr_id))
		over(l, "the RDMA device takes no more receives");
	return (ssize_t)wc.byte_len;
}

ssize_t verbs_ctrl_receive(struct verbs_ctrl *l, void *buf, size_t cap)
{
	ssize_t n;
	bool is_over;

	/* Deliver the server's last messages before the end of the connection. */
	n = take_one(l, buf, cap);
	if (n != -1)
		return n;
	arm(l);
	n = take_one(l, buf, cap);
	if (n != -1) {
		/* Messages that arrived before arming raise no event: wake the reader. */
		(void)wakeup_ring(&l->more);
		return n;
	}
	cm_events(l);
	async_events(l);
	pthread_mutex_lock(&l->lock);
	is_over = l->over;
	pthread_mutex_unlock(&l->lock);
	if (is_over) {
		/* The peer has closed; flush our end too. */
		verbs_conn_disconnect(&l->control);
		return 0;
	}
	return -1;
}
