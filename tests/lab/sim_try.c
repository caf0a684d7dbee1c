/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by loads, where others go on before a block is copied and in the middle of
 * it, and while a put watches a slot. */
#include "config.h"

#include <farkv.h>

#include "common/atomic.h"
#include "tests/lab/sim.h"

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
static void copy(void *to, const void *from, size_t len)
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

static void watch(void)
{
	if (sim_below(8) == 0)
		others_go_on(SIM_WATCHES);
}

/* contend.h, too, is to see it. */
#define atom_spin_hint watch
#include "common/index_direct.h"

/* A large block's image is made where it belongs. */
static enum next make_image(struct index *ix, struct index_op *op,
			    uint8_t **image_out)
{
	const struct sim_client *c = sim.running;
	enum next next;

	if (sim_lane_gone(c))
		return op_done(ix, op, FARKV_EDISCONNECTED);
	next = op_block_image(ix, op, image_out);
	if (next == NEXT_POST && *image_out == sim.base + op->block.off) {
		sim_check_write(op->block.off);
		others_go_on(SIM_COPIES);
	}
	return next;
}

/* Who is gone learns nothing: as if a migration had been there before it. */
static uint64_t swap(const struct index_op *op, uint64_t *slot, uint64_t expect,
		     uint64_t to)
{
	uint64_t off = (uint64_t)((uint8_t *)slot - sim.base), found;

	sim_events[SIM_AT_ONCE]++;
	return sim_lane_swap(sim.running, op, off, expect, to, &found) ?
		       found : expect | SLOT_FROZEN;
}

#define atom_copy_block copy
#define op_block_image make_image
#define atom_cas_u64(slot, expect, to) swap(op, slot, expect, to)
#include "common/index_over.c"
#include "common/index_get.c"
#include "common/index_try.c"
