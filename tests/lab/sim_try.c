/* SPDX-License-Identifier: BSD-3-Clause */
/* A get by loads, where others go on before a block is copied and in the middle of it. */
#include "config.h"

#include "common/atomic.h"
#include "tests/lab/sim.h"

static void others_go_on(void)
{
	struct sim_client *c = sim.running;

	if (!c || !sim.in_thread || c->quiet || c->dying || sim_below(3))
		return;
	if (sim_below(20) == 0)
		sim_stop(c, false);
	sim_events[SIM_COPIES]++;
	sim_give_way();
}

static void copy(void *to, const void *from, size_t len)
{
	size_t part = sim_below(len / 8 + 1) * 8;

	others_go_on();
	atom_copy_block(to, from, part);
	if (part)
		others_go_on();
	atom_copy_block((char *)to + part, (const char *)from + part,
			len - part);
}

#define atom_copy_block copy
#include "common/index_try.c"
