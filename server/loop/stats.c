/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "stats.h"

#include <stdlib.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "server/index/evict.h"
#include "server/memory/reserve.h"

#include "barrier.h"
#include "core.h"
#include "evictor.h"
#include "expire.h"
#include "grow.h"
#include "passes.h"
#include "session.h"
#include "snapshots.h"
#include "sweep.h"
#include "waiters.h"

static_assert(MSG_STAT_END - 1 <= MSG_STATS_MAX &&
		      MSG_FSCK_END - 1 <= MSG_STATS_MAX,
	      "all figures fit a message");

#define COUNT_EVERY_NS NS_PER_SEC

struct stats_count {
	uint64_t items, dead, item_bytes;
};

struct stats {
	uint64_t started_ns;
	struct stats_count count; /* the last complete one */
	uint64_t counted_ns;      /* when it ended; 0 never */
	struct stats_count now;   /* the running one */
	struct region_walk walk;
	uint64_t cpu_ns; /* CPU time at the last request */
	struct waiters waiters;
	struct work work;
};

/* Clients write these words: check a word before following it. */
static void count_slot(struct stats_count *n, const struct region *r,
		       uint64_t w)
{
	if (slot_is_null(w) ||
	    !region_block_ok(&r->sb, slot_off(w), slot_class(w)))
		return;
	if (w & SLOT_DEAD) {
		n->dead++;
		return;
	}
	n->items++;
	n->item_bytes += class_bytes(slot_class(w));
}

/* False when all subtables have been visited. */
static bool count_step(struct stats *st, const struct region *r,
		       uint64_t until_ns)
{
	uint64_t entry, hash;

	while (region_walk_next(r, &st->walk, &entry, &hash)) {
		const uint64_t *slots = region_slots(r, entry);

		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
			count_slot(&st->now, r, atom_load_relaxed(&slots[i]));
		if (clock_now_ns() >= until_ns)
			return true;
	}
	st->count = st->now;
	st->counted_ns = clock_now_ns();
	return false;
}

/* ---- the message --------------------------------------------------------------- */

static void add_index(struct msg *m, const struct control *c)
{
	const struct region *r = c->region;
	const struct stats_count *n = &c->stats->count;
	const struct grow_stats *g = grow_stats(c);
	uint64_t slots = r->subtables * SUBTABLE_SLOTS;

	msg_add_stat(m, MSG_STAT_INDEX_BYTES, (r->subtables) * PAGE_BYTES);
	msg_add_stat(m, MSG_STAT_INDEX_SLOTS, slots);
	msg_add_stat(m, MSG_STAT_SUBTABLES, r->subtables);
	msg_add_stat(m, MSG_STAT_ITEMS, n->items);
	msg_add_stat(m, MSG_STAT_DEAD_SLOTS, n->dead);
	msg_add_stat(m, MSG_STAT_ITEM_BYTES, n->item_bytes);
	msg_add_stat(m, MSG_STAT_INDEX_LOAD, (n->items + n->dead) * 1000 / slots);
	msg_add_stat(m, MSG_STAT_DIR_DEPTH, r->depth);
	msg_add_stat(m, MSG_STAT_DIR_DOUBLINGS, g->doublings);
	msg_add_stat(m, MSG_STAT_SPLITS, g->splits);
	msg_add_stat(m, MSG_STAT_COMPACTIONS, g->compactions);
	msg_add_stat(m, MSG_STAT_MIGRATION_NS, g->ns_total);
	msg_add_stat(m, MSG_STAT_MIGRATION_NS_MAX, g->ns_max);
	msg_add_stat(m, MSG_STAT_BLOCKS_DAMAGED, g->damaged);
}

static void add_blocks(struct msg *m, const struct control *c)
{
	const struct stats_count *n = &c->stats->count;
	struct slab_counts b = slab_count(c->slab);
	uint64_t named = n->items + n->dead;

	msg_add_stat(m, MSG_STAT_BLOCKS_GRANTED, b.out);
	msg_add_stat(m, MSG_STAT_BLOCKS_FREE, b.free);
	msg_add_stat(m, MSG_STAT_BLOCKS_DEFERRED, b.deferred);
	msg_add_stat(m, MSG_STAT_BLOCKS_EXHAUSTED, b.exhausted);
	msg_add_stat(m, MSG_STAT_BLOCKS_LIVE, n->items);
	msg_add_stat(m, MSG_STAT_BLOCKS_DEAD, n->dead);
	/* The count may be a second old. */
	msg_add_stat(m, MSG_STAT_BLOCKS_HELD, b.out > named ? b.out - named : 0);
}

static void add_upkeep(struct msg *m, struct control *c)
{
	struct sweep_stats s = sweep_stats(c);

	msg_add_stat(m, MSG_STAT_BLOCKS_SWEPT, s.swept);
	msg_add_stat(m, MSG_STAT_SWEEPS, s.sweeps);
	msg_add_stat(m, MSG_STAT_SWEEP_NS, s.last_ns);
	msg_add_stat(m, MSG_STAT_SWEEP_DEATHS, s.deaths);
	msg_add_stat(m, MSG_STAT_BARRIERS, c->barrier->passed);
	/* A session whose process is gone is noticed at the next barrier, or here. */
	(void)lingering_gone(&c->lingering);
	msg_add_stat(m, MSG_STAT_BARRIER_WAITS, c->barrier->waits + c->lingering.n);
	msg_add_stat(m, MSG_STAT_RETIRED_BYTES,
	    heap_retired(c->region->heap) * PAGE_BYTES);
}

static void add_hits(struct msg *m, const struct control *c)
{
	struct hits h = c->counts.ended;
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		core_count_hits(&h, session_hits(s));
	msg_add_stat(m, MSG_STAT_GETS, h.hits + h.misses);
	msg_add_stat(m, MSG_STAT_HITS, h.hits);
	msg_add_stat(m, MSG_STAT_MISSES, h.misses);
	msg_add_stat(m, MSG_STAT_SETS, h.sets);
}

static void add_snapshots(struct msg *m, const struct control *c)
{
	struct snapshots_stats n = snapshots_stats(c);

	msg_add_stat(m, MSG_STAT_SAVES, n.saves);
	msg_add_stat(m, MSG_STAT_SAVES_FAILED, n.failed);
	msg_add_stat(m, MSG_STAT_SAVED_AT_MS, n.saved_at_ms);
}

/* Zeros are left out. */
static void add_size(struct msg *m, unsigned row, unsigned field, uint64_t value)
{
	if (value)
		msg_add_stat(m, (uint16_t)(MSG_STAT_SIZES + 3 * row + field), value);
}

static void add_expired(struct msg *m, const struct control *c)
{
	const uint64_t *n = expire_counts(c);
	uint64_t sum = 0;

	for (unsigned row = 0; row < FARKV_SIZES; row++) {
		sum += n[row];
		add_size(m, row, 1, n[row]);
	}
	msg_add_stat(m, MSG_STAT_EXPIRED, sum);
}

static void add_evictions(struct msg *m, const struct control *c)
{
	static const struct evict_count none[FARKV_SIZES + 1];
	const struct evict *books = evictor_books(c);
	const struct evict_count *n = books ? evict_counts(books) : none;

	msg_add_stat(m, MSG_STAT_EVICTIONS, n[EVICT_SUM].evictions);
	msg_add_stat(m, MSG_STAT_EVICTED_BYTES, n[EVICT_SUM].bytes);
	msg_add_stat(m, MSG_STAT_MOVES, grow_stats(c)->moves);
	msg_add_stat(m, MSG_STAT_CACHE, books != NULL);
	msg_add_stat(m, MSG_STAT_VICTIM_AGE_MS, n[EVICT_SUM].victim_age_ms);
	for (unsigned row = 0; row < FARKV_SIZES; row++) {
		add_size(m, row, 0, n[row].evictions);
		add_size(m, row, 2, n[row].victim_age_ms);
	}
}

static void add_follower(struct msg *m, const struct control *c)
{
	uint64_t lag_ms;

	msg_add_stat(m, MSG_STAT_FOLLOWERS, passes_followed(c, &lag_ms));
	msg_add_stat(m, MSG_STAT_FOLLOWER_LAG_MS, lag_ms);
}

void stats_figures(struct control *c, struct msg *m)
{
	const struct stats *st = c->stats;
	const struct loop_counts *n = &c->counts;
	const struct region *r = c->region;

	*m = (struct msg){.type = MSG_STATS};
	msg_add_stat(m, MSG_STAT_UPTIME_MS,
	    (clock_now_ns() - st->started_ns) / NS_PER_MS);
	msg_add_stat(m, MSG_STAT_REGION_BYTES, r->sb.region_bytes);
	msg_add_stat(m, MSG_STAT_HEAP_BYTES, heap_total(r->heap) * PAGE_BYTES);
	msg_add_stat(m, MSG_STAT_USED_BYTES, heap_used(r->heap) * PAGE_BYTES);
	add_index(m, c);
	add_blocks(m, c);
	msg_add_stat(m, MSG_STAT_SESSIONS, n->sessions);
	msg_add_stat(m, MSG_STAT_SESSIONS_TOTAL, n->sessions_total);
	msg_add_stat(m, MSG_STAT_GRANTS, n->grants);
	msg_add_stat(m, MSG_STAT_HINTS, n->hints);
	msg_add_stat(m, MSG_STAT_PROTOCOL_ERRORS, n->protocol_errors);
	msg_add_stat(m, MSG_STAT_MAX_VALUE, r->sb.max_value);
	msg_add_stat(m, MSG_STAT_MAX_KEY, r->sb.max_key);
	msg_add_stat(m, MSG_STAT_GRACE_NS, r->sb.grace_ns);
	add_upkeep(m, c);
	msg_add_stat(m, MSG_STAT_CPU_NS, st->cpu_ns);
	msg_add_stat(m, MSG_STAT_FREE_BYTES, slab_count(c->slab).bytes_free);
	msg_add_stat(m, MSG_STAT_PAGES_REFUSED, reserve_refused(r->reserve));
	add_hits(m, c);
	add_expired(m, c);
	add_snapshots(m, c);
	add_evictions(m, c);
	add_follower(m, c);
}

static bool answer(struct session *s, uint32_t req)
{
	struct msg m;

	stats_figures(s->control, &m);
	return session_reply(s, &m, req, NULL);
}

/* ---- requests ------------------------------------------------------------------- */

static bool step(void *arg, uint64_t until_ns)
{
	struct control *c = arg;
	struct session *s;
	uint32_t req;

	if (count_step(c->stats, c->region, until_ns))
		return true;
	while ((s = waiters_take(&c->stats->waiters, &req)))
		(void)answer(s, req);
	return false;
}

bool stats_count(struct control *c)
{
	struct stats *st = c->stats;
	uint64_t now = clock_now_ns();

	st->cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (st->work.on)
		return false;
	if (st->counted_ns && now - st->counted_ns < COUNT_EVERY_NS)
		return true;
	st->walk = (struct region_walk){0};
	st->now = (struct stats_count){0};
	if (!count_step(st, c->region, now + WORK_SLICE_NS))
		return true;
	work_start(&c->work, &st->work);
	return false;
}

bool stats_on_request(struct session *s, const struct msg *m)
{
	if (stats_count(s->control))
		return answer(s, m->req);
	/* A session with too many requests gets the last count. */
	return waiters_add(&s->control->stats->waiters, s, m->req) || answer(s, m->req);
}

bool stats_on_class(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_CLASS};

	for (unsigned cls = 0; cls < CLASS_COUNT && !r.stats.n; cls++) {
		struct slab_counts n = slab_count_class(s->control->slab, (uint8_t)cls);

		if (class_bytes((uint8_t)cls) <= m->epoch.number ||
		    !(n.out || n.free || n.deferred || n.exhausted))
			continue;
		msg_add_stat(&r, MSG_CLASS_BLOCK_BYTES, class_bytes((uint8_t)cls));
		msg_add_stat(&r, MSG_CLASS_OUT, n.out);
		msg_add_stat(&r, MSG_CLASS_FREE, n.free);
		msg_add_stat(&r, MSG_CLASS_DEFERRED, n.deferred);
		msg_add_stat(&r, MSG_CLASS_EXHAUSTED, n.exhausted);
	}
	return session_reply(s, &r, m->req, NULL);
}

bool stats_on_pause(struct session *s, const struct msg *m)
{
	const struct pauses *p = &s->control->pauses;
	uint64_t at = m->epoch.number;
	struct msg r = {.type = MSG_PAUSE};

	if (at < p->n) {
		msg_add_stat(&r, MSG_PAUSE_RANK, at + 1);
		msg_add_stat(&r, MSG_PAUSE_NS, p->longest[at].ns);
		msg_add_stat(&r, MSG_PAUSE_AGO_MS, (clock_now_ns() - p->longest[at].end_ns) / NS_PER_MS);
		msg_add_stat(&r, MSG_PAUSE_KIND, p->longest[at].kind);
	}
	return session_reply(s, &r, m->req, NULL);
}

static void session_ended(struct session *s)
{
	waiters_drop(&s->control->stats->waiters, s);
}

static bool init(struct control *c)
{
	c->stats = calloc(1, sizeof(*c->stats));
	if (!c->stats)
		return false;
	c->stats->started_ns = clock_now_ns();
	c->stats->work = (struct work){.step = step, .arg = c, .kind = MSG_PAUSE_COUNT};
	TAILQ_INIT(&c->stats->waiters);
	return true;
}

static void fini(struct control *c)
{
	if (c->stats)
		waiters_drop(&c->stats->waiters, NULL);
	free(c->stats);
}

const struct loop_module stats_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
};
