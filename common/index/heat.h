/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/heat.h - in a cache, mark the keys that are used: the server keeps those for longer.
 *
 * Marks are bytes of the heat area; they rank keys and have no other meaning. A GET that finds its
 * value marks its slot, and so does a write that overwrites one; an insert does not. Over mapped
 * memory a mark is a store, made only if the byte is 0. Other lanes mark a key with probability
 * 1/2, once each time its location becomes known to the handle: a WRITE of one byte in a chain that
 * is posted anyway, so it costs no round trip. A server that rebuilds a subtable clears its marks
 * and invalidates its locations, so a key in use is marked again.
 */
#ifndef COMMON_INDEX_HEAT_H
#define COMMON_INDEX_HEAT_H

#include "common/base/atomic.h"
#include "index_state.h"
#include "op.h"

/* Out of line, so that it takes no registers from the fast paths of stores that refuse. */
static __attribute__((noinline, unused)) void heat_set(const struct index *ix, uint64_t off)
{
	uint8_t *heat = &ix->heat[heat_at(off, ix->sb.heat_bytes)];

	/* A store only if needed, so that a hot key's line stays shared. */
	if (!atom_load_relaxed(heat))
		atom_store_relaxed(heat, 1);
}

/** Mark the key of the slot at `off` as used. No effect unless the region is mapped. */
static inline void heat_mark(const struct index *ix, uint64_t off)
{
	if (__builtin_expect(ix->heat != NULL, 0))
		heat_set(ix, off);
}

/** heat_mark() of a slot of the mapped region. */
static inline void heat_mark_slot(const struct index *ix, const uint64_t *slot)
{
	heat_mark(ix, (uint64_t)((const uint8_t *)slot - ix->lane->base));
}

/** True if operations of this kind mark the key that they find. */
static inline bool heat_kind(unsigned kind)
{
	return kind == INDEX_GET || kind == INDEX_PUT || kind == INDEX_REPLACE ||
	       kind == INDEX_CAS;
}

/**
 * The operation uses, or probably uses, the slot at `off`, whose location is new to this handle:
 * with probability 1/2 add a WRITE of its mark to the chain being built. No effect over mapped
 * memory, or without the right to write.
 */
static inline void heat_write(struct index *ix, struct index_op *op, uint64_t off)
{
	uint8_t *one = (uint8_t *)&op_scratch(op)[HEAT_SCRATCH];

	if (!ix->marks || op->search.marked || !heat_kind(op->kind))
		return;
	op->search.marked = true;
	/* A Weyl sequence: in any regular selection of its members half have bit 63. */
	ix->mark_turn += UINT64_C(0x9E3779B97F4A7C15);
	if (!(ix->mark_turn >> 63))
		return;
	*one = 1;
	op_chain_add(op, XPORT_WRITE, ix->sb.region_bytes + heat_at(off, ix->sb.heat_bytes), one, 1);
}

#endif
