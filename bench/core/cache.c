/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

struct cache {
	uint64_t next;     /* of a trace: number of the next request */
	uint64_t start;    /* stamp at which the part began */
	/* With blocks: */
	struct db_item *items;
	char (*keys)[KEY_CAP]; /* of the workload's blocks */
	uint64_t *numbers; /* of the keys */
	uint64_t *least;   /* worker_least() before the read */
	char *memory;      /* for `slots` values that are read */
	size_t slots;
	char *source;      /* the pattern, of values that are stored */
};

/* ---- memory ------------------------------------------------------------------------ */

static size_t most_blocks(const struct params *p)
{
	return p->trace ? p->trace->size_max : (size_t)p->blocks;
}

static int init_blocks(struct worker *w, struct cache *c)
{
	const struct params *p = w->shared->params;
	size_t n = UTIL_MAX(most_blocks(p), (size_t)1);
	size_t value = UTIL_MAX(w->value_max, (size_t)1);
	const struct value_spec *v = &w->shared->workload->values;

	c->items = calloc(n, sizeof(*c->items));
	c->keys = p->blocks ? calloc(n, sizeof(*c->keys)) : NULL;
	c->numbers = calloc(n, sizeof(*c->numbers));
	c->least = calloc(n, sizeof(*c->least));
	if (!c->items || (p->blocks && !c->keys) || !c->numbers || !c->least)
		return err_set(FARKV_ENOMEM, "no memory for %zu blocks", n);
	c->slots = UTIL_MIN(n, UTIL_MAX(CACHE_MEMORY / value, 1));
	c->memory = db_buf_new(w->db, c->slots * value);
	c->source = c->memory ? db_buf_new(w->db, v->pattern_len) : NULL;
	if (!c->source)
		return FARKV_ENOMEM;
	memcpy(c->source, v->pattern, v->pattern_len);
	w->drafts->buf = (struct value_buf){.at = c->source, .filled = true};
	return 0;
}

int cache_init(struct worker *w)
{
	const struct params *p = w->shared->params;
	int err = 0;

	if (!params_is_cache(p))
		return 0;
	w->cache = calloc(1, sizeof(*w->cache));
	if (!w->cache)
		return err_set(FARKV_ENOMEM, "no memory for a cache's client");
	if (params_has_blocks(p))
		err = init_blocks(w, w->cache);
	if (err)
		cache_end(w);
	return err;
}

void cache_end(struct worker *w)
{
	struct cache *c = w->cache;

	if (!c)
		return;
	if (c->memory)
		db_buf_free(w->db, c->memory);
	if (c->source)
		db_buf_free(w->db, c->source);
	free(c->items);
	free(c->keys);
	free(c->numbers);
	free(c->least);
	free(c);
	w->cache = NULL;
}

/* ---- one key ----------------------------------------------------------------------- */

/* The outcome of an operation that ends now. */
static void note(struct worker *w, enum series s, const struct db_item *it,
		 uint64_t start)
{
	worker_note(w, s, it->status, start, w->now);
	if (!measure_is_result(w->m, s, it->status))
		worker_failed(w, s, it->status, it->key, it->key_len);
}

/* The value to store under the key of record `number`. */
static struct db_value value_for(struct worker *w, const struct db_item *it,
				 uint64_t number, size_t len)
{
	const struct value_spec *v = &w->shared->workload->values;
	const char *source = w->cache->source;
	struct db_value slice;

	if (!v->checked) {
		slice = value_slice(v, &w->draw.rng, len);
		if (source)
			slice.data = source +
				     ((const char *)slice.data - v->pattern);
		return slice;
	}
	return worker_stamp(w, w->drafts, value_hash(it->key, it->key_len),
			    number, len);
}

/* A value that no store takes, and that was not sent. */
static void refuse(struct worker *w, enum series s, struct db_item *it)
{
	it->status = DB_BAD_REQUEST;
	note(w, s, it, w->now);
}

static void put(struct worker *w, enum series s, struct db_item *it,
		uint64_t number, uint64_t ttl_ms)
{
	const struct db_ops *ops = w->db->ops;
	struct db_value v = value_for(w, it, number, it->cap);
	uint64_t start = ticks_now();

	if (ttl_ms)
		it->status = ops->update_ttl(w->db, it->key, it->key_len, v,
					     ttl_ms);
	else
		it->status = ops->update(w->db, it->key, it->key_len, v.data,
					 v.len);
	w->now = ticks_now();
	worker_wrote(w, w->drafts, it->status);
	if (it->status == DB_OK)
		measure_add(w->m, COUNT_BYTES_PUT, v.len);
	note(w, s, it, start);
}

/* ---- a trace of keys ---------------------------------------------------------------- */

/* The time to live, shorter as the trace runs faster. */
static uint64_t ttl_ms(const struct params *p, const struct trace_request *q)
{
	double ms = q->ttl_s * 1000.0;

	if (!q->ttl_s || p->replay_no_ttl)
		return 0;
	if (p->replay_speed > 0.0)
		ms /= p->replay_speed;
	return ms < 1.0 ? 1 : (uint64_t)ms;
}

static void get(struct worker *w, struct db_item *it, uint64_t number)
{
	const struct workload *all = w->shared->workload;
	uint64_t least = ages_least(&all->ages, number), start = w->now;

	it->status = w->db->ops->read(w->db, it->key, it->key_len, &it->value);
	w->now = ticks_now();
	note(w, SERIES_READ, it, start);
	if (all->values.checked && it->status == DB_OK)
		worker_verify(w, it, least);
}

static void delete(struct worker *w, struct db_item *it)
{
	uint64_t start = w->now;

	it->status = w->db->ops->remove(w->db, it->key, it->key_len);
	w->now = ticks_now();
	note(w, SERIES_DELETE, it, start);
}

static void run_line(struct worker *w, const struct trace_request *q)
{
	const struct params *p = w->shared->params;
	struct db_item it = {
		.key = trace_key_at(p->trace, q->key),
		.key_len = p->trace->keys[q->key].len,
		.cap = q->size,
	};
	enum series s = q->op == TRACE_SET ? SERIES_UPDATE : SERIES_INSERT;

	if (q->op == TRACE_DELETE) {
		delete(w, &it);
		return;
	}
	if (q->op == TRACE_GET) {
		get(w, &it, q->key);
		if (it.status == DB_OK)
			measure_add(w->m, COUNT_BYTES_HIT, q->size);
		if (it.status != DB_NOT_FOUND)
			return;
		measure_add(w->m, COUNT_BYTES_MISSED, q->size);
	}
	if (q->size > VALUE_MAX)
		refuse(w, s, &it);
	else
		put(w, s, &it, q->key, ttl_ms(p, q));
}

/* ---- blocks ------------------------------------------------------------------------- */

/* How many of the `n` keys are there from the first one on. */
static size_t find_prefix(struct worker *w, size_t n)
{
	struct cache *c = w->cache;
	uint64_t start = w->now;
	size_t prefix = 0;

	db_exists(w->db, c->items, n);
	w->now = ticks_now();
	while (prefix < n && c->items[prefix].status == DB_OK)
		prefix++;
	/* One call: its outcome is that of the first item that failed. */
	for (size_t i = 0; i < n; i++)
		if (!measure_is_result(w->m, SERIES_EXISTS, c->items[i].status)) {
			note(w, SERIES_EXISTS, &c->items[i], start);
			return prefix;
		}
	worker_note(w, SERIES_EXISTS, DB_OK, start, w->now);
	return prefix;
}

/* Read items from..from+n-1 together; the number of those that were found. */
static size_t read_group(struct worker *w, size_t from, size_t n)
{
	const struct workload *all = w->shared->workload;
	struct cache *c = w->cache;
	struct db_item *it = c->items + from;
	size_t value = UTIL_MAX(w->value_max, (size_t)1), found = 0;
	uint64_t start;

	for (size_t i = 0; i < n; i++) {
		it[i].into = c->memory + i * value;
		it[i].cap = value;
		c->least[from + i] = ages_least(&all->ages, c->numbers[from + i]);
	}
	start = ticks_now();
	db_read_into(w->db, it, n);
	w->now = ticks_now();
	for (size_t i = 0; i < n; i++) {
		note(w, SERIES_READ, &it[i], start);
		if (it[i].status != DB_OK)
			continue;
		found++;
		measure_add(w->m, COUNT_BYTES_HIT, it[i].value.len);
	}
	for (size_t i = 0; all->values.checked && i < n; i++)
		if (it[i].status == DB_OK)
			worker_verify(w, &it[i], c->least[from + i]);
	return found;
}

/* A request for the `n` blocks in w->cache->items, whose keys are set. */
static void run_blocks(struct worker *w, size_t n)
{
	const struct value_spec *spec = &w->shared->workload->values;
	struct cache *c = w->cache;
	uint64_t start = w->now;
	size_t prefix = find_prefix(w, n), found = 0;

	for (size_t i = 0; i < prefix; i += c->slots)
		found += read_group(w, i, UTIL_MIN(prefix - i, c->slots));
	measure_add(w->m, COUNT_BLOCKS, n);
	measure_add(w->m, COUNT_BLOCKS_HIT, found);
	measure_add(w->m, COUNT_WHOLE, n && found == n);
	for (size_t i = 0; i < n && !worker_stopped(w); i++) {
		if (c->items[i].status != DB_NOT_FOUND)
			continue;
		c->items[i].cap = value_draw_len(spec, &w->draw.rng);
		measure_add(w->m, COUNT_BYTES_MISSED, c->items[i].cap);
		put(w, SERIES_INSERT, &c->items[i], c->numbers[i], 0);
	}
	worker_note(w, SERIES_REQUEST, DB_OK, start, w->now);
}

static void run_prompt(struct worker *w, const struct trace_request *q)
{
	const struct trace *t = w->shared->params->trace;
	struct cache *c = w->cache;

	for (size_t i = 0; i < q->size; i++) {
		uint32_t key = t->blocks[q->key + i];

		c->numbers[i] = key;
		c->items[i] = (struct db_item){.key = trace_key_at(t, key),
					       .key_len = t->keys[key].len};
	}
	run_blocks(w, q->size);
}

/* The first blocks of the record that the workload chose. */
static void run_op(struct worker *w, const struct op *op)
{
	uint64_t blocks = w->shared->params->blocks;
	size_t n = 1 + (size_t)rng_below(&w->draw.rng, blocks);
	struct cache *c = w->cache;

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(c->keys[i], sizeof(c->keys[i]), "%.*s:%zu",
				   (int)op->key_len, op->key, i);

		c->numbers[i] = op->number * blocks + i;
		c->items[i] = (struct db_item){.key = c->keys[i],
					       .key_len = (size_t)len};
	}
	run_blocks(w, n);
}

/* ---- the loops ----------------------------------------------------------------------- */

static bool may_go_on(const struct worker *w)
{
	return !worker_stopped(w) && !worker_time_is_up(w);
}

/*
 * Wait until the request is due, by the trace's own time or by the rate of all members. False:
 * the phase is over.
 */
static bool wait_for(struct worker *w, uint64_t number)
{
	const struct params *p = w->shared->params;
	const struct trace_request *q = p->trace->requests;
	const struct cache *c = w->cache;
	double ticks = 0.0;

	if (p->replay_speed > 0.0 && q[number].time_us > q[w->replay_first].time_us)
		ticks = (double)ticks_from_ns(1000) / p->replay_speed *
			(double)(q[number].time_us - q[w->replay_first].time_us);
	else if (w->tick > 0.0)
		ticks = w->tick / w->shared->members *
			(double)(number - w->replay_first);
	else if (p->replay_speed <= 0.0)
		return may_go_on(w);
	return worker_wait_until(w, c->start + (uint64_t)ticks) && may_go_on(w);
}

/* The lines of this member's keys. */
static void run_lines(struct worker *w)
{
	const struct trace *t = w->shared->params->trace;
	struct cache *c = w->cache;

	for (; c->next < w->replay_end; c->next++) {
		const struct trace_request *q = &t->requests[c->next];

		if (q->key % w->shared->members != w->index)
			continue;
		if (!wait_for(w, c->next))
			return;
		run_line(w, q);
		worker_count_done(w, 1);
	}
}

/* The next request of a trace that no other member has; false: there is none. */
static bool take_prompt(struct worker *w, uint64_t *number_out)
{
	_Atomic uint64_t *next = &w->shared->replayed;
	uint64_t at = atomic_load(next);

	while (at < w->replay_end)
		if (atomic_compare_exchange_weak(next, &at, at + 1)) {
			*number_out = at;
			return true;
		}
	return false;
}

static void run_prompts(struct worker *w)
{
	const struct trace *t = w->shared->params->trace;
	uint64_t number;

	while (may_go_on(w) && take_prompt(w, &number)) {
		if (!wait_for(w, number))
			return;
		run_prompt(w, &t->requests[number]);
		worker_count_done(w, 1);
	}
}

static void run_ops(struct worker *w, uint64_t todo)
{
	uint64_t k = 0;

	for (; (!todo || k < todo) && may_go_on(w); k++) {
		worker_ops_at_hand(w, todo ? todo - k : SIZE_MAX);
		if (w->tick > 0.0 &&
		    !worker_wait_until(w, w->cache->start +
					       (uint64_t)((double)k * w->tick)))
			return;
		run_op(w, &w->ops[w->next++]);
		worker_count_done(w, 1);
	}
}

void cache_run(struct worker *w, uint64_t todo)
{
	const struct trace *t = w->shared->params->trace;
	struct cache *c = w->cache;

	c->start = w->now + (t ? 0 : w->offset);
	if (!t)
		run_ops(w, todo);
	else if (t->has_blocks)
		run_prompts(w);
	else
		run_lines(w);
	w->due = 0;
}
