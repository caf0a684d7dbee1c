/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sessions ask of the allocator. A request comes behind those that wait for blocks
 * of its class; one that finds none waits as long as there is hope:
 *
 * - for blocks of its class: returned ones in limbo (T), worn ones (a barrier);
 * - for pages: segments of other classes that are empty or become so, the index's
 *   tombstones, and what other sessions hold and do not use.
 *
 * A store in use always has something on its way, so there is an end to it: a
 * search of the index and a sweep that began after the request, however long they
 * take, and T and a second after the last of them. Both end; a stopped client may
 * hold them up for some seconds, and a barrier for one. Then the answer is "none",
 * at once for those that follow.
 */
#include "config.h"

#include "memory.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/util.h"

#include "control_priv.h"
#include "grow.h"
#include "reserve.h"

/* A session is asked this often at most, and waited for so long. */
#define RECLAIM_PAUSE_NS (100 * NS_PER_MS)
#define RECLAIM_WAIT_NS (50 * NS_PER_MS)
/* Between two looks at requests that wait. */
#define DEFERRED_PAUSE_MS 5
/* ... of which one takes so long, as what is served before another request: the rest has its
 * turn at the next. */
#define SERVE_NS NS_PER_MS
/* When no pass is on they wait for T and this long for what others had; longer only for
 * those who have just been asked ... */
#define HUNT_NS (80 * NS_PER_MS)
/* ... and this long for their own class and for pages. */
#define DEFERRED_MAX_NS NS_PER_SEC
/*
 * Passes that a request waits for: one may have begun before it. Searches look for
 * many tombstones as long as there are some, and then for any.
 */
#define BARRIERS_MAX 2
#define SEARCHES_MAX 4
#define SWEEPS_MAX 2
/* Requests of one session that may wait; a client has one for each class. */
#define DEFERRED_PER_SESSION CLASS_COUNT
/* With less than one page in so many left, empty segments are given back. More
 * than what is kept for small blocks. */
#define LOW_WATER_SHARE 16u

static void timer_start(struct event *e, int ms)
{
	struct timeval tv = {.tv_usec = ms * 1000};

	if (!event_pending(e, EV_TIMEOUT, NULL))
		event_add(e, &tv);
}

/* ---- where memory may come from ------------------------------------------ */

bool memory_reclaim(struct control *c, const struct session *asker,
		    uint64_t since_ns)
{
	struct session *s, *next;
	struct msg m = {.type = MSG_RECLAIM};
	uint64_t now = clock_now_ns();
	bool soon = false;

	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s == asker || !s->welcomed || s->readonly || s->left ||
		    s->reclaimed_ns >= since_ns)
			continue;
		if (now - s->reclaimed_ns < RECLAIM_PAUSE_NS) {
			/* What it was asked for it has given. */
			soon = soon || s->granted_ns > s->reclaimed_ns;
			continue;
		}
		if (control_end_dead(s))
			continue;
		s->reclaimed_ns = now;
		c->reclaim_until_ns = now + RECLAIM_WAIT_NS;
		if (!session_send(s, &m, NULL, NULL, 0))
			control_end_session(s);
	}
	return soon || now < c->reclaim_until_ns;
}

/* Pages of no use any more, so that there is something left to take. */
static void low_water(struct control *c)
{
	const struct heap *h = c->region->heap;

	if (heap_left(h) < heap_total(h) / LOW_WATER_SHARE &&
	    slab_empty(c->slab) > 0 && slab_shrink(c->slab, true) > 0)
		barrier_want(c);
}

/* What is freed from now on may become its. */
static void hope_renew(const struct control *c, struct deferred *d, uint64_t now)
{
	uint64_t soon = now + c->region->sb.grace_ns;

	d->hunt_ns = soon + HUNT_NS;
	d->until_ns = soon + DEFERRED_MAX_NS;
	d->barriers = c->barrier.passed + BARRIERS_MAX;
}

/* The first search of a request need not gather what can be lent meanwhile. */
static enum grow_need need(const struct control *c, const struct deferred *d)
{
	if (grow_searches(c) + SEARCHES_MAX > d->searches)
		return GROW_ANY;
	return slab_tight(c->slab, d->cls) ? GROW_SOON : GROW_LATER;
}

/* A search or a sweep that may free something goes on, or begins if it may. */
static bool pass_goes_on(struct control *c, const struct deferred *d, bool begin)
{
	if (grow_searches(c) < d->searches &&
	    (begin ? grow_reclaim(c, d->began_ns, need(c, d)) : grow_searching(c)))
		return true;
	return sweep_stats(c).sweeps < d->sweeps &&
	       (begin ? sweep_hurry(c) : sweep_running(c));
}

/*
 * Is anything on its way to a request that found nothing? The steps get more
 * expensive: the next one is taken only when nothing comes of those before. Ends
 * no session but silent ones of others.
 */
static bool more_to_come(struct control *c, struct deferred *d, uint64_t now)
{
	struct slab_counts own = slab_count_class(c->slab, d->cls);
	struct slab_counts all = slab_count(c->slab);
	bool pages, passes = !barrier_stuck(c);

	if (pass_goes_on(c, d, false))
		hope_renew(c, d, now);
	if (now >= d->until_ns)
		return false;
	slab_shrink(c->slab, false);
	pages = heap_retired(c->region->heap) > 0;
	if (pages || all.worn > 0 || own.limbo > 0)
		barrier_now(c);
	if (own.limbo > 0 || ((own.worn > 0 || pages) && passes))
		return true;
	if (all.worn > 0 && passes &&
	    (now < d->hunt_ns || c->barrier.passed < d->barriers))
		return true;
	if (pass_goes_on(c, d, true)) {
		hope_renew(c, d, now);
		return true;
	}
	pages = memory_reclaim(c, d->session, d->began_ns);
	/* The steps before may have taken all the time: what comes of this is waited for,
	 * once. */
	if (!d->asked && now < c->reclaim_until_ns) {
		d->asked = true;
		d->hunt_ns = UTIL_MAX(d->hunt_ns, c->reclaim_until_ns +
						  c->region->sb.grace_ns);
	}
	return now < d->hunt_ns && (pages || all.limbo > 0);
}

/* ---- grants -------------------------------------------------------------- */

/* What there is; false if that is nothing. */
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

/* What is lent runs low: what has been freed is gathered before anybody has to wait. */
static void upkeep(struct control *c, uint8_t cls)
{
	low_water(c);
	if (!slab_tight(c->slab, cls))
		return;
	if (slab_count_class(c->slab, cls).limbo > 0)
		barrier_now(c);
	else
		(void)grow_reclaim(c, clock_now_ns(), GROW_SOON);
}

/*
 * There is none for now. A client that cannot wait for the end of the search can say
 * why it got nothing, and gives back what it has in limbo.
 */
static bool say_full(struct session *s, const struct deferred *d)
{
	struct control *c = s->control;
	struct msg m = {.type = MSG_STATS, .stats = {.n = 3}};

	m.stats.stat[0].id = MSG_STAT_FULL_CLASS;
	m.stats.stat[0].value = d->cls;
	m.stats.stat[1].id = MSG_STAT_FREE_BYTES;
	m.stats.stat[1].value = slab_count(c->slab).bytes_free -
				slab_count_class(c->slab, d->cls).bytes_free;
	m.stats.stat[2].id = MSG_STAT_PAGES_REFUSED;
	m.stats.stat[2].value = reserve_failing(c->region->reserve);
	return control_reply(s, &m, d->req, NULL);
}

/* They are its from now on, also if it never hears of it. */
static bool grant(struct session *s, struct msg *g, uint32_t req,
		  struct block_ref *refs)
{
	if (g->blocks.n)
		s->granted_ns = clock_now_ns();
	else
		slab_write_off(s->control->slab, g->blocks.cls);
	sweep_granted(s, refs, g->blocks.n);
	return control_reply(s, g, req, refs);
}

static bool defer(struct control *c, const struct deferred *d)
{
	struct deferred *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = *d;
	TAILQ_INSERT_TAIL(&c->deferred, copy, link);
	c->n_deferred++;
	d->session->n_deferred++;
	timer_start(c->deferred_due, DEFERRED_PAUSE_MS);
	return true;
}

static void deferred_drop(struct control *c, struct deferred *d)
{
	TAILQ_REMOVE(&c->deferred, d, link);
	c->n_deferred--;
	d->session->n_deferred--;
	free(d);
}

/* To one that waited. */
static void grant_deferred(struct control *c, struct deferred *d, struct msg *g,
			   struct block_ref *refs)
{
	struct session *s = d->session;
	uint32_t req = d->req;

	deferred_drop(c, d);
	grant(s, g, req, refs);
}

/* Of others' requests that wait for blocks of a class, the one looked at longest ago. */
static struct deferred *waiting(struct control *c, const struct session *asker,
				uint8_t cls)
{
	struct deferred *d;

	TAILQ_FOREACH(d, &c->deferred, link)
		if (d->cls == cls && d->session != asker)
			return d;
	return NULL;
}

/*
 * Blocks become free by time alone, too, and who waits is looked after now and then
 * only: who asks at the right moment must not have them all. True: others wait still.
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

bool memory_on_grant(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	uint64_t now = clock_now_ns();
	struct deferred d = {
		.session = s,
		.req = m->req,
		.cls = m->grant_req.cls,
		.count = m->grant_req.count,
		.began_ns = now,
		.searches = grow_searches(c) + SEARCHES_MAX,
		.sweeps = sweep_stats(c).sweeps + SWEEPS_MAX,
	};
	struct block_ref refs[MSG_REFS_MAX];
	struct msg g;
	bool full;

	hope_renew(c, &d, now);
	if (s->readonly) {
		control_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for memory");
		return false;
	}
	c->stats.grants++;
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
	/* Sessions may end meanwhile, and with them requests. */
	for (uint32_t n = c->n_deferred;
	     n > 0 && (d = TAILQ_FIRST(&c->deferred)); n--) {
		struct msg g;

		if (n % 16 == 0 && clock_now_ns() >= until)
			break;
		if (try_grant(c, d, false, &g, refs)) {
			grant_deferred(c, d, &g, refs);
		} else {
			TAILQ_REMOVE(&c->deferred, d, link);
			TAILQ_INSERT_TAIL(&c->deferred, d, link);
		}
	}
	if (!TAILQ_EMPTY(&c->deferred))
		timer_start(c->deferred_due, DEFERRED_PAUSE_MS);
}

void memory_resume(struct control *c)
{
	static const struct timeval now = {0};

	low_water(c);
	if (!TAILQ_EMPTY(&c->deferred))
		event_add(c->deferred_due, &now);
}

/* ---- life ---------------------------------------------------------------- */

void memory_session_ended(struct session *s)
{
	struct control *c = s->control;
	struct deferred *d, *next;

	for (d = TAILQ_FIRST(&c->deferred); d; d = next) {
		next = TAILQ_NEXT(d, link);
		if (d->session == s)
			deferred_drop(c, d);
	}
}

bool memory_init(struct control *c)
{
	TAILQ_INIT(&c->deferred);
	c->deferred_due = evtimer_new(c->base, deferred_serve, c);
	return c->deferred_due != NULL;
}

void memory_fini(struct control *c)
{
	if (c->deferred_due)
		event_free(c->deferred_due);
}
