/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane around another lane that injects faults of networks and of concurrent clients:
 * delay, torn READs, breaks, lost completions. One seed gives one sequence of faults.
 */
#include "config.h"

#include "xport.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/util.h"

struct fault_lane {
	struct xport_lane lane;
	struct xport_lane *inner;
	struct xport_fault_config cfg;
	uint64_t rng;
	uint64_t steps;
	struct xport_chain *delayed; /* in posting order */
	uint32_t wait_polls;
};

/* splitmix64 (Steele, Lea, Flood 2014): enough for fault schedules. */
static uint64_t fault_random(struct fault_lane *f)
{
	uint64_t z = f->rng += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

static bool fault_chance(struct fault_lane *f, uint32_t ppm)
{
	return ppm && fault_random(f) % 1000000 < ppm;
}

static int fault_inner(struct fault_lane *f, struct xport_wr *wr)
{
	struct xport_chain one = {.n = 1};
	int err;

	one.wr[0] = *wr;
	err = xport_post(f->inner, &one);
	if (err)
		return err;
	while (!one.done)
		xport_poll(f->inner);
	wr->found = one.wr[0].found;
	return one.status;
}

/*
 * Overwrite new bytes with old ones: a prefix, as an interrupted forward copy leaves it, or, at
 * byte grain, any of them.
 */
static void fault_mix(struct fault_lane *f, uint8_t *to, const uint8_t *old,
		      uint32_t len)
{
	uint32_t grain = f->cfg.byte_tear ? 1 : 8;
	uint32_t cut = (uint32_t)(fault_random(f) % len) / grain * grain;
	uint64_t bits = 0;

	if (!f->cfg.byte_tear || fault_random(f) % 2) {
		memcpy(to, old, cut);
		return;
	}
	for (uint32_t i = 0; i < len; i++, bits >>= 1) {
		if (i % 64 == 0)
			bits = fault_random(f);
		if (bits & 1)
			to[i] = old[i];
	}
}

/* A READ some of whose bytes are older than the rest. */
static int fault_torn_read(struct fault_lane *f, struct xport_wr *wr)
{
	uint8_t *old = malloc(2 * (size_t)wr->len), *now;
	int err = FARKV_ENOMEM;

	if (!old)
		return err;
	now = old + wr->len;
	err = fault_inner(f, wr);
	if (!err) {
		xport_gather(wr, old);
		if (f->cfg.tear_gap)
			f->cfg.tear_gap(f->cfg.arg);
		err = fault_inner(f, wr);
		xport_gather(wr, now);
		fault_mix(f, now, old, wr->len);
		xport_scatter(wr, now);
	}
	free(old);
	return err;
}

static int fault_execute(struct fault_lane *f, struct xport_chain *c,
			 unsigned i)
{
	struct xport_wr *wr = &c->wr[i];
	bool breaks = f->cfg.break_at && f->steps + 1 == f->cfg.break_at;
	int err;

	if (breaks && !f->cfg.lose_completion)
		return FARKV_EDISCONNECTED;
	if (f->cfg.hook && f->cfg.hook(f->cfg.arg, c, i, false))
		return FARKV_EDISCONNECTED;
	f->steps++;
	if (wr->opcode == XPORT_READ && fault_chance(f, f->cfg.tear_ppm))
		err = fault_torn_read(f, wr);
	else
		err = fault_inner(f, wr);
	if (!err && f->cfg.hook && f->cfg.hook(f->cfg.arg, c, i, true))
		return FARKV_EDISCONNECTED;
	return breaks ? FARKV_EDISCONNECTED : err;
}

static void fault_count(struct fault_lane *f)
{
	struct xport_counters *mine = &f->lane.counters;
	uint64_t doorbells = mine->doorbells, rtts = mine->round_trips;

	*mine = f->inner->counters;
	mine->doorbells = doorbells;
	mine->round_trips = rtts;
}

static void fault_run_chain(struct fault_lane *f, struct xport_chain *c)
{
	int broken = xport_broken(&f->lane);

	c->n_done = 0;
	while (!broken && c->n_done < c->n) {
		broken = fault_execute(f, c, c->n_done);
		if (broken)
			xport_break(&f->lane, broken);
		else
			c->n_done++;
	}
	c->status = broken;
}

static void fault_deliver(struct fault_lane *f)
{
	while (f->delayed) {
		struct xport_chain *c = f->delayed;

		f->delayed = c->next;
		c->done = true;
	}
}

static int fault_post(struct xport_lane *lane, struct xport_chain *first)
{
	struct fault_lane *f = (struct fault_lane *)lane;
	struct xport_chain **tail = &f->delayed;
	int err = xport_check(lane, first);

	if (err)
		return err;
	lane->counters.doorbells++;
	for (struct xport_chain *c = first; c; c = c->next) {
		c->done = false;
		fault_run_chain(f, c);
	}
	fault_count(f);
	while (*tail)
		tail = &(*tail)->next;
	*tail = first;
	/* Chains on mapped memory are done when post returns. */
	if (f->wait_polls == 0 && !(lane->caps & XPORT_DIRECT) &&
	    fault_chance(f, f->cfg.delay_ppm))
		f->wait_polls = 1 + (uint32_t)(fault_random(f) %
					       UTIL_MAX(f->cfg.delay_polls, 1u));
	if (f->wait_polls == 0)
		fault_deliver(f);
	return 0;
}

static void fault_poll(struct xport_lane *lane)
{
	struct fault_lane *f = (struct fault_lane *)lane;

	/* Every chain ends at the first poll of a broken lane. */
	if (f->wait_polls && (--f->wait_polls == 0 || xport_broken(lane))) {
		f->wait_polls = 0;
		fault_deliver(f);
	}
}

static void *fault_mem_alloc(struct xport_lane *lane, size_t bytes)
{
	struct fault_lane *f = (struct fault_lane *)lane;
	void *mem = xport_mem_alloc(f->inner, bytes);

	fault_count(f);
	return mem;
}

static int fault_mem_add(struct xport_lane *lane, void *mem, size_t bytes)
{
	struct fault_lane *f = (struct fault_lane *)lane;
	int err = xport_mem_add(f->inner, mem, bytes);

	fault_count(f);
	return err;
}

static bool fault_mem_known(const struct xport_lane *lane, const void *mem,
			    size_t bytes, enum xport_opcode use)
{
	return xport_mem_known(((const struct fault_lane *)lane)->inner, mem,
			       bytes, use);
}

static void fault_mem_remove(struct xport_lane *lane, void *mem)
{
	xport_mem_remove(((struct fault_lane *)lane)->inner, mem);
}

static void fault_mem_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	xport_mem_free(((struct fault_lane *)lane)->inner, mem, bytes);
}

static void fault_close(struct xport_lane *lane)
{
	xport_close(((struct fault_lane *)lane)->inner);
	free(lane);
}

static const struct xport_ops fault_ops = {
	.name = "fault",
	.post = fault_post,
	.poll = fault_poll,
	.mem_alloc = fault_mem_alloc,
	.mem_free = fault_mem_free,
	.mem_add = fault_mem_add,
	.mem_remove = fault_mem_remove,
	.mem_known = fault_mem_known,
	.close = fault_close,
};

struct xport_lane *xport_fault_open(struct xport_lane *inner,
				    const struct xport_fault_config *cfg)
{
	struct fault_lane *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->inner = inner;
	f->cfg = *cfg;
	f->rng = cfg->seed;
	f->lane.ops = &fault_ops;
	f->lane.base = inner->base;
	f->lane.region_bytes = inner->region_bytes;
	f->lane.caps = inner->caps;
	if (!cfg->at_once || cfg->hide_direct)
		f->lane.caps &= ~(uint32_t)XPORT_AT_ONCE;
	if (cfg->hide_direct)
		f->lane.caps &= ~(uint32_t)(XPORT_DIRECT | XPORT_DIRECT_STORE);
	if (cfg->byte_tear)
		f->lane.caps &= ~(uint32_t)XPORT_READ8_ATOMIC;
	return &f->lane;
}
