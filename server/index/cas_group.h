/* SPDX-License-Identifier: BSD-3-Clause */
/** cas_group.h - CAS of slots in chains that are posted with one doorbell. */
#ifndef SERVER_INDEX_CAS_GROUP_H
#define SERVER_INDEX_CAS_GROUP_H

#include "common/region/layout.h"
#include "common/xport/xport.h"

/** Add the `k`-th CAS of a group, counted from 0, of the slot at `off`; `chain` has room for it. */
static inline void cas_group_add(struct xport_chain *chain, unsigned k, uint64_t off, uint64_t expect,
				 uint64_t swap)
{
	struct xport_chain *c = &chain[k / XPORT_CHAIN_MAX];

	if (k % XPORT_CHAIN_MAX == 0) {
		c->n = 0;
		c->status = 0;
		c->next = NULL;
		if (k)
			c[-1].next = c;
	}
	c->wr[c->n++] = (struct xport_wr){
		.opcode = XPORT_CAS,
		.off = off,
		.len = SLOT_BYTES,
		.expect = expect,
		.swap = swap,
	};
}

/** Chains of a group of `n` CAS. */
static inline unsigned cas_group_chains(unsigned n)
{
	return (n + XPORT_CHAIN_MAX - 1) / XPORT_CHAIN_MAX;
}

#endif
