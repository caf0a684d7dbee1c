/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "grow.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/probes.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"
#include "common/xport/xport.h"
#include "server/index/adopt.h"
#include "server/index/migrate.h"
#include "server/memory/evacuate.h"

#include "barrier.h"
#include "core.h"
#include "evictor.h"
#include "reclaim.h"
#include "session.h"
#include "sweep.h"

/* How long one HINT may hold the control loop. */
#define HINT_BUDGET_NS NS_PER_MS
/* How long to wait for pages that a barrier frees; after that there are none. */
#define PAGES_WAIT_NS NS_PER_SEC
/* A waiting client repeats its HINT more often than this. */
#define PAGES_ASKED_NS (NS_PER_SEC / 4)
/*
 * A full subtable is compacted if at least a quarter of its used slots are tombstones and its
 * live keys fill at most this share; otherwise it is split.
 */
#define COMPACT_LIVE_MAX (SUBTABLE_SLOTS * 55 / 100)
/* A request's first search compacts subtables with this many tombstones, or the average if
 * its class is short of blocks (slab.h). Later searches take any. */
#define RECLAIM_FROM (SUBTABLE_SLOTS / 16)
/*
 * After a search that found nothing the next one waits this many times its duration: keys
 * may have been deleted until then.
 */
#define RECLAIM_PAUSE_SHARE 20u
#define RECLAIM_PAUSE_MAX_NS (100 * NS_PER_MS)
/* Subtables searched between two readings of the clock. */
#define RECLAIM_STEP 8u

/* Pages by number, oldest first: a ring. */
struct page_queue {
	uint64_t *page;
	size_t at, n, cap;
};

enum queued { NOT_QUEUED, QUEUED_SPARSE, QUEUED_EARLY, QUEUED_URGENT };

struct grow {
	struct control *c;
	struct xport_lane *lane;
	struct xport_lane *own_lane; /* shared memory: to be closed here */
	struct migration *migration;
	bool running;
	const struct session *asker; /* session whose HINT is being handled, or NULL */
	bool lane_lost; /* no work until the lane works again */
	uint64_t running_page; /* of the subtable that is being rebuilt */

	struct page_queue urgent, early; /* a client waits; a window is nearly full */
	struct page_queue sparse; /* many of its keys are dead */
	uint64_t first;     /* page of the data area */
	uint32_t *prefix;   /* per page: top bits of its subtable's first hash */
	uint8_t *queued;    /* per page: enum queued */
	uint64_t barriers;  /* that had passed at the last memory_freed() */
	uint64_t short_ns;  /* since when pages are awaited; 0: they are not */
	uint64_t asked_ns;  /* when a client last asked for them */
	bool no_space;      /* pages were awaited, none came */
	bool frozen_left;   /* an adopted region may have subtables whose migration stopped */

	struct region_walk search; /* for tombstones */
	struct region_walk search_at; /* the subtable that the search returned last */
	bool searching;
	bool stalled;           /* the search waits for a barrier to free pages */
	uint32_t search_from;   /* least tombstones of a subtable to compact */
	uint32_t search_found;  /* subtables compacted in this search */
	uint64_t dead[CLASS_COUNT]; /* tombstones left, by class of their block */
	uint64_t dead_before;   /* all that the last search left */
	uint64_t search_ns;     /* start of the search */
	uint64_t searches;      /* searches that have ended */
	uint64_t fruitless_ns;  /* start of the last search that found none */
	uint64_t pause_until_ns; /* no search before this time */

	struct work work;
	struct grow_stats stats;
};

/* ---- pages and queues ----------------------------------------------------------- */

static bool queue_push(struct page_queue *q, uint64_t page)
{
	if (q->n == q->cap) {
		size_t cap = q->cap ? q->cap * 2 : 64;
		uint64_t *p = malloc(cap * sizeof(*p));

		if (!p)
			return false;
		for (size_t i = 0; i < q->n; i++)
			p[i] = q->page[(q->at + i) & (q->cap - 1)];
		free(q->page);
		*q = (struct page_queue){.page = p, .n = q->n, .cap = cap};
	}
	q->page[(q->at + q->n++) & (q->cap - 1)] = page;
	return true;
}

static uint64_t queue_pop(struct page_queue *q)
{
	uint64_t page = q->page[q->at];

	q->at = (q->at + 1) & (q->cap - 1);
	q->n--;
	return page;
}

static uint64_t hash_of(const struct grow *g, uint64_t page)
{
	return (uint64_t)g->prefix[page - g->first] << 32;
}

/* True if the subtable still exists. */
static bool is_current(const struct grow *g, uint64_t page, uint32_t gen)
{
	const struct region *r = g->c->region;
	uint64_t entry;

	if (!region_page_ok(&r->sb, page))
		return false;
	entry = region_entry(r, hash_of(g, page));
	return entry_page(entry) == page && entry_gen(entry) == gen;
}

/*
 * True if the subtable has a window without an EMPTY slot. Checked here, for a client may be
 * wrong, and a split is never undone.
 */
static bool has_full_window(const struct grow *g, uint64_t page)
{
	uint64_t entry = region_entry(g->c->region, hash_of(g, page));
	const uint64_t *slots = region_slots(g->c->region, entry);
	uint64_t empty = slot_empty(entry_gen(entry));
	unsigned full = 0; /* consecutive lines */

	for (unsigned line = 0; line < SUBTABLE_LINES; line++) {
		bool any = false;

		for (unsigned s = 0; s < LINE_SLOTS; s++, slots++)
			any = any || (atom_load_relaxed(slots) &
				      ~SLOT_FROZEN) == empty;
		full = any ? 0 : full + 1;
		if (full == WINDOW_LINES)
			return true;
	}
	return false;
}

static struct page_queue *queue_of(struct grow *g, enum queued as)
{
	return as == QUEUED_URGENT ? &g->urgent : as == QUEUED_EARLY ? &g->early : &g->sparse;
}

static void enqueue(struct grow *g, uint64_t page, enum queued as)
{
	uint8_t *state = &g->queued[page - g->first];

	if (*state >= as || (g->running && g->running_page == page))
		return;
	if (queue_push(queue_of(g, as), page))
		*state = (uint8_t)as;
}

static bool any_queued(const struct grow *g)
{
	return g->urgent.n || g->early.n || g->sparse.n;
}

/*
 * Finish the migrations that another server began: writers wait for them. A compaction always
 * succeeds if there is a page; if not, the next barrier frees those that it had taken.
 */
static void finish_frozen(struct grow *g)
{
	struct region_walk w = {0};
	uint64_t entry, hash;

	if (!g->frozen_left)
		return;
	g->frozen_left = false;
	while (region_walk_next(g->c->region, &w, &entry, &hash))
		if (adopt_is_frozen(g->c->region, entry)) {
			g->frozen_left = true;
			enqueue(g, entry_page(entry), QUEUED_SPARSE);
		}
	if (g->frozen_left)
		work_start(&g->c->work, &g->work);
}

/* The next page that still needs work, and how it was queued; 0: there is none. */
static uint64_t dequeue(struct grow *g, enum queued *as_out)
{
	const struct region *r = g->c->region;

	while (any_queued(g)) {
		enum queued as = g->urgent.n ? QUEUED_URGENT :
				 g->early.n  ? QUEUED_EARLY : QUEUED_SPARSE;
		uint64_t page = queue_pop(queue_of(g, as));

		if (g->queued[page - g->first] != as)
			continue; /* moved to another queue meanwhile */
		g->queued[page - g->first] = NOT_QUEUED;
		*as_out = as;
		if (entry_page(region_entry(r, hash_of(g, page))) == page)
			return page;
	}
	return 0;
}

/* ---- which, and how ----------------------------------------------------------------- */

/* Give back empty segments. True if a barrier will free pages. */
static bool pages_coming(struct grow *g)
{
	struct control *c = g->c;

	slab_settle(c->slab, clock_now_ns());
	slab_shrink(c->slab, false);
	if (heap_retired(c->region->heap) == 0 || barrier_stuck(c))
		return false;
	barrier_now(c);
	return true;
}

/*
 * A client waits for this rebuild, which needs pages. They may come from retired pages, from
 * tombstones elsewhere, or from what other sessions hold and do not use. After PAGES_WAIT_NS
 * the answer is that there is no memory, until a client asks again.
 */
static void await_pages(struct grow *g)
{
	struct control *c = g->c;
	uint64_t now = clock_now_ns();

	if (!g->short_ns || now - g->asked_ns > PAGES_ASKED_NS)
		g->short_ns = now;
	g->asked_ns = now;
	if (evictor_may_free(c))
		return;
	if (now - g->short_ns <= PAGES_WAIT_NS &&
	    (pages_coming(g) ||
	     (!barrier_stuck(c) && (slab_count(c->slab).deferred > 0 ||
				    grow_reclaim(c, g->short_ns,
						 g->search_found ? GROW_LATER :
								   GROW_ANY))) ||
	     reclaim_ask(c, g->asker, g->short_ns)))
		return;
	g->no_space = true;
	g->short_ns = 0;
}

static void begun(struct grow *g, uint64_t hash)
{
	g->running = true;
	g->running_page = entry_page(region_entry(g->c->region, hash));
	g->short_ns = 0;
	g->no_space = false;
}

static enum migrate_begin begin(struct grow *g, uint64_t hash,
				enum migrate_kind kind)
{
	struct heap *heap = g->c->region->heap;
	enum migrate_begin b = MIGRATE_NO_PAGE;

	/* The last pages are reserved for compaction, and for visits. */
	if (kind == MIGRATE_COMPACT ||
	    (evictor_books(g->c) ? slab_room(g->c->slab) > 0 : heap_left(heap) >= 2))
		b = migration_begin(g->migration, hash, kind);
	if (b == MIGRATE_BEGUN)
		begun(g, hash);
	return b;
}

static enum migrate_begin begin_visit(struct grow *g, uint64_t hash, bool evicting)
{
	enum migrate_begin b = migration_begin_visit(g->migration, hash, evicting);

	if (b == MIGRATE_BEGUN)
		begun(g, hash);
	else if (!pages_coming(g))
		evictor_give_up(g->c);
	return b;
}

/* Rebuild a full subtable. */
static enum migrate_begin rebuild(struct grow *g, uint64_t hash)
{
	enum migrate_begin b;
	uint32_t live, dead;

	migration_count(g->c->region, hash, &live, &dead);
	if (dead * 3 >= live && live <= COMPACT_LIVE_MAX && dead)
		return begin(g, hash, MIGRATE_COMPACT);
	b = begin(g, hash, MIGRATE_SPLIT);
	/* No page for a split: compact, which frees at least a few slots. */
	if (b != MIGRATE_BEGUN && dead && begin(g, hash, MIGRATE_COMPACT) ==
						  MIGRATE_BEGUN)
		return MIGRATE_BEGUN;
	/* A store that evicts makes room in any case. */
	if (b != MIGRATE_BEGUN && evictor_books(g->c))
		return begin_visit(g, hash, true);
	return b;
}

/* Tell the slab which tombstones are left; see slab_note_dead(). */
static void search_counted(struct grow *g)
{
	slab_note_dead(g->c->slab, g->dead);
	g->dead_before = 0;
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		g->dead_before += g->dead[cls];
}

/* The next subtable to compact; false when the search is over. */
static bool search_next(struct grow *g, uint64_t until_ns, uint64_t *hash_out)
{
	const struct region *r = g->c->region;
	uint64_t entry, now;
	uint32_t live, dead;

	for (unsigned i = 0;; i++) {
		g->search_at = g->search;
		if (!region_walk_next(r, &g->search, &entry, hash_out))
			break;
		migration_count(r, *hash_out, &live, &dead);
		if (dead >= g->search_from)
			return true;
		if (dead)
			migration_note_dead(r, *hash_out, g->dead);
		if (i % RECLAIM_STEP == 0 && clock_now_ns() >= until_ns) {
			*hash_out = 0;
			return false;
		}
	}
	g->searching = false;
	g->searches++;
	now = clock_now_ns();
	search_counted(g);
	if (g->search_found == 0 && g->dead_before == 0) {
		g->fruitless_ns = g->search_ns;
		g->pause_until_ns =
			now + UTIL_MIN((now - g->search_ns) *
					       RECLAIM_PAUSE_SHARE,
				       RECLAIM_PAUSE_MAX_NS);
	}
	core_memory_freed(g->c);
	return false;
}

/* Begin the next migration that evicts. False: none is needed, or it has to wait for pages. */
static bool next_visit(struct grow *g)
{
	uint64_t hash;
	bool evicting;

	if (!evictor_next(g->c, &hash, &evicting))
		return false;
	if (begin_visit(g, hash, evicting) != MIGRATE_BEGUN)
		return false;
	evictor_begun(g->c);
	return true;
}

/* Begin the next migration. False: nothing to do, or it has to wait. */
static bool next_migration(struct grow *g, uint64_t until_ns)
{
	uint64_t page, hash;
	enum queued as;

	page = dequeue(g, &as);
	if (page && as == QUEUED_SPARSE) {
		(void)begin(g, hash_of(g, page), MIGRATE_COMPACT);
		return true;
	}
	if (page) {
		if (rebuild(g, hash_of(g, page)) != MIGRATE_NO_PAGE)
			return true;
		if (as == QUEUED_URGENT)
			await_pages(g);
		return as != QUEUED_URGENT;
	}
	if (!g->searching)
		return next_visit(g);
	if (!search_next(g, until_ns, &hash))
		return g->searching;
	switch (begin(g, hash, MIGRATE_COMPACT)) {
	case MIGRATE_BEGUN:
		g->search_found++;
		return true;
	default:
		g->search = g->search_at;
		g->stalled = pages_coming(g);
		if (!g->stalled) {
			g->searching = false;
			g->searches++;
			g->fruitless_ns = clock_now_ns();
			core_memory_freed(g->c);
		}
		return false;
	}
}

/* ---- migrations ------------------------------------------------------------------------ */

static void finished(struct grow *g)
{
	const struct migrate_result *m = migration_result(g->migration);
	struct grow_stats *st = &g->stats;

	g->running = false;
	for (unsigned i = 0; i < 2; i++)
		if (m->page[i])
			g->prefix[m->page[i] - g->first] =
				(uint32_t)(m->page_hash[i] >> 32);
	for (unsigned i = 0; m->moved && i < 2; i++)
		if (m->page[i])
			sweep_moved(g->c, region_entry(g->c->region, m->page_hash[i]));
	if (m->kind == MIGRATE_SPLIT)
		st->splits++;
	else
		st->compactions++;
	st->doublings += m->doubled;
	st->damaged += m->damaged;
	st->moves += m->moved;
	st->ns_total += m->total_ns;
	st->ns_max = UTIL_MAX(st->ns_max, m->total_ns);
	st->frozen_ns_max = UTIL_MAX(st->frozen_ns_max, m->frozen_ns);
	PROBE3(migration, m->kind == MIGRATE_SPLIT, m->live, m->total_ns);
	if (m->damaged && core_complaint_due(g->c))
		log_warn("%u index slots named no block of their own:  "
			 "dropped; a client has written where it must not, or "
			 "memory is bad", m->damaged);
	log_debug("a subtable of %u keys was %s in %u us, writers waited %u us",
		  m->live, m->kind == MIGRATE_SPLIT ? "split" : "compacted",
		  (unsigned)(m->total_ns / 1000),
		  (unsigned)(m->frozen_ns / 1000));
	barrier_want(g->c);
	if (m->dead + m->evicted + m->moved)
		core_memory_freed(g->c);
}

/* The lane of shared memory cannot break. */
void grow_lane_broke(struct control *c)
{
	c->grow->lane_lost = true;
	if (c->verbs)
		xport_verbs->server_lane_lost(c->verbs);
	else
		core_fail(c);
}

void grow_lane_back(struct control *c)
{
	if (!c->grow)
		return;
	c->grow->lane_lost = false;
	work_start(&c->work, &c->grow->work);
}

static bool on_work(void *arg, uint64_t until_ns)
{
	struct grow *g = arg;

	do {
		if (g->lane_lost)
			return false;
		if (!g->running && !next_migration(g, until_ns))
			return g->searching && !g->stalled;
		if (!g->running)
			continue;
		switch (migration_step(g->migration, until_ns)) {
		case MIGRATE_MORE:
			return true;
		case MIGRATE_DONE:
			finished(g);
			break;
		case MIGRATE_LOST:
			grow_lane_broke(g->c);
			return false;
		}
	} while (clock_now_ns() < until_ns);
	return true;
}

static uint8_t answer(struct grow *g, uint64_t page, uint32_t gen)
{
	if (!is_current(g, page, gen))
		return MSG_HINT_DONE;
	if (g->no_space)
		return MSG_HINT_NOSPC;
	if (entry_depth(region_entry(g->c->region, hash_of(g, page))) ==
		    g->c->region->max_depth && !evictor_books(g->c))
		return MSG_HINT_FULL;
	return MSG_HINT_WORKING;
}

bool grow_on_hint(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_HINT_REPLY};
	struct grow *g = s->control->grow;
	uint64_t page = m->hint.page, until;

	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for a larger index");
		return false;
	}
	s->control->counts.hints++;
	r.hint_reply.status = MSG_HINT_DONE;
	if (!is_current(g, page, m->hint.gen) || !has_full_window(g, page))
		return session_reply(s, &r, m->req, NULL);
	enqueue(g, page, m->hint.full ? QUEUED_URGENT : QUEUED_EARLY);
	work_start(&s->control->work, &g->work);
	if (!m->hint.full)
		return session_reply(s, &r, m->req, NULL);
	g->no_space = false;
	until = clock_now_ns() + HINT_BUDGET_NS;
	g->asker = s;
	while (is_current(g, page, m->hint.gen) && clock_now_ns() < until)
		if (!on_work(g, until))
			break;
	g->asker = NULL;
	r.hint_reply.status = answer(g, page, m->hint.gen);
	return session_reply(s, &r, m->req, NULL);
}

bool grow_evict(struct control *c)
{
	if (evictor_needs_visits(c))
		work_start(&c->work, &c->grow->work);
	return evictor_may_free(c);
}

bool grow_searching(const struct control *c)
{
	const struct grow *g = c->grow;

	/* A search may wait for pages that a stopped client holds up. */
	return g->searching && (!g->stalled || !barrier_stuck(c));
}

uint64_t grow_searches(const struct control *c)
{
	return c->grow->searches;
}

/* Least tombstones that make a subtable worth a compaction. */
static uint32_t search_threshold(const struct grow *g, enum grow_need need)
{
	uint64_t average = g->dead_before / g->c->region->subtables;

	if (need == GROW_ANY)
		return 1;
	if (need == GROW_LATER)
		return RECLAIM_FROM;
	return (uint32_t)UTIL_MIN(UTIL_MAX(average, UINT64_C(1)),
				  (uint64_t)RECLAIM_FROM);
}

bool grow_reclaim(struct control *c, uint64_t since_ns, enum grow_need need)
{
	uint64_t now = clock_now_ns();
	struct grow *g = c->grow;

	if (g->searching)
		return grow_searching(c);
	if (g->fruitless_ns >= since_ns)
		return g->running;
	if (now < g->pause_until_ns)
		return true;
	g->searching = true;
	g->search_ns = now;
	g->search = (struct region_walk){0};
	g->search_found = 0;
	g->search_from = search_threshold(g, need);
	memset(g->dead, 0, sizeof(g->dead));
	work_start(&c->work, &g->work);
	return true;
}

/* Only a barrier frees pages. */
static void memory_freed(struct control *c)
{
	struct grow *g = c->grow;

	if (g->barriers == c->barrier->passed)
		return;
	g->barriers = c->barrier->passed;
	g->short_ns = 0;
	g->stalled = false;
	finish_frozen(g);
	if (g->searching || any_queued(g) || evictor_needs_visits(c))
		work_start(&c->work, &g->work);
}

void grow_compact(struct control *c, uint64_t entry, uint64_t hash)
{
	struct grow *g = c->grow;

	if (region_entry(c->region, hash) != entry)
		return;
	enqueue(g, entry_page(entry), QUEUED_SPARSE);
	work_start(&c->work, &g->work);
}

bool grow_rebuilds(const struct control *c, uint64_t page)
{
	return c->grow->running && c->grow->running_page == page;
}

struct xport_lane *grow_lane(const struct control *c)
{
	return c->grow->lane;
}

bool grow_lane_is_lost(const struct control *c)
{
	return c->grow->lane_lost;
}

uint64_t grow_pages(const struct control *c)
{
	return migration_pages(c->grow->migration);
}

const struct grow_stats *grow_stats(const struct control *c)
{
	return &c->grow->stats;
}

/* ---- life --------------------------------------------------------------------------------- */

static struct xport_lane *lane_open(struct grow *g)
{
	struct region *r = g->c->region;

	if (g->c->verbs)
		return xport_verbs->server_lane(g->c->verbs);
	/* The lane's requests all lie in the data area. */
	g->own_lane = xport_shm_open(r->data - r->sb.meta_bytes,
				     r->sb.region_bytes, false);
	return g->own_lane;
}

static bool init(struct control *c)
{
	uint64_t pages = heap_total(c->region->heap);
	struct region_walk w = {0};
	struct grow *g = calloc(1, sizeof(*g));
	uint64_t entry, hash;

	if (!g)
		return false;
	c->grow = g;
	g->c = c;
	g->work.step = on_work;
	g->work.kind = MSG_PAUSE_GROWTH;
	g->work.arg = g;
	g->first = c->region->sb.meta_bytes / PAGE_BYTES;
	g->lane = lane_open(g);
	g->prefix = calloc(pages, sizeof(*g->prefix));
	g->queued = calloc(pages, sizeof(*g->queued));
	if (!g->lane || !g->prefix || !g->queued)
		return false;
	g->migration = migration_new(c->region, c->slab, g->lane,
				     evictor_books(c));
	if (!g->migration)
		return false;
	while (region_walk_next(c->region, &w, &entry, &hash))
		g->prefix[entry_page(entry) - g->first] =
			(uint32_t)(hash >> 32);
	g->frozen_left = c->region->found;
	finish_frozen(g);
	return true;
}

static void fini(struct control *c)
{
	struct grow *g = c->grow;

	if (!g)
		return;
	migration_free(g->migration);
	xport_close(g->own_lane);
	free(g->urgent.page);
	free(g->early.page);
	free(g->sparse.page);
	free(g->prefix);
	free(g->queued);
	free(g);
	c->grow = NULL;
}

const struct loop_module grow_module = {
	.init = init,
	.fini = fini,
	.memory_freed = memory_freed,
};
