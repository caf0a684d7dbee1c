/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mix of a run. A quarter of all runs do everything now and then; the others
 * draw each share again, and most of them leave something out or do it all the time
 * (swarm testing; Groce, Zhang, Eide, Chen, Regehr 2012).
 */
#include "config.h"

#include <string.h>

#include "common/index/index.h"
#include "common/base/util.h"
#include "sim.h"

#define ONE_OF(...) \
	one_of((const unsigned[]){__VA_ARGS__}, \
	       sizeof((unsigned[]){__VA_ARGS__}) / sizeof(unsigned))

static unsigned one_of(const unsigned *n, unsigned count)
{
	return n[sim_below(count)];
}

static void plain(struct sim_mix *m)
{
	*m = (struct sim_mix){
		.kind = {[INDEX_GET] = 3, [INDEX_PUT] = 3, [INDEX_ADD] = 1,
			 [INDEX_REPLACE] = 1, [INDEX_CAS] = 1,
			 [INDEX_DELETE] = 2, [INDEX_EXISTS] = 1,
			 [INDEX_DELETE_CAS] = 1},
		.dated = ONE_OF(0, 4),
		.batch = 6,
		.pipeline = 6,
		.scan = 60,
		.hot = sim.tears ? 2 : SIM_HOT,
		.fill = true,
		.crowded = sim_below(2),
		.words = ONE_OF(4, 40, 200, SIM_WORDS),
		.tick_ns = 500000,
		.leap = 250,
		.stop_swap = 60,
		.break_swap = 40,
		.stop_broken = 4,
		.stop = 800,
		.break_any = 400,
		.kill = 4000,
		.cut = 2400,
		.stop_server = 6400,
		.cache = 64,
		.keep = ONE_OF(0, 65536),
		.queue = ONE_OF(0, 0, 2),
		.leave = 60,
		.guest = 3,
		.late = 2,
		.reclaim = 120,
	};
	m->cold = m->crowded ? 2 : 3;
	/* Pointers with bytes in common. */
	if (sim.tears && sim_below(3))
		m->words = 4;
	if (m->crowded)
		m->reclaim = 0;
}

static void draw_work(struct sim_mix *m)
{
	for (unsigned k = 0; k < ARRAY_SIZE(m->kind); k++)
		m->kind[k] = ONE_OF(0, 1, 1, 3, 8);
	if (!m->kind[INDEX_PUT] && !m->kind[INDEX_ADD])
		m->kind[INDEX_PUT] = 1;
	m->dated = ONE_OF(0, 0, 4, 1);
	m->batch = ONE_OF(0, 0, 6, 2);
	m->pipeline = ONE_OF(0, 6, 2);
	m->scan = ONE_OF(0, 60, 60, 12);
	m->hot = ONE_OF(1, 2, 2, SIM_HOT);
	m->cold = ONE_OF(0, 0, 3, 2);
	m->march = ONE_OF(0, 0, 8, 3);
	m->fill = sim_below(2);
	m->one_length = sim_below(2);
	m->cache = ONE_OF(0, 4, 64, 64);
	m->keep = ONE_OF(0, 1024, 65536);
	m->queue = ONE_OF(0, 0, 1, 3);
	m->leave = ONE_OF(0, 60, 60, 10);
}

static void draw_pace(struct sim_mix *m)
{
	m->tick_ns = ONE_OF(500000, 500000, 100000);
	m->leap = ONE_OF(1000, 250, 250, 50);
	m->hold = ONE_OF(0, 0, 60, 10);
	m->hold_swap = ONE_OF(0, 0, 12, 3);
	m->guest = ONE_OF(0, 3, 3, 1);
	m->hold_server = ONE_OF(0, 0, 20);
	m->moods = ONE_OF(0, 0, 60);
	m->late = ONE_OF(2, 2, 20, 100);
}

static void draw_accidents(struct sim_mix *m)
{
	m->stop_swap = ONE_OF(0, 60, 60, 12);
	m->break_swap = ONE_OF(0, 40, 40, 6);
	m->stop_broken = ONE_OF(0, 4, 4, 1);
	m->stop = ONE_OF(0, 800, 800, 150);
	m->break_any = ONE_OF(0, 400, 400, 80);
	m->kill = ONE_OF(0, 4000, 4000, 500);
	m->cut = ONE_OF(0, 2400, 2400, 300);
	m->stop_server = ONE_OF(0, 6400, 1500);
	m->reclaim = ONE_OF(0, 120, 40, 12);
	m->wear = ONE_OF(0, 0, 120, 20);
}

/*
 * All write one key or two of one fingerprint, in a few blocks that lie so that half
 * of one's address and half of another's are a third's: all rests of earlier
 * blocks are theirs.
 */
static void draw_few_keys(struct sim_mix *m)
{
	m->hot = 1 + (unsigned)sim_below(2);
	m->cold = 0;
	m->march = 0;
	m->fill = false;
	m->one_length = true;
	m->words = 8;
	m->pool = ONE_OF(1, 2, 4, 4);
	m->kind[INDEX_PUT] = UTIL_MAX(m->kind[INDEX_PUT], 3u);
	m->hold = ONE_OF(0, 10, 30);
}

/* All put it, or two, by loads; so each is a rival of another all the time. */
static void draw_rush(struct sim_mix *m)
{
	memset(m->kind, 0, sizeof(m->kind));
	m->kind[INDEX_PUT] = 12;
	m->kind[INDEX_GET] = ONE_OF(1, 3);
	m->kind[INDEX_EXISTS] = ONE_OF(0, 1);
	m->kind[INDEX_CAS] = ONE_OF(0, 0, 1);
	m->kind[INDEX_DELETE] = ONE_OF(0, 0, 1);
	m->kind[INDEX_DELETE_CAS] = ONE_OF(0, 0, 1);
	m->rush = true;
	m->batch = m->pipeline = m->scan = 0;
	m->hot = ONE_OF(1, 1, 2);
	m->cold = m->march = 0;
	m->fill = false;
	m->words = 4;
	m->leave = 60;
}

/* Keys come and go, and tombstones are dropped as soon as possible. */
static void draw_churn(struct sim_mix *m)
{
	m->kind[INDEX_DELETE] = 6;
	m->kind[INDEX_ADD] = ONE_OF(1, 4);
	m->fill = false;
	m->reclaim = ONE_OF(3, 12, 12);
	m->hold_server = ONE_OF(0, 20, 5);
	m->break_swap = ONE_OF(0, 40, 6);
	m->stop_broken = ONE_OF(4, 1);
}

/* A client that stands still in the middle of an operation is cut off. */
static void draw_cuts(struct sim_mix *m)
{
	m->stop_swap = ONE_OF(12, 60);
	m->break_swap = ONE_OF(6, 40);
	m->stop_broken = 1;
	m->cut = 150;
}

void sim_mix_draw(void)
{
	struct sim_mix *m = &sim.mix;

	plain(m);
	if (sim_below(4)) {
		draw_work(m);
		draw_pace(m);
		draw_accidents(m);
		if (sim_below(sim.tears ? 2 : 4) == 0)
			draw_few_keys(m);
		if (sim_below(3) == 0)
			draw_churn(m);
		if (sim_below(4) == 0)
			draw_cuts(m);
	}
	m->evict = ONE_OF(0, 0, 0, 40, 8);
	if (!sim.remote && sim_below(3) == 0)
		draw_rush(m);
	for (unsigned k = 0; k < ARRAY_SIZE(m->kind); k++)
		m->kinds += m->kind[k];
}
