/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's device: choice, self-test, and a connection with itself. */
#include "config.h"

#include "xport_verbs_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "clock.h"
#include "err.h"
#include "log.h"
#include "rdma_probe.h"
#include "util.h"

#define TEST_NS (5 * NS_PER_SEC)

/* ---- choice -------------------------------------------------------------------- */

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* Better GIDs have larger ranks; 0 is of no use. */
static unsigned gid_rank(const struct ibv_gid_entry *g, bool ethernet)
{
	const uint8_t *raw = g->gid.raw;

	if (!ethernet)
		return g->gid_type == IBV_GID_TYPE_IB ? 1 : 0;
	if (g->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (memcmp(raw, v4_mapped, sizeof(v4_mapped)) == 0)
		return 3;
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

static bool choose_gid(struct verbs_device *d, const struct ibv_port_attr *port)
{
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
	unsigned best = 0;

	for (int i = 0; i < port->gid_tbl_len; i++) {
		struct ibv_gid_entry g;
		unsigned rank;

		if (ibv_query_gid_ex(d->ctx, d->port, (uint32_t)i, &g, 0))
			continue;
		rank = gid_rank(&g, ethernet);
		if (rank > best) {
			best = rank;
			d->gid_index = i;
			d->gid = g.gid;
		}
	}
	return best > 0;
}

/* Emulations have no hardware behind them. */
static bool is_software(struct ibv_context *ctx)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/device", ctx->device->ibdev_path);
	return access(path, F_OK) != 0;
}

/* Why the device cannot serve, or NULL; fills *d. */
static const char *consider(struct ibv_context *ctx, struct verbs_device *d)
{
	struct ibv_device_attr a;
	struct ibv_port_attr port;
	char gid[64];

	*d = (struct verbs_device){.ctx = ctx};
	if (ibv_query_device(ctx, &a))
		return "cannot be queried";
	if (a.atomic_cap == IBV_ATOMIC_NONE)
		return "has no atomic operations, which farkv cannot do "
		       "without";
	if (a.max_qp_rd_atom == 0 || a.max_qp_init_rd_atom == 0)
		return "allows no READs";
	if (a.max_srq == 0)
		return "has no shared receive queues";
	for (d->port = 1; d->port <= a.phys_port_cnt; d->port++)
		if (ibv_query_port(ctx, d->port, &port) == 0 &&
		    port.state == IBV_PORT_ACTIVE && choose_gid(d, &port))
			break;
	if (d->port > a.phys_port_cnt)
		return "has no active port with a RoCE v2 or InfiniBand "
		       "address";
	if (verbs_device_depths(ctx, &d->serve_depth, &d->ask_depth))
		return "allows no READs";
	d->software = is_software(ctx);
	snprintf(d->text, sizeof(d->text), "%s port %u, GID %d %s%s",
		 ibv_get_device_name(ctx->device), d->port, d->gid_index,
		 inet_ntop(AF_INET6, d->gid.raw, gid, sizeof(gid)),
		 d->software ? ", software device" : "");
	return NULL;
}

static struct ibv_context *pick(const char *name, struct ibv_context **list,
				int n, struct verbs_device *out, char *why,
				size_t cap)
{
	why[0] = '\0';
	for (int i = 0; i < n; i++) {
		const char *dev = ibv_get_device_name(list[i]->device);
		const char *bad;
		size_t at = strlen(why);

		if (name && strcmp(name, dev) != 0)
			continue;
		bad = consider(list[i], out);
		if (!bad)
			return list[i];
		snprintf(why + at, cap - at, "%s%s %s", at ? "; " : "", dev, bad);
	}
	return NULL;
}

static int choose(const char *name, struct verbs_device *out)
{
	char why[240] = "", hint[300];
	struct ibv_context **list;
	bool found;
	int n = 0;

	list = rdma_get_devices(&n);
	found = list && pick(name, list, n, out, why, sizeof(why));
	rdma_free_devices(list);
	if (found)
		return 0;
	rdma_probe_hint(hint, sizeof(hint));
	if (name && !why[0])
		return err_set(FARKV_ENOTSUP,
			       "there is no RDMA device '%s'; kvcli devices "
			       "lists them", name);
	if (!why[0])
		return err_set(FARKV_ENOTSUP,
			       "no RDMA device on this machine: %s", hint);
	return err_set(FARKV_ENOTSUP, "no usable RDMA device: %s; %s", why, hint);
}

int verbs_device_open(const char *name, struct verbs_device *out)
{
	struct verbs_device d;
	int err = choose(name, &d);

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
	return d->gid.raw[0] != 0xfe;
}

/* ---- a connection with itself --------------------------------------------------------- */

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

static int loop_connect(const struct verbs_device *d, struct verbs_conn *c,
			uint32_t peer_qpn, const struct ibv_port_attr *port)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port->active_mtu,
		.dest_qp_num = peer_qpn,
		.max_dest_rd_atomic = UTIL_MIN(d->serve_depth, VERBS_DEPTH),
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
				 .max_rd_atomic = d->ask_depth};
	c->depth = d->ask_depth;
	return loop_state(c, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC);
}

int verbs_device_loop(struct verbs_device *d, const struct verbs_lane_params *p,
		      unsigned rights, struct xport_lane **lane_out,
		      struct verbs_conn *far_out)
{
	struct verbs_qp_spec spec = {.pd = d->pd,
				     .max_send = VERBS_LANE_SQ,
				     .max_recv = 1,
				     .max_inline = VERBS_INLINE};
	struct verbs_conn near = {0}, far = {0};
	struct ibv_port_attr port;
	struct verbs_lane *lane;
	int err = 0;

	if (ibv_query_port(d->ctx, d->port, &port))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot query the RDMA device's port");
	lane = verbs_lane_new(d->ctx, d->pd, p);
	if (!lane)
		return FARKV_ENOMEM;
	spec.send_cq = spec.recv_cq = verbs_lane_cq(lane);
	err = verbs_qp_create(&near, &spec);
	if (!err)
		err = verbs_qp_create(&far, &spec);
	if (!err)
		err = loop_init(d, &near, 0);
	if (!err)
		err = loop_init(d, &far, rights);
	if (!err)
		err = loop_connect(d, &far, near.qp->qp_num, &port);
	if (!err)
		err = loop_connect(d, &near, far.qp->qp_num, &port);
	if (!err)
		err = verbs_lane_start(lane, &near);
	if (err) {
		verbs_conn_destroy(&near);
		verbs_conn_destroy(&far);
		verbs_lane_abandon(lane);
		return err;
	}
	*lane_out = verbs_lane_base(lane);
	*far_out = far;
	return 0;
}

/* ---- self-test --------------------------------------------------------------------------- */

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

/* What compare-and-swap returns is a number in the host's byte order. */
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

/* Who sees the swapped word sees all that was written before it. */
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
				       "the RDMA device carries out a "
				       "compare-and-swap before the WRITE ahead "
				       "of it");
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
