/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of clients. Runs on the server's loop only.
 *
 * The control QP of a peer that ends goes to ERR and is destroyed later, when the receive
 * thread has polled its last CQEs: some devices drop the CQEs of a destroyed QP together
 * with the receive buffers they name. The data QP has no CQEs and is destroyed at once.
 */
#include "config.h"

#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "inbox.h"
#include "private_data.h"
#include "release.h"

/* How long an ended peer's last sends and CQEs may take. */
#define LINGER_NS (100 * NS_PER_MS)
/* Without this limit rdma_cm waits over a minute for a client to finish connecting. */
#define HALF_OPEN_NS (5 * NS_PER_SEC)

/* Log how many failures the rate limit suppressed. True: call again later. */
static bool report_dropped(struct verbs_server *vs, uint64_t now)
{
	uint32_t n = rate_limit_dropped(&vs->complaints, NS_PER_SEC, now);

	if (n)
		log_warn("rdma: %u more connections failed", n);
	return vs->complaints.dropped > 0;
}

/* ---- peers ------------------------------------------------------------------------ */

void verbs_peer_fence(struct verbs_peer *peer)
{
	if (!peer->data.id)
		return;
	verbs_conn_disconnect(&peer->data);
	/* A destroyed QP executes no more requests. */
	verbs_conn_destroy(&peer->data);
	peer->data_up = false;
}

/* First half of the end: no more messages in or out. */
static void peer_end(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;

	if (p->ending)
		return;
	p->ending = true;
	p->ended_ns = clock_now_ns();
	verbs_peer_fence(p);
	verbs_inbox_remove(p);
	LIST_INSERT_HEAD(&vs->ending, p, link);
	vs->n.connections--;
	vs->cfg.ops->on_tick_due(vs->cfg.arg);
}

static void slot_free(struct verbs_server *vs, uint32_t i)
{
	struct send_slot *s = &vs->sends[i];

	if (s->buf)
		verbs_mem_free(&vs->send_mem, s->buf, s->bytes);
	s->peer->n_sends--;
	s->peer = NULL;
	s->next_free = vs->free_send;
	vs->free_send = i;
}

/* Second half, when its sends have completed or cannot be waited for. */
static void peer_finish(struct verbs_peer *p)
{
	struct verbs_server *vs = p->server;

	verbs_conn_destroy(&p->control);
	for (uint32_t i = 0; p->n_sends && i < SENDS_ALL; i++)
		if (vs->sends[i].peer == p)
			slot_free(vs, i);
	LIST_REMOVE(p, link);
	free(p);
}

/* The sends have completed: disconnect and flush the rest. */
static void peer_flush(struct verbs_peer *p)
{
	p->flushed = true;
	p->ended_ns = clock_now_ns();
	verbs_conn_disconnect(&p->control);
}

void verbs_peer_gone(struct verbs_peer *p, const char *why)
{
	struct verbs_server *vs = p->server;
	bool up = p->up;

	if (p->ending)
		return;
	peer_end(p);
	peer_flush(p);
	if (up)
		vs->cfg.ops->on_gone(vs->cfg.arg, p, why);
}

void verbs_peer_overrun(struct verbs_peer *p, enum verbs_overrun why)
{
	const struct verbs_server *vs = p->server;

	if (p->up)
		vs->cfg.ops->on_overrun(vs->cfg.arg, p,
					why == VERBS_OVERRUN_MEMORY);
	verbs_peer_gone(p, "it sent more messages than the server can queue");
}

void verbs_peer_hang_up(struct verbs_peer *p, const char *why)
{
	if (!p->ending && !verbs_inbox_is_empty(p))
		p->hung_up = why;
	else
		verbs_peer_gone(p, why);
}

void verbs_peer_close(struct verbs_peer *peer)
{
	peer_end(peer);
	peer->user = NULL;
}

/* True if no send of its own will report space, because other peers hold all the slots. */
static bool is_starved(const struct verbs_peer *p)
{
	return p->wants_room && p->n_sends < VERBS_SENDS;
}

/* Returns true to be called again. */
static bool peer_tick(struct verbs_peer *p, uint64_t now)
{
	struct verbs_server *vs = p->server;

	if (!p->up && now - p->begun_ns > HALF_OPEN_NS) {
		verbs_peer_gone(p, "it never finished connecting");
		return false;
	}
	if (!is_starved(p))
		return !p->up;
	if (vs->free_send != SENDS_ALL) {
		p->wants_room = false;
		vs->cfg.ops->on_room(vs->cfg.arg, p);
	}
	return true;
}

bool verbs_peers_tick(struct verbs_server *vs, uint64_t now)
{
	struct verbs_peer *p, *next;
	bool again = false;

	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		for (p = LIST_FIRST(&vs->peers[i]); p; p = next) {
			next = LIST_NEXT(p, link);
			again = peer_tick(p, now) || again;
		}
	for (p = LIST_FIRST(&vs->ending); p; p = next) {
		uint64_t age = now - p->ended_ns;

		next = LIST_NEXT(p, link);
		if (!p->flushed && (!p->n_sends || age > LINGER_NS))
			peer_flush(p);
		else if (p->flushed && age > LINGER_NS &&
			 (!p->n_sends || age > 10 * LINGER_NS))
			peer_finish(p);
	}
	again = report_dropped(vs, now) || again;
	return again || !LIST_EMPTY(&vs->ending);
}

void verbs_peer_set_user(struct verbs_peer *peer, void *user)
{
	peer->user = user;
}

void *verbs_peer_user(const struct verbs_peer *peer)
{
	return peer->user;
}

const char *verbs_peer_name(const struct verbs_peer *peer)
{
	return peer->name;
}

bool verbs_peer_same_host(const struct verbs_peer *a, const struct verbs_peer *b)
{
	const struct sockaddr *x = rdma_get_peer_addr(a->control.id);
	const struct sockaddr *y = rdma_get_peer_addr(b->control.id);

	if (x->sa_family != y->sa_family)
		return false;
	if (x->sa_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)x)->sin_addr,
			      &((const struct sockaddr_in *)y)->sin_addr,
			      sizeof(struct in_addr)) == 0;
	return memcmp(&((const struct sockaddr_in6 *)x)->sin6_addr,
		      &((const struct sockaddr_in6 *)y)->sin6_addr,
		      sizeof(struct in6_addr)) == 0;
}

/* ---- sends ------------------------------------------------------------------------ */

/* Post `wr`; its completion frees the slot and `buf` (NULL: none). */
static int slot_post(struct verbs_peer *p, struct ibv_send_wr *wr, uint8_t *buf,
		     size_t len)
{
	struct verbs_server *vs = p->server;
	uint32_t i = vs->free_send;
	struct send_slot *s = &vs->sends[i];
	struct ibv_send_wr *bad;
	int rc;

	wr->wr_id = WR_SEND | i;
	wr->send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(p->control.qp, wr, &bad);
	if (rc)
		return rc;
	vs->free_send = s->next_free;
	s->peer = p;
	s->buf = buf;
	s->bytes = (uint32_t)len;
	p->n_sends++;
	return 0;
}

int verbs_peer_send(struct verbs_peer *peer, const void *buf, size_t len)
{
	struct verbs_server *vs = peer->server;
	struct ibv_sge sge = {.length = (uint32_t)len};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SOLICITED};
	uint8_t *copy;
	int rc;

	if (peer->ending)
		return EPIPE;
	if (peer->n_sends >= VERBS_SENDS || vs->free_send == SENDS_ALL) {
		peer->wants_room = true;
		if (is_starved(peer))
			vs->cfg.ops->on_tick_due(vs->cfg.arg);
		return EAGAIN;
	}
	copy = verbs_mem_alloc(&vs->send_mem, len);
	if (!copy)
		return ENOMEM;
	memcpy(copy, buf, len);
	sge.addr = (uintptr_t)copy;
	sge.lkey = verbs_mem_lkey(&vs->send_mem, copy);
	rc = slot_post(peer, &wr, copy, len);
	if (rc) {
		verbs_mem_free(&vs->send_mem, copy, len);
		return rc;
	}
	vs->n.sent++;
	return 0;
}

/*
 * A WRITE of 0 bytes touches no memory and needs no receive, so the card acknowledges any
 * number of them even if the client's process is stopped.
 */
static void probe(struct verbs_peer *p)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	if (slot_post(p, &wr, NULL, 0))
		verbs_peer_gone(p, "its connection takes no requests");
}

void verbs_server_probe(struct verbs_server *vs, uint64_t since_ns)
{
	struct verbs_peer *p, *next;

	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		for (p = LIST_FIRST(&vs->peers[i]); p; p = next) {
			next = LIST_NEXT(p, link);
			/*
			 * A send in flight does the same, and while our port is down no answer can
			 * arrive.
			 */
			if (p->up && p->heard_ns < since_ns &&
			    p->n_sends == 0 && vs->free_send != SENDS_ALL &&
			    !verbs_port_is_down(p->control.id))
				probe(p);
		}
}

void verbs_peer_sent(struct verbs_server *vs, const struct arrival *a)
{
	struct send_slot *s = &vs->sends[a->slot % SENDS_ALL];
	struct verbs_peer *p = s->peer;
	const char *why;

	/* The slot may have another owner since peer_finish(). */
	if (!p || p->control.qp->qp_num != a->qp_num)
		return;
	slot_free(vs, a->slot % SENDS_ALL);
	if (p->ending)
		return;
	if (a->status != IBV_WC_SUCCESS) {
		(void)verbs_status_error(a->status, &why);
		verbs_peer_gone(p, a->status == IBV_WC_RETRY_EXC_ERR ?
				     "the client's machine does not answer" : why);
		return;
	}
	p->heard_ns = clock_now_ns();
	if (p->wants_room) {
		p->wants_room = false;
		vs->cfg.ops->on_room(vs->cfg.arg, p);
	}
}

/* ---- connections ------------------------------------------------------------------ */

static void refuse(struct rdma_cm_id *id, enum verbs_reject reason)
{
	struct verbs_private p;

	verbs_private_fill(&p, VERBS_REFUSAL);
	p.reason = (uint8_t)reason;
	(void)rdma_reject(id, &p, sizeof(p));
}

static int accept_conn(struct verbs_server *vs, struct verbs_conn *c,
		       unsigned rights, uint8_t depth)
{
	struct verbs_private p;
	struct rdma_conn_param cp = {.private_data = &p,
				     .private_data_len = sizeof(p),
				     .responder_resources = depth,
				     .rnr_retry_count = VERBS_RNR_RETRY,
				     .qp_num = c->qp->qp_num};
	uint8_t timeout = vs->cfg.tuning.ack_timeout;
	int err;

	(void)rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			      &timeout, sizeof(timeout));
	c->tos = vs->cfg.tuning.tos;
	verbs_private_fill(&p, VERBS_CONTROL);
	err = verbs_qp_init(c, rights);
	if (!err)
		err = verbs_qp_connect(c, depth, 0);
	if (!err && rdma_accept(c->id, &cp))
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot accept an RDMA connection");
	return err;
}

static void name_peer(struct verbs_peer *p)
{
	verbs_format_address(rdma_get_peer_addr(p->control.id),
			     ntohs(rdma_get_dst_port(p->control.id)), p->name,
			     sizeof(p->name));
}

/* Log a failed connection. Rate limited, because anybody can cause them. */
static void log_failure(struct verbs_server *vs)
{
	uint64_t now = clock_now_ns();

	(void)report_dropped(vs, now);
	if (rate_limit_take(&vs->complaints, 1, NS_PER_SEC, now))
		log_warn("rdma: a connection failed (its client may have given "
			 "up): %s", err_detail());
	else
		vs->cfg.ops->on_tick_due(vs->cfg.arg);
}

/* Accept a control connection, without rights to memory. */
static int control_accept(struct verbs_server *vs, struct rdma_cm_id *id)
{
	struct verbs_qp_spec spec = {.pd = vs->dev.pd,
				     .send_cq = vs->cq,
				     .recv_cq = vs->cq,
				     .srq = vs->srq,
				     .max_send = VERBS_SENDS};
	struct verbs_peer *p;
	int reason = vs->cfg.ops->on_request(vs->cfg.arg);

	if (reason)
		return reason;
	p = calloc(1, sizeof(*p));
	if (!p)
		return VERBS_REJECT_INTERNAL;
	p->server = vs;
	p->begun_ns = p->heard_ns = clock_now_ns();
	p->control.id = id;
	spec.context = p;
	if (verbs_qp_create(&p->control, &spec))
		goto err_free;
	/* The client may send as soon as it is accepted. */
	verbs_inbox_join(p);
	if (accept_conn(vs, &p->control, 0, 0))
		goto err_leave;
	id->context = p;
	name_peer(p);
	vs->n.connections++;
	vs->cfg.ops->on_tick_due(vs->cfg.arg);
	return 0;

err_leave:
	verbs_inbox_remove(p);
err_free:
	log_failure(vs);
	p->control.id = NULL;
	verbs_conn_destroy(&p->control);
	free(p);
	return VERBS_REJECT_INTERNAL;
}

static int data_accept(struct verbs_server *vs, struct rdma_cm_id *id,
		       const struct verbs_private *priv, uint8_t asked)
{
	struct verbs_qp_spec spec = {.pd = vs->dev.pd,
				     .send_cq = vs->data_cq,
				     .recv_cq = vs->data_cq,
				     .max_send = 1,
				     .max_recv = 1};
	unsigned rights = IBV_ACCESS_REMOTE_READ;
	uint8_t depth = UTIL_MIN(asked, vs->dev.serve_depth);
	struct verbs_peer *p;
	bool readonly = true;
	int reason;

	reason = vs->cfg.ops->on_data(vs->cfg.arg, priv->session, priv->token,
				      &p, &readonly);
	if (reason)
		return reason;
	if (p->data.id || p->ending || depth == 0)
		return VERBS_REJECT_SESSION;
	if (!readonly)
		rights |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	p->data.id = id;
	spec.context = p;
	if (verbs_qp_create(&p->data, &spec) ||
	    accept_conn(vs, &p->data, rights, depth)) {
		log_failure(vs);
		p->data.id = NULL;
		verbs_conn_destroy(&p->data);
		return VERBS_REJECT_INTERNAL;
	}
	id->context = p;
	return 0;
}

/* False: the connection is refused and the caller destroys the id. */
static bool on_request(struct verbs_server *vs, struct rdma_cm_id *id,
		       const struct rdma_conn_param *param)
{
	struct verbs_private priv;
	int reason;

	id->context = NULL;
	if (id->verbs != vs->dev.ctx)
		reason = VERBS_REJECT_DEVICE;
	else if (!verbs_private_read(param->private_data,
				     param->private_data_len, &priv))
		reason = VERBS_REJECT_PROTOCOL;
	else if (priv.kind == VERBS_CONTROL)
		reason = control_accept(vs, id);
	else if (priv.kind == VERBS_DATA)
		reason = data_accept(vs, id, &priv, param->responder_resources);
	else
		reason = VERBS_REJECT_PROTOCOL;
	if (!reason)
		return true;
	vs->n.rejected++;
	refuse(id, (enum verbs_reject)reason);
	return false;
}

void verbs_device_lost(struct verbs_server *vs, const char *why)
{
	if (vs->lost)
		return;
	vs->lost = true;
	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		while (!LIST_EMPTY(&vs->peers[i]))
			verbs_peer_gone(LIST_FIRST(&vs->peers[i]), why);
	vs->cfg.ops->on_device_lost(vs->cfg.arg, why);
}

void verbs_peer_established(struct verbs_peer *p)
{
	const struct verbs_server *vs = p->server;

	if (p->ending || p->up)
		return;
	p->up = true;
	if (!vs->cfg.ops->on_connected(vs->cfg.arg, p)) {
		p->up = false;
		verbs_peer_gone(p, "refused");
	}
}

static void cm_event(struct verbs_server *vs, struct rdma_cm_id *id,
		     enum rdma_cm_event_type type)
{
	struct verbs_peer *p = id->context;

	switch (type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if (p && id == p->data.id)
			p->data_up = true;
		else if (p)
			verbs_peer_established(p);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (p)
			verbs_peer_hang_up(p,
					   "the client closed the connection");
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		if (p && id != vs->listener)
			verbs_peer_gone(p, rdma_event_str(type));
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_device_lost(vs, "the RDMA device was removed");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		log_debug("rdma: %s was not expected", rdma_event_str(type));
	}
}

void verbs_cm_dispatch(struct verbs_server *vs)
{
	struct rdma_cm_event *ev;

	while (!rdma_get_cm_event(vs->channel, &ev)) {
		enum rdma_cm_event_type type = ev->event;
		struct rdma_conn_param param = ev->param.conn;
		struct rdma_cm_id *id = ev->id;
		uint8_t priv[256];

		if (type != RDMA_CM_EVENT_CONNECT_REQUEST) {
			rdma_ack_cm_event(ev);
			cm_event(vs, id, type);
			continue;
		}
		/* The event's private data are freed by its acknowledgement. */
		if (param.private_data)
			memcpy(priv, param.private_data, param.private_data_len);
		param.private_data = param.private_data ? priv : NULL;
		rdma_ack_cm_event(ev);
		if (!on_request(vs, id, &param))
			VERBS_RELEASE("a refused connection",
				      rdma_destroy_id(id));
	}
}

void verbs_peers_destroy(struct verbs_server *vs)
{
	(void)report_dropped(vs, UINT64_MAX); /* flush the count */
	for (unsigned i = 0; i < PEER_BUCKETS; i++)
		while (!LIST_EMPTY(&vs->peers[i]))
			peer_end(LIST_FIRST(&vs->peers[i]));
	while (!LIST_EMPTY(&vs->ending)) {
		struct verbs_peer *p = LIST_FIRST(&vs->ending);

		verbs_qp_error(&p->control);
		peer_finish(p);
	}
}
