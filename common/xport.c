/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "xport.h"

#include <farkv.h>

static int check_wr(const struct xport_lane *lane, const struct xport_wr *wr)
{
	if (wr->off > lane->region_bytes ||
	    wr->len > lane->region_bytes - wr->off || wr->len == 0)
		return FARKV_EINVAL;
	if (wr->opcode == XPORT_READ)
		return 0;
	if (wr->opcode == XPORT_CAS && (wr->len != 8 || wr->off % 8 != 0))
		return FARKV_EINVAL;
	return lane->caps & XPORT_READONLY ? FARKV_EPERM : 0;
}

static bool overlap(const struct xport_wr *a, const struct xport_wr *b)
{
	uintptr_t at = (uintptr_t)a->laddr, other = (uintptr_t)b->laddr;

	return at < other + b->len && other < at + a->len;
}

/* Does the chain's READ at `i` bring bytes where an earlier request has its own? */
static bool reads_over(const struct xport_chain *c, unsigned i)
{
	if (c->wr[i].opcode != XPORT_READ)
		return false;
	for (unsigned k = 0; k < i; k++)
		if (c->wr[k].opcode != XPORT_CAS &&
		    overlap(&c->wr[i], &c->wr[k]))
			return true;
	return false;
}

int xport_check(const struct xport_lane *lane, const struct xport_chain *first)
{
	for (const struct xport_chain *c = first; c; c = c->next)
		for (unsigned i = 0; i < c->n; i++) {
			int err = check_wr(lane, &c->wr[i]);

			if (err)
				return err;
			if (reads_over(c, i))
				return FARKV_EINVAL;
		}
	return 0;
}
