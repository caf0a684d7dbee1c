/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's end: one listener, one device, one SRQ. Two threads: the receive thread
 * (recv_thread.c), and the server's loop, which does everything else and owns all
 * peers.
 */
#include "config.h"

#include "server_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "arrivals.h"
#include "loopback.h"
#include "peer.h"
#include "recv_thread.h"
#include "release.h"

#define BACKLOG 256

/* A listener without a server; see verbs.h. */
struct verbs_claim {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int errnum; /* why the bind failed */
};

static int sys_error(const char *what)
{
	return err_set_errno(FARKV_ESYS, errno, "cannot %s", what);
}

/* ---- asynchronous events --------------------------------------------------------- */

static void srq_arm(struct verbs_server *vs)
{
	struct ibv_srq_attr a = {.srq_limit = UTIL_MAX(vs->cfg.n_recv / 4, 1u)};

	VERBS_RELEASE("the shared queue's limit",
		      ibv_modify_srq(vs->srq, &a, IBV_SRQ_LIMIT));
}

static void async_event(struct verbs_server *vs, const struct ibv_async_event *e)
{
	const char *name = ibv_event_type_str(e->event_type);

	vs->n.async_events++;
	switch (e->event_type) {
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		vs->n.limit_events++;
		log_debug("rdma: few receive buffers left (of %u; "
			  "--control-buffers)", vs->cfg.n_recv);
		/* The receive thread may not have seen the event yet. */
		verbs_move_all(vs);
		srq_arm(vs);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		log_warn("rdma: %s", name);
		if (e->element.qp->qp_context)
			verbs_peer_gone(e->element.qp->qp_context, name);
		break;
	case IBV_EVENT_PORT_ERR:
		log_warn("rdma: the port is down (%s)", name);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		log_info("rdma: the port is up again");
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		log_info("rdma: %s", name);
		break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		log_error("rdma: %s: nothing can be received any more", name);
		verbs_device_lost(vs, name);
		break;
	default:
		log_debug("rdma: %s", name);
	}
}

static void async_dispatch(struct verbs_server *vs)
{
	struct ibv_async_event e;

	/*
	 * Acknowledge first: a QP with an unacknowledged event cannot be destroyed, and the
	 * event may lead to that. Only this thread destroys QPs.
	 */
	while (!ibv_get_async_event(vs->dev.ctx, &e)) {
		ibv_ack_async_event(&e);
		async_event(vs, &e);
	}
}

/* ---- the loop -------------------------------------------------------------------- */

int verbs_server_fd(const struct verbs_server *vs)
{
	return vs->epoll_fd;
}

void verbs_server_dispatch(struct verbs_server *vs)
{
	/* Messages that clients sent before they hung up come first. */
	verbs_arrivals_dispatch(vs);
	verbs_cm_dispatch(vs);
	async_dispatch(vs);
}

bool verbs_server_tick(struct verbs_server *vs)
{
	uint64_t now = clock_now_ns();
	bool again = verbs_peers_tick(vs, now);

	again = verbs_release_deferred() || again;
	again = verbs_loopback_tick(vs, now) || again;
	/* The loopback may have found the device lost and ended all peers. */
	return again || !LIST_EMPTY(&vs->ending);
}

/* ---- open ------------------------------------------------------------------------ */

static int region_register(struct verbs_server *vs)
{
	const struct verbs_server_config *c = &vs->cfg;
	uint64_t data_bytes = c->region_bytes - c->meta_bytes;
	int rw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	/* Remote addresses are offsets, so they reveal no server address. */
	vs->meta_mr = ibv_reg_mr_iova(vs->dev.pd, c->meta, c->meta_bytes, 0,
				      IBV_ACCESS_REMOTE_READ);
	if (!vs->meta_mr)
		return verbs_reg_error(errno, c->meta_bytes, "the directory");
	vs->data_rw_mr = ibv_reg_mr_iova(vs->dev.pd, c->data, data_bytes,
					 c->meta_bytes, rw);
	if (!vs->data_rw_mr)
		return verbs_reg_error(errno, data_bytes, "the region");
	vs->data_ro_mr = ibv_reg_mr_iova(vs->dev.pd, c->data, data_bytes,
					 c->meta_bytes, IBV_ACCESS_REMOTE_READ);
	if (!vs->data_ro_mr)
		return verbs_reg_error(errno, data_bytes,
				       "the region (for readers)");
	if (!c->heat)
		return 0;
	vs->heat_mr = ibv_reg_mr_iova(vs->dev.pd, c->heat, c->heat_bytes, c->region_bytes,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!vs->heat_mr)
		return verbs_reg_error(errno, c->heat_bytes, "the heat area");
	return 0;
}

static int queues_create(struct verbs_server *vs)
{
	struct ibv_srq_init_attr a = {
		.attr = {.max_wr = vs->cfg.n_recv, .max_sge = 1}};
	size_t bytes = (size_t)vs->cfg.n_recv * vs->cfg.msg_max;

	vs->comp = ibv_create_comp_channel(vs->dev.ctx);
	if (!vs->comp)
		return sys_error("create a completion channel");
	if (verbs_fd_prepare(vs->comp->fd) ||
	    verbs_fd_prepare(vs->dev.ctx->async_fd))
		return FARKV_ESYS;
	/* Space for every receive and every send at once. */
	vs->cq = ibv_create_cq(vs->dev.ctx, (int)(vs->cfg.n_recv + SENDS_ALL),
			       NULL, vs->comp, 0);
	vs->data_cq = ibv_create_cq(vs->dev.ctx, 1, NULL, NULL, 0);
	vs->srq = ibv_create_srq(vs->dev.pd, &a);
	if (!vs->cq || !vs->data_cq || !vs->srq)
		return sys_error("create the queues for messages");
	vs->recv_bufs = aligned_alloc(4096, util_align_up(bytes, 4096));
	vs->sends = calloc(SENDS_ALL, sizeof(*vs->sends));
	if (!vs->recv_bufs || !vs->sends)
		return err_set(FARKV_ENOMEM, "no memory for messages");
	vs->recv_mr = ibv_reg_mr(vs->dev.pd, vs->recv_bufs, bytes,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!vs->recv_mr)
		return verbs_reg_error(errno, bytes, "messages");
	for (uint32_t i = 0; i < vs->cfg.n_recv; i++)
		if (verbs_recv_post(vs, i))
			return sys_error("post a receive buffer");
	for (uint32_t i = 0; i < SENDS_ALL; i++)
		vs->sends[i].next_free = i + 1;
	verbs_mem_init(&vs->send_mem, vs->dev.pd);
	srq_arm(vs);
	return 0;
}

static int listen_address(const struct verbs_server_config *cfg, int family,
			  struct addrinfo **list_out)
{
	struct addrinfo hints = {.ai_family = family,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE};
	int rc = getaddrinfo(cfg->host, cfg->port, &hints, list_out);

	if (rc == 0)
		return 0;
	return err_set(FARKV_EINVAL, "cannot listen at '%s' port '%s': %s",
		       cfg->host ? cfg->host : "*", cfg->port,
		       gai_strerror(rc));
}

static void address_set(struct verbs_server *vs, const struct sockaddr *sa)
{
	struct sockaddr_storage own;
	char where[80];
	bool any;

	any = sa->sa_family == AF_INET ?
		      ((const struct sockaddr_in *)sa)->sin_addr.s_addr == 0 :
		      IN6_IS_ADDR_UNSPECIFIED(
			      &((const struct sockaddr_in6 *)sa)->sin6_addr);
	if (any && verbs_device_address(&vs->dev, &own))
		sa = (const struct sockaddr *)&own;
	verbs_format_address(sa, ntohs(rdma_get_src_port(vs->listener)), where,
			     sizeof(where));
	snprintf(vs->address, sizeof(vs->address), "kv://%s", where);
}

/*
 * True if another process holds the port. If one of the two listens at every address, rdma_cm
 * returns EADDRNOTAVAIL, as it does for an address that no device has; but such an address cannot
 * be bound to any port.
 */
static bool port_is_taken(const struct verbs_claim *c, const struct sockaddr *at,
			  int errnum)
{
	struct sockaddr_storage any_port = {0};
	struct rdma_cm_id *id;
	bool taken;

	if (errnum != EADDRNOTAVAIL)
		return errnum == EADDRINUSE;
	memcpy(&any_port, at,
	       at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					   sizeof(struct sockaddr_in));
	/* sin6_port is at the offset of sin_port. */
	((struct sockaddr_in *)&any_port)->sin_port = 0;
	if (rdma_create_id(c->channel, &id, NULL, RDMA_PS_TCP))
		return false;
	taken = rdma_bind_addr(id, (struct sockaddr *)&any_port) == 0;
	VERBS_RELEASE("an address", rdma_destroy_id(id));
	return taken;
}

static int bind_error(const struct verbs_server_config *cfg,
		      const struct verbs_claim *c, const struct sockaddr *at,
		      int errnum)
{
	bool ours = errnum != ENODEV && errnum != EADDRNOTAVAIL;

	if (port_is_taken(c, at, errnum))
		return err_set(FARKV_EREFUSED,
			       "address already in use: another server listens "
			       "at %s port %s by RDMA; stop it or choose another "
			       "port with --listen",
			       cfg->host ? cfg->host : "*", cfg->port);
	return err_set(ours ? FARKV_ESYS : FARKV_EINVAL,
		       "cannot listen at %s port %s by RDMA: %s%s",
		       cfg->host ? cfg->host : "*", cfg->port,
		       strerror(errnum),
		       ours ? "" : "; the address must be one of an RDMA device "
				   "(kvcli devices)");
}

/* Create the listener and bind it: to cfg->host, or to the any-address of `family`. */
static int listener_bind(const struct verbs_server_config *cfg, int family,
			 struct verbs_claim *c)
{
	struct addrinfo *list;
	int err, on = 1;

	if (rdma_create_id(c->channel, &c->listener, NULL, RDMA_PS_TCP))
		return sys_error("create an RDMA listener");
	err = listen_address(cfg, family, &list);
	if (err)
		return err;
	(void)rdma_set_option(c->listener, RDMA_OPTION_ID,
			      RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	err = cfg->host ? verbs_scope_check(cfg->host, list->ai_addr) : 0;
	c->errnum = 0;
	if (!err && rdma_bind_addr(c->listener, list->ai_addr)) {
		c->errnum = errno;
		err = bind_error(cfg, c, list->ai_addr, c->errnum);
	}
	freeaddrinfo(list);
	return err;
}

static void claim_drop(struct verbs_claim *c)
{
	if (c->listener)
		VERBS_RELEASE("the listener", rdma_destroy_id(c->listener));
	c->listener = NULL;
}

static void claim_fini(struct verbs_claim *c)
{
	claim_drop(c);
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	c->channel = NULL;
}

static int claim_init(const struct verbs_server_config *cfg, struct verbs_claim *c)
{
	int err;

	c->channel = rdma_create_event_channel();
	if (!c->channel)
		return sys_error("open rdma_cm");
	if (verbs_fd_prepare(c->channel->fd))
		return FARKV_ESYS;
	err = listener_bind(cfg, cfg->host ? AF_UNSPEC : AF_INET6, c);
	/*
	 * Without a host: IPv6's any-address covers IPv4's; IPv4's is for hosts without
	 * IPv6.
	 */
	if (err && !cfg->host && c->errnum != EADDRINUSE) {
		claim_drop(c);
		err = listener_bind(cfg, AF_INET, c);
	}
	if (!err && rdma_listen(c->listener, BACKLOG)) {
		c->errnum = errno;
		err = bind_error(cfg, c, rdma_get_local_addr(c->listener), c->errnum);
	}
	return err;
}

int verbs_claim_open(const struct verbs_server_config *cfg, struct verbs_claim **out)
{
	struct verbs_claim *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return err_set(FARKV_ENOMEM, "no memory for an RDMA listener");
	err = claim_init(cfg, c);
	if (!err) {
		*out = c;
		return 0;
	}
	/* verbs_server_open() reports other failures better, once it has examined the device. */
	err = err == FARKV_EREFUSED ? err : 0;
	claim_fini(c);
	free(c);
	*out = NULL;
	return err;
}

void verbs_claim_close(struct verbs_claim *c)
{
	if (!c)
		return;
	claim_fini(c);
	free(c);
}

/*
 * rdma_cm reports a device's removal only to ids bound to it, which a listener at every address is
 * not.
 */
static void removal_id_bind(struct verbs_server *vs)
{
	struct sockaddr_storage at;

	if (!verbs_device_address(&vs->dev, &at) ||
	    rdma_create_id(vs->channel, &vs->removal_id, NULL, RDMA_PS_TCP))
		return;
	if (rdma_bind_addr(vs->removal_id, (struct sockaddr *)&at))
		log_debug("rdma: cannot watch for removal of the device: %s",
			  strerror(errno));
}

static void removal_id_drop(struct verbs_server *vs)
{
	if (vs->removal_id)
		VERBS_RELEASE("the id that watches the device",
			      rdma_destroy_id(vs->removal_id));
}

/* Take the claim's listener, or listen here. */
static int listen_on(struct verbs_server *vs)
{
	struct verbs_claim *c = vs->cfg.claim, own = {0};
	int err = 0;

	if (!c || !c->listener) {
		c = &own;
		err = claim_init(&vs->cfg, c);
	}
	vs->channel = c->channel;
	vs->listener = c->listener;
	*c = (struct verbs_claim){0};
	if (err)
		return err;
	if (vs->listener->verbs && vs->listener->verbs != vs->dev.ctx)
		return err_set(FARKV_EINVAL,
			       "the address %s belongs to the RDMA device %s, "
			       "the store is on %s; choose with --device",
			       vs->cfg.host,
			       ibv_get_device_name(vs->listener->verbs->device),
			       ibv_get_device_name(vs->dev.ctx->device));
	address_set(vs, rdma_get_local_addr(vs->listener));
	removal_id_bind(vs);
	return 0;
}

static int watch(struct verbs_server *vs)
{
	int fds[3];

	vs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	vs->arrived_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vs->quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vs->epoll_fd < 0 || vs->arrived_fd < 0 || vs->quit_fd < 0)
		return sys_error("create an event descriptor");
	fds[0] = vs->channel->fd;
	fds[1] = vs->arrived_fd;
	fds[2] = vs->dev.ctx->async_fd;
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		struct epoll_event ev = {.events = EPOLLIN};

		if (epoll_ctl(vs->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev))
			return sys_error("watch the RDMA device");
	}
	return 0;
}

int verbs_server_open(const struct verbs_server_config *cfg,
		      struct verbs_server **out)
{
	struct verbs_server *vs = calloc(1, sizeof(*vs));
	struct verbs_area areas[VERBS_AREAS_MAX];
	int err;

	if (!vs)
		return err_set(FARKV_ENOMEM, "no memory for the RDMA server");
	vs->cfg = *cfg;
	vs->epoll_fd = vs->arrived_fd = vs->quit_fd = -1;
	pthread_mutex_init(&vs->lock, NULL);
	STAILQ_INIT(&vs->arrivals);
	TAILQ_INIT(&vs->ready);
	err = verbs_device_open(cfg->device, &vs->dev);
	if (!err)
		err = verbs_device_test(&vs->dev);
	if (!err)
		err = region_register(vs);
	if (!err)
		err = queues_create(vs);
	if (!err) {
		(void)verbs_server_areas(vs, false, areas);
		err = verbs_loopback_create(vs, areas);
	}
	if (!err)
		err = listen_on(vs);
	if (!err)
		err = watch(vs);
	if (!err)
		err = verbs_recv_thread_start(vs);
	if (err) {
		verbs_server_close(vs);
		return err;
	}
	*out = vs;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void mr_drop(struct ibv_mr *mr)
{
	if (mr)
		VERBS_RELEASE("memory", ibv_dereg_mr(mr));
}

static void queues_destroy(struct verbs_server *vs)
{
	if (vs->srq)
		VERBS_RELEASE("the shared receive queue",
			      ibv_destroy_srq(vs->srq));
	if (vs->cq)
		VERBS_RELEASE("a completion queue", ibv_destroy_cq(vs->cq));
	if (vs->data_cq)
		VERBS_RELEASE("a completion queue", ibv_destroy_cq(vs->data_cq));
	if (vs->comp)
		VERBS_RELEASE("a completion channel",
			      ibv_destroy_comp_channel(vs->comp));
	mr_drop(vs->recv_mr);
	verbs_mem_fini(&vs->send_mem);
}

void verbs_server_close(struct verbs_server *vs)
{
	struct arrival *a;

	if (!vs)
		return;
	verbs_peers_destroy(vs);
	verbs_recv_thread_stop(vs);
	removal_id_drop(vs);
	claim_fini(&(struct verbs_claim){vs->channel, vs->listener, 0});
	verbs_loopback_destroy(vs);
	queues_destroy(vs);
	mr_drop(vs->heat_mr);
	mr_drop(vs->data_ro_mr);
	mr_drop(vs->data_rw_mr);
	mr_drop(vs->meta_mr);
	verbs_device_close(&vs->dev);
	while ((a = STAILQ_FIRST(&vs->arrivals))) {
		STAILQ_REMOVE_HEAD(&vs->arrivals, link);
		free(a);
	}
	close_fd(vs->epoll_fd);
	close_fd(vs->arrived_fd);
	close_fd(vs->quit_fd);
	pthread_mutex_destroy(&vs->lock);
	free(vs->recv_bufs);
	free(vs->sends);
	free(vs);
}

/* ---- getters --------------------------------------------------------------------- */

const char *verbs_server_address(const struct verbs_server *vs)
{
	return vs->address;
}

const char *verbs_server_device(const struct verbs_server *vs)
{
	return vs->dev.text;
}

bool verbs_server_read8_atomic(const struct verbs_server *vs)
{
	return !vs->dev.software;
}

uint32_t verbs_server_areas(const struct verbs_server *vs, bool readonly,
			    struct verbs_area areas[VERBS_AREAS_MAX])
{
	const struct verbs_server_config *c = &vs->cfg;
	const struct ibv_mr *data = readonly ? vs->data_ro_mr : vs->data_rw_mr;

	areas[0] = (struct verbs_area){.bytes = c->meta_bytes,
				       .rkey = vs->meta_mr->rkey};
	areas[1] = (struct verbs_area){.off = c->meta_bytes,
				       .bytes = c->region_bytes - c->meta_bytes,
				       .raddr = c->meta_bytes,
				       .rkey = data->rkey};
	if (!vs->heat_mr || readonly)
		return 2;
	areas[2] = (struct verbs_area){.off = c->region_bytes,
				       .bytes = c->heat_bytes,
				       .raddr = c->region_bytes,
				       .rkey = vs->heat_mr->rkey};
	return 3;
}

void verbs_server_counters(const struct verbs_server *vs,
			   struct verbs_server_counters *out)
{
	*out = vs->n;
	out->refills = atom_load_relaxed(&vs->n.refills);
	out->buffers_posted = vs->cfg.n_recv;
}
