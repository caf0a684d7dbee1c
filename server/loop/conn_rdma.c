/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "conn_rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/proto/auth.h"
#include "common/rdma/verbs.h"

#include "core.h"
#include "dispatch.h"
#include "grow.h"
#include "session.h"
#include "welcome.h"

/*
 * The machine of a client may die silently, and an idle session sends nothing. So the server
 * probes each client not heard of for 10 s. That is short compared with the cost of leaked
 * memory or a delayed barrier, and one small packet in 10 s is cheap even for thousands of
 * clients. A dead machine is detected when the retries are used up (0.5 s unless
 * --ack-timeout changes it); a stopped process is not affected.
 */
#define SILENCE_NS (10 * NS_PER_SEC)
/* Seconds between two looks; only while there are remote sessions. */
#define LOOK_S 2

struct conn_rdma {
	struct control *control;
	struct verbs_server *server;
	struct event *ready;
	struct event *look; /* probes silent machines */
	uint32_t n_sessions;
};

/* ---- operations of a connection -------------------------------------------- */

static int rdma_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	(void)fds;
	(void)n_fds;
	return xport_verbs->peer_send(conn, buf, len);
}

static void rdma_fence(void *conn)
{
	xport_verbs->peer_fence(conn);
}

static void rdma_close(void *conn)
{
	const struct session *s = xport_verbs->peer_user(conn);
	struct conn_rdma *p = s->control->rdma;

	if (--p->n_sessions == 0)
		event_del(p->look);
	xport_verbs->peer_close(conn);
}

static const char *rdma_peer(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", xport_verbs->peer_name(conn));
	return buf;
}

static const struct conn_ops rdma_ops = {
	.remote = true,
	.send = rdma_send,
	.fence = rdma_fence,
	.close = rdma_close,
	.peer = rdma_peer,
};

/* ---- silent machines -------------------------------------------------------------- */

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	xport_verbs->server_probe(((struct conn_rdma *)arg)->server,
			   clock_now_ns() - SILENCE_NS);
}

/* ---- callbacks of the transport --------------------------------------------- */

static int on_request(void *arg)
{
	struct conn_rdma *p = arg;
	struct control *c = p->control;
	struct verbs_server_counters n;

	if (c->drain_until)
		return VERBS_REJECT_SHUTDOWN;
	xport_verbs->server_counters(p->server, &n);
	/* Includes connections that are being made. */
	if (c->n_connections >= c->cfg.max_sessions ||
	    n.connections >= c->cfg.max_sessions)
		return VERBS_REJECT_FULL;
	return 0;
}

static bool on_connected(void *arg, struct verbs_peer *peer)
{
	struct conn_rdma *p = arg;
	static const struct timeval look = {.tv_sec = LOOK_S};
	struct session *s = session_new(p->control, &rdma_ops, peer);

	if (!s)
		return false;
	xport_verbs->peer_set_user(peer, s);
	if (p->n_sessions++ == 0)
		event_add(p->look, &look);
	welcome_begin(s);
	return true;
}

static bool may_take(void *arg, struct verbs_peer *peer)
{
	const struct session *s = xport_verbs->peer_user(peer);

	(void)arg;
	return !s || session_may_take(s);
}

static void on_overrun(void *arg, struct verbs_peer *peer, bool no_memory)
{
	struct session *s = xport_verbs->peer_user(peer);

	(void)arg;
	if (s && no_memory)
		session_refuse(s, MSG_REASON_INTERNAL,
			       "no memory for its messages");
	else if (s)
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "it sent more messages than can be held");
}

static void on_message(void *arg, struct verbs_peer *peer, const void *buf,
		       size_t len)
{
	struct session *s = xport_verbs->peer_user(peer);

	(void)arg;
	if (s)
		(void)dispatch_packet(s, buf, len);
}

static void on_room(void *arg, struct verbs_peer *peer)
{
	struct session *s = xport_verbs->peer_user(peer);

	(void)arg;
	if (s && !session_flush(s))
		session_end(s);
}

static void on_gone(void *arg, struct verbs_peer *peer, const char *why)
{
	struct session *s = xport_verbs->peer_user(peer);

	(void)arg;
	if (!s)
		return;
	log_debug("session %u (%s): %s", s->id, xport_verbs->peer_name(peer), why);
	session_end(s);
}

/* Takes the same time wherever two tokens differ. */
static bool token_is(const uint8_t *a, const uint8_t *b)
{
	uint8_t x[AUTH_TAG_BYTES] = {0}, y[AUTH_TAG_BYTES] = {0};

	memcpy(x, a, MSG_TOKEN_BYTES);
	memcpy(y, b, MSG_TOKEN_BYTES);
	return auth_equal(x, y);
}

static int on_data(void *arg, uint32_t session, const uint8_t *token,
		   struct verbs_peer **peer_out, bool *readonly_out)
{
	struct conn_rdma *p = arg;
	struct session *s;

	TAILQ_FOREACH(s, &p->control->sessions, link)
		if (s->welcomed && !s->left && s->port->remote &&
		    s->id == session)
			break;
	if (!s || !token_is(token, s->token))
		return VERBS_REJECT_SESSION;
	*peer_out = s->conn;
	*readonly_out = s->readonly;
	return 0;
}

static void on_device_lost(void *arg, const char *why)
{
	struct conn_rdma *p = arg;

	log_error("%s: remote clients cannot reach the store any more; leaving",
		  why);
	core_fail(p->control);
}

static void on_tick_due(void *arg)
{
	core_tick_soon(((struct conn_rdma *)arg)->control);
}

static void on_lane(void *arg)
{
	grow_lane_back(((struct conn_rdma *)arg)->control);
}

static const struct verbs_server_ops server_ops = {
	.on_request = on_request,
	.on_connected = on_connected,
	.may_take = may_take,
	.on_overrun = on_overrun,
	.on_message = on_message,
	.on_room = on_room,
	.on_gone = on_gone,
	.on_data = on_data,
	.on_device_lost = on_device_lost,
	.on_tick_due = on_tick_due,
	.on_lane = on_lane,
};

/* ---- life ------------------------------------------------------------------------------ */

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	xport_verbs->server_dispatch(((struct conn_rdma *)arg)->server);
}

int conn_rdma_open(struct control *c, const struct verbs_server_config *cfg,
		   struct conn_rdma **out)
{
	struct verbs_server_config vc = *cfg;
	struct conn_rdma *p;
	int err;

	if (!xport_verbs)
		return err_set(FARKV_ENOTSUP, XPORT_VERBS_NONE);
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(FARKV_ENOMEM, "no memory for the RDMA port");
	p->control = c;
	vc.msg_max = MSG_MAX_BYTES;
	vc.meta = c->region->meta;
	vc.data = c->region->data;
	vc.meta_bytes = c->region->sb.meta_bytes;
	vc.region_bytes = c->region->sb.region_bytes;
	vc.heat = c->region->heat;
	vc.heat_bytes = c->region->sb.heat_bytes;
	vc.ops = &server_ops;
	vc.arg = p;
	err = xport_verbs->server_open(&vc, &p->server);
	if (err)
		goto err_free;
	p->ready = event_new(c->base, xport_verbs->server_fd(p->server),
			     EV_READ | EV_PERSIST, on_ready, p);
	p->look = event_new(c->base, -1, EV_PERSIST, on_look, p);
	if (!p->look || !p->ready || event_add(p->ready, NULL)) {
		err = err_set(FARKV_ENOMEM, "no memory for the RDMA port");
		goto err_close;
	}
	c->verbs = p->server;
	*out = p;
	return 0;

err_close:
	core_event_free(p->ready);
	core_event_free(p->look);
	xport_verbs->server_close(p->server);
err_free:
	free(p);
	return err;
}

void conn_rdma_close(struct conn_rdma *p)
{
	if (!p)
		return;
	event_free(p->ready);
	event_free(p->look);
	xport_verbs->server_close(p->server);
	p->control->verbs = NULL;
	free(p);
}

bool conn_rdma_tick(struct conn_rdma *p)
{
	return xport_verbs->server_tick(p->server);
}
