/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's device: choice, self-test, loopback QP. */
#include "config.h"

#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "lane.h"
#include "memory.h"
#include "probe.h"
#include "release.h"

#define TEST_NS (5 * NS_PER_SEC)

/* ---- choice ----------------------------------------------------------------------- */

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* The context that librdmacm uses for a device. */
static struct ibv_context *context_of(const char *name)
{
	struct ibv_context **list, *found = NULL;
	int n = 0;

	list = rdma_get_devices(&n);
	if (!list)
		return NULL; /* rdma_free_devices() takes no NULL */
	for (int i = 0; i < n && !found; i++)
		if (strcmp(ibv_get_device_name(list[i]->device), name) == 0)
			found = list[i];
	rdma_free_devices(list);
	return found;
}

static void take_port(const struct rdma_device *dev, const struct rdma_port *port,
		      struct verbs_device *out)
{
	const struct rdma_gid *gid = &port->gids[port->chosen];

	*out = (struct verbs_device){.port = (uint8_t)port->number,
				     .gid_index = (int)gid->index,
				     .software = dev->software};
	memcpy(out->gid.raw, gid->raw, sizeof(out->gid.raw));
	out->scope = if_nametoindex(gid->netdev);
	snprintf(out->text, sizeof(out->text), "%s port %u, GID %u %s%s",
		 dev->name, port->number, gid->index, gid->address,
		 dev->software ? ", software device" : "");
}

/* The first usable port of the device; false if it has none. */
static bool take_device(const struct rdma_device *dev, struct verbs_device *out)
{
	if (dev->state != RDMA_READY)
		return false;
	for (size_t i = 0; i < dev->n_ports; i++) {
		const struct rdma_port *port = &dev->ports[i];

		if (port->state != RDMA_READY || port->chosen < 0)
			continue;
		take_port(dev, port, out);
		out->ctx = context_of(dev->name);
		return out->ctx != NULL;
	}
	return false;
}

static int choose_named(const struct rdma_host *host, const char *name,
			struct verbs_device *out)
{
	for (size_t i = 0; i < host->n_devices; i++) {
		const struct rdma_device *dev = &host->devices[i];

		if (strcmp(dev->name, name) != 0)
			continue;
		if (take_device(dev, out))
			return 0;
		return err_set(FARKV_ENOTSUP, "RDMA device %s: %s%s%s", name,
			       dev->problem[0] ? dev->problem :
						 "rdma_cm does not know it",
			       dev->remedy[0] ? "; " : "", dev->remedy);
	}
	return err_set(FARKV_ENOTSUP,
		       "there is no RDMA device '%s'; kvcli devices lists them",
		       name);
}

static int choose_any(const struct rdma_host *host, struct verbs_device *out)
{
	for (size_t i = 0; i < host->n_devices; i++)
		if (take_device(&host->devices[i], out))
			return 0;
	return err_set(FARKV_ENOTSUP, "%s%s%s",
		       host->problem[0] ? host->problem :
					  "rdma_cm knows no usable device",
		       host->remedy[0] ? "; " : "", host->remedy);
}

static int choose(const char *name, struct verbs_device *out)
{
	struct rdma_host host;
	int err = rdma_probe(&host);

	if (err)
		return err;
	err = name ? choose_named(&host, name, out) : choose_any(&host, out);
	rdma_probe_free(&host);
	return err;
}

int verbs_device_open(const char *name, struct verbs_device *out)
{
	struct verbs_device d;
	int err = choose(name, &d);

	if (!err)
		err = verbs_device_depths(d.ctx, &d.serve_depth, &d.ask_depth);
	if (err)
		return err;
	d.pd = ibv_alloc_pd(d.ctx);
	if (!d.pd)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot allocate a protection domain");
	*out = d;
	return 0;
}

void verbs_device_close(struct verbs_device *d)
{
	if (d->pd)
		VERBS_RELEASE("a protection domain", ibv_dealloc_pd(d->pd));
	d->pd = NULL;
}

bool verbs_available(char *why, size_t cap)
{
	struct verbs_device d;
	bool ok = choose(NULL, &d) == 0;

	snprintf(why, cap, "%s", ok ? d.text : err_detail());
	return ok;
}

bool verbs_device_address(const struct verbs_device *d,
			  struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (memcmp(d->gid.raw, v4_mapped, sizeof(v4_mapped)) == 0) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, d->gid.raw + 12, 4);
		return true;
	}
	v6->sin6_family = AF_INET6;
	memcpy(&v6->sin6_addr, d->gid.raw, 16);
	if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return true;
	v6->sin6_scope_id = d->scope;
	return d->scope != 0;
}

int verbs_scope_check(const char *host, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;

	if (sa->sa_family != AF_INET6 || v6->sin6_scope_id ||
	    !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return 0;
	return err_set(FARKV_EURI,
		       "the address %s is valid on one link only: give its "
		       "interface too, as in [%s%%eth0]",
		       host, host);
}

void verbs_format_address(const struct sockaddr *sa, unsigned port, char *buf,
			  size_t cap)
{
	bool v6 = sa->sa_family == AF_INET6;
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?";
	const char *scope;

	(void)getnameinfo(sa,
			  v6 ? sizeof(struct sockaddr_in6) :
			       sizeof(struct sockaddr_in),
			  host, sizeof(host), NULL, 0, NI_NUMERICHOST);
	scope = v6 ? strchr(host, '%') : NULL;
	if (scope)
		snprintf(buf, cap, "[%.*s%%25%s]:%u", (int)(scope - host), host,
			 scope + 1, port);
	else
		snprintf(buf, cap, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

/* ---- loopback QP ------------------------------------------------------------------ */

static int loop_state(struct verbs_conn *c, struct ibv_qp_attr *a, int mask)
{
	int rc = ibv_modify_qp(c->qp, a, mask);

	if (rc)
		return err_set_errno(FARKV_ESYS, rc > 0 ? rc : errno,
				     "cannot connect the RDMA device with "
				     "itself");
	return 0;
}

static int loop_init(const struct verbs_device *d, struct verbs_conn *c,
		     unsigned rights)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = d->port,
				.qp_access_flags = rights};

	return loop_state(c, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_ACCESS_FLAGS);
}

/* Neither end may request more than the other serves. */
static uint8_t loop_depth(const struct verbs_device *d)
{
	return UTIL_MIN(d->serve_depth, d->ask_depth);
}

static int loop_connect(const struct verbs_device *d, struct verbs_conn *c,
			uint32_t peer_qpn, const struct ibv_port_attr *port)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port->active_mtu,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = loop_depth(d),
		.min_rnr_timer = VERBS_MIN_RNR_TIMER,
		.ah_attr = {.dlid = port->lid,
			    .is_global = 1,
			    .port_num = d->port,
			    .grh = {.dgid = d->gid,
				    .sgid_index = (uint8_t)d->gid_index,
				    .hop_limit = 64}},
	};
	int err = loop_state(c, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);

	if (err)
		return err;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = VERBS_ACK_TIMEOUT,
				 .retry_cnt = VERBS_RETRY_COUNT,
				 .rnr_retry = VERBS_RNR_RETRY,
				 .max_rd_atomic = loop_depth(d)};
	c->depth = loop_depth(d);
	return loop_state(c, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Create and connect both ends; both complete to `cq`. */
static int loop_make(const struct verbs_device *d, struct ibv_cq *cq,
		     unsigned rights, struct verbs_conn *near,
		     struct verbs_conn *far)
{
	struct verbs_qp_spec spec = {.pd = d->pd,
				     .send_cq = cq,
				     .recv_cq = cq,
				     .max_send = VERBS_LANE_SQ,
				     .max_recv = 1,
				     .max_inline = VERBS_INLINE,
				     .max_sge = verbs_device_sges(d->ctx)};
	struct ibv_port_attr port;
	int err;

	*near = *far = (struct verbs_conn){0};
	if (ibv_query_port(d->ctx, d->port, &port))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot query the RDMA device's port");
	err = verbs_qp_create(near, &spec);
	if (!err)
		err = verbs_qp_create(far, &spec);
	if (!err)
		err = loop_init(d, near, 0);
	if (!err)
		err = loop_init(d, far, rights);
	if (!err)
		err = loop_connect(d, far, near->qp->qp_num, &port);
	if (!err)
		err = loop_connect(d, near, far->qp->qp_num, &port);
	if (err) {
		verbs_conn_destroy(near);
		verbs_conn_destroy(far);
	}
	return err;
}

int verbs_device_loop(struct verbs_device *d, const struct verbs_lane_params *p,
		      unsigned rights, struct xport_lane **lane_out,
		      struct verbs_conn *far_out)
{
	struct verbs_conn near, far;
	struct verbs_lane *lane;
	int err = verbs_lane_new(d->pd, NULL, p, &lane);

	if (err)
		return err;
	err = loop_make(d, verbs_lane_cq(lane), rights, &near, &far);
	if (err)
		goto err_abandon;
	err = verbs_lane_start(lane, &near);
	if (err)
		goto err_destroy;
	*lane_out = verbs_lane_base(lane);
	*far_out = far;
	return 0;

err_destroy:
	verbs_conn_destroy(&near);
	verbs_conn_destroy(&far);
err_abandon:
	verbs_lane_abandon(lane);
	return err;
}

/* Port and GID may have changed while the port was down. */
static int gid_refresh(struct verbs_device *d)
{
	struct verbs_device now;
	int err = choose(ibv_get_device_name(d->ctx->device), &now);

	if (err)
		return err;
	d->port = now.port;
	d->gid_index = now.gid_index;
	d->gid = now.gid;
	return 0;
}

int verbs_device_loop_again(struct verbs_device *d, unsigned rights,
			    struct xport_lane *lane, struct verbs_conn *far)
{
	struct verbs_lane *l = verbs_lane_of(lane);
	struct verbs_conn near;
	int err;

	/* Destroy the far end, too: it may still execute requests that it has received. */
	verbs_lane_stop(l);
	verbs_conn_destroy(far);
	err = gid_refresh(d);
	if (!err)
		err = loop_make(d, verbs_lane_cq(l), rights, &near, far);
	if (err)
		return err;
	err = verbs_lane_restart(l, &near);
	if (err) {
		verbs_conn_destroy(&near);
		verbs_conn_destroy(far);
	}
	return err;
}

/* ---- self-test -------------------------------------------------------------------- */

static int run(struct xport_lane *lane, struct xport_chain *c)
{
	uint64_t until = clock_now_ns() + TEST_NS;
	int err = xport_post(lane, c);

	while (!err && !c->done) {
		xport_poll(lane);
		if (!c->done && clock_now_ns() > until)
			return err_set(FARKV_ETIMEDOUT,
				       "the RDMA device does not answer itself");
	}
	return err ? err : c->status;
}

#define SWAP_OLD UINT64_C(0x0102030405060708)
#define SWAP_NEW UINT64_C(0x1112131415161718)
#define TEST_WRITE 256u
#define TEST_ROUNDS 64u

/* The result of a compare-and-swap must be in host byte order. */
static int test_result(struct xport_lane *lane, uint64_t *word)
{
	struct xport_chain c = {.n = 2};
	int err;

	*word = SWAP_OLD;
	c.wr[0] = (struct xport_wr){.opcode = XPORT_CAS, .len = 8,
				    .expect = SWAP_OLD, .swap = SWAP_NEW};
	c.wr[1] = (struct xport_wr){.opcode = XPORT_CAS, .len = 8,
				    .expect = SWAP_OLD, .swap = 0};
	err = run(lane, &c);
	if (!err && (c.wr[0].found != SWAP_OLD || c.wr[1].found != SWAP_NEW ||
		     atom_load_follow(word) != SWAP_NEW))
		err = err_set(FARKV_ENOTSUP,
			      "the RDMA device's compare-and-swap fails or "
			      "answers in an unknown byte order (0x%016llx "
			      "instead of 0x%016llx)",
			      (unsigned long long)c.wr[0].found,
			      (unsigned long long)SWAP_OLD);
	return err;
}

/* The swapped word must not become visible before an earlier WRITE. */
static int test_order(struct xport_lane *lane, uint64_t *mem, uint8_t *buf)
{
	for (unsigned round = 1; round <= TEST_ROUNDS; round++) {
		struct xport_chain c = {.n = 2};
		uint64_t until = clock_now_ns() + TEST_NS;
		bool ordered;
		int err;

		memset(buf, (int)round, TEST_WRITE);
		mem[0] = 0;
		c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE, .off = 64,
					    .laddr = buf, .len = TEST_WRITE};
		c.wr[1] = (struct xport_wr){.opcode = XPORT_CAS, .len = 8,
					    .swap = round};
		err = xport_post(lane, &c);
		if (err)
			return err;
		while (atom_load_follow(&mem[0]) != round &&
		       clock_now_ns() < until && !xport_broken(lane))
			atom_spin_hint();
		ordered = memcmp(&mem[8], buf, TEST_WRITE) == 0;
		while (!c.done && clock_now_ns() < until)
			xport_poll(lane);
		if (!c.done || c.status)
			return err_set(FARKV_ENOTSUP,
				       "the RDMA device does not answer itself");
		if (!ordered)
			return err_set(FARKV_ENOTSUP,
				       "the RDMA device executes a "
				       "compare-and-swap before an earlier "
				       "WRITE");
	}
	return 0;
}

static int test_on(struct xport_lane *lane, uint64_t *mem)
{
	uint8_t *buf = xport_mem_alloc(lane, TEST_WRITE);
	int err;

	if (!buf)
		return FARKV_ENOMEM;
	err = test_result(lane, &mem[0]);
	if (!err)
		err = test_order(lane, mem, buf);
	xport_mem_free(lane, buf, TEST_WRITE);
	return err;
}

int verbs_device_test(struct verbs_device *d)
{
	struct verbs_area area = {.bytes = 4096};
	struct verbs_lane_params p = {.areas = &area, .n_areas = 1,
				      .region_bytes = 4096};
	struct verbs_conn far;
	struct xport_lane *lane;
	uint64_t *mem = aligned_alloc(4096, 4096);
	struct ibv_mr *mr;
	unsigned rights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC;
	int err;

	if (!mem)
		return err_set(FARKV_ENOMEM, "no memory");
	memset(mem, 0, 4096);
	mr = ibv_reg_mr(d->pd, mem, 4096, (int)rights | IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		err = verbs_reg_error(errno, 4096, "a test");
		goto err_free;
	}
	area.raddr = (uintptr_t)mem;
	area.rkey = mr->rkey;
	err = verbs_device_loop(d, &p, rights, &lane, &far);
	if (!err) {
		err = test_on(lane, mem);
		verbs_conn_destroy(&far);
		xport_close(lane);
	}
	VERBS_RELEASE("memory", ibv_dereg_mr(mr));
err_free:
	free(mem);
	return err;
}
