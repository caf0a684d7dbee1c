/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that share a write: all clients of the simulation could be of one process. Who
 * waits for another lets the others go on; who is dying waits for nobody.
 */
#include "config.h"

#include <sched.h>

#include "common/clock.h"
#include "tests/lab/sim.h"

static int give_way(void)
{
	sim_give_way();
	return 0;
}

static uint64_t time_or_end(void)
{
	return sim.running && sim.running->dying ? UINT64_MAX : clock_now_ns();
}

#define sched_yield give_way
#define clock_now_ns time_or_end
#include "client/combine.c"
