/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fsck.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/index/fsck_index.h"
#include "server/memory/slab_marks.h"

#include "core.h"
#include "grow.h"
#include "session.h"
#include "sweep.h"
#include "waiters.h"

/*
 * A check costs time of the control loop, and its sweep asks all writers. A session that may
 * write can start one at any time. A check that only read-only sessions ask for starts
 * REST_FACTOR times the duration of the last one after that, within these bounds: so checks
 * take at most a quarter of the time.
 */
#define REST_FACTOR 3u
#define REST_MIN_NS (100 * NS_PER_MS)
#define REST_MAX_NS (60 * NS_PER_SEC)

enum phase {
	IDLE,
	WALK,  /* subtable after subtable */
	SWEEP, /* sweep.c counts held and leaked blocks */
	SUMS,
};

struct fsck {
	enum phase phase;
	struct work work;
	struct waiters waiters; /* for the running check */
	struct waiters next;    /* for the next one */
	struct event *rested;
	uint64_t rest_until_ns;
	uint64_t began_ns;
	uint64_t subtables;
	struct region_walk walk;
	struct fsck_subtable subtable;
	bool open; /* `subtable` is not finished */
	struct fsck_found found;
	struct sweep_outcome sweep;
};

/* ---- the walk --------------------------------------------------------------------- */

static void found_add(struct fsck_found *sum, const struct fsck_found *f)
{
	sum->items += f->items;
	sum->dead += f->dead;
	sum->live_bytes += f->live_bytes;
	sum->dead_bytes += f->dead_bytes;
	sum->bad_empty += f->bad_empty;
	sum->bad_words += f->bad_words;
	sum->damaged += f->damaged;
	sum->shared += f->shared;
	sum->misplaced += f->misplaced;
	sum->behind_empty += f->behind_empty;
	sum->duplicates += f->duplicates;
	sum->expired += f->expired;
	if (!sum->page) {
		sum->page = f->page;
		sum->slot = f->slot;
	}
}

/* Begin the next subtable; false if there is none, or its entry cannot be followed. */
static bool open_next(struct control *c)
{
	struct fsck *f = c->fsck;
	uint64_t entry, hash;

	if (f->walk.over)
		return false;
	entry = region_entry(c->region, f->walk.hash);
	if (!fsck_entry_ok(c->region, entry))
		return false; /* fsck_directory() counts this */
	(void)region_walk_next(c->region, &f->walk, &entry, &hash);
	fsck_subtable_begin(&f->subtable, entry, hash);
	f->open = true;
	return true;
}

/* False when all have been visited. */
static bool walk_step(struct control *c, uint64_t until_ns)
{
	struct fsck *f = c->fsck;
	struct fsck_subtable *t = &f->subtable;

	/* Migrated meanwhile: check the new subtable instead. */
	if (f->open && region_entry(c->region, t->hash) != t->entry) {
		f->walk = (struct region_walk){.hash = t->hash};
		f->open = false;
	}
	do {
		if (!f->open && !open_next(c))
			return false;
		if (fsck_subtable_step(t, c->region, c->slab, until_ns))
			return true;
		f->open = false;
		f->subtables++;
		found_add(&f->found, &t->found);
	} while (clock_now_ns() < until_ns);
	return true;
}

/* ---- sums --------------------------------------------------------------------------- */

static void differ(struct fsck *f, const char *what, uint64_t a, uint64_t b)
{
	f->found.bad_sums++;
	log_warn("fsck: %s: %" PRIu64 ", not %" PRIu64, what, a, b);
}

static void sums(struct control *c)
{
	const struct region *r = c->region;
	struct slab_counts b = slab_count(c->slab);
	struct fsck *f = c->fsck;
	uint64_t blocks = b.bytes_out + b.bytes_free + b.bytes_deferred +
			  b.bytes_exhausted + b.bytes_slack;
	uint64_t pages = r->subtables + grow_pages(c) + b.pages +
			 heap_retired(r->heap);
	uint64_t bytes = r->sb.meta_bytes + heap_total(r->heap) * PAGE_BYTES;

	if (!slab_audit(c->slab)) {
		f->found.bad_sums++;
		log_warn("fsck: %s", err_detail());
	}
	if (!heap_audit(r->heap)) {
		f->found.bad_sums++;
		log_warn("fsck: %s", err_detail());
	}
	if (blocks != b.pages * PAGE_BYTES)
		differ(f, "bytes of all blocks", blocks, b.pages * PAGE_BYTES);
	if (pages != heap_used(r->heap))
		differ(f, "pages in use", pages, heap_used(r->heap));
	if (bytes != r->sb.region_bytes)
		differ(f, "bytes of the region", bytes, r->sb.region_bytes);
}

/* ---- the answer ----------------------------------------------------------------------- */

static void add_bytes(struct msg *m, const struct control *c)
{
	const struct region *r = c->region;
	struct slab_counts b = slab_count(c->slab);

	msg_add_stat(m, MSG_FSCK_META_BYTES, r->sb.meta_bytes);
	msg_add_stat(m, MSG_FSCK_INDEX_BYTES,
	    (r->subtables + grow_pages(c)) * PAGE_BYTES);
	msg_add_stat(m, MSG_FSCK_LIVE_BYTES, c->fsck->found.live_bytes);
	msg_add_stat(m, MSG_FSCK_DEAD_BYTES, c->fsck->found.dead_bytes);
	msg_add_stat(m, MSG_FSCK_OUT_BYTES, b.bytes_out);
	msg_add_stat(m, MSG_FSCK_DEFERRED_BYTES, b.bytes_deferred);
	msg_add_stat(m, MSG_FSCK_EXHAUSTED_BYTES, b.bytes_exhausted);
	msg_add_stat(m, MSG_FSCK_FREE_BYTES, b.bytes_free);
	msg_add_stat(m, MSG_FSCK_SLACK_BYTES, b.bytes_slack);
	msg_add_stat(m, MSG_FSCK_RETIRED_BYTES, heap_retired(r->heap) * PAGE_BYTES);
	msg_add_stat(m, MSG_FSCK_UNUSED_BYTES,
	    (heap_total(r->heap) - heap_used(r->heap)) * PAGE_BYTES);
	msg_add_stat(m, MSG_FSCK_REGION_BYTES, r->sb.region_bytes);
}

static void add_problems(struct msg *m, const struct fsck_found *f)
{
	msg_add_stat(m, MSG_FSCK_BAD_DIRECTORY, f->bad_directory);
	msg_add_stat(m, MSG_FSCK_BAD_EMPTY, f->bad_empty);
	msg_add_stat(m, MSG_FSCK_BAD_WORDS, f->bad_words);
	msg_add_stat(m, MSG_FSCK_DAMAGED, f->damaged);
	msg_add_stat(m, MSG_FSCK_SHARED, f->shared);
	msg_add_stat(m, MSG_FSCK_MISPLACED, f->misplaced);
	msg_add_stat(m, MSG_FSCK_BEHIND_EMPTY, f->behind_empty);
	msg_add_stat(m, MSG_FSCK_DUPLICATES, f->duplicates);
	msg_add_stat(m, MSG_FSCK_BAD_SUMS, f->bad_sums);
	msg_add_stat(m, MSG_FSCK_FIRST_PAGE, f->page);
	msg_add_stat(m, MSG_FSCK_FIRST_SLOT, f->slot);
}

static void fill(const struct control *c, struct msg *m)
{
	const struct fsck *f = c->fsck;
	const struct sweep_outcome *o = &f->sweep;

	*m = (struct msg){.type = MSG_FSCK};
	msg_add_stat(m, MSG_FSCK_DURATION_NS, clock_now_ns() - f->began_ns);
	msg_add_stat(m, MSG_FSCK_SUBTABLES, f->subtables);
	msg_add_stat(m, MSG_FSCK_ITEMS, f->found.items);
	msg_add_stat(m, MSG_FSCK_DEAD_SLOTS, f->found.dead);
	add_bytes(m, c);
	msg_add_stat(m, MSG_FSCK_BLOCKS_HELD, o->held);
	msg_add_stat(m, MSG_FSCK_BLOCKS_LEAKED, o->leaked);
	msg_add_stat(m, MSG_FSCK_BYTES_LEAKED, o->leaked_bytes);
	add_problems(m, &f->found);
	msg_add_stat(m, MSG_FSCK_UNDECIDED, o->result);
	msg_add_stat(m, MSG_FSCK_SILENT_SESSION, o->session);
	msg_add_stat(m, MSG_FSCK_SILENT_PID, (uint64_t)o->pid);
	msg_add_stat(m, MSG_FSCK_EXPIRED, f->found.expired);
}

/* True if a session that may write waits. */
static bool is_writer_among(const struct waiters *list)
{
	const struct waiter *w;

	TAILQ_FOREACH(w, list, link)
		if (!w->session->readonly)
			return true;
	return false;
}

/* ---- the course ----------------------------------------------------------------------- */

/* Start a check if a session waits for one, now or after the rest. */
static void begin_if_due(struct control *c)
{
	struct fsck *f = c->fsck;
	uint64_t now = clock_now_ns();

	if (f->phase != IDLE || TAILQ_EMPTY(&f->next))
		return;
	if (now < f->rest_until_ns && !is_writer_among(&f->next)) {
		uint64_t ns = f->rest_until_ns - now;
		struct timeval tv = {
			.tv_sec = (time_t)(ns / NS_PER_SEC),
			.tv_usec = (suseconds_t)(ns % NS_PER_SEC / 1000 + 1)};

		event_add(f->rested, &tv);
		return;
	}
	TAILQ_CONCAT(&f->waiters, &f->next, link);
	f->phase = WALK;
	f->began_ns = clock_now_ns();
	f->subtables = 0;
	f->walk = (struct region_walk){0};
	f->open = false;
	f->found = (struct fsck_found){0};
	work_start(&c->work, &f->work);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	begin_if_due(arg);
}

static void finish(struct control *c)
{
	struct fsck *f = c->fsck;
	uint64_t now, rest;
	struct session *s;
	struct msg m;
	uint32_t req;

	fsck_directory(c->region, &f->found);
	sums(c);
	f->phase = IDLE;
	while ((s = waiters_take(&f->waiters, &req))) {
		fill(c, &m);
		(void)session_reply(s, &m, req, NULL);
	}
	now = clock_now_ns();
	rest = UTIL_MIN(REST_FACTOR * (now - f->began_ns), REST_MAX_NS);
	f->rest_until_ns = now + UTIL_MAX(rest, REST_MIN_NS);
	begin_if_due(c);
}

static void on_swept(struct control *c, const struct sweep_outcome *o)
{
	c->fsck->sweep = *o;
	c->fsck->phase = SUMS;
	work_start(&c->work, &c->fsck->work);
}

static bool step(void *arg, uint64_t until_ns)
{
	struct control *c = arg;
	struct fsck *f = c->fsck;

	if (f->phase == WALK && walk_step(c, until_ns))
		return true;
	if (f->phase == WALK) {
		f->phase = SWEEP;
		sweep_request(c, on_swept);
	} else if (f->phase == SUMS) {
		finish(c);
	}
	return f->phase == WALK;
}

bool fsck_on_request(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	struct fsck *f = c->fsck;

	if (!waiters_add(&f->next, s, m->req)) {
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "too many checks were asked for at once");
		return false;
	}
	begin_if_due(c);
	return true;
}

static void session_ended(struct session *s)
{
	waiters_drop(&s->control->fsck->waiters, s);
	waiters_drop(&s->control->fsck->next, s);
}

static bool init(struct control *c)
{
	struct fsck *f = calloc(1, sizeof(*f));

	if (!f)
		return false;
	c->fsck = f;
	f->work = (struct work){.step = step, .arg = c, .kind = MSG_PAUSE_CHECK};
	TAILQ_INIT(&f->waiters);
	TAILQ_INIT(&f->next);
	f->rested = evtimer_new(c->base, on_rested, c);
	return f->rested != NULL;
}

static void fini(struct control *c)
{
	if (!c->fsck)
		return;
	waiters_drop(&c->fsck->waiters, NULL);
	waiters_drop(&c->fsck->next, NULL);
	core_event_free(c->fsck->rested);
	free(c->fsck);
	c->fsck = NULL;
}

const struct loop_module fsck_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
};
