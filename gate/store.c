/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "store.h"

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

/* Counting this many takes some 20 ms. */
#define COUNTED_KEYS 100000

int store_write(struct client *c, enum farkv_request_kind kind, const struct store_item *item,
		uint64_t *version_out)
{
	struct farkv_write_options o = {
		.size = sizeof(o),
		.ttl_ms = UTIL_MIN(item->ttl_ms, FARKV_TTL_MAX_MS),
		.user = item->user,
	};
	struct farkv_request r = {
		.kind = kind,
		.key = item->key.p,
		.key_len = item->key.len,
		.value = item->data,
		.value_len = item->len,
		.expected = item->expected,
		.options = o.ttl_ms || o.user ? &o : NULL,
	};

	GATE_COUNT(c->counts, sets, 1);
	return farkv_write(c->kv, &r, version_out);
}

/* One attempt. FARKV_EVERSION: it lost to another write. */
static int edit_once(struct client *c, struct slice key, edit_fn *decide, void *arg, struct edit *e)
{
	struct store_item item = {.key = key};
	int err;

	*e = (struct edit){.found = false};
	err = farkv_get(c->kv, key.p, key.len, &e->old);
	if (err && err != FARKV_ENOTFOUND)
		return err;
	if (err)
		e->old = (struct farkv_value){0};
	e->found = !err;
	e->ttl_ms = e->old.ttl_ms;
	e->user = e->old.user;
	e->version = e->old.version;
	if (!decide(e, arg))
		return 0;
	if (e->remove) {
		GATE_COUNT(c->counts, deletes, 1);
		err = farkv_delete_cas(c->kv, key.p, key.len, e->old.version);
		return err == FARKV_ENOTFOUND ? FARKV_EVERSION : err;
	}
	item.data = e->data;
	item.len = e->len;
	item.ttl_ms = e->ttl_ms;
	item.user = e->user;
	item.expected = e->old.version;
	err = store_write(c, e->found ? FARKV_REQUEST_CAS : FARKV_REQUEST_ADD, &item, &e->version);
	return err == FARKV_EEXISTS || err == FARKV_ENOTFOUND ? FARKV_EVERSION : err;
}

int store_edit(struct client *c, struct slice key, edit_fn *decide, void *arg, struct edit *e)
{
	uint64_t end = 0;
	int err;

	while ((err = edit_once(c, key, decide, arg, e)) == FARKV_EVERSION) {
		uint64_t now = clock_now_ns();

		if (!end)
			end = now + c->gate->cfg.timeout_ms * NS_PER_MS;
		else if (now > end)
			return FARKV_ETIMEDOUT;
	}
	return err;
}

static bool take_decide(struct edit *e, void *arg)
{
	struct buf *to = arg;

	to->len = 0;
	buf_add(to, e->old.data, e->old.len);
	e->remove = e->found && !to->failed;
	return e->remove;
}

int store_take(struct client *c, struct slice key, struct farkv_value *value_out)
{
	struct edit e;
	int err = store_edit(c, key, take_decide, c->scratch, &e);

	if (c->scratch->failed)
		err = err_set(FARKV_ENOMEM, "no memory for a value of %zu bytes", e.old.len);
	*value_out = e.old;
	value_out->data = c->scratch->p;
	return err ? err : e.found ? 0 : FARKV_ENOTFOUND;
}

int store_stats(struct client *c, struct farkv_stats *s)
{
	*s = (struct farkv_stats){.size = sizeof(*s)};
	return farkv_stats(c->kv, s);
}

int store_count(struct client *c, uint64_t *n_out)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0, total = 0;
	struct farkv_stats s;
	size_t n;
	int err;

	do {
		err = farkv_scan(c->kv, &cursor, SIZE_MAX, &items, &n);
		if (err && err != FARKV_ECORRUPT)
			return err;
		total += n;
	} while (cursor && total <= COUNTED_KEYS);
	if (cursor) {
		err = store_stats(c, &s);
		if (err)
			return err;
		total = s.items;
	}
	*n_out = total;
	return 0;
}

int64_t store_date_ms(void)
{
	return (int64_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_MS);
}
