/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_mget(), farkv_mget_into(), farkv_mput(), farkv_mexists(), and the deletes of farkv_clear():
 * groups of up to INDEX_RUN_MAX operations share their round trips.
 *
 * The operations of farkv_mget()'s last group hold their values (index_op_hold()); values of
 * earlier groups are copied to the handle's arena. A call holds at most the sum of its values (each
 * buffer rounded up to a power of two). The end of the next call releases all but small ones; the
 * end of an mget keeps as many buffers of a size as it has replaced, for the next mget. Released
 * memory stays with the handle, up to some MiB (SPARE_KEEP, ARENA_KEEP), because allocating 64 KiB
 * takes five times as long as reading them.
 */
#include "config.h"

#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/try.h"

#include "call.h"
#include "wait.h"

/* Twice the operations of a group, so that probing stays short. */
#define SEEN_SLOTS (2 * INDEX_RUN_MAX)
static_assert((SEEN_SLOTS & (SEEN_SLOTS - 1)) == 0, "SEEN_SLOTS: power of two");

/* One group of a call for `n_items`, of which those from `at` on have not begun: operation i
 * belongs to item item[i]. Of gets: */
struct gets {
	bool have_buffers; /* farkv_mget_into(): the items are `into` */
	struct farkv_get_item *items;
	struct farkv_get_into_item *into;
	size_t n_items, at;
	struct index_get_req want[INDEX_RUN_MAX];
	size_t item[INDEX_RUN_MAX];
	size_t n;
};

/* A group of puts. */
struct group {
	struct farkv_put_item *items;
	size_t n_items, at;
	struct index_op *op[INDEX_RUN_MAX];
	size_t item[INDEX_RUN_MAX];
	size_t n;
	uint16_t seen[SEEN_SLOTS]; /* operation + 1 by its key's hash, or 0 */
};

/* The first failure of a call, which determines its result and error line. */
struct failure {
	size_t item;
	int err;
	char detail[256];
};

static void failure_note(struct failure *f, size_t item, int err)
{
	if (f->err && f->item < item)
		return;
	f->item = item;
	f->err = err;
	snprintf(f->detail, sizeof(f->detail), "%s", err_detail());
}

static int failure_report(const struct failure *f, size_t n)
{
	if (!f->err)
		return 0;
	return err_set(f->err, "item %zu of %zu: %s", f->item + 1, n,
		       f->detail);
}

/* True for errors after which the rest of the batch would fail in the same way. */
static bool is_final(int err)
{
	return err == FARKV_EDISCONNECTED || err == FARKV_ETIMEDOUT ||
	       err == FARKV_ELINKDOWN ||
	       err == FARKV_EMAYBE || err == FARKV_ENOMEM;
}

/* For a call of `n` items. */
static int ops_reserve(struct farkv *kv, size_t n)
{
	if (!kv->ops) {
		kv->ops = calloc(INDEX_RUN_MAX, sizeof(*kv->ops));
		if (!kv->ops)
			return err_set(FARKV_ENOMEM, "no memory for a batch");
		for (size_t i = 0; i < INDEX_RUN_MAX; i++)
			index_op_init(&kv->ops[i]);
	}
	kv->ops_used = UTIL_MAX(kv->ops_used, UTIL_MIN(n, (size_t)INDEX_RUN_MAX));
	return 0;
}

/* The result of an operation, with a detail if it is an error. */
static int op_result(struct farkv *kv, const struct index_op *op, size_t item,
		     struct failure *f)
{
	int err = op->result;

	if (err == 0)
		return 0;
	err_clear(); /* the present detail may belong to another operation */
	err = handle_result(kv, handle_waited(kv, op, err));
	if (err != FARKV_ENOTFOUND)
		failure_note(f, item, err);
	return err;
}

/* ---- mget ----------------------------------------------------------------------- */

static int *result_of(const struct gets *g, size_t item)
{
	return g->have_buffers ? &g->into[item].result : &g->items[item].result;
}

/* Set up `want` for an item; its operation gets the item's buffer. */
static int get_prepare(struct farkv *kv, const struct gets *g, size_t item,
		       struct index_get_req *want)
{
	const struct farkv_get_into_item *it;

	want->op->into = NULL;
	if (!g->have_buffers)
		return handle_key(kv, g->items[item].key, g->items[item].key_len, &want->key);
	it = &g->into[item];
	if (!it->buf && it->cap > 0)
		return err_set(FARKV_EINVAL, "buf is NULL, but cap is %zu", it->cap);
	want->op->into = it->buf;
	want->op->into_cap = it->cap;
	return handle_key(kv, it->key, it->key_len, &want->key);
}

static void get_fill(struct farkv *kv, struct gets *g, struct failure *f)
{
	size_t at = g->at;

	g->n = 0;
	for (; at < g->n_items && g->n < INDEX_RUN_MAX; at++) {
		struct index_get_req *want = &g->want[g->n];
		int err;

		want->op = &kv->ops[g->n];
		err = get_prepare(kv, g, at, want);
		*result_of(g, at) = err;
		if (err)
			failure_note(f, at, err);
		else
			g->item[g->n++] = at;
	}
	g->at = at;
}

/* `more`: later groups use the operation again, and some of their keys may lie in what it holds. */
static int get_value(struct farkv *kv, struct index_op *op, bool more,
		     struct farkv_value *out)
{
	const void *data;

	if (more)
		data = arena_copy(&kv->arena, op->view.value, op->view.value_len);
	else
		data = index_op_hold(kv->conn.index, op) ? NULL : op->view.value;
	if (!data)
		return err_set(FARKV_ENOMEM, "no memory to keep a value of %u bytes",
			       op->view.value_len);
	*out = handle_value_of(op, data);
	return 0;
}

/* The value goes to the item's buffer, where it may be already. */
static int get_value_into(const struct index_op *op, struct farkv_get_into_item *it)
{
	const struct block_view *v = &op->view;

	it->len = v->value_len;
	if (v->value_len > it->cap)
		return err_set(FARKV_ETOOSMALL, "the value has %u bytes, the buffer %zu",
			       v->value_len, it->cap);
	if (v->value_len > 0 && v->value != it->buf)
		memcpy(it->buf, v->value, v->value_len);
	it->version = op->version;
	return 0;
}

/*
 * End of the call: release what the previous batch returned. True: this batch returned large
 * values, and handle_release_batch() is to follow.
 */
static bool release_previous(struct farkv *kv, const struct gets *g)
{
	/* operations that may hold a value */
	size_t n = g->have_buffers || g->at < g->n_items ? 0 : g->n;
	bool more = kv->arena.chunks != NULL;
	size_t held = 0, used = 0;

	arena_drop_old(&kv->arena);
	handle_shrink_ops(kv, UTIL_MIN(g->n_items, (size_t)INDEX_RUN_MAX));
	for (size_t i = 0; i < kv->ops_used; i++) {
		struct index_op *op = &kv->ops[i];

		if (i >= n || op->result)
			index_op_release(kv->conn.index, op);
		held += op->held_bytes;
		if (index_op_is_minimal(op))
			continue;
		used = i + 1;
		more |= kv->conn.index && index_op_is_oversized(kv->conn.index, op);
	}
	kv->ops_used = used;
	return more || held > INDEX_HELD_KEEP;
}

/* Returns an error that ends the batch, or 0. */
static int get_harvest(struct farkv *kv, const struct gets *g, struct failure *f)
{
	bool more = g->at < g->n_items;
	int final = 0;

	for (size_t i = 0; i < g->n; i++) {
		size_t item = g->item[i];
		struct index_op *op = g->want[i].op;
		int err = op_result(kv, op, item, f);

		handle_count(kv, INDEX_GET, op->result, 1);
		if (err == 0) {
			err = g->have_buffers ? get_value_into(op, &g->into[item]) :
					get_value(kv, op, more, &g->items[item].value);
			if (err)
				failure_note(f, item, err);
		}
		*result_of(g, item) = err;
		if (is_final(err))
			final = err;
	}
	return final;
}

static int get_all(struct farkv *kv, struct gets *g, bool *large_out)
{
	struct index_op *ops[INDEX_RUN_MAX];
	struct failure f = {.err = 0};
	bool straight;
	int final;

	g->n = g->at = 0;
	arena_age(&kv->arena);
	final = ops_reserve(kv, g->n_items);
	if (final)
		failure_note(&f, 0, final);
	while (g->at < g->n_items && !final) {
		get_fill(kv, g, &f);
		straight = index_get_many(kv->conn.index, g->want, g->n);
		for (size_t i = 0; !straight && i < g->n; i++)
			ops[i] = g->want[i].op;
		if (!straight)
			handle_run(kv, ops, g->n, 0);
		final = get_harvest(kv, g, &f);
		if (g->at < g->n_items)
			handle_pause(kv);
	}
	*large_out = release_previous(kv, g);
	for (; g->at < g->n_items; g->at++)
		*result_of(g, g->at) = FARKV_EABORTED;
	return failure_report(&f, g->n_items);
}

int batch_get(struct farkv *kv, struct farkv_get_item *items, size_t n, bool *large_out)
{
	struct gets g;

	g.have_buffers = false; /* the rest is large: no initializer */
	g.items = items;
	g.into = NULL;
	g.n_items = n;
	return get_all(kv, &g, large_out);
}

int batch_get_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n,
		   bool *large_out)
{
	struct gets g;

	g.have_buffers = true;
	g.items = NULL;
	g.into = items;
	g.n_items = n;
	return get_all(kv, &g, large_out);
}

/* ---- mput ----------------------------------------------------------------------- */

static bool same_key(const struct index_key *a, const struct index_key *b)
{
	return a->hash == b->hash && a->len == b->len &&
	       memcmp(a->data, b->data, a->len) == 0;
}

/*
 * Add `key` to the group; false if the group has it already. Two writes of one key in one group
 * would race each other: the later item waits for the next group and so wins.
 */
static bool group_claim(struct group *g, const struct index_key *key)
{
	size_t s = key->hash % SEEN_SLOTS;

	for (; g->seen[s]; s = (s + 1) % SEEN_SLOTS)
		if (same_key(&g->op[g->seen[s] - 1]->key, key))
			return false;
	g->seen[s] = (uint16_t)(g->n + 1);
	return true;
}

static int put_check(struct farkv *kv, const struct farkv_put_item *it,
		     struct index_key *key_out)
{
	int err = handle_key(kv, it->key, it->key_len, key_out);

	return err ? err : handle_value(kv, it->value, it->value_len);
}

static void put_fill(struct farkv *kv, struct group *g, struct failure *f)
{
	size_t at = g->at;

	g->n = 0;
	memset(g->seen, 0, sizeof(g->seen));
	for (; at < g->n_items && g->n < INDEX_RUN_MAX; at++) {
		struct farkv_put_item *it = &g->items[at];
		struct index_op *op = &kv->ops[g->n];
		struct index_key key;

		it->result = put_check(kv, it, &key);
		if (it->result) {
			failure_note(f, at, it->result);
			continue;
		}
		if (!group_claim(g, &key))
			break;
		index_prefetch_window(kv->conn.index, key.hash);
		index_op_start(op, INDEX_PUT, &key, it->value,
			       (uint32_t)it->value_len);
		g->item[g->n] = at;
		g->op[g->n++] = op;
	}
	g->at = at;
}

static int put_harvest(struct farkv *kv, const struct group *g, struct failure *f)
{
	int final = 0;

	for (size_t i = 0; i < g->n; i++) {
		struct farkv_put_item *it = &g->items[g->item[i]];

		it->result = op_result(kv, g->op[i], g->item[i], f);
		handle_count(kv, INDEX_PUT, it->result, 1);
		if (it->result == 0)
			handle_after(kv, g->op[i]);
		if (is_final(it->result))
			final = it->result;
	}
	return final;
}

int batch_put(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	struct failure f = {0};
	struct group g;
	int final;

	g.items = items;
	g.n_items = n;
	g.at = 0;
	final = ops_reserve(kv, n);
	if (final)
		failure_note(&f, 0, final);
	while (g.at < n && !final) {
		final = handle_writable(kv);
		if (final) {
			failure_note(&f, g.at, final);
			break;
		}
		put_fill(kv, &g, &f);
		index_try_many(kv->conn.index, g.op, g.n);
		handle_run(kv, g.op, g.n, 0);
		final = put_harvest(kv, &g, &f);
		if (g.at < n)
			handle_pause(kv);
	}
	for (; g.at < n; g.at++)
		items[g.at].result = FARKV_EABORTED;
	return failure_report(&f, n);
}

/* ---- mexists -------------------------------------------------------------------- */

/* A group of keys to ask for; those from `at` on have not begun. */
struct asked {
	const struct farkv_key *keys;
	size_t n_keys, at;
	struct index_op *op[INDEX_RUN_MAX];
	size_t item[INDEX_RUN_MAX];
	size_t n;
	uint8_t *bitmap; /* or NULL */
	size_t prefix;
};

static void ask_fill(struct farkv *kv, struct asked *a, struct failure *f)
{
	size_t at = a->at;

	a->n = 0;
	for (; at < a->n_keys && a->n < INDEX_RUN_MAX; at++) {
		const struct farkv_key *k = &a->keys[at];
		struct index_op *op = &kv->ops[a->n];
		struct index_key key;
		int err = handle_key(kv, k->key, k->key_len, &key);

		if (err) {
			failure_note(f, at, err);
			continue;
		}
		index_op_start(op, INDEX_EXISTS, &key, NULL, 0);
		a->item[a->n] = at;
		a->op[a->n++] = op;
	}
	a->at = at;
}

static void ask_found(struct asked *a, size_t item)
{
	if (a->bitmap)
		a->bitmap[item / 8] |= (uint8_t)(1u << item % 8);
	if (a->prefix == item)
		a->prefix++;
}

/* Returns an error that ends the batch, or 0. */
static int ask_harvest(struct farkv *kv, struct asked *a, struct failure *f)
{
	int final = 0;

	for (size_t i = 0; i < a->n; i++) {
		int err = op_result(kv, a->op[i], a->item[i], f);

		if (!err)
			ask_found(a, a->item[i]);
		if (is_final(err))
			final = err;
	}
	return final;
}

int batch_exists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		 size_t *prefix_out)
{
	struct failure f = {.err = 0};
	struct asked a = {.keys = keys, .n_keys = n, .bitmap = bitmap};
	int final = ops_reserve(kv, n);

	if (final)
		failure_note(&f, 0, final);
	while (a.at < n && !final) {
		ask_fill(kv, &a, &f);
		index_try_many(kv->conn.index, a.op, a.n);
		handle_run(kv, a.op, a.n, 0);
		final = ask_harvest(kv, &a, &f);
		if (a.at < n)
			handle_pause(kv);
	}
	*prefix_out = a.prefix;
	return failure_report(&f, n);
}

/* ---- delete --------------------------------------------------------------------- */

/* Returns the first error that is no miss. */
static int delete_harvest(struct farkv *kv, struct index_op *const *ops, size_t n,
			  uint64_t *deleted)
{
	struct failure f = {.err = 0};

	for (size_t i = 0; i < n; i++) {
		if (op_result(kv, ops[i], i, &f))
			continue;
		handle_after(kv, ops[i]);
		++*deleted;
	}
	return f.err ? err_set(f.err, "%s", f.detail) : 0;
}

int batch_delete(struct farkv *kv, const struct farkv_scan_item *items, size_t n,
		 uint64_t *deleted)
{
	struct index_op *ops[INDEX_RUN_MAX];
	int err = ops_reserve(kv, n);

	for (size_t at = 0; at < n && !err;) {
		size_t group = UTIL_MIN(n - at, (size_t)INDEX_RUN_MAX);

		err = handle_writable(kv);
		if (err)
			break;
		for (size_t i = 0; i < group; i++, at++) {
			struct index_key key;

			(void)handle_key(kv, items[at].key, items[at].key_len, &key);
			index_prefetch_window(kv->conn.index, key.hash);
			ops[i] = &kv->ops[i];
			index_op_start(ops[i], INDEX_DELETE, &key, NULL, 0);
		}
		index_try_many(kv->conn.index, ops, group);
		handle_run(kv, ops, group, 0);
		err = delete_harvest(kv, ops, group, deleted);
		if (at < n)
			handle_pause(kv);
	}
	return err;
}
