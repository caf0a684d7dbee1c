/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "worker_parts.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/util.h"

/* Explains the failure to the user. */
static const char *reason(struct worker *w, enum db_status status)
{
	if (status == DB_UNEXPECTED_STATE)
		return w->why ? w->why
			      : "the value's length is not what this workload "
				"stores";
	if (status == DB_NOT_FOUND)
		return "were these records loaded, with the same properties?";
	return w->why ? w->why : w->db->ops->error(w->db);
}

void worker_note_rest(struct worker *w, enum series s, enum db_status status,
		      uint64_t start, uint64_t end)
{
	uint64_t ns[CLOCK_KINDS];

	ns[CLOCK_OP] = ticks_span_ns(start, end);
	ns[CLOCK_INTENDED] = w->due ? ticks_span_ns(w->due, end) : ns[CLOCK_OP];
	if (LIKELY(status == DB_OK))
		measure_ok(w->m, s, ns);
	else
		measure_failed(w->m, s, status, ns);
}

void worker_failed(struct worker *w, enum series s, enum db_status status,
		   const char *key, size_t key_len)
{
	struct worker_shared *sh = w->shared;
	const char *why = reason(w, status);

	if (status != DB_SERVICE_UNAVAILABLE)
		w->unavailable = 0;
	else if (++w->unavailable >= WORKER_PATIENCE)
		worker_stop_all(w);
	if (s == SERIES_RMW ||
	    atomic_flag_test_and_set_explicit(&sh->have_failure,
					      memory_order_relaxed))
		return;
	snprintf(sh->failure, sizeof(sh->failure), "%s %.*s: %s%s%s",
		 series_name(s), (int)key_len, key, db_status_name(status), *why ? ": " : "", why);
}

void worker_verify(struct worker *w, const struct db_item *it, uint64_t least)
{
	const char *why = w->why;
	uint64_t start = ticks_now();
	enum db_status status = DB_ERROR;
	enum value_verdict found;

	if (it->status == DB_OK) {
		found = value_check(&w->shared->workload->values,
				    value_hash(it->key, it->key_len), least,
				    &it->value);
		status = found == VALUE_GOOD ? DB_OK : DB_UNEXPECTED_STATE;
		w->why = value_verdict_text(found);
	}
	w->now = ticks_now();
	worker_note(w, SERIES_VERIFY, status, start, w->now);
	if (status != DB_OK)
		worker_failed(w, SERIES_VERIFY, status, it->key, it->key_len);
	w->why = why;
}

void worker_verify_op(struct worker *w, const struct op *op, enum db_status read,
		      uint64_t least, const struct db_value *v)
{
	struct db_item it = {.key = op->key,
			     .key_len = op->key_len,
			     .status = read};

	if (read == DB_OK)
		it.value = *v;
	worker_verify(w, &it, least);
}

struct db_value worker_stamp(struct worker *w, struct worker_value *d,
			     uint64_t hash, uint64_t number, size_t len)
{
	struct workload *all = w->shared->workload;

	/* A load writes version 0, which every later version replaces. */
	d->write = (struct value_write){0};
	if (!all->load)
		d->write = ages_begin(&all->ages, number);
	return value_stamp(&all->values, &d->buf, hash, d->write.version, len);
}

struct db_value worker_new_field(struct worker *w, const struct db_value *v,
				 struct worker_value *d)
{
	const struct value_spec *spec = &w->shared->workload->values;
	size_t len = (size_t)spec->field_len;
	size_t at = rng_below(&w->draw.rng, spec->fields) * len;

	d->buf.filled = false;
	memcpy(d->buf.at, v->data, v->len);
	if (!spec->checked)
		memcpy(d->buf.at + at, value_slice(spec, &w->draw.rng, len).data,
		       len);
	return (struct db_value){d->buf.at, v->len};
}

void worker_ack_failed(struct worker *w, const struct op *op)
{
	struct worker_shared *sh = w->shared;

	if (!atomic_flag_test_and_set(&sh->have_failure))
		snprintf(sh->failure, sizeof(sh->failure),
			 "INSERT %.*s: more than 2^20 inserts are open",
			 (int)op->key_len, op->key);
	measure_failed(w->m, SERIES_INSERT, DB_ERROR,
		       (uint64_t[CLOCK_KINDS]){0, 0});
	worker_stop_all(w);
}

size_t worker_ops_at_hand(struct worker *w, uint64_t most)
{
	size_t batch = w->shared->params->batch;
	size_t ahead = batch > 1	 ? batch
		       : worker_draws_late(w) ? 1
				       : workload_lookahead(
						 w->shared->workload,
						 WORKER_AHEAD);

	if (w->next == w->drawn) {
		w->next = 0;
		w->drawn = (size_t)UTIL_MIN(ahead, most);
		workload_next(&w->draw, w->ops, w->drawn);
		w->now = ticks_now();
	}
	return (size_t)UTIL_MIN(w->drawn - w->next, most);
}

bool worker_sleep_until(struct worker *w, uint64_t stamp)
{
	bool spin = w->shared->params->spin_sleep;

	measure_settle(w->m);
	for (;;) {
		uint64_t ns;

		w->now = ticks_now();
		if (worker_stopped(w) || worker_time_is_up(w))
			return false;
		if ((int64_t)(stamp - w->now) <= 0)
			return true;
		ns = ticks_to_ns(stamp - w->now);
		if (w->until)
			ns = UTIL_MIN(ns, ticks_to_ns(w->until - w->now));
		if (!spin && ns > SPIN_NS)
			clock_sleep_ns(UTIL_MIN(ns - SPIN_NS, NAP_NS));
		else /* let other threads and the server run */
			sched_yield();
	}
}

bool worker_wait_until(struct worker *w, uint64_t due)
{
	w->due = due;
	return worker_sleep_until(w, due);
}
