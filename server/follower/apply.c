/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of the source have their line in err_detail(), those of the own server in
 * farkv_errdetail(): the library that the child is linked with has an error line of its own.
 */
#include "config.h"

#include "apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"
#include "common/region/layout.h"

#define BATCH 128u
/* A batch ends with the value that brings it to this many bytes. */
#define BATCH_BYTES ((uint64_t)8 << 20)

struct apply {
	const struct follower_order *order;
	struct farkv *own;
	struct follow *source;
	uint64_t keys, bytes;
	char detail[600];

	struct farkv_get_item get[BATCH];
	size_t n_get;
	uint64_t get_bytes; /* of their values, about */
	struct farkv_put_item put[BATCH];
	size_t n_put;
	struct farkv_request req[BATCH]; /* puts with options, and deletes */
	struct farkv_write_options options[BATCH];
	size_t n_req;
	uint64_t hash[SUBTABLE_SLOTS]; /* of the keys of a whole part */
};

struct apply *apply_new(const struct follower_order *order, struct farkv *own, struct follow *source)
{
	struct apply *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->order = order;
	a->own = own;
	a->source = source;
	return a;
}

void apply_free(struct apply *a)
{
	free(a);
}

const char *apply_detail(const struct apply *a)
{
	return a->detail;
}

uint64_t apply_keys(const struct apply *a)
{
	return a->keys;
}

uint64_t apply_bytes(const struct apply *a)
{
	return a->bytes;
}

static int failed(struct apply *a, int err, const char *where, const char *line)
{
	snprintf(a->detail, sizeof(a->detail), "%s: %s", where,
		 line && *line ? line : farkv_strerror(err));
	return err;
}

static int own_failed(struct apply *a, int err)
{
	return failed(a, err, "own server", farkv_errdetail());
}

static int source_failed(struct apply *a, int err)
{
	return failed(a, err, a->order->source, err_detail());
}

/* The key is of a partition of the order. */
static bool is_ordered(const struct apply *a, const void *key, size_t len)
{
	uint32_t p = (uint32_t)(hash_key_in_line(a->order->seed, key, len) % CLUSTERMAP_PARTITIONS);

	return a->order->partition[p / 8] >> p % 8 & 1;
}

/* ---- writes to the own server ---------------------------------------------------------------- */

/* Run the requests; the deletes may find nothing. */
static int run_requests(struct apply *a)
{
	struct farkv_completion done[BATCH];
	size_t sent = 0;
	int err = 0;

	while ((!err && sent < a->n_req) || farkv_in_flight(a->own)) {
		int n = !err && sent < a->n_req ?
				farkv_submit(a->own, a->req + sent, a->n_req - sent) :
				0;

		if (n >= 0)
			sent += (size_t)n;
		else if (n != FARKV_EAGAIN)
			err = own_failed(a, n);
		n = farkv_wait(a->own, done, BATCH, UINT32_MAX);
		if (n < 0)
			return err ? err : own_failed(a, n);
		for (int i = 0; i < n && !err; i++)
			if (done[i].result && done[i].result != FARKV_ENOTFOUND)
				err = failed(a, done[i].result, "own server", done[i].detail);
	}
	a->n_req = 0;
	return err;
}

static void add_delete(struct apply *a, const void *key, size_t len)
{
	a->req[a->n_req++] = (struct farkv_request){
		.kind = FARKV_REQUEST_DELETE, .key = key, .key_len = len};
}

static void add_put(struct apply *a, const struct farkv_get_item *it)
{
	struct farkv_write_options *o = &a->options[a->n_req];
	const struct farkv_value *v = &it->value;

	a->keys++;
	a->bytes += it->key_len + v->len;
	if (!v->ttl_ms && !v->user) {
		a->put[a->n_put++] = (struct farkv_put_item){
			.key = it->key, .key_len = it->key_len, .value = v->data, .value_len = v->len};
		return;
	}
	*o = (struct farkv_write_options){.size = sizeof(*o), .ttl_ms = v->ttl_ms, .user = v->user};
	a->req[a->n_req++] = (struct farkv_request){.kind = FARKV_REQUEST_PUT,
						    .key = it->key,
						    .key_len = it->key_len,
						    .value = v->data,
						    .value_len = v->len,
						    .options = o};
}

/* ---- copy -------------------------------------------------------------------------------------
 */

/* Get the batch's keys at the source, and give them the same state here. */
static int copy_batch(struct apply *a)
{
	int err;

	(void)follow_get(a->source, a->get, a->n_get);
	for (size_t i = 0; i < a->n_get; i++) {
		const struct farkv_get_item *it = &a->get[i];

		/* What cannot be read there must not be an older value here. */
		if (it->result == FARKV_ENOTFOUND || it->result == FARKV_ECORRUPT)
			add_delete(a, it->key, it->key_len);
		else if (it->result)
			return source_failed(a, it->result);
		else
			add_put(a, it);
	}
	a->n_get = 0;
	a->get_bytes = 0;
	err = a->n_put ? farkv_mput(a->own, a->put, a->n_put) : 0;
	a->n_put = 0;
	if (err)
		return own_failed(a, err);
	return a->n_req ? run_requests(a) : 0;
}

static int copy_part(struct apply *a, const struct follow_part *p)
{
	int err = 0;

	for (size_t i = 0; i < p->n && !err; i++) {
		const struct follow_change *c = &p->change[i];

		if (c->same || !is_ordered(a, c->key, c->key_len))
			continue;
		a->get[a->n_get++] = (struct farkv_get_item){.key = c->key, .key_len = c->key_len};
		a->get_bytes += c->value_len;
		if (a->n_get == BATCH || a->get_bytes >= BATCH_BYTES)
			err = copy_batch(a);
	}
	return err || !a->n_get ? err : copy_batch(a);
}

/* ---- delete ------------------------------------------------------------------------------------
 */

/* `from`: the first key of the part whose hash is not less. True: the part lists the key. */
static bool lists(const struct apply *a, const struct follow_part *p, size_t from, uint64_t hash,
		  const struct farkv_scan_item *it)
{
	for (size_t i = from; i < p->n && a->hash[i] == hash; i++)
		if (p->change[i].key_len == it->key_len &&
		    memcmp(p->change[i].key, it->key, it->key_len) == 0)
			return true;
	return false;
}

/* Of these keys of the own server, from the position `begin` on. */
static int delete_some(struct apply *a, const struct follow_part *p, uint64_t begin,
		       const struct farkv_scan_item *items, size_t n)
{
	uint64_t seed = follow_index_seed(a->source);
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		const struct farkv_scan_item *it = &items[i];
		uint64_t hash = hash_key(seed, it->key, it->key_len);

		if (hash < begin)
			return failed(a, FARKV_EPROTOCOL, a->order->source,
				      "its index has another seed than the own server's");
		if (hash > p->last)
			break;
		while (at < p->n && a->hash[at] < hash)
			at++;
		if (lists(a, p, at, hash, it) || !is_ordered(a, it->key, it->key_len))
			continue;
		add_delete(a, it->key, it->key_len);
		if (a->n_req == BATCH)
			err = run_requests(a);
	}
	return err || !a->n_req ? err : run_requests(a);
}

/* Delete what the own server has beyond the keys of a whole part. */
static int delete_rest(struct apply *a, const struct follow_part *p)
{
	uint64_t cursor = p->first, seed = follow_index_seed(a->source);
	int err;

	for (size_t i = 0; i < p->n; i++)
		a->hash[i] = hash_key(seed, p->change[i].key, p->change[i].key_len);
	do {
		const struct farkv_scan_item *items;
		uint64_t begin = cursor;
		size_t n;

		err = farkv_scan(a->own, &cursor, SIZE_MAX, &items, &n);
		if (err && err != FARKV_ECORRUPT)
			return own_failed(a, err);
		err = delete_some(a, p, begin, items, n);
	} while (!err && cursor && cursor <= p->last);
	return err;
}

int apply_part(struct apply *a, const struct follow_part *p)
{
	int err = p->whole ? delete_rest(a, p) : 0;

	return err ? err : copy_part(a, p);
}

int apply_purge(struct apply *a, void (*step)(void *arg), void *arg)
{
	uint64_t cursor = 0;
	int err;

	do {
		const struct farkv_scan_item *items;
		size_t n;

		step(arg);
		err = farkv_scan(a->own, &cursor, SIZE_MAX, &items, &n);
		if (err && err != FARKV_ECORRUPT)
			return own_failed(a, err);
		err = 0;
		for (size_t i = 0; i < n && !err; i++) {
			if (is_ordered(a, items[i].key, items[i].key_len))
				continue;
			add_delete(a, items[i].key, items[i].key_len);
			if (a->n_req == BATCH)
				err = run_requests(a);
		}
		if (!err && a->n_req)
			err = run_requests(a);
	} while (!err && cursor);
	return err;
}
