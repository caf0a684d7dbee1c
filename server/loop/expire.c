/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "expire.h"

#include <stdlib.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "server/index/reap.h"

#include "core.h"
#include "grow.h"
#include "session.h"

/* The reaper's share of the time: 10 %. */
#define SHARE 10u
/* From the start of one walk to the next, at least. */
#define WALK_PAUSE_NS (2 * NS_PER_SEC)

/* Blocks of tombstones that are worth a compaction: large values would be waited for too long. */
#define COMPACT_BYTES (UINT64_C(1) << 20)

struct expire {
	struct control *c;
	struct event *tick;
	uint64_t created_ns; /* when region time was 0 */
	uint64_t ticked_ns;  /* of the last tick; 0: CLOCK is not written */
	uint64_t time_ns;    /* region time, of which CLOCK has the milliseconds */

	struct reaper *reaper;
	struct region_walk walk;
	uint64_t entry, hash; /* of the subtable that is visited; entry 0: none */
	uint64_t walk_ns;     /* start of the walk; 0: none is on */
	uint64_t budget_ns;   /* left until the next tick */
	uint64_t expired[FARKV_SIZES]; /* by class_octave() */
	struct work work;
};

/* ---- CLOCK --------------------------------------------------------------------- */

static uint64_t clock_ms(const struct expire *e)
{
	return e->time_ns / NS_PER_MS;
}

static void clock_write(const struct expire *e)
{
	uint64_t *at = (uint64_t *)(void *)(e->c->region->meta + REGION_CLOCK_OFF);

	atom_store_publish(at, clock_ms(e));
}

/*
 * Returns by how much. Time in which the server was stopped does not count: readers rely on
 * CLOCK's largest step, and clients that could not reach the server get the chance to touch what
 * they use.
 */
static uint64_t clock_advance(struct expire *e)
{
	uint64_t now = clock_now_ns();
	uint64_t by = UTIL_MIN(now - e->ticked_ns, REGION_CLOCK_STEP_MS * NS_PER_MS);

	e->time_ns += by;
	e->ticked_ns = now;
	clock_write(e);
	return by;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct expire *e = arg;

	(void)fd;
	(void)what;
	/* On a busy machine ticks come late: what expires and what is reaped keep step. */
	e->budget_ns = clock_advance(e) / SHARE;
	work_start(&e->c->work, &e->work);
}

/* From region time `ms` on. */
static void clock_start(struct expire *e, uint64_t ms)
{
	static const struct timeval every = {.tv_usec = REGION_CLOCK_TICK_MS * 1000};

	e->ticked_ns = clock_now_ns();
	e->time_ns = UTIL_MAX(ms, UINT64_C(1)) * NS_PER_MS;
	clock_write(e);
	event_add(e->tick, &every);
}

bool expire_on_start(struct session *s, const struct msg *m)
{
	struct expire *e = s->control->expire;

	(void)m;
	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for the region's clock");
		return false;
	}
	if (!e->ticked_ns)
		clock_start(e, (clock_now_ns() - e->created_ns) / NS_PER_MS);
	return true;
}

/* ---- the reaper ------------------------------------------------------------------ */

/* The next subtable; false if the walk is over, and the next one is not due. */
static bool open_next(struct expire *e)
{
	uint64_t now = clock_now_ns();

	if (!e->walk_ns || (e->walk.over && now - e->walk_ns >= WALK_PAUSE_NS)) {
		e->walk = (struct region_walk){0};
		e->walk_ns = now;
	}
	do {
		if (!region_walk_next(e->c->region, &e->walk, &e->entry, &e->hash)) {
			e->entry = 0;
			return false;
		}
		/* Its values are found in the new subtables, by the next walk. */
	} while (grow_rebuilds(e->c, entry_page(e->entry)));
	reaper_begin(e->reaper, e->entry);
	return true;
}

static void visited(struct expire *e)
{
	if (reaper_expired(e->reaper) > 0) {
		struct reap_counts n = reaper_counts(e->reaper);

		for (unsigned i = 0; i < FARKV_SIZES; i++)
			e->expired[i] += n.by_size[i];
		if (n.dead >= n.live || n.dead_bytes >= COMPACT_BYTES)
			grow_compact(e->c, e->entry, e->hash);
	}
	e->entry = 0;
}

/* False if the budget is spent, or there is nothing to do before the next tick. */
static bool step(struct expire *e, uint64_t until_ns)
{
	if (grow_lane_is_lost(e->c))
		return false;
	if (!e->entry && !open_next(e))
		return false;
	switch (reaper_step(e->reaper, clock_ms(e), until_ns)) {
	case REAP_MORE:
		break;
	case REAP_DONE:
		visited(e);
		break;
	case REAP_LOST:
		e->entry = 0;
		grow_lane_broke(e->c);
		return false;
	}
	return true;
}

static bool on_work(void *arg, uint64_t until_ns)
{
	struct expire *e = arg;
	uint64_t began = clock_now_ns(), now = began;
	bool more = true;

	until_ns = UTIL_MIN(until_ns, began + e->budget_ns);
	while (more && now < until_ns) {
		more = step(e, until_ns);
		now = clock_now_ns();
	}
	e->budget_ns -= UTIL_MIN(now - began, e->budget_ns);
	return more && e->budget_ns > 0;
}

const uint64_t *expire_counts(const struct control *c)
{
	return c->expire->expired;
}

/* ---- life ------------------------------------------------------------------------ */

static bool init(struct control *c)
{
	struct expire *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	c->expire = e;
	e->c = c;
	e->created_ns = clock_now_ns();
	e->work = (struct work){.step = on_work, .arg = e, .kind = MSG_PAUSE_EXPIRY};
	e->tick = event_new(c->base, -1, EV_PERSIST, on_tick, e);
	e->reaper = reaper_new(c->region, grow_lane(c));
	if (!e->tick || !e->reaper)
		return false;
	/* Another server's clients rely on it: it goes on where it stood. */
	if (region_clock(c->region))
		clock_start(e, region_clock(c->region));
	return true;
}

static void fini(struct control *c)
{
	struct expire *e = c->expire;

	if (!e)
		return;
	core_event_free(e->tick);
	reaper_free(e->reaper);
	free(e);
	c->expire = NULL;
}

const struct loop_module expire_module = {
	.init = init,
	.fini = fini,
};
