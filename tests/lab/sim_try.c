/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by loads (sim_loads.h). */
#include "config.h"

#include <farkv.h>

#include "common/index/publish.h"
#include "sim_loads.h"

/* A large block's image is made in place. */
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

#define op_block_image make_image
#include "common/index/shm.c"
#undef atom_cas_u64
#define atom_cas_u64(slot, expect, to) \
	swap(op->key.hash, kind_deletes(op->kind) ? NULL : op->value, slot, expect, to)
#include "common/index/search.c"
#include "common/index/try.c"
