/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "evictor.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/probes.h"
#include "common/base/util.h"
#include "server/index/evict.h"
#include "server/memory/evacuate.h"

#include "barrier.h"
#include "core.h"
#include "reclaim.h"
#include "session.h"

/* Memory that is free or on its way back, as a share of all of it. */
#define FREE_SHARE 80u
/* Free pages, as a share of all: with less a round of visits empties places, ... */
#define PAGES_SHARE 64u
/* ... which are this share of the memory. */
#define PLACES_SHARE 16u
/* The largest grant, as a share of the memory. */
#define GRANT_SHARE 512u
/* The least grant, however little the client has taken lately: a quarter of the largest, and at
 * most GRANT_FEW blocks. Without it a waiting client, which takes little, would be granted ever
 * less. */
#define GRANT_FEW 16u
#define GRANT_LEAST 2u

/* One evacuation: visits move the blocks, a barrier frees them, another one frees the pages. */
enum evictor_phase { EVACUATION_NONE, EVACUATION_VISITS, EVACUATION_BLOCKS, EVACUATION_PAGES };

/* Nothing is known of what the next round of visits can free. */
#define NEVER UINT64_MAX

struct evictor {
	struct evict *books;
	struct region_walk walk; /* the next subtable to visit, ... */
	struct region_walk next; /* ... and the one after it, if evictor_next() gave that out */
	enum evictor_phase phase;
	uint64_t round_at;  /* where the walk was when this round of visits began, ... */
	bool wrapped;       /* ... and whether it has started again since */
	bool round_evicts;  /* all visits of the round have evicted what they could */
	uint64_t evicted;   /* bytes, before the round */
	uint64_t fruitless; /* requests of clients before a round that evicted nothing, or NEVER */
	uint64_t barriers;  /* that have to pass until the next phase, or the next attempt */
	bool places;        /* of this evacuation; without them its round evicts */
	uint64_t stuck_ns;  /* when one for a request ended that has not emptied all; 0: handled */
	uint32_t run;       /* adjacent pages that a request waits for; 0: none since the last
			       evacuation */
	uint8_t cls;        /* of its blocks */
	struct demand demand; /* of all sessions */
};

struct evict *evictor_books(const struct control *c)
{
	return c->evictor ? c->evictor->books : NULL;
}

void evictor_granted(struct session *s, uint8_t cls, size_t n)
{
	struct evictor *e = s->control->evictor;
	uint64_t now = clock_now_ns();

	if (!e)
		return;
	demand_add(&s->demand, cls, n, now);
	demand_add(&e->demand, cls, n, now);
}

/* The largest grant of a class, in blocks. */
static uint64_t largest(const struct control *c, uint8_t cls)
{
	return heap_total(c->region->heap) * PAGE_BYTES / GRANT_SHARE / class_bytes(cls);
}

uint32_t evictor_grant_max(const struct session *s, uint8_t cls)
{
	const struct control *c = s->control;
	uint64_t n;

	if (!c->evictor)
		return UINT32_MAX;
	n = largest(c, cls);
	if (slab_room(c->slab) < heap_total(c->region->heap) / PLACES_SHARE)
		n = UTIL_MIN(n, UTIL_MAX(demand_of(&s->demand, cls, clock_now_ns()),
					 UTIL_MIN(n / 4, (uint64_t)GRANT_FEW)));
	return (uint32_t)UTIL_MAX(n, (uint64_t)GRANT_LEAST);
}

/* ---- what is short ------------------------------------------------------------------ */

static uint64_t requests(const struct control *c)
{
	return c->counts.grants + c->counts.hints;
}

/* A round of visits found nothing to evict, and no client has asked for anything since then. */
static bool fruitless(const struct control *c)
{
	return c->evictor->fruitless == requests(c);
}

/* A request waits that can be helped. */
static bool request_waits(const struct control *c)
{
	return c->evictor->run && !fruitless(c);
}

/* Pages that are free or come back by themselves. */
static uint64_t pages_free(const struct control *c)
{
	return slab_room(c->slab) + heap_retired(c->region->heap);
}

static bool pages_short(const struct control *c)
{
	return pages_free(c) < heap_total(c->region->heap) / PAGES_SHARE;
}

/*
 * Bytes that sizes in use lack. Of each as many blocks should be free or on their way back as are
 * granted in a grace period (T of a cache, a third of DEMAND_NS), and one largest grant at most.
 */
static uint64_t lacking(const struct control *c)
{
	uint64_t now = clock_now_ns(), bytes = 0;

	for (uint8_t cls = 0; cls < CLASS_COUNT; cls++) {
		struct slab_counts n = slab_count_class(c->slab, cls);
		uint64_t want = UTIL_MIN(demand_of(&c->evictor->demand, cls, now) / 3,
					 largest(c, cls));
		uint64_t has = n.free + n.deferred + n.exhausted;

		bytes += (want > has ? want - has : 0) * class_bytes(cls);
	}
	return bytes;
}

/* Less memory than wanted, than sizes in use lack, or than a request waits for, is free or comes
 * back. */
static bool memory_short(const struct control *c)
{
	struct slab_counts n = slab_count(c->slab);
	uint64_t run = request_waits(c) ? c->evictor->run : 0;
	uint64_t wanted = UTIL_MAX(heap_total(c->region->heap) / FREE_SHARE, run);

	return n.bytes_free - n.bytes_stuck + n.bytes_deferred + n.bytes_exhausted +
			       pages_free(c) * PAGE_BYTES < wanted * PAGE_BYTES ||
	       lacking(c) > pages_free(c) * PAGE_BYTES;
}

void evictor_note_waiting(struct control *c, uint8_t cls)
{
	uint32_t run = slab_run(c->slab, cls);

	if (c->evictor && run > c->evictor->run) {
		c->evictor->run = run;
		c->evictor->cls = cls;
	}
}

bool evictor_just_ended(const struct control *c)
{
	return c->evictor && c->evictor->run == 0;
}

void evictor_note_served(struct control *c)
{
	if (c->evictor)
		c->evictor->run = 0;
}

/* ---- rounds of visits ------------------------------------------------------------------ */

/* Bytes evicted since the round began. */
static uint64_t evicted(const struct evictor *e)
{
	return evict_counts(e->books)[EVICT_SUM].bytes - e->evicted;
}

static void round_begin(struct evictor *e)
{
	if (e->walk.over)
		e->walk = (struct region_walk){0};
	e->round_at = e->walk.hash;
	e->wrapped = false;
	e->round_evicts = true;
	e->evicted = evict_counts(e->books)[EVICT_SUM].bytes;
}

/* All subtables have been visited since the round began, or it has evicted what is waited for. */
static bool round_is_over(struct evictor *e)
{
	if (e->phase == EVACUATION_VISITS && !e->places &&
	    evicted(e) >= e->run * (uint64_t)PAGE_BYTES)
		return true;
	if (e->walk.over) {
		e->walk = (struct region_walk){0};
		e->wrapped = true;
	}
	return e->wrapped && e->walk.hash >= e->round_at;
}

/* ---- evacuation ---------------------------------------------------------------------- */

/* Choose places, if pages are short, or a request waits. Then a round begins. */
static void evacuation_begin(struct control *c)
{
	struct evictor *e = c->evictor;
	struct evacuation want = {
		/* Visits need pages to empty a longer place. */
		.run = pages_short(c) ? 1 : e->run,
		.pages = heap_total(c->region->heap) / PLACES_SHARE,
		.force = request_waits(c),
		.cls = e->run ? e->cls : CLASS_COUNT,
	};

	if (e->phase != EVACUATION_NONE || (!pages_short(c) && !want.force) ||
	    (!want.force && c->barrier->passed < e->barriers))
		return;
	e->places = evacuate_begin(c->slab, &want) > 0;
	if (!e->places && !want.force) {
		e->barriers = c->barrier->passed + 1;
		return;
	}
	e->phase = EVACUATION_VISITS;
	round_begin(e);
}

/* Go on to a phase that ends when a barrier has passed that begins now or later. */
static void await_barrier(struct control *c, enum evictor_phase phase)
{
	c->evictor->phase = phase;
	c->evictor->barriers = c->barrier->passed + 1 + c->barrier->on;
	barrier_want(c);
}

/* True if it has, or if nothing waits for one, so that there may be none. */
static bool barrier_over(struct control *c)
{
	struct slab_counts n = slab_count(c->slab);

	if (c->barrier->passed >= c->evictor->barriers ||
	    (n.deferred + n.exhausted == 0 && heap_retired(c->region->heap) == 0))
		return true;
	barrier_want(c);
	return false;
}

static void evacuation_go_on(struct control *c)
{
	struct evictor *e = c->evictor;

	if (e->phase == EVACUATION_BLOCKS && barrier_over(c)) {
		(void)evacuate_end(c->slab);
		if (evacuate_stuck(c->slab) && e->run) {
			e->stuck_ns = clock_now_ns();
			core_tick_soon(c);
		}
		await_barrier(c, EVACUATION_PAGES);
	}
	if (e->phase == EVACUATION_PAGES && barrier_over(c)) {
		heap_release(c->region->heap);
		e->phase = EVACUATION_NONE;
		/* Requests try again first: the next evacuation would need these pages itself. */
		e->run = 0;
	}
	evacuation_begin(c);
}

void evictor_give_up(struct control *c)
{
	struct evictor *e = c->evictor;

	if (!e)
		return;
	/* An evacuation holds pages. */
	if (e->phase == EVACUATION_NONE) {
		e->fruitless = requests(c);
		return;
	}
	(void)evacuate_end(c->slab);
	heap_release(c->region->heap);
	e->phase = EVACUATION_NONE;
}

/* ---- visits -------------------------------------------------------------------------- */

/* Visits are to leave out the coldest keys. */
static bool evicts(const struct control *c)
{
	const struct evictor *e = c->evictor;

	return memory_short(c) ||
	       (request_waits(c) && e->phase == EVACUATION_VISITS && !e->places);
}

/* Visits are needed. */
static bool visits(const struct control *c)
{
	return !fruitless(c) &&
	       (memory_short(c) || (request_waits(c) && c->evictor->phase == EVACUATION_VISITS));
}

bool evictor_needs_visits(struct control *c)
{
	if (!c->evictor)
		return false;
	evacuation_go_on(c);
	return visits(c);
}

bool evictor_may_free(struct control *c)
{
	return evictor_needs_visits(c) || (c->evictor && request_waits(c));
}

static void round_end(struct control *c)
{
	struct evictor *e = c->evictor;

	PROBE1(eviction_round, evicted(e));
	if (e->round_evicts && evicted(e) == 0)
		e->fruitless = requests(c);
	if (e->phase == EVACUATION_VISITS)
		await_barrier(c, EVACUATION_BLOCKS);
	round_begin(e);
}

bool evictor_next(struct control *c, uint64_t *hash_out, bool *evicting_out)
{
	struct evictor *e = c->evictor;
	uint64_t entry;

	if (!evictor_needs_visits(c))
		return false;
	if (round_is_over(e))
		round_end(c);
	if (!visits(c))
		return false;
	*evicting_out = evicts(c);
	e->round_evicts = e->round_evicts && *evicting_out;
	e->next = e->walk;
	return region_walk_next(c->region, &e->next, &entry, hash_out);
}

void evictor_begun(struct control *c)
{
	c->evictor->walk = c->evictor->next;
}

static void memory_freed(struct control *c)
{
	if (c->evictor && c->evictor->phase != EVACUATION_NONE)
		evacuation_go_on(c);
}

/* What clients hold and do not use, those that wait too, has kept segments from being emptied. */
static bool tick(struct control *c)
{
	uint64_t since = c->evictor ? c->evictor->stuck_ns : 0;

	if (!since)
		return false;
	c->evictor->stuck_ns = 0;
	(void)reclaim_ask(c, NULL, since);
	return false;
}

/* ---- life ------------------------------------------------------------------------- */

static bool init(struct control *c)
{
	struct evictor *e;

	if (!c->cfg.evict)
		return true;
	e = c->evictor = calloc(1, sizeof(*e));
	if (!e)
		return false;
	e->fruitless = NEVER;
	slab_keep_no_reserve(c->slab);
	e->books = evict_new(c->region);
	return e->books != NULL;
}

static void fini(struct control *c)
{
	struct evictor *e = c->evictor;

	if (!e)
		return;
	evict_free(e->books);
	free(e);
	c->evictor = NULL;
}

const struct loop_module evictor_module = {
	.init = init,
	.fini = fini,
	.memory_freed = memory_freed,
	.tick = tick,
};
