/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "xport.h"

#include <string.h>

#include "common/base/err.h"

/* Bytes that a READ must have after its segment. */
#define TAIL_MIN 8u

bool xport_segment_ok(const struct xport_lane *lane, const struct xport_wr *wr)
{
	if (!(lane->caps & XPORT_SEGMENTS) || wr->opcode == XPORT_CAS ||
	    wr->seg_at > wr->len || wr->seg_len > wr->len - wr->seg_at)
		return false;
	return wr->opcode != XPORT_READ ||
	       wr->len - wr->seg_at - wr->seg_len >= TAIL_MIN;
}

static bool meet(const void *a, size_t a_len, const void *b, size_t b_len)
{
	uintptr_t at = (uintptr_t)a, other = (uintptr_t)b;

	return a_len && b_len && at < other + b_len && other < at + a_len;
}

bool xport_overlap(const struct xport_wr *a, const struct xport_wr *b)
{
	size_t a_len = a->len - a->seg_len, b_len = b->len - b->seg_len;

	return meet(a->laddr, a_len, b->laddr, b_len) ||
	       meet(a->seg, a->seg_len, b->seg, b->seg_len) ||
	       meet(a->laddr, a_len, b->seg, b->seg_len) ||
	       meet(a->seg, a->seg_len, b->laddr, b_len);
}

static bool in_bounds(const struct xport_lane *lane, const struct xport_wr *wr)
{
	return wr->off <= lane->region_bytes &&
	       wr->len <= lane->region_bytes - wr->off && wr->len > 0;
}

int xport_check(const struct xport_lane *lane, const struct xport_chain *first)
{
	for (const struct xport_chain *c = first; c; c = c->next)
		for (unsigned i = 0; i < c->n; i++) {
			int err = in_bounds(lane, &c->wr[i]) ?
					  xport_check_form(lane, c, i) :
					  FARKV_EINVAL;

			if (err)
				return err;
		}
	return 0;
}

void xport_gather(const struct xport_wr *wr, void *to)
{
	uint8_t *dst = to;
	const uint8_t *src = wr->laddr;
	size_t head = wr->seg_len ? wr->seg_at : wr->len;
	size_t tail = wr->len - wr->seg_len - head;

	memcpy(dst, src, head);
	if (wr->seg_len)
		memcpy(dst + head, wr->seg, wr->seg_len);
	if (tail)
		memcpy(dst + head + wr->seg_len, src + head, tail);
}

void xport_scatter(const struct xport_wr *wr, const void *from)
{
	const uint8_t *src = from;
	uint8_t *dst = wr->laddr;
	size_t head = wr->seg_len ? wr->seg_at : wr->len;
	size_t tail = wr->len - wr->seg_len - head;

	memcpy(dst, src, head);
	if (wr->seg_len)
		memcpy(wr->seg, src + head, wr->seg_len);
	if (tail)
		memcpy(dst + head, src + head + wr->seg_len, tail);
}

int xport_mem_add(struct xport_lane *lane, void *mem, size_t bytes)
{
	if (!(lane->caps & XPORT_SEGMENTS))
		return err_set(FARKV_ENOTSUP,
			       "this connection cannot carry one request's bytes "
			       "from several places");
	return lane->ops->mem_add ? lane->ops->mem_add(lane, mem, bytes) : 0;
}

void xport_mem_remove(struct xport_lane *lane, void *mem)
{
	if (lane->ops->mem_remove)
		lane->ops->mem_remove(lane, mem);
}
