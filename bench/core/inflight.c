/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "inflight.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"

/*
 * Most submissions between two polls: a late thread must not fill the queue before the
 * store has looked at it.
 */
#define BURST 16
/* Empty polls in a row after which other threads may run. */
#define PATIENCE 64

enum step {
	STEP_READ,
	STEP_OLD, /* update=field: the value that gets a new field */
	STEP_WRITE,
};

/* An operation in flight. Its number is the tag of its requests. */
struct flight {
	struct op op;      /* a copy; its key stays in place */
	enum step step;
	bool used;
	uint64_t due;      /* stamp of the arrival */
	uint64_t start;    /* stamp of the first submission */
	uint64_t read_ticks;  /* ticks of a read-modify-write's read */
	uint64_t write_start; /* start of the UPDATE or INSERT part */
	uint64_t least;       /* worker_least() before the read */
	struct worker_value draft; /* for writes */
};

struct inflight {
	unsigned depth, n_free;
	unsigned *vacant;    /* numbers of unused flights */
	struct flight *flights;
	char *values;
	bool arrived;        /* an arrival waits for submission */
	uint64_t due;        /* its stamp */
	uint64_t full_until; /* last stamp without space for an arrival */
	unsigned empty;      /* empty polls in a row */
};

int inflight_init(struct worker *w)
{
	const struct params *p = w->shared->params;
	unsigned depth = (unsigned)p->queue_depth;
	struct inflight *f;

	if (!inflight_used(p, w->db->ops))
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		goto err_none;
	f->depth = f->n_free = depth;
	f->vacant = calloc(depth, sizeof(*f->vacant));
	f->flights = calloc(depth, sizeof(*f->flights));
	f->values = calloc(depth, w->value_stride);
	if (!f->vacant || !f->flights || !f->values)
		goto err_parts;
	for (unsigned i = 0; i < depth; i++) {
		f->vacant[i] = i;
		f->flights[i].draft.buf.at = f->values + i * w->value_stride;
	}
	w->inflight = f;
	return 0;
err_parts:
	inflight_free(f);
err_none:
	return err_set(FARKV_ENOMEM, "queuedepth: no memory for %u requests in "
				     "flight", depth);
}

void inflight_free(struct inflight *f)
{
	if (!f)
		return;
	free(f->vacant);
	free(f->flights);
	free(f->values);
	free(f);
}

/* ---- one operation ----------------------------------------------------------------- */

static void land(struct worker *w, struct flight *l)
{
	struct inflight *f = w->inflight;

	l->used = false;
	f->vacant[f->n_free++] = (unsigned)(l - f->flights);
	worker_count_done(w, 1);
}

/* The operation's only or second part has ended. */
static void end_write(struct worker *w, struct flight *l, enum db_status status)
{
	bool insert = l->op.kind == OP_INSERT;

	worker_wrote(w, &l->draft, status);

	worker_note_op(w, insert ? SERIES_INSERT : SERIES_UPDATE, status,
		       l->write_start, &l->op);
	if (l->op.kind == OP_RMW)
		/* Excludes the time between the two parts. */
		worker_note_op(w, SERIES_RMW, status,
			       l->write_start - l->read_ticks, &l->op);
	if (insert && status != DB_OK)
		worker_load_failed(w);
	if (insert)
		worker_ack(w, &l->op);
	land(w, l);
}

static enum db_status submit(struct worker *w, struct flight *l, enum step step,
			     struct db_value value)
{
	struct db_request r = {
		.tag = (uint64_t)(l - w->inflight->flights),
		.write = step == STEP_WRITE,
		.key = l->op.key,
		.key_len = l->op.key_len,
		.value = value,
	};

	l->step = step;
	w->why = NULL;
	return w->db->ops->submit(w->db, &r);
}

static void begin_write(struct worker *w, struct flight *l, struct db_value v)
{
	enum db_status status = submit(w, l, STEP_WRITE, v);

	if (!LIKELY(status == DB_OK)) {
		w->now = ticks_now();
		end_write(w, l, status);
	}
}

/* Submit an update or insert; that of a read-modify-write follows its read. */
static void begin_update(struct worker *w, struct flight *l)
{
	struct db_value v = {NULL, 0};
	enum db_status status;

	if (l->op.kind != OP_INSERT &&
	    w->shared->params->update_mode == UPDATE_FIELD) {
		l->write_start = ticks_now();
		status = submit(w, l, STEP_OLD, v);
		if (LIKELY(status == DB_OK))
			return;
		w->now = ticks_now();
		end_write(w, l, status);
		return;
	}
	v = worker_value(w, &l->op, &l->draft);
	l->write_start = ticks_now();
	begin_write(w, l, v);
}

static void end_read(struct worker *w, struct flight *l, enum db_status status,
		     const struct db_value *v)
{
	if (LIKELY(status == DB_OK))
		status = worker_check_len(w, v->len);
	worker_note_op(w, SERIES_READ, status, l->start, &l->op);
	l->read_ticks = w->now - l->start;
	if (w->shared->params->data_integrity)
		worker_verify_op(w, &l->op, status, l->least, v);
	if (l->op.kind == OP_RMW && status == DB_OK) {
		begin_update(w, l);
		return;
	}
	if (l->op.kind == OP_RMW)
		worker_note_op(w, SERIES_RMW, status, l->start, &l->op);
	land(w, l);
}

/* update=field: write the old value back with one new field. */
static void end_old(struct worker *w, struct flight *l, enum db_status status,
		    const struct db_value *v)
{
	if (status == DB_OK)
		status = worker_check_len(w, v->len);
	if (status != DB_OK) {
		end_write(w, l, status);
		return;
	}
	begin_write(w, l, worker_new_field(w, v, &l->draft));
}

/* A request completed at w->now; w->why describes its failure. */
static void complete(struct worker *w, struct flight *l, enum db_status status,
		     const struct db_value *v)
{
	w->due = l->due;
	switch (l->step) {
	case STEP_READ:
		end_read(w, l, status, v);
		break;
	case STEP_OLD:
		end_old(w, l, status, v);
		break;
	case STEP_WRITE:
	default:
		end_write(w, l, status);
		break;
	}
}

/* ---- the loop ----------------------------------------------------------------------- */

static void next_arrival(struct worker *w)
{
	struct inflight *f = w->inflight;

	f->arrived = !w->over && arrivals_take(&w->shared->arrivals, &w->gaps,
					       &f->due);
	w->over = !f->arrived;
}

/* Submit the arrival that is due; there is space. */
static void begin(struct worker *w)
{
	struct inflight *f = w->inflight;
	struct flight *l = &f->flights[f->vacant[--f->n_free]];
	enum db_status status;

	worker_ops_at_hand(w, SIZE_MAX);
	l->op = w->ops[w->next++];
	l->used = true;
	l->due = w->due = f->due;
	l->start = w->now = ticks_now();
	worker_note_queue(w, f->due);
	measure_in_flight(w->m, f->depth - f->n_free,
			  (int64_t)(f->full_until - f->due) >= 0);
	if (l->op.kind != OP_READ && l->op.kind != OP_RMW) {
		begin_update(w, l);
		return;
	}
	l->least = worker_least(w, &l->op);
	status = submit(w, l, STEP_READ, (struct db_value){NULL, 0});
	if (!LIKELY(status == DB_OK)) {
		w->now = ticks_now();
		complete(w, l, status, NULL);
	}
}

static bool may_begin(const struct worker *w)
{
	return !worker_stopped(w) && !worker_time_is_up(w);
}

static bool is_due(const struct worker *w)
{
	return w->inflight->arrived &&
	       (int64_t)(w->inflight->due - w->now) <= 0;
}

/* Submit what is due as far as there is space. After a poll, when there is most space. */
static void begin_due(struct worker *w)
{
	struct inflight *f = w->inflight;

	if (!f->n_free && is_due(w))
		f->full_until = w->now;
	for (unsigned i = 0; i < BURST && f->n_free && is_due(w) && may_begin(w); i++) {
		begin(w);
		next_arrival(w);
	}
}

/* The session failed: nothing in flight will be reported. */
static void give_up(struct worker *w, enum db_status status)
{
	struct inflight *f = w->inflight;

	worker_stop_all(w);
	w->why = NULL;
	for (unsigned i = 0; i < f->depth; i++)
		if (f->flights[i].used)
			complete(w, &f->flights[i], status, NULL);
}

static void poll_once(struct worker *w)
{
	struct inflight *f = w->inflight;
	struct db_completion c[DB_POLL_MAX];
	size_t n = 0;
	enum db_status status = w->db->ops->poll(w->db, c, &n);
	uint64_t now = w->now = ticks_now();

	if (!LIKELY(status == DB_OK)) {
		give_up(w, status);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		/* All of one poll end at the same time. */
		w->now = now;
		w->why = c[i].why;
		complete(w, &f->flights[c[i].tag], c[i].status, &c[i].value);
	}
	f->empty = n ? 0 : f->empty + 1;
	if (f->empty > PATIENCE)
		sched_yield();
}

/* Nothing is in flight: wait for the next arrival or the end of time. */
static void idle(struct worker *w)
{
	uint64_t ns;

	measure_settle(w->m);
	if (!w->inflight->arrived || is_due(w))
		return;
	ns = ticks_to_ns(w->inflight->due - w->now);
	if (w->until)
		ns = UTIL_MIN(ns, ticks_to_ns(w->until - w->now));
	if (!w->shared->params->spin_sleep && ns > SPIN_NS)
		clock_sleep_ns(UTIL_MIN(ns - SPIN_NS, NAP_NS));
}

void inflight_run(struct worker *w)
{
	struct inflight *f = w->inflight;

	f->full_until = w->shared->arrivals.start - 1; /* never */
	next_arrival(w);
	for (;;) {
		if (f->n_free < f->depth)
			poll_once(w);
		w->now = ticks_now();
		if (may_begin(w) && f->arrived)
			begin_due(w);
		else if (f->n_free == f->depth)
			break;
		if (f->n_free == f->depth)
			idle(w);
	}
	w->due = 0;
}
