/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions for keys and values: of one key, and of many. */
#include "config.h"

#include "public.h"

#include "batch.h"
#include "call.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/search.h"
#include "common/index/shm.h"
#include "common/index/try.h"

#include "router.h"
#include "router_batch.h"
#include "router_map.h"
#include "timed.h"

/* ---- one key ------------------------------------------------------------------------- */

/* A call's request for its key. */
struct request {
	enum index_kind kind;
	const void *value;
	size_t value_len;
	uint64_t expected;
	void *into; /* where a get's value is to go, or NULL */
	size_t into_cap;
	uint64_t ttl_ms;
	uint32_t user;
};

/* The following functions are IN_LINE, so that what a call does not use costs nothing. */

/* Try the operation over mapped memory. False: it is pending. */
IN_LINE bool try_op(struct farkv *kv, const struct index_get_req *get, enum index_kind kind,
		    const void *window)
{
	struct index *ix = kv->conn.index;

	switch (kind) {
	case INDEX_GET:
		return index_get(ix, get, window);
	case INDEX_PUT:
		return index_put(ix, get->op, window);
	default:
		return index_try(ix, get->op);
	}
}

/* The key of a call and its window, which has been requested. */
struct prefetch {
	struct index_get_req get; /* of a get, but the key is any call's */
	const void *window;
};

/*
 * Hash the key and request its window first, because memory takes longer than the rest of the
 * call's beginning. What the handle knows of the store is valid if the caller then enters without
 * waiting.
 */
IN_LINE bool take_prefetch(struct farkv *kv, const void *key, size_t key_len,
			   struct prefetch *prefetch)
{
	if (!kv->conn.index || !handle_key_at_once(kv, key, key_len, &prefetch->get.key))
		return false;
	prefetch->get.op = &kv->op;
	prefetch->window = index_prefetch_window(kv->conn.index, prefetch->get.key.hash);
	return true;
}

static __attribute__((noinline)) int refuse_key(struct farkv *kv, const void *key,
						size_t key_len, enum index_kind kind)
{
	int err = handle_key_refuse(kv, key, key_len);

	return !kind_reads(kind) && kv->conn.readonly ? handle_not_writable(kv) : err;
}

/* End the operation, run to its end unless it is `final`. */
IN_LINE int key_op_end(struct farkv *kv, enum index_kind kind, bool final)
{
	struct index_op *op = &kv->op;

	if (!final) {
		uint64_t began = kv->deadline_ns ? 0 : handle_start_clock(kv);

		err_clear();
		handle_run(kv, &op, 1, began);
	}
	handle_count(kv, kind, op->result, 1);
	if (__builtin_expect(op->result != 0, 0)) {
		if (op->result == FARKV_EVERSION && kv->conn.index)
			index_pause(kv->conn.index, op);
		return handle_result(kv, op->result);
	}
	if (!kind_reads(kind))
		handle_after(kv, op);
	return 0;
}

IN_LINE int key_op(struct farkv *kv, const struct prefetch *prefetch, const struct request *w)
{
	struct index_op *op = &kv->op;
	const void *window = prefetch->window;

	if (!kind_reads(w->kind)) {
		int err = 0;

		if (__builtin_expect(!handle_writable_at_once(kv), 0)) {
			err = handle_not_writable(kv);
			window = NULL; /* there may have been a barrier */
		}
		if (!err)
			err = handle_value(kv, w->value, w->value_len);
		if (err)
			return err;
	}
	if (w->kind != INDEX_GET) {
		index_op_start(op, w->kind, &prefetch->get.key, w->value, (uint32_t)w->value_len);
		op->expected = w->expected;
		op->ttl_ms = w->ttl_ms;
		op->user = w->user;
	}
	op->into = w->into;
	op->into_cap = w->into_cap;
	return key_op_end(kv, w->kind, try_op(kv, &prefetch->get, w->kind, window));
}

static int cluster_call(struct farkv **at, const void *key, size_t key_len, const struct request *w);
static int timed_call(struct farkv **at, const void *key, size_t key_len, const struct request *w);

/* NOLINTBEGIN(misc-no-recursion): once, from a cluster's handle to its member's. */
/* *at is the handle, and afterwards the one that has the result: that of the key's server. */
IN_LINE int key_call(struct farkv **at, const void *key, size_t key_len, const struct request *w)
{
	struct farkv *kv = *at;
	struct prefetch prefetch;
	bool prefetched;
	int err;

	if (!kv)
		return handle_missing();
	if (__builtin_expect(kv->timed, 0))
		return timed_call(at, key, key_len, w);
	prefetched = take_prefetch(kv, key, key_len, &prefetch);
	if (!handle_enter_at_once(kv)) {
		err = handle_enter_slow(kv);
		if (err == HANDLE_CLUSTER)
			return cluster_call(at, key, key_len, w);
		if (err)
			return err;
		prefetched = take_prefetch(kv, key, key_len, &prefetch);
	}
	err = __builtin_expect(prefetched, 1) ? key_op(kv, &prefetch, w) :
					   refuse_key(kv, key, key_len, w->kind);
	handle_end(kv);
	return err;
}

static __attribute__((noinline)) int
cluster_call(struct farkv **at, const void *key, size_t key_len, const struct request *w)
{
	struct router_call c = {.kv = *at, .key = key, .key_len = key_len,
				.writes = !kind_reads(w->kind)};
	int err;

	do {
		err = router_enter(&c);
		if (err)
			return err;
		*at = c.member;
		err = key_call(at, key, key_len, w);
	} while (c.kv->router->leased && c.member != c.kv && router_again(&c, &err));
	return err;
}

static enum farkv_latency_kind latency_of(enum index_kind kind)
{
	switch (kind) {
	case INDEX_GET:
		return FARKV_LATENCY_GET;
	case INDEX_EXISTS:
		return FARKV_LATENCY_EXISTS;
	default:
		return kind_deletes(kind) ? FARKV_LATENCY_DELETE : FARKV_LATENCY_PUT;
	}
}

static __attribute__((noinline)) int
timed_call(struct farkv **at, const void *key, size_t key_len, const struct request *w)
{
	struct farkv *kv = *at;
	uint64_t began = timed_begin(kv);
	int err = key_call(at, key, key_len, w);

	return timed_end(kv, latency_of(w->kind), err, began);
}
/* NOLINTEND(misc-no-recursion) */

/* Return the value that the handle's operation has found, in `copy` or in its buffer. */
static int value_give(struct farkv *kv, bool copied, struct farkv_value *value_out)
{
	const struct block_view *v = &kv->op.view;

	if (!copied && index_op_hold(kv->conn.index, &kv->op))
		return err_set(FARKV_ENOMEM, "no memory to keep a value of %u bytes",
			       v->value_len);
	*value_out = handle_value_of(&kv->op, v->value);
	return 0;
}

/* A get on the slow path. */
static __attribute__((noinline)) int get_slow(struct farkv *kv, const void *key, size_t key_len,
					      struct farkv_value *value_out)
{
	static const struct request w = {.kind = INDEX_GET};
	int err;

	if (!kv)
		return handle_missing();
	if (!value_out)
		return err_set(FARKV_EINVAL, "farkv_get: value_out is NULL");
	err = key_call(&kv, key, key_len, &w);
	return err ? err : value_give(kv, false, value_out);
}

/* NOLINTBEGIN(misc-no-recursion): once, from a cluster's handle to its member's. */
static __attribute__((noinline)) int get_timed(struct farkv *kv, const void *key, size_t key_len,
					       struct farkv_value *value_out)
{
	uint64_t began = timed_begin(kv);
	int err = farkv_get(kv, key, key_len, value_out);

	return timed_end(kv, FARKV_LATENCY_GET, err, began);
}

/*
 * From now on the call has a key of its own: it may be the previous value, which a first try that no
 * lease covers replaces.
 */
static int copy_key(struct router_call *c)
{
	struct router_scratch *own = &c->kv->router->bytes;

	if (!c->key || c->key_len == 0 || c->key_len > FARKV_KEY_MAX)
		return 0; /* will be refused */
	if (!router_scratch(own, c->key_len))
		return err_set(FARKV_ENOMEM, "no memory for a key of %zu bytes", c->key_len);
	memcpy(own->mem, c->key, c->key_len);
	c->key = own->mem;
	return 0;
}

/* A get by the fast path of the key's server, whose lease has to cover it. */
static int get_leased(struct farkv *kv, const void *key, size_t key_len,
		      struct farkv_value *value_out)
{
	struct router_call c = {.kv = kv, .key = key, .key_len = key_len};
	int err;

	do {
		err = router_enter(&c);
		if (!err && c.member != kv && c.key == key)
			err = copy_key(&c);
		if (!err)
			err = farkv_get(c.member, c.key, key_len, value_out);
	} while (c.member != kv && router_again(&c, &err));
	return err;
}

/* Not part of get_slow(), because a cluster's handle comes here each time. */
static __attribute__((noinline)) int get_otherwise(struct farkv *kv, const void *key,
						   size_t key_len,
						   struct farkv_value *value_out)
{
	if (kv && kv->timed)
		return get_timed(kv, key, key_len, value_out);
	if (kv && kv->router && !kv->taken && value_out)
		return kv->router->leased ?
			       get_leased(kv, key, key_len, value_out) :
			       farkv_get(router_member(kv->router, key, key_len), key, key_len, value_out);
	return get_slow(kv, key, key_len, value_out);
}

/* Continue a fast get that has not found the value, inside the critical section. */
static __attribute__((noinline)) int get_go_on(struct farkv *kv, const struct index_key *key,
					       struct get_source *src,
					       struct farkv_value *value_out)
{
	struct index_get_req req = {*key, &kv->op};
	const uint8_t *copy = src->to + sizeof(struct block_header) + key->len;
	int err;

	kv->op.into = NULL;
	kv->op.into_cap = 0;
	err = key_op_end(kv, INDEX_GET,
			 index_get_slow(kv->conn.index, &req, src));
	handle_end(kv);
	return err ? err : value_give(kv, kv->op.view.value == copy, value_out);
}

/*
 * Request the key's window, then enter the critical section for a fast get. False: not entered, and
 * nothing has been done.
 */
IN_LINE bool get_enter(struct farkv *kv, const void *key, size_t key_len,
		       struct index_key *k, const uint64_t **window_out)
{
	const struct index *ix = kv->conn.index;

	if (!ix || kv->taken || !key || key_len - 1 >= kv->conn.sb->max_key)
		return false;
	k->data = key;
	k->len = (uint16_t)key_len;
	k->hash = hash_key_in_line(kv->conn.sb->hash_seed, key, key_len);
	return window_prefetch(ix, k->hash, window_out) && handle_enter_free(kv);
}

/* The block is copied to the buffer that does not hold the previous get's value. */
IN_LINE void get_source_set(const struct farkv *kv, const struct index_key *key,
			    struct get_source *src)
{
	static_assert(HANDLE_COPY_BYTES >= SHM_SMALL_MAX, "all that get_fast() copies");

	src->match = get_matches(key, src->slots);
	src->to = kv->copy[0];
	src->room = HANDLE_COPY_BYTES;
}

/* End a fast get that has found the value. */
IN_LINE void get_end(struct farkv *kv, const struct index_key *key, const struct get_source *src,
		     struct farkv_value *value_out)
{
	handle_count(kv, INDEX_GET, 0, 1);
	handle_end_at_once(kv);
	value_out->data = src->to + sizeof(struct block_header) + key->len;
	value_out->len = src->len;
	memcpy(&value_out->version, src->to, sizeof(value_out->version));
	value_out->ttl_ms = src->ttl_ms;
	value_out->user = 0; /* get_fast() finds none that has a user word */
}

int farkv_get(struct farkv *kv, const void *key, size_t key_len,
	      struct farkv_value *value_out)
{
	struct index_key k;
	struct get_source src;

	if (!kv || !value_out || !get_enter(kv, key, key_len, &k, &src.slots))
		return get_otherwise(kv, key, key_len, value_out);
	get_source_set(kv, &k, &src);
	kv->copy[0] = kv->copy[1];
	kv->copy[1] = src.to;
	if (__builtin_expect(!get_fast(kv->conn.index, &k, &src), 0)) {
		struct index_key key_apart = k; /* keeps `k` in registers */
		struct get_source src_apart = src;

		return get_go_on(kv, &key_apart, &src_apart, value_out);
	}
	get_end(kv, &k, &src, value_out);
	return 0;
}
/* NOLINTEND(misc-no-recursion) */

/* True if the key does not overlap the buffer, which receives the value. */
static bool apart(const void *key, size_t key_len, const void *buf, size_t cap)
{
	uintptr_t at = (uintptr_t)key, to = (uintptr_t)buf;

	return at + key_len <= to || to + cap <= at;
}

/* A fast get alone; the value lies in memory of the handle. False: it has not found the value. */
static bool get_into_fast(struct farkv *kv, const struct farkv_key *key,
			  struct farkv_value *value_out)
{
	struct index_key k;
	struct get_source src;

	if (!kv || !get_enter(kv, key->key, key->key_len, &k, &src.slots))
		return false;
	get_source_set(kv, &k, &src);
	if (!get_fast(kv->conn.index, &k, &src)) {
		handle_end_at_once(kv);
		return false;
	}
	get_end(kv, &k, &src, value_out);
	return true;
}

/* In the general way: a large value is copied to `buf` at once, if possible. */
static __attribute__((noinline)) int get_into_slow(struct farkv *kv, const struct farkv_key *key,
						   void *buf, size_t cap,
						   struct farkv_value *value_out)
{
	const struct request w = {
		.kind = INDEX_GET,
		.into = apart(key->key, key->key_len, buf, cap) ? buf : NULL,
		.into_cap = cap};
	int err = key_call(&kv, key->key, key->key_len, &w);

	if (!err)
		*value_out = handle_value_of(&kv->op, kv->op.view.value);
	return err;
}

int farkv_get_into(struct farkv *kv, const void *key, size_t key_len, void *buf,
		   size_t cap, size_t *len_out, uint64_t *version_out)
{
	const struct farkv_key k = {key, key_len};
	struct farkv_value v;
	int err = 0;

	if (!len_out || (!buf && cap > 0))
		return err_set(FARKV_EINVAL, "farkv_get_into: %s is NULL",
			       len_out ? "buf" : "len_out");
	if (!get_into_fast(kv, &k, &v))
		err = get_into_slow(kv, &k, buf, cap, &v);
	if (err)
		return err;
	*len_out = v.len;
	if (v.len > cap)
		return err_set(FARKV_ETOOSMALL, "the value has %zu bytes, the buffer %zu", v.len,
			       cap);
	if (v.len > 0 && v.data != buf)
		memcpy(buf, v.data, v.len);
	if (version_out)
		*version_out = v.version;
	return 0;
}

/* A put on the slow path. */
static __attribute__((noinline)) int
put_slow(struct farkv *kv, const void *key, size_t key_len, const void *value, size_t value_len)
{
	struct request w = {.kind = INDEX_PUT, .value = value, .value_len = value_len};

	return key_call(&kv, key, key_len, &w);
}

/* NOLINTBEGIN(misc-no-recursion): as in get_otherwise(). */
static __attribute__((noinline)) int
put_timed(struct farkv *kv, const void *key, size_t key_len, const void *value, size_t value_len)
{
	uint64_t began = timed_begin(kv);
	int err = farkv_put(kv, key, key_len, value, value_len);

	return timed_end(kv, FARKV_LATENCY_PUT, err, began);
}

/* As get_leased(). */
static int put_leased(struct farkv *kv, const void *key, size_t key_len, const void *value,
		      size_t value_len)
{
	struct router_call c = {.kv = kv, .key = key, .key_len = key_len, .writes = true};
	int err;

	do {
		err = router_enter(&c);
		if (!err)
			err = farkv_put(c.member, key, key_len, value, value_len);
	} while (c.member != kv && router_again(&c, &err));
	return err;
}

static __attribute__((noinline)) int
put_otherwise(struct farkv *kv, const void *key, size_t key_len, const void *value,
	      size_t value_len)
{
	if (kv->timed)
		return put_timed(kv, key, key_len, value, value_len);
	if (kv->router && !kv->taken)
		return kv->router->leased ?
			       put_leased(kv, key, key_len, value, value_len) :
			       farkv_put(router_member(kv->router, key, key_len), key, key_len, value,
					 value_len);
	return put_slow(kv, key, key_len, value, value_len);
}

/*
 * Request the key's window, then enter the critical section for a fast put. False: not entered, and
 * nothing has been done.
 */
IN_LINE bool put_enter(struct farkv *kv, const void *key, size_t key_len,
		       const struct request *w, struct put *p)
{
	const struct index *ix = kv->conn.index;
	const struct superblock *sb = kv->conn.sb;
	struct index_key k;

	if (!ix || kv->taken || !key || !w->value || key_len - 1 >= sb->max_key ||
	    w->value_len > sb->max_value)
		return false;
	k.data = key;
	k.len = (uint16_t)key_len;
	k.hash = hash_key_in_line(sb->hash_seed, key, key_len);
	put_start(p, &k, w->value, (uint32_t)w->value_len);
	return window_prefetch(ix, p->key.hash, &p->slots) &&
	       put_fits(ix, &p->key, p->value_len) &&
	       index_versions_left(ix) >= HANDLE_VERSIONS && handle_enter_free(kv);
}

/* After put_fast(): the slow path, or the work that follows a put. */
static __attribute__((noinline)) int put_go_on(struct farkv *kv, const struct put *p,
					       enum put_outcome outcome)
{
	struct index_op *op = &kv->op;
	bool final;
	int err = 0;

	index_op_start(op, INDEX_PUT, &p->key, p->value, p->value_len);
	op->into = NULL;
	op->into_cap = 0;
	if (outcome == PUT_DONE) {
		op->cls = p->cls;
		op->result = 0;
		handle_count(kv, INDEX_PUT, 0, 1);
		handle_after_in_full(kv, op);
	} else {
		index_put_to_op(op, p, outcome == PUT_LOST);
		final = index_write_search(kv->conn.index, op, p->slots,
					   outcome == PUT_LOST ? &p->lost_to : NULL);
		err = key_op_end(kv, INDEX_PUT, final);
	}
	handle_end(kv);
	return err;
}

int farkv_put(struct farkv *kv, const void *key, size_t key_len, const void *value,
	      size_t value_len)
{
	const struct request w = {.value = value, .value_len = value_len};
	struct put p;
	enum put_outcome outcome;

	if (__builtin_expect(!kv, 0))
		return handle_missing();
	if (__builtin_expect(!put_enter(kv, key, key_len, &w, &p), 0))
		return put_otherwise(kv, key, key_len, value, value_len);
	outcome = put_fast(kv->conn.index, &p);
	if (__builtin_expect(outcome != PUT_DONE ||
			     !handle_after_at_once(kv, p.has_spare, p.cls), 0)) {
		struct put rest = p; /* keeps `p` in registers */

		return put_go_on(kv, &rest, outcome);
	}
	handle_count(kv, INDEX_PUT, 0, 1);
	handle_end_at_once(kv);
	return 0;
}
/* NOLINTEND(misc-no-recursion) */

int farkv_add(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len)
{
	struct request w = {.kind = INDEX_ADD, .value = value, .value_len = value_len};

	return key_call(&kv, key, key_len, &w);
}

int farkv_replace(struct farkv *kv, const void *key, size_t key_len,
		  const void *value, size_t value_len)
{
	struct request w = {.kind = INDEX_REPLACE, .value = value, .value_len = value_len};

	return key_call(&kv, key, key_len, &w);
}

int farkv_cas(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len, uint64_t expected,
	      uint64_t *version_out)
{
	struct request w = {
		.kind = INDEX_CAS, .value = value, .value_len = value_len, .expected = expected};
	int err = key_call(&kv, key, key_len, &w);

	if (!err && version_out)
		*version_out = kv->op.version;
	return err;
}

int farkv_write(struct farkv *kv, const struct farkv_request *req, uint64_t *version_out)
{
	struct request w = {.kind = INDEX_PUT};
	int err;

	if (!req || req->kind < FARKV_REQUEST_PUT || req->kind > FARKV_REQUEST_CAS)
		return err_set(FARKV_EINVAL, "farkv_write: %s",
			       req ? "the request is no put, add, replace or cas" :
				     "req is NULL");
	if (req->flags || req->reserved)
		return err_set(FARKV_EINVAL, "request: flags and reserved must be 0");
	err = handle_write_options(req->options);
	if (err)
		return err;
	w.kind = (enum index_kind)req->kind;
	w.value = req->value;
	w.value_len = req->value_len;
	w.expected = req->expected;
	if (req->options) {
		w.ttl_ms = req->options->ttl_ms;
		w.user = req->options->user;
	}
	err = key_call(&kv, req->key, req->key_len, &w);
	if (!err && version_out)
		*version_out = kv->op.version;
	return err;
}

int farkv_delete(struct farkv *kv, const void *key, size_t key_len)
{
	static const struct request w = {.kind = INDEX_DELETE};

	return key_call(&kv, key, key_len, &w);
}

int farkv_delete_cas(struct farkv *kv, const void *key, size_t key_len, uint64_t expected)
{
	struct request w = {.kind = INDEX_DELETE_CAS, .expected = expected};

	return key_call(&kv, key, key_len, &w);
}

int farkv_exists(struct farkv *kv, const void *key, size_t key_len)
{
	static const struct request w = {.kind = INDEX_EXISTS};

	return key_call(&kv, key, key_len, &w);
}

/* ---- many keys ------------------------------------------------------------------------- */

static int items_check(struct farkv *kv, const void *items, const char *name, size_t n)
{
	err_clear();
	if (!kv)
		return handle_missing();
	if (!items && n > 0)
		return err_set(FARKV_EINVAL, "%s is NULL, but n is %zu", name, n);
	if (handle_is_busy(kv))
		return handle_busy(kv);
	return 0;
}

/* End of a batch of gets; `large`: it has returned large values. */
static void gets_end(struct farkv *kv, bool large)
{
	kv->batched = false;
	handle_end(kv);
	kv->batched = large;
}

static int mget(struct farkv *kv, struct farkv_get_item *items, size_t n)
{
	bool large;
	int err = items_check(kv, items, "items", n);

	if (!err)
		err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_mget(kv, items, n);
	if (err) {
		for (size_t i = 0; items && i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	err = batch_get(kv, items, n, &large);
	gets_end(kv, large);
	return err;
}

int farkv_mget(struct farkv *kv, struct farkv_get_item *items, size_t n)
{
	uint64_t began = timed_begin(kv);
	int err = mget(kv, items, n);

	return timed_end(kv, FARKV_LATENCY_MGET, err, began);
}

static int mget_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n)
{
	bool large;
	int err = items_check(kv, items, "items", n);

	if (!err)
		err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_mget_into(kv, items, n);
	if (err) {
		for (size_t i = 0; items && i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	err = batch_get_into(kv, items, n, &large);
	gets_end(kv, large);
	return err;
}

int farkv_mget_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n)
{
	uint64_t began = timed_begin(kv);
	int err = mget_into(kv, items, n);

	return timed_end(kv, FARKV_LATENCY_MGET, err, began);
}

static int mput(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	int err = items_check(kv, items, "items", n);

	if (!err)
		err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_mput(kv, items, n);
	if (err) {
		for (size_t i = 0; items && i < n; i++)
			items[i].result = FARKV_EABORTED;
		return err;
	}
	err = batch_put(kv, items, n);
	handle_end(kv);
	return err;
}

int farkv_mput(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	uint64_t began = timed_begin(kv);
	int err = mput(kv, items, n);

	return timed_end(kv, FARKV_LATENCY_MPUT, err, began);
}

static int mexists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		   size_t *prefix_out)
{
	int err = items_check(kv, keys, "keys", n);

	if (!err)
		err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_mexists(kv, keys, n, bitmap, prefix_out);
	if (err)
		return err;
	err = batch_exists(kv, keys, n, bitmap, prefix_out);
	handle_end(kv);
	return err;
}

int farkv_mexists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		  size_t *prefix_out)
{
	uint64_t began;
	size_t prefix = 0;
	int err;

	if (kv && handle_is_busy(kv))
		return handle_busy(kv);
	began = timed_begin(kv);
	if (bitmap)
		memset(bitmap, 0, n / 8 + (n % 8 != 0));
	err = mexists(kv, keys, n, bitmap, &prefix);
	if (prefix_out)
		*prefix_out = prefix;
	return timed_end(kv, FARKV_LATENCY_MEXISTS, err, began);
}
