/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sim_loads.h - operations by loads in the simulation: others go on before a block
 * is copied and in the middle of it, while a writer backs off, and before each swap. For
 * files that include the library's own after this.
 */
#ifndef TESTS_LAB_SIM_LOADS_H
#define TESTS_LAB_SIM_LOADS_H

#include "common/base/atomic.h"
#include "common/index/direct.h"
#include "common/index/expiry.h"
#include "common/index/index.h"
#include "common/region/block.h"
#include "sim.h"

static void others_go_on(enum sim_event why)
{
	struct sim_client *c = sim.running;

	if (!c || !sim.in_thread || c->quiet || c->dying || sim_below(3))
		return;
	if (sim_below(20) == 0)
		sim_stop(c, false);
	sim_events[why]++;
	sim_give_way();
}

/* From the region, or into a block of it. */
static inline void copy(void *to, const void *from, size_t len)
{
	const struct sim_client *c = sim.running;
	uint64_t off = (uint64_t)((uint8_t *)to - sim.base);
	bool stores = off < sim.region.sb.region_bytes;
	size_t part = sim_below(len / 8 + 1) * 8;

	others_go_on(SIM_COPIES);
	if (stores && sim_lane_gone(c))
		return;
	if (stores)
		sim_check_write(off);
	atom_copy_block(to, from, part);
	if (part)
		others_go_on(SIM_COPIES);
	if (stores && sim_lane_gone(c))
		return;
	atom_copy_block((char *)to + part, (const char *)from + part,
			len - part);
}

/* A block that is written in line with the caller. */
static inline void seal_copy(uint8_t *block, const uint8_t *image, uint64_t binding, size_t end,
			     size_t room)
{
	uint64_t sealed[1024 / 8];

	block_seal_copy((uint8_t *)sealed, image, binding, end, room);
	copy(block, sealed, room);
}

static inline void back_off(struct index *ix)
{
	others_go_on(SIM_BACKOFFS);
	index_backoff(ix);
}

/* A client that is gone learns nothing: as if a migration had preceded it. */
static inline uint64_t swap(uint64_t key_hash, const void *value, uint64_t *slot,
			    uint64_t expect, uint64_t to)
{
	uint64_t off = (uint64_t)((uint8_t *)slot - sim.base), found;

	sim_events[SIM_AT_ONCE]++;
	if (!sim_lane_swap(sim.running, key_hash, value, off, expect, to, &found))
		return expect | SLOT_FROZEN;
	return found;
}

/* Between header and key, which the fast path of a PUT reads without a checksum. */
static inline uint64_t differs(const void *own, const void *block, size_t len)
{
	others_go_on(SIM_COPIES);
	return atom_block_differs(own, block, len);
}

/* Before CLOCK is loaded, of a value that expires. */
#define expiry_clock(ix) (others_go_on(SIM_CLOCKS), expiry_clock(ix))
#define expiry_left(ix, view) \
	((view)->expiry ? others_go_on(SIM_CLOCKS) : (void)0, expiry_left(ix, view))

#define atom_block_differs differs
#define atom_copy_block copy
#define index_backoff back_off
#define block_seal_copy seal_copy
/* In put_fast(). */
#define atom_cas_u64(slot, expect, to) swap(p->key.hash, p->value, slot, expect, to)

#endif
