/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by loads, where others go on before a block is copied and in the middle of
 * it, and while a put watches a slot. */
#include "config.h"

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

static void copy(void *to, const void *from, size_t len)
{
	size_t part = sim_below(len / 8 + 1) * 8;

	others_go_on(SIM_COPIES);
	atom_copy_block(to, from, part);
	if (part)
		others_go_on(SIM_COPIES);
	atom_copy_block((char *)to + part, (const char *)from + part,
			len - part);
}

static void watch(void)
{
	if (sim_below(8) == 0)
		others_go_on(SIM_WATCHES);
}

#define atom_copy_block copy
#define atom_spin_hint watch
#include "common/index_try.c"
