/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "worker.h"

#include <stdlib.h>

#include "bench/base/ticks.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "cache.h"
#include "inflight.h"

int worker_init(struct worker *w)
{
	const struct params *p = w->shared->params;
	const struct value_spec *v = &w->shared->workload->values;

	w->value_min = value_min_len(v);
	w->value_max = value_max_len(v);
	w->value_stride = util_align_up(w->value_max + VALUE_SLACK, 64);
	w->values = calloc(p->batch, w->value_stride);
	w->drafts = calloc(p->batch, sizeof(*w->drafts));
	w->ops = calloc(WORKER_OPS, sizeof(*w->ops));
	w->reads = calloc(p->batch, sizeof(*w->reads));
	w->writes = calloc(p->batch, sizeof(*w->writes));
	if (!w->values || !w->drafts || !w->ops || !w->reads || !w->writes) {
		worker_fini(w);
		return err_set(FARKV_ENOMEM, "no memory for a thread's values");
	}
	for (uint64_t i = 0; i < p->batch; i++)
		w->drafts[i].buf.at = w->values + i * w->value_stride;
	workload_prepare_ops(w->shared->workload, w->ops, WORKER_OPS);
	return 0;
}

void worker_fini(struct worker *w)
{
	inflight_free(w->inflight);
	w->inflight = NULL;
	free(w->values);
	free(w->drafts);
	free(w->ops);
	free(w->reads);
	free(w->writes);
	w->values = NULL;
	w->drafts = NULL;
	w->ops = NULL;
	w->reads = w->writes = NULL;
}

/* *took_out: ticks of the read alone. */
static inline enum db_status do_read(struct worker *w, const struct op *op,
				     uint64_t *took_out)
{
	bool checked = w->shared->params->data_integrity;
	uint64_t least = checked ? worker_least(w, op) : 0, start = w->now;
	struct db_value v;
	enum db_status status =
		w->db->ops->read(w->db, op->key, op->key_len, &v);

	w->now = ticks_now();
	*took_out = w->now - start;
	if (LIKELY(status == DB_OK))
		status = worker_check_len(w, v.len);
	worker_note_op(w, SERIES_READ, status, start, op);
	if (checked)
		worker_verify_op(w, op, status, least, &v);
	return status;
}

/* Read the value, replace one field, write it back. */
static enum db_status update_field(struct worker *w, const struct op *op,
				   uint64_t *took_out)
{
	struct db_value v;
	enum db_status status;
	uint64_t start = ticks_now();

	status = w->db->ops->read(w->db, op->key, op->key_len, &v);
	if (status == DB_OK)
		status = worker_check_len(w, v.len);
	if (status == DB_OK) {
		v = worker_new_field(w, &v, w->drafts);
		status = w->db->ops->update(w->db, op->key, op->key_len, v.data,
					    v.len);
	}
	w->now = ticks_now();
	*took_out = w->now - start;
	worker_note_op(w, SERIES_UPDATE, status, start, op);
	return status;
}

/* *took_out: without generating the value. */
static enum db_status do_update(struct worker *w, const struct op *op,
				uint64_t *took_out)
{
	struct db_value v;
	enum db_status status;
	uint64_t start;

	if (w->shared->params->update_mode == UPDATE_FIELD)
		return update_field(w, op, took_out);
	v = worker_value(w, op, w->drafts);
	start = ticks_now();
	status = w->db->ops->update(w->db, op->key, op->key_len, v.data, v.len);
	w->now = ticks_now();
	*took_out = w->now - start;
	worker_wrote(w, w->drafts, status);
	worker_note_op(w, SERIES_UPDATE, status, start, op);
	return status;
}

/* Wait between two tries of an insert: 0.8 to 1.2 times the interval. */
static bool pause_insert(struct worker *w)
{
	double s = (double)w->shared->params->insert_retry_interval *
		   (0.8 + 0.4 * rng_double(&w->draw.rng));

	return worker_sleep_until(w, ticks_now() + ticks_from_ns((uint64_t)(s * 1e9)));
}

static enum db_status insert_once(struct worker *w, const struct op *op,
				  const struct db_value *v)
{
	uint64_t start = ticks_now();
	enum db_status status = w->db->ops->insert(w->db, op->key, op->key_len,
						   v->data, v->len);

	w->now = ticks_now();
	worker_note_op(w, SERIES_INSERT, status, start, op);
	return status;
}

/* Only a load retries; a run would measure the wait. */
static void insert_again(struct worker *w, const struct op *op,
			 const struct db_value *v)
{
	uint64_t more = w->shared->workload->load
				? w->shared->params->insert_retries
				: 0;

	while (more--)
		if (!pause_insert(w) || insert_once(w, op, v) == DB_OK)
			return;
	worker_load_failed(w);
}

static void do_insert(struct worker *w, const struct op *op)
{
	struct db_value v = worker_value(w, op, w->drafts);
	enum db_status status = insert_once(w, op, &v);

	worker_wrote(w, w->drafts, status);
	if (status != DB_OK)
		insert_again(w, op, &v);
}

/* As in YCSB the latency is the store's part alone, without check and generation of values. */
static void do_rmw(struct worker *w, const struct op *op)
{
	uint64_t read, update = 0;
	enum db_status status = do_read(w, op, &read);

	if (status == DB_OK)
		status = do_update(w, op, &update);
	worker_note_op(w, SERIES_RMW, status, w->now - read - update, op);
}

static inline void run_op(struct worker *w, const struct op *op)
{
	uint64_t took;

	switch (op->kind) {
	case OP_READ:
		do_read(w, op, &took);
		break;
	case OP_UPDATE:
		do_update(w, op, &took);
		break;
	case OP_INSERT:
		do_insert(w, op);
		worker_ack(w, op);
		break;
	case OP_RMW:
		do_rmw(w, op);
		break;
	default:
		break;
	}
}

/* ---- batches ---- */

static struct db_item item_of(const struct op *op)
{
	return (struct db_item){.key = op->key,
				.key_len = op->key_len,
				.status = DB_ERROR};
}

/* All reads of the batch in one call; returns its ticks. */
static uint64_t batch_reads(struct worker *w, size_t n)
{
	const struct op *op[DB_BATCH_MAX], *ops = w->ops + w->next;
	uint64_t start, took, least[DB_BATCH_MAX];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (ops[i].kind == OP_READ || ops[i].kind == OP_RMW) {
			op[k] = &ops[i];
			w->reads[k] = item_of(op[k]);
			least[k] = worker_least(w, op[k]);
			k++;
		}
	if (!k)
		return 0;
	start = w->now = ticks_now();
	w->db->ops->read_many(w->db, w->reads, k);
	w->now = ticks_now();
	took = w->now - start;
	for (size_t i = 0; i < k; i++) {
		enum db_status *status = &w->reads[i].status;

		if (*status == DB_OK)
			*status = worker_check_len(w, w->reads[i].value.len);
		worker_note_op(w, SERIES_READ, *status, start, op[i]);
	}
	for (size_t i = 0; w->shared->params->data_integrity && i < k; i++)
		worker_verify(w, &w->reads[i], least[i]);
	return took;
}

static enum series series_of_write(enum op_kind kind)
{
	return kind == OP_INSERT ? SERIES_INSERT : SERIES_UPDATE;
}

/* Then all writes; `read_ticks` is the time of the reads. */
static void batch_writes(struct worker *w, size_t n, uint64_t read_ticks)
{
	const struct op *op[DB_BATCH_MAX], *ops = w->ops + w->next;
	uint64_t start;
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (ops[i].kind != OP_READ) {
			op[k] = &ops[i];
			w->writes[k] = item_of(op[k]);
			w->writes[k].value =
				worker_value(w, op[k], &w->drafts[k]);
			k++;
		}
	if (!k)
		return;
	start = ticks_now();
	w->db->ops->write_many(w->db, w->writes, k);
	w->now = ticks_now();
	for (size_t i = 0; i < k; i++) {
		enum db_status status = w->writes[i].status;

		worker_wrote(w, &w->drafts[i], status);
		worker_note_op(w, series_of_write(op[i]->kind), status, start,
			       op[i]);
		if (op[i]->kind == OP_RMW)
			worker_note_op(w, SERIES_RMW, status,
				       start - read_ticks, op[i]);
		if (op[i]->kind == OP_INSERT)
			worker_ack(w, op[i]);
	}
	/* Retry after the batch has ended, with separate latencies. */
	for (size_t i = 0; i < k && !worker_stopped(w); i++)
		if (w->writes[i].status != DB_OK && op[i]->kind == OP_INSERT)
			insert_again(w, op[i], &w->writes[i].value);
}

/* A batch is due with its last operation. */
static size_t run_batch(struct worker *w, size_t n, uint64_t start, uint64_t k)
{
	if (w->tick > 0.0 &&
	    !worker_wait_until(w, start + (uint64_t)((double)(k + n - 1) * w->tick)))
		return 0;
	batch_writes(w, n, batch_reads(w, n));
	worker_count_done(w, n);
	return n;
}

/* ---- the loop ---- */

/*
 * Wait for the next arrival of an open loop. The wait for this session is a series of its
 * own, which shows whether there were enough sessions.
 */
static bool wait_for_arrival(struct worker *w)
{
	uint64_t due;

	w->over = !arrivals_take(&w->shared->arrivals, &w->gaps, &due);
	if (w->over || !worker_wait_until(w, due))
		return false;
	worker_note_queue(w, due);
	return true;
}

/* True when the operation is due; false: the phase is over. */
static bool is_due(struct worker *w, uint64_t start, uint64_t k)
{
	if (w->shared->params->open_loop)
		return wait_for_arrival(w);
	return worker_wait_until(w, start + (uint64_t)((double)k * w->tick));
}

/* By the schedule, which checks the clock. */
static size_t run_scheduled(struct worker *w, size_t n, uint64_t start,
			    uint64_t k)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_due(w, start, k + i))
			return i;
		if (worker_stopped(w) || worker_time_is_up(w))
			return i;
		if (worker_draws_late(w))
			worker_ops_at_hand(w, 1);
		run_op(w, &w->ops[w->next + i]);
		worker_count_done(w, 1);
	}
	return n;
}

/* One after the other, in a separate loop for speed. */
static size_t run_ops(struct worker *w, size_t n)
{
	const struct op *op = &w->ops[w->next], *end = op + n;

	for (; op < end; op++) {
		if (worker_stopped(w) || worker_time_is_up(w))
			break;
		run_op(w, op);
		worker_count_done(w, 1);
	}
	return n - (size_t)(end - op);
}

void worker_run(struct worker *w, struct measure *m, uint64_t todo,
		uint64_t until)
{
	bool batch = w->shared->params->batch > 1;
	uint64_t k = 0, start = ticks_now() + w->offset;

	w->m = m;
	w->now = ticks_now();
	w->until = until;
	w->over = false;
	if (w->inflight || w->cache) {
		if (w->cache)
			cache_run(w, todo);
		else
			inflight_run(w);
		measure_settle(m);
		return;
	}
	while ((!todo || k < todo) && !worker_stopped(w) &&
	       !worker_time_is_up(w) && !w->over) {
		size_t n = worker_draws_late(w)
				   ? 1
				   : worker_ops_at_hand(w, todo ? todo - k
								: SIZE_MAX);

		n = batch		? run_batch(w, n, start, k)
		    : w->tick > 0.0 ? run_scheduled(w, n, start, k)
				    : run_ops(w, n);
		w->next += n;
		k += n;
	}
	w->due = 0;
	measure_settle(m);
}

void worker_note_cleanup(struct worker *w, struct measure *m, uint64_t start)
{
	w->m = m;
	w->now = ticks_now();
	worker_note(w, SERIES_CLEANUP, DB_OK, start, w->now);
	measure_settle(m);
}
