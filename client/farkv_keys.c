/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions that get and put: of one key, and of many. */
#include "config.h"

#include "public.h"

#include "handle.h"

#include <string.h>

#include "common/err.h"
#include "common/util.h"

#include "lent.h"

/* ---- one key ------------------------------------------------------------------------- */

/* What a call wants of its key. */
struct want {
	enum index_kind kind;
	const void *value;
	size_t value_len;
	uint64_t expected;
	void *into; /* where a get's value is to go, or NULL */
	size_t into_cap;
};

/* What follows is IN_LINE, so that what a call does not want costs it nothing. */

/* By what the caller may map; else, or if anything unusual is met, it is pending. */
IN_LINE bool try_op(struct farkv *kv, const struct index_want *get, enum index_kind kind,
		    const void *window)
{
	struct index *ix = kv->link.index;

	switch (kind) {
	case INDEX_GET:
		return index_get(ix, get, window);
	case INDEX_PUT:
		return index_put(ix, get->op, window);
	default:
		return index_try(ix, get->op);
	}
}

/* The key of a call, and its window, on the way. */
struct aim {
	struct index_want get; /* of a get, but the key is any call's */
	const void *window;
};

/*
 * A window takes longer to come than all that a call begins with: so that is asked for
 * first, by what is known of the store as long as the gate lets the caller in at once.
 */
IN_LINE bool take_aim(struct farkv *kv, const void *key, size_t key_len, struct aim *aim)
{
	if (!kv->link.index || !handle_key_at_once(kv, key, key_len, &aim->get.key))
		return false;
	aim->get.op = &kv->op;
	aim->window = index_expect(kv->link.index, aim->get.key.hash);
	return true;
}

static __attribute__((noinline)) int refuse_key(struct farkv *kv, const void *key,
						size_t key_len, enum index_kind kind)
{
	int err = handle_key_refuse(kv, key, key_len);

	return kind != INDEX_GET && kv->link.readonly ? handle_not_writable(kv) : err;
}

IN_LINE int key_op(struct farkv *kv, const struct aim *aim, const struct want *w)
{
	struct index_op *op = &kv->op;

	if (w->kind != INDEX_GET) {
		int err = handle_writable(kv);

		if (!err)
			err = handle_value(kv, w->value, w->value_len);
		if (err)
			return err;
		index_op_start(op, w->kind, &aim->get.key, w->value, (uint32_t)w->value_len,
			       w->expected);
	}
	op->into = w->into;
	op->into_cap = w->into_cap;
	if (!try_op(kv, &aim->get, w->kind, aim->window)) {
		uint64_t began = kv->deadline_ns ? 0 : handle_start_clock(kv);

		err_clear();
		if (w->kind == INDEX_PUT)
			handle_put(kv, op, began);
		else
			handle_run(kv, &op, 1, began);
	}
	if (__builtin_expect(op->result != 0, 0)) {
		if (op->result == FARKV_EVERSION && kv->link.index)
			index_pause(kv->link.index, op);
		return handle_result(kv, op->result);
	}
	if (w->kind != INDEX_GET)
		handle_after(kv, op);
	return 0;
}

/* A value that was lent is the call's key, or its value: as if it were the caller's own. */
static __attribute__((noinline)) int key_call_apart(struct farkv *kv, const void *key,
						    size_t key_len, struct want w)
{
	struct arena own = {NULL};
	struct aim aim;
	int err = FARKV_ENOMEM;

	if (lent_keep(kv, &own, &key, key_len) &&
	    lent_keep(kv, &own, &w.value, w.value_len)) {
		lent_end(kv);
		err = handle_enter(kv);
		if (!err) {
			err = take_aim(kv, key, key_len, &aim) ?
				      key_op(kv, &aim, &w) :
				      refuse_key(kv, key, key_len, w.kind);
			handle_end(kv);
		}
	}
	arena_reset(&own);
	return err;
}

IN_LINE int key_call(struct farkv *kv, const void *key, size_t key_len,
		     const struct want *w)
{
	struct aim aim;
	bool aimed;
	int err;

	if (!kv)
		return handle_missing();
	aimed = take_aim(kv, key, key_len, &aim);
	if (__builtin_expect(lent_at_hand(kv, key) ||
			     (w->value && lent_at_hand(kv, w->value)), 0))
		return key_call_apart(kv, key, key_len, *w);
	if (!handle_enter_at_once(kv)) {
		err = handle_enter_otherwise(kv);
		if (err)
			return err;
		aimed = take_aim(kv, key, key_len, &aim);
	}
	err = __builtin_expect(aimed, 1) ? key_op(kv, &aim, w) :
					   refuse_key(kv, key, key_len, w->kind);
	handle_end(kv);
	return err;
}

int farkv_get(struct farkv *kv, const void *key, size_t key_len,
	      struct farkv_value *value_out)
{
	static const struct want w = {.kind = INDEX_GET};
	int err;

	if (!value_out)
		return err_set(FARKV_EINVAL, "farkv_get: value_out is NULL");
	err = key_call(kv, key, key_len, &w);
	if (!err)
		*value_out = (struct farkv_value){
			.data = kv->op.view.value,
			.len = kv->op.view.value_len,
			.version = kv->op.version,
		};
	return err;
}

/* The key must stay as it is until the value has come. */
static bool apart(const void *key, size_t key_len, const void *buf, size_t cap)
{
	uintptr_t at = (uintptr_t)key, to = (uintptr_t)buf;

	return at + key_len <= to || to + cap <= at;
}

int farkv_get_into(struct farkv *kv, const void *key, size_t key_len, void *buf,
		   size_t cap, size_t *len_out, uint64_t *version_out)
{
	const struct want w = {
		.kind = INDEX_GET,
		.into = apart(key, key_len, buf, cap) ? buf : NULL,
		.into_cap = cap};
	const struct block_view *v;
	int err;

	if (!len_out || (!buf && cap > 0))
		return err_set(FARKV_EINVAL, "farkv_get_into: %s is NULL",
			       len_out ? "buf" : "len_out");
	err = key_call(kv, key, key_len, &w);
	if (err)
		return err;
	v = &kv->op.view;
	*len_out = v->value_len;
	if (v->value_len > cap)
		return err_set(FARKV_ETOOSMALL,
			       "the value has %u bytes, the buffer %zu",
			       v->value_len, cap);
	if (v->value_len > 0 && v->value != buf)
		memcpy(buf, v->value, v->value_len);
	if (version_out)
		*version_out = kv->op.version;
	return 0;
}

int farkv_put(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len)
{
	struct want w = {INDEX_PUT, value, value_len, 0, NULL, 0};

	return key_call(kv, key, key_len, &w);
}

int farkv_add(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len)
{
	struct want w = {INDEX_ADD, value, value_len, 0, NULL, 0};

	return key_call(kv, key, key_len, &w);
}

int farkv_replace(struct farkv *kv, const void *key, size_t key_len,
		  const void *value, size_t value_len)
{
	struct want w = {INDEX_REPLACE, value, value_len, 0, NULL, 0};

	return key_call(kv, key, key_len, &w);
}

int farkv_cas(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len, uint64_t expected,
	      uint64_t *version_out)
{
	struct want w = {INDEX_CAS, value, value_len, expected, NULL, 0};
	int err = key_call(kv, key, key_len, &w);

	if (!err && version_out)
		*version_out = kv->op.version;
	return err;
}

int farkv_delete(struct farkv *kv, const void *key, size_t key_len)
{
	static const struct want w = {.kind = INDEX_DELETE};

	return key_call(kv, key, key_len, &w);
}

/* ---- many keys ------------------------------------------------------------------------- */

static int items_check(struct farkv *kv, const void *items, size_t n)
{
	err_clear();
	if (!kv)
		return handle_missing();
	if (!items && n > 0)
		return err_set(FARKV_EINVAL, "items is NULL, but n is %zu", n);
	return 0;
}

static int mget(struct farkv *kv, struct farkv_get_item *items, size_t n)
{
	int err = handle_begin(kv);

	if (err) {
		for (size_t i = 0; i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	err = batch_get(kv, items, n);
	handle_end(kv);
	return err;
}

static int mput(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	int err = handle_begin(kv);

	if (err) {
		for (size_t i = 0; i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	err = batch_put(kv, items, n);
	handle_end(kv);
	return err;
}

/* As key_call_apart(). */
static __attribute__((noinline)) int mget_apart(struct farkv *kv,
						struct farkv_get_item *items, size_t n)
{
	struct arena own = {NULL};
	struct farkv_get_item *mine = lent_copy(&own, items, n * sizeof(*items));
	bool kept = mine != NULL;
	int err = FARKV_ENOMEM;

	for (size_t i = 0; i < n && kept; i++)
		kept = lent_keep(kv, &own, &mine[i].key, mine[i].key_len);
	lent_end(kv);
	if (kept)
		err = mget(kv, mine, n);
	for (size_t i = 0; i < n; i++) {
		items[i].result = kept ? mine[i].result : FARKV_EABORTED;
		if (items[i].result == 0)
			items[i].value = mine[i].value;
	}
	arena_reset(&own);
	return err;
}

static __attribute__((noinline)) int mput_apart(struct farkv *kv,
						struct farkv_put_item *items, size_t n)
{
	struct arena own = {NULL};
	struct farkv_put_item *mine = lent_copy(&own, items, n * sizeof(*items));
	bool kept = mine != NULL;
	int err = FARKV_ENOMEM;

	for (size_t i = 0; i < n && kept; i++)
		kept = lent_keep(kv, &own, &mine[i].key, mine[i].key_len) &&
		       lent_keep(kv, &own, &mine[i].value, mine[i].value_len);
	lent_end(kv);
	if (kept)
		err = mput(kv, mine, n);
	for (size_t i = 0; i < n; i++)
		items[i].result = kept ? mine[i].result : FARKV_EABORTED;
	arena_reset(&own);
	return err;
}

int farkv_mget(struct farkv *kv, struct farkv_get_item *items, size_t n)
{
	int err = items_check(kv, items, n);

	if (err) {
		for (size_t i = 0; items && i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	if (lent_to_gets(kv, items, n))
		return mget_apart(kv, items, n);
	lent_end(kv);
	return mget(kv, items, n);
}

int farkv_mput(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	int err = items_check(kv, items, n);

	if (err) {
		for (size_t i = 0; items && i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	if (lent_to_puts(kv, items, n))
		return mput_apart(kv, items, n);
	lent_end(kv);
	return mput(kv, items, n);
}
