/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "evictor.h"

#include <stdlib.h>

#include "common/base/util.h"
#include "server/index/evict.h"
#include "server/memory/evacuate.h"

#include "barrier.h"
#include "core.h"

/* Memory that is free or on its way back, as a share of all of it. */
#define FREE_SHARE 40u
/* Free pages, as a share of all: with less a round of visits empties places, ... */
#define PAGES_SHARE 64u
/* ... which are this share of the memory. */
#define PLACES_SHARE 16u
/* A request that waits is told that there is no memory after so many evacuations. */
#define ROUNDS_MAX 128u
/* One grant, as a share of the memory. */
#define GRANT_SHARE 512u
#define GRANT_LEAST 2u

/* One evacuation: visits move the blocks, a barrier frees them, another one frees the pages. */
enum evacuation { EVACUATION_NONE, EVACUATION_VISITS, EVACUATION_BLOCKS, EVACUATION_PAGES };

struct evictor {
	struct evict *books;
	struct region_walk walk; /* the next subtable to visit, ... */
	struct region_walk next; /* ... and the one after it, if evictor_next() gave that out */
	enum evacuation phase;
	uint64_t began_at; /* where the walk was when the visits began, ... */
	bool wrapped;      /* ... and whether it has started again since */
	uint64_t barriers; /* that have to pass until the next phase, or the next attempt */
	uint32_t run;      /* adjacent pages that a request waits for; 0: none since the last
			      evacuation */
	unsigned rounds;   /* evacuations since one of them got some */
};

struct evict *evictor_books(const struct control *c)
{
	return c->evictor ? c->evictor->books : NULL;
}

uint32_t evictor_grant_max(const struct control *c, uint8_t cls)
{
	uint64_t bytes = heap_total(c->region->heap) * PAGE_BYTES / GRANT_SHARE;

	return c->evictor ? (uint32_t)UTIL_MAX(bytes / class_bytes(cls), (uint64_t)GRANT_LEAST)
			  : UINT32_MAX;
}

/* ---- what is short ------------------------------------------------------------------ */

/* A request waits that can still be helped. */
static bool starving(const struct evictor *e)
{
	return e->run && e->rounds <= ROUNDS_MAX;
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

/* Less memory than wanted, and than a request waits for, is free or comes back. */
static bool memory_short(const struct control *c)
{
	struct slab_counts n = slab_count(c->slab);
	uint64_t run = starving(c->evictor) ? c->evictor->run : 0;
	uint64_t wanted = UTIL_MAX(heap_total(c->region->heap) / FREE_SHARE, run);

	return n.bytes_free + n.bytes_deferred + n.bytes_exhausted +
		       pages_free(c) * PAGE_BYTES < wanted * PAGE_BYTES;
}

void evictor_starve(struct control *c, uint8_t cls)
{
	struct evictor *e = c->evictor;

	if (e)
		e->run = UTIL_MAX(e->run, slab_run(c->slab, cls));
}

bool evictor_has_ended(const struct control *c)
{
	return c->evictor && c->evictor->run == 0;
}

void evictor_sated(struct control *c)
{
	if (c->evictor)
		c->evictor->run = c->evictor->rounds = 0;
}

/* ---- evacuation ---------------------------------------------------------------------- */

/* Choose places, if pages are short. */
static void evacuation_begin(struct control *c)
{
	struct evictor *e = c->evictor;

	if (e->phase != EVACUATION_NONE || (!pages_short(c) && !starving(e)) ||
	    (!starving(e) && c->barrier->passed < e->barriers))
		return;
	/* Visits need pages to empty a longer place. */
	if (evacuate_begin(c->slab, pages_short(c) ? 1 : e->run,
			   heap_total(c->region->heap) / PLACES_SHARE, starving(e)) == 0) {
		e->barriers = c->barrier->passed + 1;
		return;
	}
	e->phase = EVACUATION_VISITS;
	if (e->walk.over)
		e->walk = (struct region_walk){0};
	e->began_at = e->walk.hash;
	e->wrapped = false;
	e->rounds += e->run != 0;
}

/* Go on to a phase that ends when a barrier has passed that begins now or later. */
static void await_barrier(struct control *c, enum evacuation phase)
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
	if (!c->evictor || c->evictor->phase == EVACUATION_NONE)
		return;
	(void)evacuate_end(c->slab);
	heap_release(c->region->heap);
	c->evictor->phase = EVACUATION_NONE;
	/* It has shown nothing. */
	c->evictor->rounds -= c->evictor->rounds > 0;
}

/* ---- visits -------------------------------------------------------------------------- */

/* Visits are needed. */
static bool visits(const struct control *c)
{
	const struct evictor *e = c->evictor;

	return memory_short(c) || (starving(e) && e->phase == EVACUATION_VISITS);
}

bool evictor_short(struct control *c)
{
	if (!c->evictor)
		return false;
	evacuation_go_on(c);
	return visits(c);
}

bool evictor_waits(struct control *c)
{
	return evictor_short(c) || (c->evictor && starving(c->evictor));
}

bool evictor_next(struct control *c, uint64_t *hash_out, bool *evicting_out)
{
	struct evictor *e = c->evictor;
	uint64_t entry;

	if (!evictor_short(c))
		return false;
	if (e->walk.over) {
		e->walk = (struct region_walk){0};
		e->wrapped = true;
	}
	if (e->phase == EVACUATION_VISITS && e->wrapped && e->walk.hash >= e->began_at)
		await_barrier(c, EVACUATION_BLOCKS);
	*evicting_out = memory_short(c);
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

/* ---- life ------------------------------------------------------------------------- */

static bool init(struct control *c)
{
	struct evictor *e;

	if (!c->cfg.evict)
		return true;
	e = c->evictor = calloc(1, sizeof(*e));
	if (!e)
		return false;
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
};
