/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of sessions for blocks. A request is served after those that already wait for
 * blocks of its class. One that finds no block waits while some may become free:
 *
 * - blocks of its class: returned ones in their grace period (T), exhausted ones (a barrier);
 * - pages: empty segments of other classes, tombstones of the index, and what other sessions
 *   hold and do not use.
 *
 * A busy store always has some of these on their way, so the wait is limited: to a search of
 * the index and a sweep that began after the request, and T and a second after the last of
 * them. A stopped client may prolong those by some seconds, and a barrier by one. Then the
 * answer is "none", at once also for the requests that follow.
 */
#include "config.h"

#include "grants.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "server/memory/evacuate.h"
#include "server/memory/reserve.h"
#include "server/memory/step.h"

#include "barrier.h"
#include "core.h"
#include "evictor.h"
#include "grow.h"
#include "reclaim.h"
#include "session.h"
#include "sweep.h"

/* Between two rounds over the waiting requests. */
#define DEFERRED_PAUSE_MS 5
/* Time limit of one round, and of serving earlier requests before a new one; the rest follows
 * in the next round. */
#define SERVE_NS NS_PER_MS
/* While no pass runs a request waits T and this long for memory of others, longer only for
 * sessions that have just been asked, ... */
#define HUNT_NS (80 * NS_PER_MS)
/* ... and this long for its own class and for pages. */
#define DEFERRED_MAX_NS NS_PER_SEC
/*
 * Passes that a request waits for: the first may have begun before it. Searches look for
 * subtables with many tombstones first, and then for any.
 */
#define BARRIERS_MAX 2
#define SEARCHES_MAX 4
#define SWEEPS_MAX 2
/* Waiting requests per session; a client has one per class. */
#define DEFERRED_PER_SESSION CLASS_COUNT
/* If less than this share of the pages is left empty segments are given back. Larger than the
 * reserve for small blocks. */
#define LOW_WATER_SHARE 16u

static void timer_start(struct event *due)
{
	struct timeval tv = {.tv_usec = DEFERRED_PAUSE_MS * 1000};

	if (!event_pending(due, EV_TIMEOUT, NULL))
		event_add(due, &tv);
}

/* ---- where memory may come from ------------------------------------------ */

/* Keep some pages available: retire empty segments when few pages are left. */
static void low_water(struct control *c)
{
	const struct heap *h = c->region->heap;

	if (heap_left(h) < heap_total(h) / LOW_WATER_SHARE &&
	    slab_empty(c->slab) > 0 && slab_shrink(c->slab, true) > 0)
		barrier_want(c);
}

/* Restart the time limits: memory freed from now on may serve the request. */
static void hope_renew(const struct control *c, struct deferred *d, uint64_t now)
{
	uint64_t soon = now + c->region->sb.grace_ns;

	d->hunt_ns = soon + HUNT_NS;
	d->until_ns = soon + DEFERRED_MAX_NS;
	d->barriers = c->barrier->passed + BARRIERS_MAX;
}

/* The first search of a request need not collect what can be granted from the reserve. */
static enum grow_need need(const struct control *c, const struct deferred *d)
{
	if (grow_searches(c) + SEARCHES_MAX > d->searches)
		return GROW_ANY;
	return slab_tight(c->slab, d->cls) ? GROW_SOON : GROW_LATER;
}

/* True if a search or sweep runs that may free memory; with `begin` it may start one. */
static bool pass_goes_on(struct control *c, const struct deferred *d, bool begin)
{
	if (grow_searches(c) < d->searches &&
	    (begin ? grow_reclaim(c, d->began_ns, need(c, d)) : grow_searching(c)))
		return true;
	return sweep_stats(c).sweeps < d->sweeps &&
	       (begin ? sweep_hurry(c) : sweep_running(c));
}

/* True if the server evicts, and that may free memory for the request: however long it takes. */
static bool eviction_goes_on(struct control *c, const struct deferred *d)
{
	if (!c->evictor || slab_count_class(c->slab, d->cls).deferred > 0)
		return false;
	evictor_note_waiting(c, d->cls);
	return !barrier_stuck(c) && (grow_evict(c) || evictor_just_ended(c));
}

/*
 * True if memory may become free for a request that found none. Each step costs more than the
 * one before, and is taken only if those promise nothing. Ends no session but silent ones of
 * others.
 */
static bool more_to_come(struct control *c, struct deferred *d, uint64_t now)
{
	struct slab_counts own = slab_count_class(c->slab, d->cls);
	struct slab_counts all = slab_count(c->slab);
	bool pages, passes = !barrier_stuck(c), evicts = eviction_goes_on(c, d);

	if (evicts || pass_goes_on(c, d, false))
		hope_renew(c, d, now);
	if (now >= d->until_ns)
		return false;
	slab_shrink(c->slab, false);
	pages = heap_retired(c->region->heap) > 0;
	if (pages || all.exhausted > 0 || own.deferred > 0)
		barrier_now(c);
	if (evicts || own.deferred > 0 || ((own.exhausted > 0 || pages) && passes))
		return true;
	if (all.exhausted > 0 && passes &&
	    (now < d->hunt_ns || c->barrier->passed < d->barriers))
		return true;
	if (pass_goes_on(c, d, true)) {
		hope_renew(c, d, now);
		return true;
	}
	pages = reclaim_ask(c, d->session, d->began_ns);
		/* The steps before may have used up the time: wait for the answers to this one,
		 * once. */
	if (!d->asked && now < c->reclaim_until_ns) {
		d->asked = true;
		d->hunt_ns = UTIL_MAX(d->hunt_ns, c->reclaim_until_ns +
						  c->region->sb.grace_ns);
	}
	return now < d->hunt_ns && (pages || all.deferred > 0);
}

/* ---- grants -------------------------------------------------------------- */

/* Take the blocks that can be granted now; false if there are none. */
static bool take_blocks(struct control *c, const struct deferred *d, uint64_t now,
			struct msg *g, struct block_ref *refs)
{
	*g = (struct msg){.type = MSG_GRANT};
	g->blocks.cls = d->cls;
	g->blocks.n = (uint32_t)slab_grant(c->slab, d->cls, d->count, now,
					   refs);
	return g->blocks.n > 0;
}

/* Blocks, or none if `give_up`; false if the request should wait. */
static bool try_grant(struct control *c, struct deferred *d, bool give_up,
		      struct msg *g, struct block_ref *refs)
{
	uint64_t now = clock_now_ns();

	return take_blocks(c, d, now, g, refs) || give_up ||
	       !more_to_come(c, d, now);
}

/* When the reserve runs low, collect freed blocks before a request has to wait. */
static void upkeep(struct control *c, uint8_t cls)
{
	low_water(c);
	if (grow_evict(c))
		return;
	if (!slab_tight(c->slab, cls))
		return;
	if (slab_count_class(c->slab, cls).deferred > 0)
		barrier_now(c);
	else
		(void)grow_reclaim(c, clock_now_ns(), GROW_SOON);
}

/*
 * Answer that there is no memory for now. A client that cannot wait any longer can report why
 * its request failed, and returns the blocks that it keeps for their grace period.
 */
static bool say_full(struct session *s, const struct deferred *d)
{
	struct control *c = s->control;
	struct msg m = {.type = MSG_STATS};

	msg_add_stat(&m, MSG_STAT_FULL_CLASS, d->cls);
	msg_add_stat(&m, MSG_STAT_FREE_BYTES,
		     slab_count(c->slab).bytes_free -
			     slab_count_class(c->slab, d->cls).bytes_free);
	msg_add_stat(&m, MSG_STAT_PAGES_REFUSED, reserve_failing(c->region->reserve));
	return session_reply(s, &m, d->req, NULL);
}

/* The blocks are the session's from now on, even if the answer never arrives. */
static bool grant(struct session *s, struct msg *g, uint32_t req,
		  struct block_ref *refs)
{
	if (g->blocks.n) {
		s->granted_ns = clock_now_ns();
	} else {
		s->control->counts.refused++;
		slab_write_off(s->control->slab, g->blocks.cls);
	}
	evictor_granted(s, g->blocks.cls, g->blocks.n);
	sweep_granted(s, refs, g->blocks.n);
	step_reached(STEP_GRANT);
	if (!session_reply(s, g, req, refs))
		return false;
	step_reached(STEP_GRANTED);
	return true;
}

static bool defer(struct control *c, const struct deferred *d)
{
	struct deferred *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = *d;
	TAILQ_INSERT_TAIL(&c->grants->deferred, copy, link);
	c->grants->n_deferred++;
	d->session->n_deferred++;
	timer_start(c->grants->due);
	return true;
}

static void deferred_drop(struct control *c, struct deferred *d)
{
	TAILQ_REMOVE(&c->grants->deferred, d, link);
	c->grants->n_deferred--;
	d->session->n_deferred--;
	if (c->grants->n_deferred == 0)
		evictor_note_served(c);
	free(d);
}

static void grant_deferred(struct control *c, struct deferred *d, struct msg *g,
			   struct block_ref *refs)
{
	struct session *s = d->session;
	uint32_t req = d->req;

	if (g->blocks.n)
		evictor_note_served(c);
	deferred_drop(c, d);
	grant(s, g, req, refs);
}

/* The waiting request of another session for the class that was looked at longest ago. */
static struct deferred *waiting(struct control *c, const struct session *asker,
				uint8_t cls)
{
	struct deferred *d;

	TAILQ_FOREACH(d, &c->grants->deferred, link)
		if (d->cls == cls && d->session != asker)
			return d;
	return NULL;
}

/*
 * Serve waiting requests of other sessions first. Blocks also become free by time alone, and
 * waiting requests are served only every 5 ms: a new one that comes at the right moment must
 * not get all blocks. True: others still wait.
 */
static bool others_first(struct control *c, const struct session *asker,
			 uint8_t cls)
{
	uint64_t now = clock_now_ns(), until = now + SERVE_NS;
	struct block_ref refs[MSG_REFS_MAX];
	struct deferred *d;

	while ((d = waiting(c, asker, cls))) {
		struct msg g;

		if (now >= until || !take_blocks(c, d, now, &g, refs))
			return true;
		grant_deferred(c, d, &g, refs);
		now = clock_now_ns();
	}
	return false;
}

bool grants_on_request(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	uint64_t now = clock_now_ns();
	struct deferred d = {
		.session = s,
		.req = m->req,
		.cls = m->grant_req.cls,
		.count = UTIL_MIN(m->grant_req.count, evictor_grant_max(s, m->grant_req.cls)),
		.began_ns = now,
		.searches = grow_searches(c) + SEARCHES_MAX,
		.sweeps = sweep_stats(c).sweeps + SWEEPS_MAX,
	};
	struct block_ref refs[MSG_REFS_MAX];
	struct msg g;
	bool full;

	hope_renew(c, &d, now);
	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for memory");
		return false;
	}
	c->counts.grants++;
	full = s->n_deferred >= DEFERRED_PER_SESSION;
	if (others_first(c, s, d.cls) && !full && defer(c, &d)) {
		upkeep(c, d.cls);
		return say_full(s, &d);
	}
	if (!try_grant(c, &d, full, &g, refs) && defer(c, &d))
		return say_full(s, &d);
	upkeep(c, d.cls);
	return (g.blocks.n > 0 || say_full(s, &d)) && grant(s, &g, d.req, refs);
}

static void deferred_serve(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	uint64_t until = clock_now_ns() + SERVE_NS;
	struct block_ref refs[MSG_REFS_MAX];
	struct deferred *d;

	(void)fd;
	(void)what;
	/* Sessions may end in the loop, and their requests with them. */
	for (uint32_t n = c->grants->n_deferred;
	     n > 0 && (d = TAILQ_FIRST(&c->grants->deferred)); n--) {
		struct msg g;

		if (n % 16 == 0 && clock_now_ns() >= until)
			break;
		if (try_grant(c, d, false, &g, refs)) {
			grant_deferred(c, d, &g, refs);
		} else {
			TAILQ_REMOVE(&c->grants->deferred, d, link);
			TAILQ_INSERT_TAIL(&c->grants->deferred, d, link);
		}
	}
	if (!TAILQ_EMPTY(&c->grants->deferred))
		timer_start(c->grants->due);
}

/* ---- life ---------------------------------------------------------------- */

static void session_ended(struct session *s)
{
	struct control *c = s->control;
	struct deferred *d, *next;

	TAILQ_FOREACH_SAFE(d, &c->grants->deferred, link, next)
		if (d->session == s)
			deferred_drop(c, d);
}

static void memory_freed(struct control *c)
{
	static const struct timeval now = {0};

	low_water(c);
	if (!TAILQ_EMPTY(&c->grants->deferred))
		event_add(c->grants->due, &now);
}

static bool init(struct control *c)
{
	c->grants = calloc(1, sizeof(*c->grants));
	if (!c->grants)
		return false;
	TAILQ_INIT(&c->grants->deferred);
	c->grants->due = evtimer_new(c->base, deferred_serve, c);
	return c->grants->due != NULL;
}

static void fini(struct control *c)
{
	if (c->grants && c->grants->due)
		event_free(c->grants->due);
	free(c->grants);
}

const struct loop_module grants_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
	.memory_freed = memory_freed,
};
