/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a client, and the checks of their results. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/region/hash.h"
#include "common/index/index.h"
#include "common/base/util.h"
#include "tests/rig/fsck_text.h"
#include "sim.h"

char sim_key_name[SIM_KEYS][16];
uint64_t sim_key_hash[SIM_KEYS];

/* ---- keys and values ----------------------------------------------------------------- */

/*
 * All have one home line, so that windows fill; the hot ones share a fingerprint in
 * pairs; most stay together when the subtable is split, and again.
 */
void sim_choose_keys(void)
{
	unsigned n = 0;

	for (unsigned i = 0; n < SIM_KEYS; i++) {
		char text[16];
		uint64_t h;

		snprintf(text, sizeof(text), "k%u", i);
		h = hash_key(42, text, strlen(text));
		if (n && hash_home_line(h) != hash_home_line(sim_key_hash[0]))
			continue;
		if (n % 2 && n < SIM_HOT &&
		    hash_fp(h) != hash_fp(sim_key_hash[n - 1]))
			continue;
		if (n >= SIM_HOT && n % 6 && h >> 62)
			continue;
		strcpy(sim_key_name[n], text);
		sim_key_hash[n++] = h;
	}
}

static size_t key_len(unsigned k)
{
	return strlen(sim_key_name[k]);
}

/* Most of a run's values are of one class, so that blocks are soon used again. */
static uint32_t any_length(void)
{
	unsigned words = sim.mix.words;

	if (sim.mix.one_length || sim_below(3))
		return 8 * words;
	return 8 * (1 + (uint32_t)sim_below(words));
}

static void value_fill(uint64_t *value, uint64_t id)
{
	for (unsigned i = 0; i < SIM_WORDS; i++)
		value[i] = id;
}

#define VALUE_BYTES (SIM_WORDS * sizeof(uint64_t))

/* ---- operations ------------------------------------------------------------------------ */

/* Nobody gets the results of a killed client. */
static void end(struct sim_client *c, unsigned i, int result,
		const struct farkv_value *v)
{
	struct sim_op *op = c->op[i];
	bool found = !result && op->kind == INDEX_GET;
	uint64_t id;

	if (c->dying)
		return;
	sim_note((int)c->id, "result", (uint64_t)(unsigned)-result, op->key);
	sim_op_end(op, result, found ? v->data : NULL, found ? v->len : 0, &id);
	if (found) {
		c->seen_id[op->key] = id;
		c->seen_version[op->key] = v->version;
	}
}

/*
 * Copy the value where it lies, outside of the critical section: others go on before each half,
 * and for any time. FARKV_ESTALE: the copy may be torn.
 */
static int borrow(struct sim_client *c, unsigned k, uint64_t *into, struct farkv_value *v)
{
	struct farkv_view view;
	int err = farkv_borrow(c->kv, sim_key_name[k], key_len(k), &view);

	if (err)
		return err;
	for (size_t at = 0, n; at < view.value.len; at += n) {
		while (sim_below(2) && !c->dying)
			sim_give_way();
		n = at ? view.value.len - at : view.value.len / 2 + 1;
		memcpy((uint8_t *)into + at, (const uint8_t *)view.value.data + at, n);
	}
	*v = view.value;
	v->data = into;
	err = farkv_borrow_check(c->kv, &view);
	sim_events[err ? SIM_BORROWED_IN_VAIN : SIM_BORROWED]++;
	return err;
}

/* Some of the values that are written expire. */
static uint64_t any_ttl(enum index_kind kind)
{
	if (!kind_stores(kind) || !sim_once_in(sim.mix.dated))
		return 0;
	sim_events[SIM_DATED]++;
	return 1 + sim_below(sim_below(2) ? 20 : 400);
}

static int call_dated(struct sim_client *c, const struct sim_op *op, const void *value)
{
	struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = op->ttl_ms, .user = 7};
	struct farkv_request req = {.kind = op->kind, .key = sim_key_name[op->key],
				    .key_len = key_len(op->key), .value = value,
				    .value_len = op->len,
				    .expected = c->seen_version[op->key], .options = &o};

	return farkv_write(c->kv, &req, NULL);
}

/* `into` has room for any value, or is NULL. */
static int call(struct sim_client *c, const struct sim_op *op,
		const void *value, void *into, struct farkv_value *v)
{
	const char *key = sim_key_name[op->key];
	size_t len = key_len(op->key);
	int err;

	if (op->ttl_ms)
		return call_dated(c, op, value);
	switch (op->kind) {
	case INDEX_GET:
		if (!into)
			return farkv_get(c->kv, key, len, v);
		err = sim.remote || sim_below(2) ? FARKV_ESTALE : borrow(c, op->key, into, v);
		/* Some clients have no loads. */
		if (err != FARKV_ESTALE && err != FARKV_ENOTSUP)
			return err;
		v->data = into;
		return farkv_get_into(c->kv, key, len, into, VALUE_BYTES, &v->len,
				      &v->version);
	case INDEX_PUT:
		return farkv_put(c->kv, key, len, value, op->len);
	case INDEX_ADD:
		return farkv_add(c->kv, key, len, value, op->len);
	case INDEX_REPLACE:
		return farkv_replace(c->kv, key, len, value, op->len);
	case INDEX_CAS:
		return farkv_cas(c->kv, key, len, value, op->len,
				 c->seen_version[op->key], NULL);
	case INDEX_EXISTS:
		return farkv_exists(c->kv, key, len);
	case INDEX_DELETE_CAS:
		return farkv_delete_cas(c->kv, key, len, c->seen_version[op->key]);
	default:
		return farkv_delete(c->kv, key, len);
	}
}

static void operate(struct sim_client *c, enum index_kind kind, unsigned k)
{
	uint64_t value[SIM_WORDS], into[SIM_WORDS];
	struct farkv_value v = {0};
	int result;

	value_fill(value, ++sim.last_id);
	c->op[0] = sim_op_begin(kind, k, sim.last_id, any_length(),
				c->seen_id[k]);
	c->op[0]->ttl_ms = any_ttl(kind);
	c->n_ops = 1;
	if (c->conn)
		sim_conn_lane(c->conn)->slow = false;
	result = call(c, c->op[0], value, sim_below(2) ? into : NULL, &v);
	if (result == 0 && kind_reads(kind) && !c->dying &&
	    sim_conn_lane(c->conn)->slow)
		sim_fail("client %u READ a block too late after its slot",
			 c->id);
	end(c, 0, result, &v);
	c->n_ops = 0;
}

static unsigned any_key(void)
{
	const struct sim_mix *m = &sim.mix;

	if (sim_once_in(m->march))
		sim.marched++;
	if (m->march ? sim_below(4) : sim_once_in(m->cold))
		return m->march ?
			       (sim.marched + (unsigned)sim_below(2)) % SIM_KEYS :
			       (unsigned)sim_below(SIM_KEYS);
	return (unsigned)sim_below(m->hot);
}

/* The number of neighbouring keys. */
static void batch_get(struct sim_client *c, unsigned first, unsigned n)
{
	struct farkv_get_item items[SIM_BATCH] = {0};

	for (unsigned i = 0; i < n; i++) {
		unsigned k = (first + i) % SIM_KEYS;

		items[i].key = sim_key_name[k];
		items[i].key_len = key_len(k);
		c->op[i] = sim_op_begin(INDEX_GET, k, 0, 0, 0);
	}
	c->n_ops = n;
	(void)!farkv_mget(c->kv, items, n);
	for (unsigned i = 0; i < n; i++)
		if (items[i].result != FARKV_EABORTED)
			end(c, i, items[i].result, &items[i].value);
	c->n_ops = 0;
}

static void batch_exists(struct sim_client *c, unsigned first, unsigned n)
{
	struct farkv_key keys[SIM_BATCH];
	uint8_t bitmap;
	size_t prefix = 0;
	int err;

	for (unsigned i = 0; i < n; i++) {
		unsigned k = (first + i) % SIM_KEYS;

		keys[i] = (struct farkv_key){sim_key_name[k], key_len(k)};
		c->op[i] = sim_op_begin(INDEX_EXISTS, k, 0, 0, 0);
	}
	c->n_ops = n;
	err = farkv_mexists(c->kv, keys, n, &bitmap, &prefix);
	for (unsigned i = 0; i < n; i++) {
		bool there = bitmap >> i & 1;

		if (!c->dying && (i < prefix ? !there : i == prefix && there))
			sim_fail("a prefix of %zu keys of %#x", prefix, bitmap);
		/* After an error a key that was found is; nothing is known of the others. */
		if (there || !err)
			end(c, i, there ? 0 : FARKV_ENOTFOUND, NULL);
	}
	c->n_ops = 0;
}

static void batch_put(struct sim_client *c, unsigned first, unsigned n)
{
	struct farkv_put_item items[SIM_BATCH] = {0};
	uint64_t values[SIM_BATCH][SIM_WORDS];

	for (unsigned i = 0; i < n; i++) {
		unsigned k = (first + i) % SIM_KEYS;

		value_fill(values[i], ++sim.last_id);
		items[i].key = sim_key_name[k];
		items[i].key_len = key_len(k);
		items[i].value = values[i];
		items[i].value_len = any_length();
		c->op[i] = sim_op_begin(INDEX_PUT, k, sim.last_id,
					(uint32_t)items[i].value_len, 0);
	}
	c->n_ops = n;
	(void)!farkv_mput(c->kv, items, n);
	for (unsigned i = 0; i < n; i++)
		if (items[i].result != FARKV_EABORTED)
			end(c, i, items[i].result, NULL);
	c->n_ops = 0;
}

static enum index_kind any_kind(const struct sim_client *c, unsigned k)
{
	uint64_t at = sim_below(sim.mix.kinds);
	unsigned kind = 0;

	while (at >= sim.mix.kind[kind])
		at -= sim.mix.kind[kind++];
	if ((c->readonly && !kind_reads(kind)) || (kind_compares(kind) && !c->seen_id[k]))
		return INDEX_GET;
	return kind;
}

static void close_handle(struct sim_client *c)
{
	struct farkv_counters n = {.size = sizeof(n)};

	if (!farkv_counters(c->kv, &n)) {
		sim_events[SIM_HITS] += n.cache_hits;
		sim_events[SIM_STALE] += n.cache_stale;
		sim_events[SIM_KEPT] += n.cache_values;
	}
	farkv_close(c->kv);
	c->kv = NULL;
	/* Its process may end as well; what goes on here is the next one. */
	if (sim_below(2))
		c->pid = ++sim.last_pid;
}

/* Requests whose completions are never taken: any of them may have happened. */
static void abandon(struct sim_client *c)
{
	if (c->dying)
		return;
	close_handle(c);
	for (unsigned i = 0; i < c->n_ops; i++)
		if (!c->op[i]->over)
			c->op[i]->unsure = c->op[i]->over = true;
	sim_events[SIM_ABANDONED]++;
}

/* One more of the requests that c is about to submit. */
static struct farkv_request next_request(struct sim_client *c, unsigned k,
					 uint64_t value[SIM_WORDS])
{
	enum index_kind kind = any_kind(c, k);
	struct farkv_request r = {.tag = c->n_ops};
	struct sim_op *op;

	/* Two deletes of a key could not be told apart. */
	for (unsigned i = 0; i < c->n_ops && kind_deletes(kind); i++)
		if (c->op[i]->key == k && kind_deletes(c->op[i]->kind))
			kind = INDEX_PUT;

	value_fill(value, ++sim.last_id);
	r.kind = kind;
	r.key = sim_key_name[k];
	r.key_len = key_len(k);
	if (kind == INDEX_GET && sim_below(2)) {
		r.buf = value;
		r.buf_len = VALUE_BYTES;
	} else if (kind_stores(kind)) {
		r.value = value;
		r.value_len = any_length();
	}
	r.expected = c->seen_version[k];
	op = sim_op_begin(kind, k, sim.last_id, (uint32_t)r.value_len, c->seen_id[k]);
	op->ttl_ms = any_ttl(kind);
	if (op->ttl_ms) {
		c->options[c->n_ops] = (struct farkv_write_options){
			.size = sizeof(*c->options), .ttl_ms = op->ttl_ms};
		r.options = &c->options[c->n_ops];
	}
	c->op[c->n_ops++] = op;
	return r;
}

static void completions(struct sim_client *c)
{
	struct farkv_completion done[SIM_BATCH];
	int n = sim_below(2) ? farkv_poll(c->kv, done, SIM_BATCH) :
			       farkv_wait(c->kv, done, SIM_BATCH, 1);

	if (n < 0)
		sim_fail("farkv_poll: %s", err_detail());
	for (int i = 0; i < n; i++)
		end(c, (unsigned)done[i].tag, done[i].result, &done[i].value);
}

/* All of them, however small the queue is. */
static void submit(struct sim_client *c, const struct farkv_request *r, unsigned n)
{
	while (n && !c->dying) {
		int taken = farkv_submit(c->kv, r, n);

		if (taken == FARKV_EAGAIN) {
			if (farkv_in_flight(c->kv) < sim.mix.queue)
				sim_fail("the queue is full too early");
			sim_events[SIM_QUEUE_FULL]++;
			completions(c);
			sim_give_way();
			continue;
		}
		if (taken <= 0)
			sim_fail("farkv_submit: %s", err_detail());
		r += taken;
		n -= (unsigned)taken;
	}
}

/*
 * Requests for neighbouring keys, or for one, a few at a time; others go on in between,
 * and between two polls. Some are sometimes left.
 */
static void pipeline(struct sim_client *c, unsigned first, unsigned n)
{
	uint64_t values[SIM_BATCH][SIM_WORDS];
	struct farkv_request r[SIM_BATCH];
	unsigned apart = sim_below(4) > 0;

	sim_events[SIM_PIPELINES]++;
	sim_events[SIM_SAME_KEY] += !apart && n > 1;
	while (c->n_ops < n && !c->dying) {
		unsigned from = c->n_ops;
		unsigned to = from + 1 + (unsigned)sim_below(n - from);

		for (unsigned i = from; i < to; i++)
			r[i] = next_request(c, (first + apart * i) % SIM_KEYS,
					    values[i]);
		submit(c, &r[from], to - from);
		if (sim_below(2))
			sim_give_way();
		if (sim_below(3) == 0)
			completions(c);
	}
	while (farkv_in_flight(c->kv)) {
		if (sim_below(80) == 0 && !c->dying) {
			abandon(c);
			break;
		}
		completions(c);
		if (sim_below(2) && !c->dying)
			sim_give_way();
	}
	c->n_ops = 0;
}

static void listed(struct sim_client *c, const struct farkv_scan_item *it)
{
	unsigned k = 0;

	while (k < SIM_KEYS && (key_len(k) != it->key_len ||
				memcmp(sim_key_name[k], it->key, it->key_len) != 0))
		k++;
	if (k == SIM_KEYS)
		sim_fail("a scan lists a key that nobody stored");
	sim_scan_listed(&c->scan, k, it->value_len);
}

/* All keys; others go on in between. Left when a call fails for the fourth time. */
static void scan(struct sim_client *c)
{
	uint64_t cursor = 0;
	unsigned failed = 0;
	int err;

	sim_scan_begin(&c->scan);
	do {
		const struct farkv_scan_item *items;
		size_t n;

		sim_scan_call(&c->scan);
		err = farkv_scan(c->kv, &cursor, sim_below(2) ? SIZE_MAX : FARKV_SCAN_MIN, &items,
				 &n);
		if (c->dying)
			return;
		sim_note((int)c->id, "scanned", cursor, (uint64_t)(unsigned)-err);
		sim_events[SIM_SCAN_CALLS]++;
		if (err && err != FARKV_ETIMEDOUT && err != FARKV_EDISCONNECTED &&
		    err != FARKV_EREFUSED)
			sim_fail("farkv_scan: %s", err_detail());
		if (err && ++failed == 4)
			return;
		for (size_t i = 0; !err && i < n; i++)
			listed(c, &items[i]);
		if (!c->quiet && sim_below(2))
			sim_give_way();
	} while ((cursor || err) && !c->dying);
	if (!c->dying)
		sim_scan_end(&c->scan);
}

static void work(struct sim_client *c)
{
	unsigned k = any_key(), n = 1 + (unsigned)sim_below(SIM_BATCH);

	if (sim_once_in(sim.mix.scan))
		scan(c);
	else if (sim_once_in(sim.mix.pipeline))
		pipeline(c, k, n);
	else if (!sim_once_in(sim.mix.batch))
		operate(c, any_kind(c, k), k);
	else if (sim.mix.kind[INDEX_EXISTS] && sim_below(3) == 0)
		batch_exists(c, k, n);
	else if (c->readonly || sim_below(2))
		batch_get(c, k, n);
	else
		batch_put(c, k, n);
}

/* ---- the program ------------------------------------------------------------------------- */

static void open_handle(struct sim_client *c)
{
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.op_timeout_ms = c->timeout_ms;
	o.flags = c->readonly ? FARKV_OPEN_READONLY : 0;
	o.cache_entries = sim.mix.cache;
	o.cache_bytes = sim.mix.keep;
	o.queue_depth = sim.mix.queue;
	err = farkv_open(sim.remote ? "kv://sim" : "shm:///sim", &o, &c->kv);
	if (err)
		c->kv = NULL;
	if (err && err != FARKV_ETIMEDOUT && err != FARKV_EDISCONNECTED &&
	    err != FARKV_EREFUSED && !c->dying)
		sim_fail("farkv_open: %s", err_detail());
}

/* Almost a full window, with tombstones in it. */
static void fill(struct sim_client *c)
{
	unsigned n = (sim.mix.crowded ? 58 : 50) + (unsigned)sim_below(6);

	if (!sim.mix.fill)
		return;
	for (unsigned k = SIM_HOT; k < SIM_HOT + n; k++) {
		operate(c, INDEX_PUT, k);
		if (sim_below(sim.mix.crowded ? 12 : 2) == 0)
			operate(c, INDEX_DELETE, k);
	}
}

/* After all the others. */
static void audit(struct sim_client *c)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	char text[FSCK_TEXT_CAP];
	int err;

	for (unsigned k = 0; k < SIM_KEYS; k++)
		operate(c, INDEX_GET, k);
	scan(c);
	err = farkv_fsck(c->kv, &f);
	if (err)
		sim_fail("farkv_fsck: %s", err_detail());
	if (fsck_problems(&f))
		sim_fail("farkv_fsck: %s", fsck_text(&f, text));
	if (f.undecided)
		sim_fail("farkv_fsck: undecided %u", (unsigned)f.undecided);
}

static void obey(struct sim_client *c)
{
	enum sim_order order = c->order;

	if (order == SIM_LEAVE) {
		close_handle(c);
		c->idle = true;
		return;
	}
	if (!c->kv)
		open_handle(c);
	if (!c->kv)
		return;
	if (order == SIM_FILL)
		fill(c);
	else if (order == SIM_AUDIT)
		audit(c);
	if (order != SIM_WORK) {
		/* A client that was cut off notices. */
		operate(c, INDEX_GET, any_key());
		c->idle = true;
		return;
	}
	work(c);
	if (c->kv && sim_once_in(sim.mix.leave) && !c->dying) {
		close_handle(c);
		sim_events[SIM_LEFT]++;
	}
}

void sim_client_main(void)
{
	struct sim_client *c = sim.running;

	while (!c->dying) {
		if (!c->idle)
			obey(c);
		if (!c->dying)
			sim_give_way();
	}
	close_handle(c);
	c->over = true;
	for (;;)
		sim_give_way();
}
