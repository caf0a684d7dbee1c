/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions, except those for keys and values (farkv_keys.c, farkv_update.c). */
#include "config.h"

#include "public.h"

#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/scan.h"

#include "open.h"
#include "queue.h"
#include "router.h"
#include "router_all.h"
#include "router_map.h"
#include "router_queue.h"
#include "scan.h"
#include "sized.h"
#include "timed.h"

#define DEFAULT_TIMEOUT_MS 5000u
#define DEFAULT_CACHE_ENTRIES 65536u
/* A limit against mistakes: this many take 40 GiB. */
#define CACHE_ENTRIES_MAX (1u << 30)
#define FLAGS_ALL ((uint32_t)FARKV_OPEN_READONLY | (uint32_t)FARKV_OPEN_LATENCY)
#define DEFAULT_CACHE_BYTES ((size_t)1 << 20)

/* ---- open and close ---------------------------------------------------------------- */

void farkv_options_init_sized(struct farkv_options *o, size_t size)
{
	const struct farkv_options all = {.size = size,
					  .connect_timeout_ms = DEFAULT_TIMEOUT_MS,
					  .op_timeout_ms = DEFAULT_TIMEOUT_MS,
					  .cache_entries = DEFAULT_CACHE_ENTRIES,
					  .cache_bytes = DEFAULT_CACHE_BYTES};

	if (!o || size < sizeof(o->size))
		return;
	memset(o, 0, size);
	memcpy(o, &all, UTIL_MIN(size, sizeof(all)));
}

void (farkv_options_init)(struct farkv_options *o)
{
	farkv_options_init_sized(o, sizeof(*o));
}

/* Sizes of the struct in earlier versions of the library. */
static bool size_was_known(size_t size)
{
	return size == offsetof(struct farkv_options, keys) ||
	       size == offsetof(struct farkv_options, cache_entries) ||
	       size == offsetof(struct farkv_options, cache_bytes);
}

/* Fields that this library does not know must be 0. */
static bool all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static int options_take(const struct farkv_options *o,
			struct farkv_options *out)
{
	struct farkv_options all = {.cache_entries = DEFAULT_CACHE_ENTRIES,
				    .cache_bytes = DEFAULT_CACHE_BYTES};

	farkv_options_init(out);
	if (!o)
		return 0;
	if ((o->size < sizeof(*o) && !size_was_known(o->size)) ||
	    o->size > 4096)
		return err_set(FARKV_EINVAL,
			       "options: size is %zu; fill the struct with "
			       "farkv_options_init()",
			       o->size);
	if (o->size > sizeof(*o) &&
	    !all_zero((const uint8_t *)o + sizeof(*o), o->size - sizeof(*o)))
		return err_set(FARKV_ENOTSUP,
			       "options: a field is set that libfarkv %s does "
			       "not know",
			       farkv_version());
	if (o->flags & ~FLAGS_ALL)
		return err_set(FARKV_EINVAL, "options: unknown flags 0x%x",
			       o->flags);
	memcpy(&all, o, UTIL_MIN(o->size, sizeof(all)));
	if (all.cache_entries > CACHE_ENTRIES_MAX)
		return err_set(FARKV_EINVAL,
			       "options: cache_entries is %u; at most %u",
			       all.cache_entries, CACHE_ENTRIES_MAX);
	if (all.cache_bytes && (all.cache_bytes < VALUE_CACHE_MIN ||
				all.cache_bytes > VALUE_CACHE_MAX))
		return err_set(FARKV_EINVAL,
			       "options: cache_bytes is %zu; %u to %u, or 0",
			       all.cache_bytes, VALUE_CACHE_MIN, VALUE_CACHE_MAX);
	if (all.queue_depth > QUEUE_DEPTH_MAX)
		return err_set(FARKV_EINVAL,
			       "options: queue_depth is %u, at most %u can be",
			       all.queue_depth, QUEUE_DEPTH_MAX);
	out->queue_depth = all.queue_depth;
	out->flags = all.flags;
	out->name = all.name;
	out->keys = all.keys;
	out->key = all.key;
	out->cache_entries = all.cache_entries;
	out->cache_bytes = all.cache_bytes;
	if (o->connect_timeout_ms)
		out->connect_timeout_ms = o->connect_timeout_ms;
	if (o->op_timeout_ms)
		out->op_timeout_ms = o->op_timeout_ms;
	return 0;
}

int farkv_open(const char *uri, const struct farkv_options *opts,
	       struct farkv **kv_out)
{
	struct farkv_options o;
	struct uri *seeds;
	struct farkv *kv;
	size_t n;
	int err;

	err_clear();
	if (!kv_out)
		return err_set(FARKV_EINVAL, "farkv_open: kv_out is NULL");
	err = options_take(opts, &o);
	if (!err)
		err = uri_resolve_list(uri, &seeds, &n);
	if (err)
		return err;
	err = handle_open_any(seeds, n, &o, &kv);
	free(seeds);
	if (!err && (o.flags & FARKV_OPEN_LATENCY)) {
		err = timed_start(kv);
		if (err)
			handle_close(kv);
	}
	if (!err)
		*kv_out = kv;
	return err;
}

void farkv_close(struct farkv *kv)
{
	if (!kv || !handle_close_begin(kv))
		return;
	timed_stop(kv);
	handle_close_end(kv);
}

/* ---- buffers ---------------------------------------------------------------------------- */

int farkv_buf_alloc(struct farkv *kv, size_t bytes, void **buf_out)
{
	int err;

	err_clear();
	if (!kv)
		return handle_missing();
	if (!buf_out || bytes == 0)
		return err_set(FARKV_EINVAL, "farkv_buf_alloc: %s",
			       buf_out ? "0 bytes" : "buf_out is NULL");
	if (handle_inherited(kv))
		return err_set(FARKV_EDISCONNECTED,
			       "handle was opened before fork(): its buffers are "
			       "not in this process");
	if (handle_is_busy(kv))
		return handle_busy(kv);
	err = buffers_alloc(&kv->buffers, bytes, buf_out);
	if (!err && kv->router) {
		err = router_register(kv, *buf_out, bytes);
		if (err)
			buffers_free(&kv->buffers, *buf_out);
	}
	return err;
}

void farkv_buf_free(struct farkv *kv, void *buf)
{
	if (!kv || !buf || handle_inherited(kv))
		return;
	if (handle_is_busy(kv)) {
		(void)handle_busy(kv);
		return;
	}
	if (kv->router && !buffers_registered(&kv->buffers, buf))
		router_unregister(kv, buf);
	buffers_free(&kv->buffers, buf);
}

int farkv_buf_register(struct farkv *kv, void *ptr, size_t len)
{
	int err;

	err_clear();
	if (!kv)
		return handle_missing();
	if (!ptr || len == 0)
		return err_set(FARKV_EINVAL, "farkv_buf_register: %s",
			       ptr ? "0 bytes" : "ptr is NULL");
	if (handle_inherited(kv) || handle_is_busy(kv))
		return handle_busy(kv);
	err = buffers_register(&kv->buffers, ptr, len);
	if (!err && kv->router) {
		err = router_register(kv, ptr, len);
		if (err)
			buffers_unregister(&kv->buffers, ptr);
	}
	return err;
}

int farkv_buf_unregister(struct farkv *kv, void *ptr)
{
	int err;

	err_clear();
	if (!kv)
		return handle_missing();
	if (handle_inherited(kv) || handle_is_busy(kv))
		return handle_busy(kv);
	if (!buffers_registered(&kv->buffers, ptr))
		return err_set(FARKV_EINVAL,
			       "no memory that was registered with this handle begins at %p",
			       ptr);
	if (kv->router) {
		err = router_begin(kv); /* completes the requests that may use it */
		if (err)
			return err;
		router_unregister(kv, ptr);
		buffers_unregister(&kv->buffers, ptr);
		return router_end(kv, 0);
	}
	/* Requests in flight may use it. */
	atom_store_relaxed(&kv->busy, true);
	if (kv->queued)
		queue_settle(kv);
	buffers_unregister(&kv->buffers, ptr);
	atom_store_relaxed(&kv->busy, false);
	return 0;
}

/* ---- requests --------------------------------------------------------------------------- */

static_assert((int)FARKV_REQUEST_GET == (int)INDEX_GET &&
		      (int)FARKV_REQUEST_PUT == (int)INDEX_PUT &&
		      (int)FARKV_REQUEST_ADD == (int)INDEX_ADD &&
		      (int)FARKV_REQUEST_REPLACE == (int)INDEX_REPLACE &&
		      (int)FARKV_REQUEST_CAS == (int)INDEX_CAS &&
		      (int)FARKV_REQUEST_DELETE == (int)INDEX_DELETE &&
		      (int)FARKV_REQUEST_EXISTS == (int)INDEX_EXISTS &&
		      (int)FARKV_REQUEST_DELETE_CAS == (int)INDEX_DELETE_CAS,
	      "requests' kinds are the index's");

static int queue_begin(struct farkv *kv, const void *array, const char *name,
		       size_t n)
{
	err_clear();
	if (!kv)
		return handle_missing();
	if (!array && n > 0)
		return err_set(FARKV_EINVAL, "%s is NULL", name);
	if (handle_inherited(kv) || handle_is_busy(kv))
		return handle_busy(kv);
	atom_store_relaxed(&kv->busy, true);
	return 0;
}

static int queue_end(struct farkv *kv, int n)
{
	atom_store_relaxed(&kv->busy, false);
	return n;
}

int farkv_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	int err = queue_begin(kv, reqs, "reqs", n), accepted;

	if (err)
		return err;
	accepted = queue_submit(kv, reqs, n);
	if (accepted == HANDLE_CLUSTER)
		accepted = router_submit(kv, reqs, n);
	return queue_end(kv, accepted);
}

int farkv_poll(struct farkv *kv, struct farkv_completion *completions,
	       size_t max)
{
	int err = queue_begin(kv, completions, "completions", max), n;

	if (err)
		return err;
	n = queue_poll(kv, completions, max);
	if (n == HANDLE_CLUSTER)
		n = router_poll(kv, completions, max);
	return queue_end(kv, timed_took(kv, n));
}

int farkv_wait(struct farkv *kv, struct farkv_completion *completions, size_t max,
	       uint32_t timeout_ms)
{
	int err = queue_begin(kv, completions, "completions", max), n;

	if (err)
		return err;
	n = queue_wait(kv, completions, max, timeout_ms);
	if (n == HANDLE_CLUSTER)
		n = router_wait(kv, completions, max, timeout_ms);
	return queue_end(kv, timed_took(kv, n));
}

size_t farkv_in_flight(const struct farkv *kv)
{
	if (!kv || handle_inherited(kv))
		return 0;
	return kv->router ? router_in_flight(kv) : queue_in_flight(kv);
}

int farkv_event_fd(struct farkv *kv)
{
	int err = queue_begin(kv, NULL, "", 0), fd;

	if (err)
		return err;
	fd = queue_event_fd(kv);
	if (fd == HANDLE_CLUSTER)
		fd = router_event_fd(kv);
	return queue_end(kv, fd);
}

/* ---- all keys ----------------------------------------------------------------------------- */

int farkv_scan(struct farkv *kv, uint64_t *cursor, size_t max,
	       const struct farkv_scan_item **items_out, size_t *n_out)
{
	int err;

	err_clear();
	if (!kv)
		return handle_missing();
	if (!cursor || !items_out || !n_out)
		return err_set(FARKV_EINVAL, "farkv_scan: %s is NULL",
			       !cursor ? "cursor" : !items_out ? "items_out" : "n_out");
	if (max < FARKV_SCAN_MIN)
		return err_set(FARKV_EINVAL, "farkv_scan: max is %zu; at least %u", max,
			       FARKV_SCAN_MIN);
	err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_scan(kv, cursor, max, items_out, n_out);
	if (err)
		return err;
	err = scan_next(kv, cursor, max);
	if (!err || err == FARKV_ECORRUPT)
		*items_out = index_scan_items(kv->scan, n_out);
	handle_end(kv);
	return err;
}

int farkv_clear(struct farkv *kv, uint64_t *deleted_out)
{
	uint64_t deleted;
	int err;

	if (!deleted_out)
		deleted_out = &deleted;
	*deleted_out = 0;
	err_clear();
	if (!kv)
		return handle_missing();
	err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return router_clear(kv, deleted_out);
	if (err)
		return err;
	err = handle_writable(kv);
	if (!err)
		err = scan_clear(kv, deleted_out);
	handle_end(kv);
	return err;
}

/* ---- the server -------------------------------------------------------------------------- */

/* session_call() outside of the critical section, with other calls kept out. */
static int call_outside(struct farkv *kv, struct msg *m, uint8_t expect,
			struct msg *answer_out, uint64_t deadline_ns)
{
	int err;

	qsbr_leave(kv->qsbr);
	err = session_call(kv->conn.session, m, expect, answer_out, deadline_ns);
	atom_store_relaxed(&kv->busy, false);
	return err;
}

/* A request and its answer; the control thread may act for the handle meanwhile. */
static int server_call(struct farkv *kv, struct msg *m, uint8_t expect,
		       struct msg *answer_out)
{
	uint64_t deadline_ns = UINT64_MAX;

	if (!kv)
		return handle_missing();
	/* If the connection breaks meanwhile, ask again on a new one, as long as there is
	 * time. */
	for (unsigned again = 0;; again++) {
		int err = handle_begin(kv);

		if (err)
			return err;
		deadline_ns = UTIL_MIN(deadline_ns, kv->deadline_ns);
		err = call_outside(kv, m, expect, answer_out, deadline_ns);
		if (err != FARKV_EDISCONNECTED)
			return err;
		if (again == 2)
			return handle_result(kv, err);
	}
}

int farkv_ping(struct farkv *kv, uint64_t *rtt_ns_out)
{
	struct msg m = {.type = MSG_PING}, answer;
	uint64_t start = clock_now_ns();
	int err;

	m.epoch.number = start;
	err = server_call(kv, &m, MSG_PONG, &answer);
	if (err == HANDLE_CLUSTER)
		return router_ping(kv, rtt_ns_out);
	if (err)
		return err;
	if (answer.epoch.number != start)
		return err_set(FARKV_EPROTOCOL,
			       "the server's PONG is not the answer to PING");
	if (rtt_ns_out)
		*rtt_ns_out = clock_now_ns() - start;
	return 0;
}

int farkv_wait_followers(struct farkv *kv, uint32_t timeout_ms)
{
	if (!kv)
		return handle_missing();
	if (!kv->router)
		return err_set(FARKV_ENOTSUP, "farkv_wait_followers: the store is one server, which has "
					      "no follower");
	return router_wait_followers(kv, timeout_ms);
}

static_assert(sizeof(struct farkv_stats) ==
		      sizeof(size_t) + 8 * (MSG_STAT_END - 1),
	      "one field for each MSG_STAT id, in their order");
static_assert(sizeof(struct farkv_fsck) ==
		      sizeof(size_t) + 8 * (MSG_FSCK_END - 1),
	      "one field for each MSG_FSCK id, in their order");

/* Ids count from 1; ids from `end` on come from a newer server. */
static void figures_take(const struct msg *answer, uint64_t *first, uint16_t end)
{
	for (uint32_t i = 0; i < answer->stats.n; i++) {
		uint16_t id = answer->stats.stat[i].id;

		if (id >= 1 && id < end)
			first[id - 1] = answer->stats.stat[i].value;
	}
}

int farkv_stats(struct farkv *kv, struct farkv_stats *stats)
{
	struct msg m = {.type = MSG_STATS_REQ}, answer;
	struct farkv_stats s = {0};
	int err;

	if (!stats)
		return err_set(FARKV_EINVAL, "farkv_stats: stats is NULL");
	err = size_check("farkv_stats", stats->size);
	if (!err)
		err = server_call(kv, &m, MSG_STATS, &answer);
	if (!err)
		figures_take(&answer, &s.uptime_ms, MSG_STAT_END);
	else if (err == HANDLE_CLUSTER)
		err = router_stats(kv, &s);
	if (err)
		return err;
	sized_copy(stats, stats->size, &s, sizeof(s));
	return 0;
}

int farkv_fsck(struct farkv *kv, struct farkv_fsck *f)
{
	struct msg m = {.type = MSG_FSCK_REQ}, answer;
	struct farkv_fsck found = {0};
	int err;

	if (!f)
		return err_set(FARKV_EINVAL, "farkv_fsck: f is NULL");
	err = size_check("farkv_fsck", f->size);
	if (!err)
		err = server_call(kv, &m, MSG_FSCK, &answer);
	if (!err)
		figures_take(&answer, &found.duration_ns, MSG_FSCK_END);
	else if (err == HANDLE_CLUSTER)
		err = router_fsck(kv, &found);
	if (err == FARKV_ETIMEDOUT && !kv->router)
		return err_set(err,
			       "the check was not over within %llu ms; a large "
			       "store needs a longer op_timeout_ms (kvcli "
			       "--timeout-ms), or the server is stopped",
			       (unsigned long long)(kv->op_timeout_ns /
						    NS_PER_MS));
	if (err)
		return err;
	sized_copy(f, f->size, &found, sizeof(found));
	return 0;
}

/* Each server numbers its own sessions. */
static int ask_one_server(const char *what)
{
	return err_set(FARKV_ENOTSUP,
		       "%s: the store has several servers, and each answers for itself; ask each by "
		       "the handle of farkv_server()", what);
}

int farkv_client_next(struct farkv *kv, struct farkv_client *c)
{
	struct msg m = {.type = MSG_CLIENT_REQ}, answer;
	struct farkv_client found = {0};
	int err;

	if (!c)
		return err_set(FARKV_EINVAL, "farkv_client_next: c is NULL");
	err = size_check("farkv_client_next", c->size);
	m.epoch.number = c->session;
	if (!err)
		err = server_call(kv, &m, MSG_CLIENT, &answer);
	if (err)
		return err == HANDLE_CLUSTER ? ask_one_server("farkv_client_next") : err;
	if (!answer.client.session)
		return err_set(FARKV_ENOTFOUND, "there are no more sessions");
	found.session = answer.client.session;
	found.pid = answer.client.pid;
	found.age_ms = answer.client.age_ms;
	found.hits = answer.client.hits;
	found.misses = answer.client.misses;
	found.sets = answer.client.sets;
	found.flags = answer.client.flags;
	memcpy(found.name, answer.client.name, answer.client.name_len);
	memcpy(found.peer, answer.client.peer, answer.client.peer_len);
	sized_copy(c, c->size, &found, sizeof(found));
	return 0;
}

int farkv_kill(struct farkv *kv, uint64_t session)
{
	struct msg m = {.type = MSG_KILL}, answer;
	int err;

	if (kv && kv->conn.readonly)
		return err_set(FARKV_EPERM, "a read-only handle cannot end sessions");
	m.epoch.number = session;
	err = server_call(kv, &m, MSG_KILLED, &answer);
	if (err)
		return err == HANDLE_CLUSTER ? ask_one_server("farkv_kill") : err;
	return answer.epoch.number ?
		       0 :
		       err_set(FARKV_ENOTFOUND, "there is no other session %llu; kvcli clients "
			       "lists them", (unsigned long long)session);
}

static_assert(sizeof(struct farkv_class) == sizeof(size_t) + 8 * (MSG_CLASS_END - 1),
	      "one field for each MSG_CLASS id, in their order");

int farkv_class_next(struct farkv *kv, struct farkv_class *c)
{
	struct msg m = {.type = MSG_CLASS_REQ}, answer;
	struct farkv_class found = {0};
	int err;

	if (!c)
		return err_set(FARKV_EINVAL, "farkv_class_next: c is NULL");
	err = size_check("farkv_class_next", c->size);
	m.epoch.number = found.block_bytes = c->block_bytes;
	if (!err)
		err = server_call(kv, &m, MSG_CLASS, &answer);
	if (!err && !answer.stats.n)
		return err_set(FARKV_ENOTFOUND, "there are no more sizes of blocks");
	if (!err)
		figures_take(&answer, &found.block_bytes, MSG_CLASS_END);
	else if (err == HANDLE_CLUSTER)
		err = router_class_next(kv, &found);
	if (err)
		return err;
	sized_copy(c, c->size, &found, sizeof(found));
	return 0;
}

int farkv_pause_next(struct farkv *kv, struct farkv_pause *p)
{
	struct msg m = {.type = MSG_PAUSE_REQ}, answer;
	uint64_t figure[MSG_PAUSE_END - 1] = {0};
	struct farkv_pause found;
	int err;

	if (!p)
		return err_set(FARKV_EINVAL, "farkv_pause_next: p is NULL");
	err = size_check("farkv_pause_next", p->size);
	m.epoch.number = p->rank;
	if (!err)
		err = server_call(kv, &m, MSG_PAUSE, &answer);
	if (err)
		return err == HANDLE_CLUSTER ? ask_one_server("farkv_pause_next") : err;
	if (!answer.stats.n)
		return err_set(FARKV_ENOTFOUND, "there are no more pauses");
	figures_take(&answer, figure, MSG_PAUSE_END);
	found = (struct farkv_pause){.rank = figure[MSG_PAUSE_RANK - 1],
				     .ns = figure[MSG_PAUSE_NS - 1],
				     .ago_ms = figure[MSG_PAUSE_AGO_MS - 1],
				     .what = msg_pause_name(figure[MSG_PAUSE_KIND - 1])};
	sized_copy(p, p->size, &found, sizeof(found));
	return 0;
}

int farkv_counters(const struct farkv *kv, struct farkv_counters *c)
{
	struct farkv_counters sum;
	int err;

	if (!kv)
		return handle_missing();
	if (!c)
		return err_set(FARKV_EINVAL, "farkv_counters: c is NULL");
	err = size_check("farkv_counters", c->size);
	if (err)
		return err;
	handle_counters(kv, &sum);
	if (kv->router)
		router_counters(kv, &sum);
	sized_copy(c, c->size, &sum, sizeof(sum));
	return 0;
}

int farkv_server(struct farkv *kv, size_t i, struct farkv_server *out)
{
	const struct clustermap *map;
	struct farkv_server s = {.name = "", .partitions = CLUSTERMAP_PARTITIONS, .handle = kv,
				 .follower = ""};
	int err;

	if (!kv)
		return handle_missing();
	if (!out)
		return err_set(FARKV_EINVAL, "farkv_server: out is NULL");
	err = size_check("farkv_server", out->size);
	if (err)
		return err;
	map = kv->router ? &kv->router->map : NULL;
	if (i >= (map ? map->n_servers : 1))
		return err_set_plain(FARKV_ENOTFOUND);
	s.address = kv->uri.shown;
	if (map) {
		s.name = map->server[i].name;
		s.address = map->server[i].address;
		s.partitions = map->server[i].partitions;
		s.epoch = map->epoch;
		s.handle = kv->router->member[i];
		if (map->server[i].follower != CLUSTERMAP_NONE)
			s.follower = map->server[map->server[i].follower].name;
		for (uint32_t k = 0; map->n_moves && k < CLUSTERMAP_PARTITIONS; k++)
			s.moving += map->to[k] != CLUSTERMAP_NONE && map->owner[k] == i;
	}
	sized_copy(out, out->size, &s, sizeof(s));
	return 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

const char *farkv_strerror(int err)
{
	return err_str(err);
}

const char *farkv_errdetail(void)
{
	return err_detail();
}

const char *farkv_version(void)
{
	return PACKAGE_VERSION;
}
