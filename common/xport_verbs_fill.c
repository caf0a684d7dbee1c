/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work requests of a lane, made where they are posted from. Only what a request sets
 * is written: a doorbell's list is taken again and again.
 */
#include "config.h"

#include "xport_verbs_lane.h"

#include <assert.h>
#include <string.h>

#include "util.h"

static int sge_add(const struct verbs_lane *l, struct ibv_sge *sges, int n, void *at,
		   uint64_t len)
{
	if (len == 0)
		return n;
	sges[n] = (struct ibv_sge){.addr = (uintptr_t)at,
				     .length = (uint32_t)len,
				     .lkey = verbs_mem_lkey(&l->mem, at)};
	return n + 1;
}

/* The memory of `len` bytes of a request from its byte `at` on, if it has a part. */
static int sges_split(const struct verbs_lane *l, const struct xport_wr *wr,
		      uint64_t at, uint64_t len, struct ibv_sge *sges)
{
	uint64_t head = wr->part_at, behind = head + wr->part_len, n;
	uint64_t end = at + len;
	uint8_t *mem = wr->laddr;
	int k = 0;

	if (at < head) {
		n = UTIL_MIN(end, head) - at;
		k = sge_add(l, sges, k, mem + at, n);
		at += n;
	}
	if (at < behind && at < end) {
		n = UTIL_MIN(end, behind) - at;
		k = sge_add(l, sges, k, (uint8_t *)wr->part + (at - head), n);
		at += n;
	}
	return at < end ? sge_add(l, sges, k, mem + (at - wr->part_len), end - at) : k;
}

/*
 * Where the answer's end will stand, the last thing that a device writes there. Behind a
 * part there are eight bytes or more, for this.
 */
static void *mark_answer(const struct verbs_lane *l, const struct ibv_sge *last)
{
	uint8_t *end = (uint8_t *)(uintptr_t)last->addr + last->length;

	if (last->length < sizeof(l->blank))
		return NULL;
	end -= sizeof(l->blank);
	memcpy(end, &l->blank, sizeof(l->blank));
	return end;
}

/* A compare-and-swap, whose number in the queue is `seq`; returns its mark. */
static void *build_cas(struct verbs_lane *l, const struct xport_wr *wr, uint64_t seq,
		       struct ibv_send_wr *out)
{
	const struct verbs_area *a = verbs_area_of(l, wr->off, wr->len);
	uint64_t *found = &l->found[seq & (l->depth - 1)];

	assert(a); /* looked up before the chain was taken */
	*found = l->blank;
	out->sg_list->addr = (uintptr_t)found;
	out->sg_list->length = sizeof(*found);
	out->sg_list->lkey = l->found_lkey;
	out->num_sge = 1;
	out->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	out->send_flags = wr->flags & XPORT_FENCE ? IBV_SEND_FENCE : 0;
	out->wr.atomic.remote_addr = a->raddr + (wr->off - a->off);
	out->wr.atomic.rkey = a->rkey;
	out->wr.atomic.compare_add = wr->expect;
	out->wr.atomic.swap = wr->swap;
	return found;
}

/* `len` bytes of a READ or WRITE from its byte `at` on; returns its mark. */
static void *build_move(struct verbs_lane *l, const struct xport_wr *wr, uint64_t at,
			uint64_t len, struct ibv_send_wr *out)
{
	const struct verbs_area *a = verbs_area_of(l, wr->off, wr->len);
	bool fence = wr->flags & XPORT_FENCE;

	assert(a);
	out->num_sge = wr->part_len ? sges_split(l, wr, at, len, out->sg_list) :
				      sge_add(l, out->sg_list, 0,
					      (uint8_t *)wr->laddr + at, len);
	out->send_flags = fence ? IBV_SEND_FENCE : 0;
	out->wr.rdma.remote_addr = a->raddr + (wr->off + at - a->off);
	out->wr.rdma.rkey = a->rkey;
	if (wr->opcode == XPORT_READ) {
		out->opcode = IBV_WR_RDMA_READ;
		return mark_answer(l, &out->sg_list[out->num_sge - 1]);
	}
	out->opcode = IBV_WR_RDMA_WRITE;
	/* A fenced one takes along what comes before it is sent. */
	if (len <= l->conn.max_inline && !fence)
		out->send_flags |= IBV_SEND_INLINE;
	return NULL;
}

static void count(struct xport_counters *n, const struct xport_wr *wr)
{
	switch (wr->opcode) {
	case XPORT_READ:
		n->reads++;
		n->read_bytes += wr->len;
		break;
	case XPORT_WRITE:
		n->writes++;
		n->write_bytes += wr->len;
		break;
	default:
		n->cas++;
	}
}

unsigned verbs_fill(struct verbs_lane *l, unsigned most)
{
	struct xport_chain *c = l->queue;
	unsigned k = l->queue_wr, n = 0;
	uint64_t at = l->queue_at;

	for (; c && n < most; n++) {
		const struct xport_wr *x = &c->wr[k];
		uint64_t seq = l->head++, len = UTIL_MIN(x->len - at, l->max_piece);
		struct verbs_flight *f = &l->flight[seq & (l->depth - 1)];
		struct ibv_send_wr *out = &l->list[n];

		out->wr_id = seq;
		out->next = out + 1;
		f->mark = x->opcode == XPORT_CAS ? build_cas(l, x, seq, out) :
						   build_move(l, x, at, len, out);
		f->chain = c;
		f->wr = (uint8_t)k;
		at += len;
		f->last = at == x->len;
		if (!f->last)
			continue;
		count(&l->base.counters, x);
		at = 0;
		if (++k == c->n) {
			k = 0;
			c = c->next;
		}
	}
	l->queue = c;
	l->queue_wr = k;
	l->queue_at = at;
	if (!c)
		l->queue_end = &l->queue;
	return n;
}
