/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "played_device.h"

#include <errno.h>
#include <string.h>

#include "test_main.h"

#undef ibv_reg_mr
#undef ibv_query_port

struct played_device device;
uint8_t region[DEVICE_REGION] __attribute__((aligned(8)));

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	(void)qp;
	device.doorbells++;
	for (; wr; wr = wr->next) {
		uint64_t bytes = 0;

		if (device.refuse == 0) {
			*bad = wr;
			return ENOMEM;
		}
		device.refuse -= device.refuse != DEVICE_NONE;
		ck_assert_uint_lt(device.n, DEVICE_POSTED_MAX);
		ck_assert_int_ge(wr->num_sge, 1);
		ck_assert_int_le(wr->num_sge, (int)VERBS_SGES);
		for (int i = 0; i < wr->num_sge; i++) {
			ck_assert_uint_eq(wr->sg_list[i].lkey, DEVICE_LKEY);
			bytes += wr->sg_list[i].length;
			device.sge[device.n][i] = wr->sg_list[i];
		}
		ck_assert_uint_le(bytes, DEVICE_PIECE);
		device.wr[device.n++] = *wr;
	}
	return 0;
}

/* The address, by the rights of the key. */
static uint8_t *remote(uint64_t raddr, uint32_t rkey)
{
	for (unsigned i = 0; i < device.n_areas; i++) {
		const struct verbs_area *a = &device.areas[i];

		if (a->rkey == rkey && raddr - a->raddr < a->bytes)
			return region + a->off + (raddr - a->raddr);
	}
	ck_abort_msg("0x%llx is in no area of key %u", (unsigned long long)raddr,
		     rkey);
	return NULL;
}

static void swap(const struct ibv_send_wr *wr, void *local, bool answer)
{
	uint8_t *at = remote(wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	if (answer)
		memcpy(local, &word, sizeof(word));
	if (word == wr->wr.atomic.compare_add)
		memcpy(at, &wr->wr.atomic.swap, sizeof(word));
}

static void execute(const struct ibv_send_wr *wr, const struct ibv_sge *sge,
		    bool answer)
{
	uint8_t *at;

	device.executed++;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		ck_assert_uint_eq(sge->length, 8);
		swap(wr, (void *)(uintptr_t)sge->addr, answer);
		return;
	}
	at = remote(wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
	for (int i = 0; i < wr->num_sge; at += sge[i++].length) {
		void *local = (void *)(uintptr_t)sge[i].addr;

		if (wr->opcode == IBV_WR_RDMA_WRITE)
			memcpy(at, local, sge[i].length);
		else if (answer)
			memcpy(local, at, sge[i].length);
	}
}

/* All posted requests up to the next that reports. */
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	ck_assert_int_ge(n, 1);
	while (device.done < device.n && !device.hold) {
		unsigned i = device.done++;

		if (!device.error) {
			execute(&device.wr[i], device.sge[i], i != device.lost);
			if (!(device.wr[i].send_flags & IBV_SEND_SIGNALED))
				continue;
		}
		memset(wc, 0xEE, sizeof(*wc));
		wc->wr_id = device.wr[i].wr_id;
		wc->status = device.error ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
		return 1;
	}
	return 0;
}

static struct ibv_context ctx = {.ops = {.post_send = post_send,
					 .poll_cq = poll_cq}};
static struct ibv_pd pd = {.context = &ctx};
static struct ibv_qp qp = {.context = &ctx};
static struct ibv_cq cq = {.context = &ctx};
static struct ibv_mr mr = {.lkey = DEVICE_LKEY};

struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *at, size_t bytes, int access)
{
	ck_assert_ptr_eq(p, &pd);
	(void)at;
	(void)bytes;
	(void)access;
	return &mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *at, size_t bytes,
				uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(p, at, bytes, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	ck_assert_ptr_eq(m, &mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context,
			     struct ibv_comp_channel *channel, int vector)
{
	(void)c;
	(void)cqe;
	(void)context;
	(void)channel;
	(void)vector;
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *c)
{
	ck_assert_ptr_eq(c, &cq);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int mask)
{
	ck_assert_ptr_eq(q, &qp);
	ck_assert_int_eq(mask, IBV_QP_STATE);
	ck_assert_int_eq(a->qp_state, IBV_QPS_ERR);
	device.error = !device.finish;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *q)
{
	ck_assert_ptr_eq(q, &qp);
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port,
		   struct _compat_ibv_port_attr *a)
{
	struct ibv_port_attr attr = {.max_msg_sz = DEVICE_PIECE};

	(void)c;
	(void)port;
	memcpy(a, &attr, sizeof(attr));
	return 0;
}

/* ---- the lane -------------------------------------------------------------------- */

const struct verbs_conn device_conn = {.qp = &qp, .max_send = 64,
				       .max_sge = VERBS_SGES, .max_inline = 220};

void device_reset(const struct verbs_area *areas, unsigned n_areas)
{
	memset(&device, 0, sizeof(device));
	device.lost = device.refuse = DEVICE_NONE;
	device.areas = areas;
	device.n_areas = n_areas;
}

struct verbs_lane *device_lane(const struct verbs_area *areas, unsigned n_areas)
{
	struct verbs_lane_params p = {.areas = areas, .n_areas = n_areas,
				      .region_bytes = DEVICE_REGION};
	struct verbs_lane *lane;

	device_reset(areas, n_areas);
	for (unsigned i = 0; i < DEVICE_REGION; i++)
		region[i] = (uint8_t)(i * 7 + i / 256);
	ck_assert_int_eq(verbs_lane_new(&pd, NULL, &p, &lane), 0);
	ck_assert_int_eq(verbs_lane_start(lane, &device_conn), 0);
	return lane;
}
