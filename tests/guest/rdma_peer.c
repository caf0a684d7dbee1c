/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "rdma_peer.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/util.h"

const char *client_host, *client_port;

/* ---- a bare connection: any bytes to say who comes, any request ---------- */

static void raw_resolve(struct raw *r)
{
	struct addrinfo *list;
	struct rdma_cm_event *ev;

	r->channel = rdma_create_event_channel();
	if (!r->channel ||
	    rdma_create_id(r->channel, &r->conn.id, NULL, RDMA_PS_TCP) ||
	    getaddrinfo(client_host, client_port, NULL, &list) ||
	    rdma_resolve_addr(r->conn.id, NULL, list->ai_addr, 2000))
		die("cannot resolve %s", client_host);
	freeaddrinfo(list);
	for (unsigned i = 0; i < 2; i++) {
		if (i == 1 && rdma_resolve_route(r->conn.id, 2000))
			die("cannot resolve the route to %s", client_host);
		if (rdma_get_cm_event(r->channel, &ev) ||
		    ev->event != (i ? RDMA_CM_EVENT_ROUTE_RESOLVED :
				      RDMA_CM_EVENT_ADDR_RESOLVED))
			die("no way to %s", client_host);
		rdma_ack_cm_event(ev);
	}
}

static void raw_queue_pair(struct raw *r)
{
	struct ibv_context *ctx = r->conn.id->verbs;
	struct verbs_qp_spec spec = {.max_send = 4, .max_recv = 4};
	struct ibv_sge sge = {.length = MSG_MAX_BYTES};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	r->pd = ibv_alloc_pd(ctx);
	r->cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	r->buf = calloc(2, MSG_MAX_BYTES);
	if (!r->pd || !r->cq || !r->buf)
		die("no queues");
	r->mr = ibv_reg_mr(r->pd, r->buf, 2 * MSG_MAX_BYTES,
			   IBV_ACCESS_LOCAL_WRITE);
	spec.pd = r->pd;
	spec.send_cq = spec.recv_cq = r->cq;
	if (!r->mr || verbs_qp_create(&r->conn, &spec) ||
	    verbs_qp_init(&r->conn, 0))
		die("no queue pair: %s", err_detail());
	sge.addr = (uintptr_t)(r->buf + MSG_MAX_BYTES);
	sge.lkey = r->mr->lkey;
	if (ibv_post_recv(r->conn.qp, &wr, &bad))
		die("cannot post a receive");
}

int raw_ask(struct raw *r, const void *private_data, size_t len)
{
	struct rdma_conn_param cp = {.private_data = private_data,
				     .private_data_len = (uint8_t)len,
				     .initiator_depth = 4,
				     .retry_count = VERBS_RETRY_COUNT,
				     .rnr_retry_count = VERBS_RNR_RETRY};
	struct verbs_private said;
	struct rdma_cm_event *ev;

	*r = (struct raw){0};
	raw_resolve(r);
	raw_queue_pair(r);
	cp.qp_num = r->conn.qp->qp_num;
	if (rdma_connect(r->conn.id, &cp) || rdma_get_cm_event(r->channel, &ev))
		die("cannot connect");
	if (ev->event == RDMA_CM_EVENT_REJECTED) {
		if (ev->status != 28 ||
		    !verbs_private_read(ev->param.conn.private_data,
					ev->param.conn.private_data_len, &said))
			die("rejected with status %d", ev->status);
		rdma_ack_cm_event(ev);
		return said.reason;
	}
	if (ev->event != RDMA_CM_EVENT_CONNECT_RESPONSE)
		die("connecting ended with %s", rdma_event_str(ev->event));
	rdma_ack_cm_event(ev);
	return 0;
}

int raw_dial(struct raw *r, const void *private_data, size_t len)
{
	int reason = raw_ask(r, private_data, len);

	if (!reason && (verbs_qp_connect(&r->conn, 0, 1) ||
			rdma_establish(r->conn.id)))
		die("cannot establish: %s", err_detail());
	return reason;
}

void raw_hang_up(struct raw *r)
{
	(void)rdma_disconnect(r->conn.id);
	verbs_conn_destroy(&r->conn);
	ibv_destroy_cq(r->cq);
	ibv_dereg_mr(r->mr);
	ibv_dealloc_pd(r->pd);
	rdma_destroy_event_channel(r->channel);
	free(r->buf);
}

static struct ibv_wc raw_wait(struct raw *r, const char *what)
{
	uint64_t until = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	while (ibv_poll_cq(r->cq, 1, &wc) == 0)
		if (clock_now_ns() > until)
			die("%s: nothing happens", what);
	return wc;
}

/* Say HELLO there and take the WELCOME. */
void raw_welcome(struct raw *r)
{
	struct msg m = {.type = MSG_HELLO, .req = 1};
	struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .lkey = r->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	size_t len;

	if (msg_encode(&m, NULL, r->buf, MSG_MAX_BYTES, &len))
		die("%s", err_detail());
	sge.length = (uint32_t)len;
	if (ibv_post_send(r->conn.qp, &wr, &bad))
		die("cannot send HELLO");
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_wc wc = raw_wait(r, "HELLO");

		if (wc.status != IBV_WC_SUCCESS)
			die("HELLO: %s", ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RECV &&
		    (msg_decode(r->buf + MSG_MAX_BYTES, wc.byte_len, &m) ||
		     m.type != MSG_WELCOME))
			die("HELLO was not answered with WELCOME");
	}
}

const struct raw_request_kind raw_requests[RAW_REQUESTS] = {
	{"READ", IBV_WR_RDMA_READ},
	{"WRITE", IBV_WR_RDMA_WRITE},
	{"compare-and-swap", IBV_WR_ATOMIC_CMP_AND_SWP},
};

enum ibv_wc_status raw_request(struct raw *r, unsigned which,
				      uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)r->buf, .length = 8,
			      .lkey = r->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1,
				 .opcode = raw_requests[which].opcode,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(r->conn.qp, &wr, &bad))
		die("cannot post a %s", raw_requests[which].name);
	for (;;) {
		struct ibv_wc wc = raw_wait(r, raw_requests[which].name);

		if (wc.opcode != IBV_WC_RECV || wc.status)
			return wc.status;
	}
}

/* ---- sessions ------------------------------------------------------------ */

void client_dial(struct client *c)
{
	struct verbs_dial d = {.host = client_host, .port = client_port,
			       .tuning = {.ack_timeout = VERBS_ACK_TIMEOUT},
			       .deadline_ns = clock_now_ns() + WAIT_NS};

	memset(c, 0, sizeof(*c));
	if (verbs_ctrl_open(&d, &c->link))
		die("%s", err_detail());
}

void client_say(struct client *c, const void *buf, size_t len)
{
	int rc = verbs_ctrl_send(c->link, buf, len);

	if (rc)
		die("cannot send: %s", strerror(rc));
}

size_t client_say_msg(struct client *c, const struct msg *m, uint8_t *buf,
		      size_t cap)
{
	size_t len;

	if (msg_encode(m, NULL, buf, cap, &len))
		die("%s", err_detail());
	client_say(c, buf, len);
	return len;
}

/* `old`: the WELCOME of the session that this one replaces, or NULL. */
void client_hello_after(struct client *c, uint8_t role, const struct msg *old)
{
	struct msg m = {.type = MSG_HELLO, .req = 1};

	m.hello.role = role;
	m.hello.pid = (uint32_t)getpid();
	if (old) {
		m.hello.replaces = old->welcome.session;
		memcpy(m.hello.replaces_region, old->welcome.region_id,
		       sizeof(m.hello.replaces_region));
	}
	c->hello_len = client_say_msg(c, &m, c->hello, sizeof(c->hello));
}

void client_hello(struct client *c, uint8_t role)
{
	client_hello_after(c, role, NULL);
}

/* The next message, in c->m; false: the connection is over. */
bool client_hear(struct client *c)
{
	uint64_t until = clock_now_ns() + WAIT_NS;

	for (;;) {
		struct pollfd p = {.fd = verbs_ctrl_fd(c->link),
				   .events = POLLIN};
		ssize_t n = verbs_ctrl_receive(c->link, c->buf, sizeof(c->buf));

		if (n == 0)
			return false;
		c->len = (size_t)n;
		if (n > 0 && msg_decode(c->buf, c->len, &c->m))
			die("%s", err_detail());
		if (n > 0)
			return true;
		if (clock_now_ns() > until)
			die("no answer");
		(void)poll(&p, 1, 100);
	}
}

void client_welcome(struct client *c, uint8_t role)
{
	client_dial(c);
	client_hello(c, role);
	if (!client_hear(c) || c->m.type != MSG_WELCOME)
		die("HELLO was not answered with WELCOME");
}

void client_areas(const struct client *c, struct verbs_area out[2])
{
	for (unsigned i = 0; i < 2; i++) {
		const struct msg_area *a = &c->m.welcome.areas[i];

		out[i] = (struct verbs_area){.off = a->off, .bytes = a->bytes,
					     .raddr = a->raddr,
					     .rkey = a->rkey};
	}
}
