/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv's sides: the bare public calls. For RDMA one side has all keys in its location
 * cache, the other has none.
 */
#include "config.h"

#include <stdlib.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "limit_side.h"

#define REMEMBERED_MAX (UINT64_C(1) << 30)

struct farkv_side {
	struct limit_side base;
	struct farkv *kv;
	struct farkv_get_item get[LIMIT_BATCH];
	struct farkv_put_item put[LIMIT_BATCH];
	struct farkv_request request[LIMIT_BATCH];
	struct farkv_completion complete[LIMIT_BATCH];
};

static int open_with(const struct limit_plan *plan,
		     const struct limit_side_ops *ops, uint64_t remembered,
		     struct limit_side **side_out)
{
	struct farkv_side *f = calloc(1, sizeof(*f));
	struct farkv_options o;
	int err;

	if (!f)
		return err_set(FARKV_ENOMEM, "no memory for a farkv session");
	f->base = (struct limit_side){ops, plan};
	farkv_options_init(&o);
	o.name = "kvbench";
	o.cache_entries = (uint32_t)UTIL_MIN(remembered, REMEMBERED_MAX);
	o.cache_bytes = 0; /* the limit READs each value too */
	err = farkv_open(plan->uri, &o, &f->kv);
	if (err) {
		/* The library has its own detail. */
		err_set(err, "%s", farkv_errdetail());
		free(f);
		return err;
	}
	*side_out = &f->base;
	return 0;
}

static int side_open(const struct limit_plan *plan,
		     struct limit_side **side_out)
{
	/* Twice the entries: keys do not spread evenly over the cache's sets. */
	return open_with(plan, &limit_farkv_ops, 2 * plan->records, side_out);
}

static int searching_open(const struct limit_plan *plan,
			  struct limit_side **side_out)
{
	return open_with(plan, &limit_searching_ops, 0, side_out);
}

static void side_close(struct limit_side *s)
{
	struct farkv_side *f = (struct farkv_side *)s;

	farkv_close(f->kv);
	free(f);
}

static size_t side_get(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	struct farkv *kv = ((struct farkv_side *)s)->kv;
	const struct limit_plan *plan = s->plan;
	size_t len = 0;

	for (size_t i = first; i < first + n; i++)
		if (farkv_get_into(kv, limit_key(k, i), k->len[i], plan->into,
				   plan->value_len, &len, NULL) ||
		    len != plan->value_len)
			return i - first;
	return n;
}

static size_t side_put(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	struct farkv *kv = ((struct farkv_side *)s)->kv;
	const struct limit_plan *plan = s->plan;

	for (size_t i = first; i < first + n; i++)
		if (farkv_put(kv, limit_key(k, i), k->len[i], plan->value,
			      plan->value_len))
			return i - first;
	return n;
}

/* The library copies: the values lie in the handle's memory. */
static size_t side_mget(struct limit_side *s, const struct limit_keys *k,
			size_t first, size_t n)
{
	struct farkv_side *f = (struct farkv_side *)s;
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		f->get[i].key = limit_key(k, first + i);
		f->get[i].key_len = k->len[first + i];
	}
	if (farkv_mget(f->kv, f->get, n))
		return 0;
	for (size_t i = 0; i < n; i++)
		good += f->get[i].result == 0 &&
			f->get[i].value.len == s->plan->value_len;
	return good;
}

static size_t side_mput(struct limit_side *s, const struct limit_keys *k,
			size_t first, size_t n)
{
	struct farkv_side *f = (struct farkv_side *)s;

	for (size_t i = 0; i < n; i++)
		f->put[i] = (struct farkv_put_item){
			.key = limit_key(k, first + i),
			.key_len = k->len[first + i],
			.value = s->plan->value,
			.value_len = s->plan->value_len,
		};
	return farkv_mput(f->kv, f->put, n) ? 0 : n;
}

/* How many of `n` requests succeeded; waits for all. */
static size_t in_flight(struct farkv_side *f, size_t n)
{
	size_t good = 0, over = 0;
	int taken = farkv_submit(f->kv, f->request, n);

	if (taken != (int)n)
		return 0;
	while (over < n) {
		int took = farkv_wait(f->kv, f->complete, n, UINT32_MAX);

		if (took <= 0)
			return 0;
		for (int i = 0; i < took; i++) {
			const struct farkv_completion *c = &f->complete[i];

			good += c->result == 0 &&
				(c->kind != FARKV_REQUEST_GET ||
				 c->value.len == f->base.plan->value_len);
		}
		over += (size_t)took;
	}
	return good;
}

static size_t queue(struct limit_side *s, enum farkv_request_kind kind,
		    const struct limit_keys *k, size_t first, size_t n)
{
	struct farkv_side *f = (struct farkv_side *)s;
	bool puts = kind == FARKV_REQUEST_PUT;

	for (size_t i = 0; i < n; i++)
		f->request[i] = (struct farkv_request){
			.kind = kind,
			.key = limit_key(k, first + i),
			.key_len = k->len[first + i],
			.value = puts ? s->plan->value : NULL,
			.value_len = puts ? s->plan->value_len : 0,
		};
	return in_flight(f, n);
}

static size_t side_qget(struct limit_side *s, const struct limit_keys *k,
			size_t first, size_t n)
{
	return queue(s, FARKV_REQUEST_GET, k, first, n);
}

static size_t side_qput(struct limit_side *s, const struct limit_keys *k,
			size_t first, size_t n)
{
	return queue(s, FARKV_REQUEST_PUT, k, first, n);
}

static const char *side_error(struct limit_side *s)
{
	(void)s;
	return farkv_errdetail();
}

const struct limit_side_ops limit_farkv_ops = {
	.name = "farkv",
	.open = side_open,
	.close = side_close,
	.test = {side_get, side_put, side_mget, side_mput, side_qget, side_qput},
	.error = side_error,
};

/* Its writes would make the other side's cached locations stale, so it has keys of its own. */
const struct limit_side_ops limit_searching_ops = {
	.name = "searching",
	.other_keys = 0x20,
	.open = searching_open,
	.close = side_close,
	.test = {side_get, side_put, side_mget, side_mput, side_qget, side_qput},
	.error = side_error,
};
