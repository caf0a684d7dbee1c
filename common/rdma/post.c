/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds a lane's work requests. The list of one doorbell is reused by the next, so only
 * the fields that a request sets are written.
 */
#include "config.h"

#include "post.h"

#include <assert.h>
#include <string.h>

#include "common/base/util.h"

static void sge_set(const struct verbs_lane *l, struct ibv_sge *sge, void *at,
		    uint64_t len)
{
	sge->addr = (uintptr_t)at;
	sge->length = (uint32_t)len;
	sge->lkey = verbs_mem_lkey(&l->mem, at);
}

/*
 * Split `len` bytes from byte `at` on of a request with a segment into SGEs; returns how many.
 * Rare, so not inlined.
 */
static __attribute__((noinline)) int sges_split(const struct verbs_lane *l,
						const struct xport_wr *wr, uint64_t at,
						uint64_t len, struct ibv_sge *sges)
{
	uint64_t head = wr->seg_at, after = head + wr->seg_len, n;
	uint64_t end = at + len;
	uint8_t *mem = wr->laddr;
	int k = 0;

	if (at < head) {
		n = UTIL_MIN(end, head) - at;
		sge_set(l, &sges[k++], mem + at, n);
		at += n;
	}
	if (at < after && at < end) {
		n = UTIL_MIN(end, after) - at;
		sge_set(l, &sges[k++], (uint8_t *)wr->seg + (at - head), n);
		at += n;
	}
	if (at < end)
		sge_set(l, &sges[k++], mem + (at - wr->seg_len), end - at);
	return k;
}

/*
 * Put the sentinel into the last 8 bytes that a READ brings, which the device writes last.
 * XPORT_SEGMENTS guarantees 8 bytes after a segment. Returns its place.
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

/* A compare-and-swap whose result goes to `found`; returns the sentinel's place. */
static inline void *build_cas(struct verbs_lane *l, const struct xport_wr *wr,
			      uint64_t *found, struct ibv_send_wr *out)
{
	const struct verbs_area *a = verbs_area_at(l, wr->off);

	assert(a); /* xport_post() has checked it */
	l->base.counters.cas++;
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

/* Build a READ or WRITE of `len` bytes from byte `at` on; returns the sentinel's place or NULL. */
static inline void *build_move(struct verbs_lane *l, const struct xport_wr *wr,
			       uint64_t at, uint64_t len, struct ibv_send_wr *out)
{
	const struct verbs_area *a = verbs_area_at(l, wr->off);
	struct ibv_sge *sges = out->sg_list;
	bool fence = wr->flags & XPORT_FENCE;
	int n = 1;

	assert(a);
	if (wr->seg_len)
		n = sges_split(l, wr, at, len, sges);
	else
		sge_set(l, sges, (uint8_t *)wr->laddr + at, len);
	out->num_sge = n;
	out->send_flags = fence ? IBV_SEND_FENCE : 0;
	out->wr.rdma.remote_addr = a->raddr + (wr->off + at - a->off);
	out->wr.rdma.rkey = a->rkey;
	if (wr->opcode == XPORT_READ) {
		out->opcode = IBV_WR_RDMA_READ;
		return mark_answer(l, &sges[n - 1]);
	}
	out->opcode = IBV_WR_RDMA_WRITE;
	/*
	 * Inline data is copied now, before the fence: a fenced WRITE may need an earlier
	 * result.
	 */
	if (len <= l->conn.max_inline && !fence)
		out->send_flags |= IBV_SEND_INLINE;
	return NULL;
}

/* Count a request when its last bytes are posted. */
static inline void count_move(struct xport_counters *n, const struct xport_wr *wr)
{
	if (wr->opcode == XPORT_READ) {
		n->reads++;
		n->read_bytes += wr->len;
	} else {
		n->writes++;
		n->write_bytes += wr->len;
	}
}

unsigned verbs_fill(struct verbs_lane *l, unsigned most)
{
	struct xport_chain *c = l->queue;
	unsigned k = l->queue_wr, n = 0;
	uint64_t at = l->queue_at, seq = l->head;

	for (; c && n < most; n++, seq++) {
		const struct xport_wr *x = &c->wr[k];
		uint64_t place = seq & (l->depth - 1);
		struct verbs_flight *f = &l->flight[place];
		struct ibv_send_wr *out = &l->list[n];

		if (k == 0 && at == 0)
			c->begun_ns = l->now_ns;
		out->wr_id = seq;
		out->next = out + 1;
		f->chain = c;
		f->wr = (uint8_t)k;
		f->last = true;
		if (x->opcode == XPORT_CAS) {
			f->sentinel = build_cas(l, x, &l->found[place], out);
		} else {
			uint64_t len = UTIL_MIN(x->len - at, l->max_piece);

			f->sentinel = build_move(l, x, at, len, out);
			at += len;
			f->last = at == x->len;
			if (!f->last)
				continue;
			count_move(&l->base.counters, x);
			at = 0;
		}
		if (++k == c->n) {
			k = 0;
			c = c->next;
		}
	}
	l->head = seq;
	l->queue = c;
	l->queue_wr = k;
	l->queue_at = at;
	if (!c)
		l->queue_end = &l->queue;
	return n;
}
