/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's end: event channel, control connection, data connection.
 *
 * The caller's thread connects before any other thread knows the connection. From then on
 * one thread handles events and receives; any thread may send.
 */
#include "config.h"

#include "ctrl_messages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "device.h"
#include "lane.h"
#include "memory.h"
#include "private_data.h"
#include "probe.h"
#include "release.h"

#define RESOLVE_MS_MAX 2000
/*
 * Pause after an RNR NAK from a client. A client whose process is stopped posts no
 * receives, and its server may retry for hours, so the pause is long.
 */
#define VERBS_CTRL_RNR_TIMER 14u /* 1.28 ms */

/* ---- waiting for rdma_cm ---------------------------------------------------------- */

static int ms_until(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns();

	if (now >= deadline_ns)
		return 0;
	return (int)UTIL_MIN((deadline_ns - now) / NS_PER_MS + 1, 60000u);
}

static int no_answer(const struct verbs_ctrl *l)
{
	return err_set(FARKV_ETIMEDOUT,
		       "%s did not answer in time; is the server stopped, or a "
		       "firewall in the way (UDP port 4791)?",
		       l->peer_text);
}

static int event_error(const struct verbs_ctrl *l,
		       const struct rdma_cm_event *ev)
{
	int errnum = ev->status < 0 ? -ev->status : 0;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return err_set(FARKV_ENOROUTE,
			       "no RDMA way to %s (%s): is the host up, and on "
			       "a network of an RDMA device? kvcli devices "
			       "lists them",
			       l->peer_text,
			       errnum ? strerror(errnum) : "no route");
	case RDMA_CM_EVENT_UNREACHABLE:
		return no_answer(l);
	case RDMA_CM_EVENT_REJECTED:
		return verbs_refusal_error(ev->status,
					   ev->param.conn.private_data,
					   ev->param.conn.private_data_len,
					   l->peer_text);
	default:
		return err_set(FARKV_EDISCONNECTED,
			       "connecting to %s failed with %s (%d)",
			       l->peer_text, rdma_event_str(ev->event),
			       ev->status);
	}
}

/* The address or route was not found because the deadline passed. */
static bool is_late(const struct rdma_cm_event *ev, uint64_t deadline_ns)
{
	return (ev->event == RDMA_CM_EVENT_ADDR_ERROR ||
		ev->event == RDMA_CM_EVENT_ROUTE_ERROR) &&
	       clock_now_ns() >= deadline_ns;
}

/*
 * Wait for one event of `id`; a disconnect of the other connection is an error too.
 * `depth_out` (may be NULL): how many READs the peer serves.
 */
static int event_wait(struct verbs_ctrl *l, struct rdma_cm_id *id,
		      enum rdma_cm_event_type wanted, uint64_t deadline_ns,
		      uint8_t *depth_out)
{
	for (;;) {
		struct rdma_cm_event *ev =
			verbs_cm_event(l->channel, ms_until(deadline_ns));
		int err = 0;
		bool mine;

		if (!ev) {
			if (clock_now_ns() >= deadline_ns)
				return no_answer(l);
			continue;
		}
		mine = ev->id == id;
		if (!mine && ev->event == RDMA_CM_EVENT_DISCONNECTED)
			err = err_set(FARKV_EDISCONNECTED,
				      "%s closed the connection", l->peer_text);
		else if (mine && ev->event != wanted)
			err = is_late(ev, deadline_ns) ? no_answer(l) :
							 event_error(l, ev);
		else if (mine && depth_out)
			*depth_out = ev->param.conn.initiator_depth;
		rdma_ack_cm_event(ev);
		if (err || mine)
			return err;
	}
}

/* ---- one connection --------------------------------------------------------------- */

static int sys_error(const char *what)
{
	return err_set_errno(FARKV_ESYS, errno, "cannot %s", what);
}

/* Resolve address and route to the peer; then id->verbs is the device. */
static int resolve(struct verbs_ctrl *l, struct rdma_cm_id *id,
		   uint64_t deadline_ns)
{
	int ms = UTIL_MIN(ms_until(deadline_ns), RESOLVE_MS_MAX);
	int err;

	if (ms == 0)
		return no_answer(l);
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&l->peer, ms))
		return err_set(FARKV_ENOROUTE,
			       "no RDMA way to %s (%s): kvcli devices lists "
			       "this machine's RDMA devices and addresses",
			       l->peer_text, strerror(errno));
	err = event_wait(l, id, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns, NULL);
	if (!err)
		err = verbs_id_tune(id, &l->tuning);
	if (err)
		return err;
	/* The connect request could not go out; see release.c. */
	if (verbs_port_is_down(id))
		return err_set(FARKV_ENOROUTE,
			       "the RDMA port on the way to %s is down",
			       l->peer_text);
	ms = UTIL_MIN(ms_until(deadline_ns), RESOLVE_MS_MAX);
	if (ms == 0)
		return no_answer(l);
	if (!id->verbs || rdma_resolve_route(id, ms))
		return err_set(FARKV_ENOROUTE,
			       "no RDMA device leads to %s; kvcli devices lists "
			       "this machine's devices and addresses",
			       l->peer_text);
	return event_wait(l, id, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns,
			  NULL);
}

/* Connect a QP in INIT: to RTS and established. */
static int connect_qp(struct verbs_ctrl *l, struct verbs_conn *c,
		       const struct verbs_private *p, uint8_t depth,
		       uint64_t deadline_ns)
{
	struct rdma_conn_param cp = {
		.private_data = p,
		.private_data_len = sizeof(*p),
		.initiator_depth = depth,
		.retry_count = VERBS_RETRY_COUNT,
		.rnr_retry_count = VERBS_RNR_RETRY,
		.qp_num = c->qp->qp_num,
	};
	uint8_t granted = 0;
	int err;

	if (rdma_connect(c->id, &cp))
		return sys_error("connect by RDMA");
	err = event_wait(l, c->id, RDMA_CM_EVENT_CONNECT_RESPONSE, deadline_ns,
			 &granted);
	if (err)
		return err;
	granted = UTIL_MIN(granted, depth);
	/* With depth 0 the first READ would hang for ever. */
	if (depth && granted == 0)
		return err_set(FARKV_EPROTOCOL,
			       "the server at %s grants no outstanding READs",
			       l->peer_text);
	err = verbs_qp_connect(c, 0, granted);
	if (err)
		return err;
	if (rdma_establish(c->id))
		return sys_error("establish the RDMA connection");
	return 0;
}

/* ---- the control connection ------------------------------------------------------- */

static int queues_create(struct verbs_ctrl *l)
{
	struct ibv_context *ctx = l->ctx;

	l->pd = ibv_alloc_pd(ctx);
	if (!l->pd)
		return sys_error("allocate a protection domain");
	l->comp = ibv_create_comp_channel(ctx);
	if (!l->comp)
		return sys_error("create a completion channel");
	if (verbs_fd_prepare(l->comp->fd) || verbs_fd_prepare(ctx->async_fd))
		return FARKV_ESYS;
	l->recv_cq = ibv_create_cq(ctx, VERBS_CTRL_RECVS + 1, l, l->comp, 0);
	l->send_cq = ibv_create_cq(ctx, VERBS_SENDS + 1, l, NULL, 0);
	if (!l->recv_cq || !l->send_cq)
		return sys_error("create a completion queue");
	/* mmap, so that a child of fork() shares no page with the card. */
	l->bufs = mmap(NULL, VERBS_CTRL_BUFS, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->bufs == MAP_FAILED) {
		l->bufs = NULL;
		return err_set(FARKV_ENOMEM, "no memory for a connection");
	}
	(void)madvise(l->bufs, VERBS_CTRL_BUFS, MADV_DONTFORK);
	l->mr = ibv_reg_mr(l->pd, l->bufs, VERBS_CTRL_BUFS, IBV_ACCESS_LOCAL_WRITE);
	if (!l->mr)
		return verbs_reg_error(errno, VERBS_CTRL_BUFS, "messages");
	l->sends_free = (1u << VERBS_SENDS) - 1;
	if (ibv_req_notify_cq(l->recv_cq, 0))
		return sys_error("arm a completion queue");
	return 0;
}

static int control_connect(struct verbs_ctrl *l, uint64_t deadline_ns)
{
	struct verbs_private p;
	int err;

	if (rdma_create_id(l->channel, &l->control.id, NULL, RDMA_PS_TCP))
		return sys_error("create an RDMA connection");
	err = resolve(l, l->control.id, deadline_ns);
	if (!err)
		err = verbs_context_get(l->control.id->verbs, &l->ctx,
					&l->own_ctx);
	if (!err)
		err = queues_create(l);
	if (!err) {
		struct verbs_qp_spec spec = {.pd = l->pd,
					     .send_cq = l->send_cq,
					     .recv_cq = l->recv_cq,
					     .max_send = VERBS_SENDS,
					     .max_recv = VERBS_CTRL_RECVS,
					     .max_inline = 64,
					     .context = l};

		err = verbs_qp_create(&l->control, &spec);
	}
	if (!err)
		/*
		 * The server's probe, a WRITE of 0 bytes, needs this right. The server gets no
		 * rkey, so it can write nothing.
		 */
		err = verbs_qp_init(&l->control, IBV_ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; !err && i < VERBS_CTRL_RECVS; i++)
		if (verbs_ctrl_post_recv(l, i))
			err = sys_error("post a receive");
	if (err)
		return err;
	l->control.rnr_timer = VERBS_CTRL_RNR_TIMER;
	verbs_private_fill(&p, VERBS_CONTROL);
	return connect_qp(l, &l->control, &p, 0, deadline_ns);
}

/* ---- open and close --------------------------------------------------------------- */

/* Undo the attempt at one address. */
static void link_reset(struct verbs_ctrl *l)
{
	verbs_conn_destroy(&l->control);
	if (l->mr)
		VERBS_RELEASE("memory", ibv_dereg_mr(l->mr));
	if (l->bufs)
		munmap(l->bufs, VERBS_CTRL_BUFS);
	if (l->recv_cq) {
		ibv_ack_cq_events(l->recv_cq, l->unacked);
		VERBS_RELEASE("a completion queue", ibv_destroy_cq(l->recv_cq));
	}
	if (l->send_cq)
		VERBS_RELEASE("a completion queue", ibv_destroy_cq(l->send_cq));
	if (l->comp)
		VERBS_RELEASE("a completion channel",
			      ibv_destroy_comp_channel(l->comp));
	if (l->pd)
		VERBS_RELEASE("a protection domain", ibv_dealloc_pd(l->pd));
	if (l->own_ctx)
		VERBS_RELEASE("a device", ibv_close_device(l->ctx));
	l->own_ctx = false;
	l->mr = NULL;
	l->bufs = NULL;
	l->recv_cq = l->send_cq = NULL;
	l->comp = NULL;
	l->pd = NULL;
	l->unacked = 0;
}

static void link_free(struct verbs_ctrl *l)
{
	link_reset(l);
	if (l->channel)
		rdma_destroy_event_channel(l->channel);
	/* The program may have closed these descriptors and reused their numbers. */
	if (wakeup_knows(&l->more, l->epoll_fd))
		close(l->epoll_fd);
	wakeup_close(&l->more);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int watch(struct verbs_ctrl *l)
{
	int fds[] = {l->more.fd[0], l->channel->fd, l->comp->fd,
		     l->pd->context->async_fd};

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return sys_error("create an epoll descriptor");
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		struct epoll_event ev = {.events = EPOLLIN};

		if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev))
			return sys_error("watch the RDMA connection");
	}
	return 0;
}

static int channel_open(struct verbs_ctrl *l)
{
	char hint[300];
	int errnum;

	l->channel = rdma_create_event_channel();
	if (l->channel)
		return verbs_fd_prepare(l->channel->fd);
	errnum = errno;
	rdma_probe_hint(hint, sizeof(hint));
	return err_set(FARKV_ENOTSUP, "no RDMA on this machine (%s)%s%s",
		       strerror(errnum), hint[0] ? ": " : "", hint);
}

static int lookup(const struct verbs_dial *d, struct addrinfo **list_out)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	int rc = getaddrinfo(d->host, d->port, &hints, list_out);

	if (rc)
		return err_set(FARKV_ENOROUTE, "unknown host '%s': %s", d->host,
			       rc == EAI_SYSTEM ? strerror(errno) :
						  gai_strerror(rc));
	rc = verbs_scope_check(d->host, (*list_out)->ai_addr);
	if (rc)
		freeaddrinfo(*list_out);
	return rc;
}

static void peer_set(struct verbs_ctrl *l, const struct addrinfo *a)
{
	char where[80];

	memset(&l->peer, 0, sizeof(l->peer));
	memcpy(&l->peer, a->ai_addr, a->ai_addrlen);
	/* sin6_port is at the offset of sin_port. */
	verbs_format_address(a->ai_addr,
			     ntohs(((struct sockaddr_in *)&l->peer)->sin_port),
			     where, sizeof(where));
	snprintf(l->peer_text, sizeof(l->peer_text), "kv://%s", where);
}

/* After a failure to connect: report this machine's own port if it is down. */
static int link_down(int err)
{
	char hint[400];

	if ((err == FARKV_ENOROUTE || err == FARKV_ETIMEDOUT) &&
	    rdma_probe_hint(hint, sizeof(hint)) == RDMA_PORT_DOWN)
		return err_set(FARKV_ELINKDOWN, "%s", hint);
	return err;
}

int verbs_ctrl_open(const struct verbs_dial *d, struct verbs_ctrl **out)
{
	struct addrinfo *list = NULL;
	struct verbs_ctrl *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return err_set(FARKV_ENOMEM, "no memory for a connection");
	(void)verbs_release_deferred();
	l->epoll_fd = -1;
	l->pid = getpid();
	l->tuning = d->tuning;
	pthread_mutex_init(&l->lock, NULL);
	errno = wakeup_open(&l->more);
	err = errno ? sys_error("create a pair of sockets") : channel_open(l);
	if (!err)
		err = lookup(d, &list);
	if (err)
		goto err_free;
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		peer_set(l, a);
		err = control_connect(l, d->deadline_ns);
		if (!err || clock_now_ns() >= d->deadline_ns || !a->ai_next)
			break;
		link_reset(l);
	}
	freeaddrinfo(list);
	err = link_down(err);
	if (!err)
		err = watch(l);
	if (err)
		goto err_free;
	*out = l;
	return 0;

err_free:
	link_free(l);
	return err;
}

void verbs_ctrl_close(struct verbs_ctrl *l)
{
	if (!l)
		return;
	/* The device belongs to the parent of fork(). */
	if (l->pid != getpid())
		return;
	verbs_conn_disconnect(&l->control);
	link_free(l);
}

void verbs_ctrl_forked(struct verbs_ctrl *l)
{
	close(l->channel->fd);
	wakeup_close(&l->more);
}

int verbs_lane_open(struct verbs_ctrl *l, const struct verbs_lane_params *p,
		    struct xport_lane **out)
{
	struct verbs_conn c = {0};
	struct verbs_private priv;
	struct verbs_lane *lane = NULL;
	struct verbs_qp_spec spec = {.max_send = VERBS_LANE_SQ,
				     .max_inline = VERBS_INLINE};
	uint8_t serve, ask;
	int err;

	if (rdma_create_id(l->channel, &c.id, NULL, RDMA_PS_TCP))
		return sys_error("create an RDMA connection");
	err = resolve(l, c.id, p->deadline_ns);
	if (!err && c.id->verbs->device != l->ctx->device)
		err = err_set(FARKV_EDISCONNECTED,
			      "the way to %s changed to another device",
			      l->peer_text);
	if (!err)
		err = verbs_device_depths(l->ctx, &serve, &ask);
	if (!err) {
		err = verbs_lane_new(l->pd, l, p, &lane);
	}
	if (!err) {
		spec.pd = l->pd;
		spec.max_sge = verbs_device_sges(l->ctx);
		spec.send_cq = spec.recv_cq = verbs_lane_cq(lane);
		spec.context = l;
		err = verbs_qp_create(&c, &spec);
	}
	if (!err)
		err = verbs_qp_init(&c, 0);
	if (!err) {
		verbs_private_fill(&priv, VERBS_DATA);
		priv.session = htonl(p->session);
		memcpy(priv.token, p->token, sizeof(priv.token));
		err = connect_qp(l, &c, &priv, ask, p->deadline_ns);
	}
	if (!err)
		err = verbs_lane_start(lane, &c);
	if (err) {
		verbs_conn_destroy(&c);
		verbs_lane_abandon(lane);
		return err;
	}
	*out = verbs_lane_base(lane);
	return 0;
}
