/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/scan.h"

#include "atfork.h"
#include "notifier.h"
#include "queue.h"
#include "queue_state.h"
#include "relink.h"
#include "router.h"

/* farkv_close() waits this long for the server. */
#define FAREWELL_NS NS_PER_SEC

static int text_set(char *to, size_t cap, const char *from, const char *what)
{
	if (!from || !*from)
		return 0;
	if (strlen(from) >= cap)
		return err_set(FARKV_EINVAL, "%s is too long", what);
	strcpy(to, from);
	return 0;
}

/* Precedence: the program's options, the address, the environment. */
static int credentials_set(struct uri *u, const struct farkv_options *opts)
{
	int err = 0;

	if (!u->keys[0])
		err = text_set(u->keys, sizeof(u->keys), getenv("FARKV_KEYS"),
			       "$FARKV_KEYS");
	if (!err)
		err = text_set(u->keys, sizeof(u->keys), opts->keys, "keys");
	if (!err)
		err = text_set(u->key, sizeof(u->key), opts->key, "key");
	if (!err && u->key[0] && !u->keys[0])
		err = err_set(FARKV_EINVAL,
			      "the key '%s' is named, but no file that holds it; "
			      "give one by keys=FILE or $FARKV_KEYS",
			      u->key);
	return err;
}

/* A handle without a connection. */
static int new_handle(const struct uri *uri, const struct farkv_options *opts, struct farkv **kv_out)
{
	struct farkv *kv;
	int err;

	err = atfork_init();
	if (err)
		return err;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return err_set(FARKV_ENOMEM, "no memory for a handle");
	kv->uri = *uri;
	err = credentials_set(&kv->uri, opts);
	if (err) {
		free(kv);
		return err;
	}
	kv->op_timeout_ns = opts->op_timeout_ms * NS_PER_MS;
	kv->farewell_ns = FAREWELL_NS;
	kv->cache_entries = opts->cache_entries;
	kv->cache_bytes = opts->cache_bytes;
	kv->queue_depth = opts->queue_depth;
	kv->readonly = (opts->flags & FARKV_OPEN_READONLY) != 0;
	snprintf(kv->name, sizeof(kv->name), "%s",
		 opts->name ? opts->name : program_invocation_short_name);
	kv->prefix_low = UINT32_MAX / 2;
	kv->fork_gen = atfork_generation();
	kv->closed.pending = PENDING_BROKEN;
	kv->closed.hits = &kv->uncounted;
	kv->qsbr = &kv->closed;
	index_op_init(&kv->op);
	kv->copy[0] = (uint8_t *)(uintptr_t)util_align_up((uintptr_t)kv->copies, LINE_BYTES);
	kv->copy[1] = kv->copy[0] + HANDLE_COPY_BYTES;
	*kv_out = kv;
	return 0;
}

/* handle_open() until `until_ns`; CONNECT_MAP as relink_up(). */
static int open_one(const struct uri *uri, const struct farkv_options *opts, uint64_t until_ns,
		    struct clustermap **map_out, struct farkv **kv_out)
{
	struct farkv *kv;
	int err = new_handle(uri, opts, &kv);

	if (err)
		return err;
	err = relink_up(kv, until_ns, map_out);
	if (err) {
		free(kv);
		return err;
	}
	opened_add(&kv->opened);
	*kv_out = kv;
	return 0;
}

int handle_open(const struct uri *uri, const struct farkv_options *opts,
		struct farkv **kv_out)
{
	return open_one(uri, opts, clock_now_ns() + opts->connect_timeout_ms * NS_PER_MS, NULL,
			kv_out);
}

int handle_open_server(const struct uri *uri, const struct farkv_options *opts, uint64_t map_id,
		       uint8_t server, struct farkv **kv_out)
{
	struct farkv *kv;
	int err = new_handle(uri, opts, &kv);

	if (err)
		return err;
	kv->map_id = map_id;
	kv->server = server;
	err = relink_up(kv, clock_now_ns() + opts->connect_timeout_ms * NS_PER_MS, NULL);
	if (err) {
		free(kv);
		return err;
	}
	opened_add(&kv->opened);
	*kv_out = kv;
	return 0;
}

/* ---- clusters ---------------------------------------------------------------------- */

/* The end of the first of `n` attempts that share the time until `until_ns`. */
static uint64_t share(uint64_t until_ns, size_t n)
{
	uint64_t now = clock_now_ns();

	return until_ns > now ? now + (until_ns - now) / n : until_ns;
}

static void close_handle(struct farkv *kv, uint64_t until_ns);

int handle_open_member(struct farkv *kv, const struct clustermap *map, uint32_t i, uint64_t until_ns,
		       struct clustermap **newer_out)
{
	const struct farkv_options *opts = &kv->router->options;
	struct farkv_options o = *opts;
	struct farkv *m;
	struct uri uri = {0};
	int err = uri_resolve(map->server[i].address, &uri);

	memcpy(uri.keys, kv->uri.keys, sizeof(uri.keys));
	memcpy(uri.key, kv->uri.key, sizeof(uri.key));
	o.keys = o.key = NULL;
	o.cache_entries = (opts->cache_entries + map->n_servers - 1) / map->n_servers;
	o.cache_bytes = opts->cache_bytes ?
				UTIL_MAX(opts->cache_bytes / map->n_servers, VALUE_CACHE_MIN) :
				0;
	if (!err)
		err = new_handle(&uri, &o, &m);
	if (err)
		return err;
	kv->router->member[i] = m;
	opened_number(&m->opened);
	m->server_name = kv->router->map.server[i].name;
	m->map = map->lease_ms ? &kv->router->map : NULL;
	m->map_id = map->id;
	m->map_epoch = map->epoch;
	m->server = (uint8_t)i;
	m->lease_ms = map->lease_ms;
	err = relink_up(m, until_ns, newer_out);
	if (err == CONNECT_MAP)
		return err;
	if (!err)
		return 0;
	handle_name_server(m, err);
	/* The caller knows no store yet that could be lost. */
	m->notified = true;
	snprintf(m->reason, sizeof(m->reason), "%s", err_detail());
	return handle_is_away(err) ? 0 : err;
}

static int open_members(struct farkv *kv, uint64_t until_ns, struct clustermap **newer_out)
{
	const struct router *r = kv->router;
	uint32_t n = r->map.n_servers, connected = 0;

	for (uint32_t i = 0; i < n; i++) {
		int err = handle_open_member(kv, &r->map, i, share(until_ns, n - i),
					     r->leased ? newer_out : NULL);

		if (err)
			return err;
		connected += r->member[i] && r->member[i]->conn.session;
	}
	return connected ? 0 :
			   err_set(FARKV_EUNREACHABLE, "no server of the cluster answers: %s",
				   r->member[0]->reason);
}

/* CONNECT_MAP: a server has a newer map. */
static int open_by_map(const struct uri *seed, const struct farkv_options *opts, uint64_t until_ns,
		       struct clustermap **map_io, struct farkv **kv_out)
{
	const struct clustermap *map = *map_io;
	struct clustermap *newer = NULL;
	struct farkv *kv;
	int err = new_handle(seed, opts, &kv);

	if (err)
		return err;
	kv->router = calloc(1, sizeof(*kv->router));
	if (kv->router) {
		kv->router->map = *map;
		kv->router->leased = map->lease_ms != 0;
		kv->router->options = *opts;
		kv->router->options.name = kv->name;
		fanout_init(&kv->router->fanout);
		err = open_members(kv, until_ns, &newer);
	} else {
		err = err_set(FARKV_ENOMEM, "no memory for a handle");
	}
	if (err) {
		char line[ERR_LINE_MAX];

		snprintf(line, sizeof(line), "%s", err_detail());
		close_handle(kv, clock_now_ns() + FAREWELL_NS);
		if (err != CONNECT_MAP)
			return err_set(err, "%s", line);
		free(*map_io);
		*map_io = newer;
		return err;
	}
	opened_add(&kv->opened);
	*kv_out = kv;
	return 0;
}

/* The map may change during the attempt: begin again with the newer one. */
static int open_cluster(const struct uri *seed, const struct farkv_options *opts, uint64_t until_ns,
			struct clustermap **map_io, struct farkv **kv_out)
{
	int err;

	do
		err = open_by_map(seed, opts, until_ns, map_io, kv_out);
	while (err == CONNECT_MAP && clock_now_ns() < until_ns);
	return err == CONNECT_MAP ? err_set(FARKV_ETIMEDOUT, "the cluster's map changes all the time") : err;
}

int handle_open_any(const struct uri *seeds, size_t n, const struct farkv_options *opts,
		    struct farkv **kv_out)
{
	uint64_t until = clock_now_ns() + opts->connect_timeout_ms * NS_PER_MS;
	struct clustermap *map = NULL;
	struct farkv *kv = NULL;
	int err;

	for (size_t i = 0;; i++) {
		err = open_one(&seeds[i], opts, share(until, n - i), &map, &kv);
		if (map) { /* with CONNECT_MAP */
			err = open_cluster(&seeds[i], opts, until, &map, kv_out);
			free(map);
			return err;
		}
		/* A server that ends or restarts closes without an answer: FARKV_EPROTOCOL. */
		if ((!handle_is_away(err) && err != FARKV_EPROTOCOL) || i + 1 == n)
			break;
	}
	if (err)
		return err;
	if (n > 1) {
		handle_close(kv);
		return err_set(FARKV_EURI,
			       "the address names several servers, but one that answered is in no "
			       "cluster: start them with kvserver --cluster-map");
	}
	*kv_out = kv;
	return 0;
}

/* ---- close ------------------------------------------------------------------------- */

/* The call that runs on the handle or on a member of it, if there is one. */
static const struct farkv *busy_one(const struct farkv *kv)
{
	const struct router *r = kv->router;

	if (handle_is_busy(kv))
		return kv;
	for (uint32_t i = 0; r && i < r->map.n_servers; i++)
		if (r->member[i] && handle_is_busy(r->member[i]))
			return r->member[i];
	return NULL;
}

bool handle_close_begin(struct farkv *kv)
{
	if (!opened_remove(&kv->opened)) {
		err_set(FARKV_EINVAL,
			"farkv_close: the handle is not open; was it closed before?");
		return false;
	}
	if (!busy_one(kv))
		return true;
	/*
	 * In a child another thread of the parent may have been using the handle, so its state is
	 * unknown.
	 */
	if (handle_busy(kv) == FARKV_EINVAL)
		opened_add(&kv->opened);
	return false;
}

/* Close one handle; a cluster's handle has closed its members before. */
static void close_one(struct farkv *kv, uint64_t until)
{
	bool inherited = handle_inherited(kv);

	if (!inherited)
		queue_finish(kv);
	(void)relink_stop(kv, until);
	handle_look_at_lane(kv);
	if (!inherited && kv->conn.session &&
	    !(qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		(void)conn_farewell(&kv->conn, until);
	arena_fini(&kv->arena);
	index_scan_free(kv->scan);
	if (inherited && kv->conn.session && !(kv->conn.lane->caps & XPORT_DIRECT))
		index_abandon_spare(kv->conn.index);
	relink_down(kv);
	handle_drop_borrowed(kv);
	if (inherited)
		buffers_abandon(&kv->buffers);
	else
		buffers_fini(&kv->buffers);
	queue_free(kv->queue);
	notifier_free(kv->notifier);
	index_op_free_held(&kv->op);
	for (size_t i = 0; kv->ops && i < INDEX_RUN_MAX; i++)
		index_op_free_held(&kv->ops[i]);
	free(kv->ops);
	free(kv->hints);
	free(kv);
}

static void close_router(struct router *r, bool inherited, uint64_t until)
{
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (r->member[i])
			close_one(r->member[i], until);
	if (!inherited)
		fanout_fini(&r->fanout);
	free(r->items.mem);
	free(r->bytes.mem);
	free(r->bits.mem);
	free(r->order.mem);
	free(r->scanned.mem);
	free(r);
}

static void close_handle(struct farkv *kv, uint64_t until)
{
	/* Before the notifier, which watches their descriptors. */
	if (kv->router)
		close_router(kv->router, handle_inherited(kv), until);
	close_one(kv, until);
}

void handle_close_end(struct farkv *kv)
{
	close_handle(kv, clock_now_ns() + kv->farewell_ns);
}

void handle_close(struct farkv *kv)
{
	if (handle_close_begin(kv))
		handle_close_end(kv);
}
