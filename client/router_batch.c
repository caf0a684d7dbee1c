/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "router.h"
#include "router_map.h"

struct batch;

/* A kind of batch. */
struct batch_ops {
	size_t item_bytes;
	bool copies_keys;
	/* Run the batch of one server, and give its results to the caller's items. Several run at
	 * once, in different threads: write to this server's items only. */
	int (*run)(struct batch *b, uint32_t server);
	/* Set an item's result without running it, or instead of its result. */
	void (*set_item)(struct batch *b, size_t item, int err);
};

struct batch {
	const struct batch_ops *ops;
	struct farkv *kv;
	void *items; /* the caller's; each begins with key and length */
	size_t n;
	uint8_t *part;   /* copies of the items, by server */
	uint32_t *order; /* which item of the caller's each of `part` is */
	uint32_t n_servers; /* when the items were divided; a newer map may have more */
	size_t first[CLUSTERMAP_SERVERS_MAX + 1]; /* of each server, in `part` */
	uint8_t *keys;   /* copies */
	uint8_t *found;  /* mexists: for each of the caller's items 1 if its key has a value, else 0 */
	/* the caller's first failed item */
	size_t failed;
	int err;
	char line[ERR_LINE_MAX];
};

/* What all kinds of items begin with. */
struct key_of {
	const void *key;
	size_t key_len;
};
#define BEGINS_WITH_KEY(type)                                                         \
	static_assert(offsetof(type, key) == offsetof(struct key_of, key) &&          \
			      offsetof(type, key_len) == offsetof(struct key_of, key_len), \
		      "an item begins with its key")
BEGINS_WITH_KEY(struct farkv_get_item);
BEGINS_WITH_KEY(struct farkv_get_into_item);
BEGINS_WITH_KEY(struct farkv_put_item);
BEGINS_WITH_KEY(struct farkv_key);

static struct key_of *key_at(const struct batch *b, void *items, size_t i)
{
	return (struct key_of *)(void *)((uint8_t *)items + i * b->ops->item_bytes);
}

static uint32_t owner_of(const struct batch *b, size_t i)
{
	const struct key_of *k = key_at(b, b->items, i);

	return k->key && k->key_len ? clustermap_owner(&b->kv->router->map, k->key, k->key_len) : 0;
}

/* ---- split ----------------------------------------------------------------------------- */

/* Counting sort by server. */
static void sort(struct batch *b)
{
	size_t at[CLUSTERMAP_SERVERS_MAX];

	b->n_servers = b->kv->router->map.n_servers;
	memset(b->first, 0, sizeof(b->first));
	for (size_t i = 0; i < b->n; i++)
		b->first[owner_of(b, i) + 1]++;
	for (uint32_t s = 0; s < b->n_servers; s++)
		b->first[s + 1] += b->first[s];
	memcpy(at, b->first, sizeof(at));
	for (size_t i = 0; i < b->n; i++)
		b->order[at[owner_of(b, i)]++] = (uint32_t)i;
}

/* Length of a key that may be valid; others are refused without being read. */
static size_t copied(const struct key_of *k)
{
	return k->key && k->key_len <= FARKV_KEY_MAX ? k->key_len : 0;
}

static int check_length(size_t n)
{
	return n <= UINT32_MAX ? 0 : err_set(FARKV_EINVAL, "a batch of %zu items is too long", n);
}

static int reserve(struct batch *b)
{
	struct router *r = b->kv->router;
	size_t keys = 0;
	int err = check_length(b->n);

	if (err)
		return err;
	for (size_t i = 0; b->ops->copies_keys && i < b->n; i++)
		keys += copied(key_at(b, b->items, i));
	b->order = router_scratch(&r->order, b->n * sizeof(*b->order));
	b->part = router_scratch(&r->items, b->n * b->ops->item_bytes);
	b->keys = router_scratch(&r->bytes, keys);
	if (!b->order || !b->part || !b->keys)
		return err_set(FARKV_ENOMEM, "no memory for a batch");
	return 0;
}

/* Copy all keys, because a server's batch may release the memory that keys lie in. */
static void copy_keys(struct batch *b)
{
	uint8_t *to = b->keys;

	for (size_t i = 0; i < b->n; i++) {
		struct key_of *k = key_at(b, b->part, i);
		size_t len = copied(k);

		if (len == 0)
			continue;
		memcpy(to, k->key, len);
		k->key = to;
		to += len;
	}
}

/* ---- failures -------------------------------------------------------------------------- */

/*
 * The batch of a server has failed with `err`: its line names an item of `n`, or the error concerns
 * all. Keep the failure of the call's first item.
 */
static void note(struct batch *b, uint32_t server, size_t n, int err)
{
	const struct farkv *m = b->kv->router->member[server];
	const char *line = err_detail();
	size_t item = 1, of = 0, item_of_call;
	int skip = 0;

	if (sscanf(line, "item %zu of %zu: %n", &item, &of, &skip) != 2 || of != n || item > n ||
	    item == 0)
		item = 1, skip = 0;
	item_of_call = b->order[b->first[server] + item - 1];
	if (b->err && b->failed < item_of_call)
		return;
	b->failed = item_of_call;
	b->err = err;
	err_set(err, "%s", line + skip);
	handle_name_server(m, err);
	snprintf(b->line, sizeof(b->line), "%s", err_detail());
}

static int report(const struct batch *b)
{
	return b->err ? err_set(b->err, "item %zu of %zu: %s", b->failed + 1, b->n, b->line) : 0;
}

/* ---- run ------------------------------------------------------------------------------- */

static size_t count(const struct batch *b, uint32_t server)
{
	return b->first[server + 1] - b->first[server];
}

static void abort_all(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		b->ops->set_item(b, i, FARKV_EABORTED);
}

/*
 * Waking a thread takes some microseconds, two or three round trips by RDMA. It pays for a server
 * that is not connected, and for at least this many items.
 */
#define THREAD_ITEMS 64u
static uint64_t slow_servers(const struct batch *b, uint64_t servers)
{
	uint64_t slow = 0;

	for (; servers; servers &= servers - 1) {
		uint32_t s = (uint32_t)__builtin_ctzll(servers);
		const struct farkv *m = b->kv->router->member[s];

		if (!router_is_connected(m) || (!m->conn.map && count(b, s) >= THREAD_ITEMS))
			slow |= UINT64_C(1) << s;
	}
	return slow;
}

static int run_server(void *arg, uint32_t server)
{
	struct batch *b = arg;

	return b->ops->run(b, server);
}

static void run_all(struct batch *b)
{
	struct router *r = b->kv->router;
	uint64_t servers = 0;

	for (uint32_t s = 0; s < b->n_servers; s++)
		servers |= (uint64_t)(count(b, s) > 0) << s;
	router_fan_out(r, servers, slow_servers(b, servers), run_server, b);
	for (uint32_t s = 0; s < b->n_servers; s++) {
		int err = count(b, s) > 0 ? fanout_take_result(&r->fanout, s) : 0;

		if (err)
			note(b, s, count(b, s), err);
	}
}

/*
 * Results that no lease covers do not count. A wait for a lease may install a newer map, because
 * all batches have ended.
 */
static void judge_all(struct batch *b)
{
	uint64_t ended;

	if (!b->kv->router->leased)
		return;
	ended = clock_now_ns();
	for (uint32_t s = 0; s < b->n_servers; s++) {
		int lapsed = 0;

		if (count(b, s) > 0)
			lapsed = router_await_lease(b->kv, b->kv->router->member[s], ended);
		if (!lapsed)
			continue;
		for (size_t i = b->first[s]; i < b->first[s + 1]; i++)
			b->ops->set_item(b, b->order[i], lapsed);
		note(b, s, count(b, s), lapsed);
	}
}

/* The set of the items' servers; *blocked_out: an item's partition is blocked. */
static uint64_t servers_of(const struct batch *b, bool *blocked_out)
{
	const struct router *r = b->kv->router;
	uint64_t set = 0;

	*blocked_out = false;
	for (size_t i = 0; i < b->n; i++) {
		const struct key_of *k = key_at(b, b->items, i);
		uint32_t p;

		if (!k->key || !k->key_len)
			continue;
		p = clustermap_partition(&r->map, k->key, k->key_len);
		set |= UINT64_C(1) << r->map.owner[p];
		*blocked_out |= router_blocks(r, p);
	}
	return set;
}

/* Begin calls with the servers that have the items by the newest map. */
static int enter(struct batch *b, uint64_t *servers_out)
{
	uint64_t until = 0;
	bool blocked;

	*servers_out = 0;
	while (b->kv->router->leased) {
		uint64_t servers = servers_of(b, &blocked);

		if (!blocked && router_enter_all(b->kv, servers)) {
			*servers_out = servers;
			break;
		}
		if (!blocked) {
			(void)router_take_maps(b->kv);
			continue;
		}
		until = until ? until : clock_now_ns() + b->kv->op_timeout_ns;
		if (!router_wait_for_map(b->kv, until))
			return FARKV_ETIMEDOUT;
	}
	return 0;
}

static int run(struct batch *b)
{
	uint64_t servers = 0;
	int err = router_begin(b->kv);

	if (!err && ((err = reserve(b)) || (err = enter(b, &servers))))
		err = router_end(b->kv, err);
	if (err) {
		abort_all(b);
		return err;
	}
	sort(b);
	for (size_t i = 0; i < b->n; i++)
		memcpy(key_at(b, b->part, i), key_at(b, b->items, b->order[i]), b->ops->item_bytes);
	if (b->ops->copies_keys)
		copy_keys(b);
	run_all(b);
	judge_all(b);
	router_leave_all(b->kv, servers);
	router_renew(b->kv, b->err);
	return router_end(b->kv, report(b));
}

/* ---- mget ------------------------------------------------------------------------------ */

static int get_run(struct batch *b, uint32_t server)
{
	struct farkv_get_item *part = (struct farkv_get_item *)(void *)b->part + b->first[server];
	const uint32_t *order = b->order + b->first[server];
	struct farkv_get_item *items = b->items;
	size_t n = count(b, server);
	int err = farkv_mget(b->kv->router->member[server], part, n);

	for (size_t i = 0; i < n; i++) {
		items[order[i]].result = part[i].result;
		if (part[i].result == 0)
			items[order[i]].value = part[i].value;
	}
	return err;
}

static void get_set(struct batch *b, size_t item, int err)
{
	((struct farkv_get_item *)b->items)[item].result = err;
}

int router_mget(struct farkv *kv, struct farkv_get_item *items, size_t n)
{
	static const struct batch_ops ops = {sizeof(*items), true, get_run, get_set};
	struct batch b = {.ops = &ops, .kv = kv, .items = items, .n = n};

	return run(&b);
}

static int get_into_run(struct batch *b, uint32_t server)
{
	struct farkv_get_into_item *part =
		(struct farkv_get_into_item *)(void *)b->part + b->first[server];
	const uint32_t *order = b->order + b->first[server];
	size_t n = count(b, server);
	int err = farkv_mget_into(b->kv->router->member[server], part, n);

	for (size_t i = 0; i < n; i++) {
		struct farkv_get_into_item *it = (struct farkv_get_into_item *)b->items + order[i];

		it->result = part[i].result;
		it->len = part[i].len;
		it->version = part[i].version;
	}
	return err;
}

static void get_into_set(struct batch *b, size_t item, int err)
{
	((struct farkv_get_into_item *)b->items)[item].result = err;
}

int router_mget_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n)
{
	static const struct batch_ops ops = {sizeof(*items), true, get_into_run, get_into_set};
	struct batch b = {.ops = &ops, .kv = kv, .items = items, .n = n};

	return run(&b);
}

/* ---- mput ------------------------------------------------------------------------------ */

/*
 * Values of other servers' items may lie in this server's memory: keep what its previous call
 * returned.
 */
static int put_run(struct batch *b, uint32_t server)
{
	struct farkv_put_item *part = (struct farkv_put_item *)(void *)b->part + b->first[server];
	const uint32_t *order = b->order + b->first[server];
	struct farkv *m = b->kv->router->member[server];
	bool polled = m->polled, batched = m->batched;
	size_t n = count(b, server);
	int err;

	m->polled = m->batched = false;
	err = farkv_mput(m, part, n);
	m->polled = polled;
	m->batched = batched;
	for (size_t i = 0; i < n; i++)
		((struct farkv_put_item *)b->items)[order[i]].result = part[i].result;
	return err;
}

/* The lease did not cover a put that was executed: it may be lost. */
static void put_set(struct batch *b, size_t item, int err)
{
	struct farkv_put_item *it = (struct farkv_put_item *)b->items + item;

	it->result = err == FARKV_EABORTED || it->result ? err : FARKV_EMAYBE;
}

int router_mput(struct farkv *kv, struct farkv_put_item *items, size_t n)
{
	static const struct batch_ops ops = {sizeof(*items), false, put_run, put_set};
	struct batch b = {.ops = &ops, .kv = kv, .items = items, .n = n};

	return run(&b);
}

/* ---- mexists --------------------------------------------------------------------------- */

static bool bit(const uint8_t *bitmap, size_t i)
{
	return bitmap[i / 8] >> i % 8 & 1;
}

/* Bits of one byte cannot be written by two threads, so each item has a byte. */
static int ask_run(struct batch *b, uint32_t server)
{
	const struct router *r = b->kv->router;
	const uint32_t *order = b->order + b->first[server];
	size_t n = count(b, server);
	uint8_t *bits = (uint8_t *)r->bits.mem + b->n + b->first[server] / 8 + server;
	int err = farkv_mexists(r->member[server],
				(struct farkv_key *)(void *)b->part + b->first[server], n, bits,
				NULL);

	for (size_t i = 0; i < n; i++)
		b->found[order[i]] = bit(bits, i);
	return err;
}

static void ask_set(struct batch *b, size_t item, int err)
{
	(void)err;
	b->found[item] = 0;
}

int router_mexists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		   size_t *prefix_out)
{
	static const struct batch_ops ops = {sizeof(*keys), true, ask_run, ask_set};
	struct batch b = {.ops = &ops, .kv = kv, .n = n};
	size_t prefix = 0;
	int err = check_length(n);

	if (err)
		return err;
	/* A byte for each item, and the bits of each server's. */
	b.found = router_scratch(&kv->router->bits, n + n / 8 + CLUSTERMAP_SERVERS_MAX + 1);
	if (!b.found)
		return err_set(FARKV_ENOMEM, "no memory for a batch");
	memset(b.found, 0, n);
	memcpy(&b.items, &keys, sizeof(b.items)); /* only read */
	err = run(&b);
	for (size_t i = 0; bitmap && i < n; i++)
		bitmap[i / 8] |= (uint8_t)(b.found[i] << i % 8);
	while (prefix < n && b.found[prefix])
		prefix++;
	*prefix_out = prefix;
	return err;
}
