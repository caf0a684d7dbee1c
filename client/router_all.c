/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_all.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"

#include "router.h"
#include "router_map.h"

/* ---- scan ------------------------------------------------------------------------------ */

#define SERVER_BITS 6u
#define POSITION_BITS (64 - SERVER_BITS)
static_assert(CLUSTERMAP_SERVERS_MAX <= 1u << SERVER_BITS, "a cursor holds the server");

/* Number of items whose hash is below `end`; they are sorted by hash. */
static size_t below(const struct farkv *m, const struct farkv_scan_item *items, size_t n,
		    uint64_t end)
{
	while (n > 0 && hash_key(m->conn.sb->hash_seed, items[n - 1].key, items[n - 1].key_len) >= end)
		n--;
	return n;
}

/*
 * Scan a server from `position` on. *position becomes one that a cursor can hold, or 0 at the end;
 * items from there on are left to the next call. More than `max` keys between two such positions
 * (hashes that share 58 bits) do not happen by chance.
 */
static int scan_member(struct farkv *m, uint64_t *position, size_t max,
		       const struct farkv_scan_item **items_out, size_t *n_out)
{
	uint64_t from = *position, to;
	int err;

	for (;; max = SIZE_MAX) {
		to = from;
		err = farkv_scan(m, &to, max, items_out, n_out);
		if (err && err != FARKV_ECORRUPT)
			return err;
		if (to == 0)
			break;
		to = to >> SERVER_BITS << SERVER_BITS;
		*n_out = below(m, *items_out, *n_out, to);
		if (to > from)
			break;
		if (max == SIZE_MAX)
			return err_set(FARKV_ENOTSUP,
				       "too many keys have hashes that differ in 6 bits only");
	}
	*position = to;
	return err;
}

/* Leave out copies of other servers' keys. */
static int keep_own(struct router *r, uint32_t server, const struct farkv_scan_item **items_io, size_t *n_io)
{
	struct farkv_scan_item *own = router_scratch(&r->scanned, *n_io * sizeof(*own));
	size_t n = 0;

	if (!own)
		return err_set(FARKV_ENOMEM, "no memory for a scan");
	for (size_t i = 0; i < *n_io; i++) {
		const struct farkv_scan_item *it = *items_io + i;

		if (clustermap_owner(&r->map, it->key, it->key_len) == server)
			own[n++] = *it;
	}
	*items_io = own;
	*n_io = n;
	return 0;
}

int router_scan(struct farkv *kv, uint64_t *cursor, size_t max,
		const struct farkv_scan_item **items_out, size_t *n_out)
{
	struct router *r = kv->router;
	uint64_t server = *cursor >> POSITION_BITS, position = *cursor << SERVER_BITS;
	int err = router_begin(kv), lapsed = 0;

	if (err)
		return err;
	if (server >= r->map.n_servers)
		return router_end(kv, err_set(FARKV_EINVAL,
					      "farkv_scan: the cursor is none of this cluster: begin "
					      "with 0"));
	*n_out = 0;
	if (router_skips(r, (uint32_t)server)) {
		position = 0;
	} else if ((err = router_enter_unblocked(kv, UINT64_C(1) << server)) == 0) {
		err = scan_member(r->member[server], &position, max, items_out, n_out);
		if (!err || err == FARKV_ECORRUPT)
			lapsed = router_await_lease(kv, r->member[server], clock_now_ns());
		if (!lapsed && r->leased)
			lapsed = keep_own(r, (uint32_t)server, items_out, n_out);
		err = lapsed ? lapsed : err;
		router_leave_all(kv, UINT64_C(1) << server);
	}
	if (err)
		handle_name_server(r->member[server], err);
	if (err && err != FARKV_ECORRUPT)
		return router_end(kv, err);
	if (position == 0 && ++server == r->map.n_servers)
		*cursor = 0;
	else
		*cursor = server << POSITION_BITS | position >> SERVER_BITS;
	return router_end(kv, err);
}

/* ---- on all servers at the same time ------------------------------------------------------ */

/* A call on all servers. */
struct all {
	struct router *r;
	int (*call)(struct farkv *m, void *one); /* *one: what it returns */
	void (*add)(void *sum, const void *one);
	const void *start; /* initial content of *one */
	size_t bytes;      /* of *one */
	uint64_t servers;  /* without those that have no keys */
	uint8_t *ones;     /* of each server */
};

static void *one_of(const struct all *a, uint32_t server)
{
	return a->ones + server * a->bytes;
}

static int call_one(void *arg, uint32_t server)
{
	const struct all *a = arg;

	return a->call(a->r->member[server], one_of(a, server));
}

/* Afterwards take_result() has each server's error, and one_of() its result. */
static int call_all(struct all *a)
{
	struct router *r = a->r;

	a->ones = router_scratch(&r->items, r->map.n_servers * a->bytes);
	if (!a->ones)
		return err_set(FARKV_ENOMEM, "no memory for a call on all servers");
	a->servers = router_all_servers(r);
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		memcpy(one_of(a, i), a->start, a->bytes);
	router_fan_out(r, a->servers, a->servers, call_one, a);
	return 0;
}

static int take_result(const struct all *a, uint32_t server)
{
	int err = fanout_take_result(&a->r->fanout, server);

	if (err)
		handle_name_server(a->r->member[server], err);
	return err;
}

/* Add up the results of all servers; returns the error of the first that fails. */
static int sum_up(struct farkv *kv, struct all *a, void *sum)
{
	int err = router_begin(kv);

	if (err)
		return err;
	a->r = kv->router;
	err = call_all(a);
	for (uint32_t i = 0; !err && i < a->r->map.n_servers; i++) {
		if (!(a->servers >> i & 1))
			continue;
		err = take_result(a, i);
		if (!err)
			a->add(sum, one_of(a, i));
	}
	return router_end(kv, err);
}

static int clear(struct farkv *m, void *deleted)
{
	return farkv_clear(m, deleted);
}

int router_clear(struct farkv *kv, uint64_t *deleted_out)
{
	const uint64_t none = 0;
	struct all a = {.r = kv->router, .call = clear, .start = &none, .bytes = sizeof(none)};
	char line[ERR_LINE_MAX];
	uint64_t ended;
	int first_err = 0, err = router_begin(kv);

	if (!err && (err = router_enter_unblocked(kv, UINT64_MAX)))
		err = router_end(kv, err);
	if (err)
		return err;
	err = call_all(&a);
	ended = clock_now_ns();
	for (uint32_t i = 0; !err && i < a.r->map.n_servers; i++) {
		int one_err;

		if (!(a.servers >> i & 1))
			continue;
		*deleted_out += *(uint64_t *)one_of(&a, i);
		one_err = take_result(&a, i);
		if (!one_err)
			one_err = router_await_lease(kv, a.r->member[i], ended);
		if (one_err && !first_err) {
			first_err = one_err;
			snprintf(line, sizeof(line), "%s", err_detail());
		}
	}
	router_leave_all(kv, UINT64_MAX);
	return router_end(kv, first_err ? err_set(first_err, "%s", line) : err);
}

/* ---- figures --------------------------------------------------------------------------- */

static int ping(struct farkv *m, void *rtt_ns)
{
	return farkv_ping(m, rtt_ns);
}

static void longest(void *sum, const void *one)
{
	uint64_t *max = sum;

	*max = UTIL_MAX(*max, *(const uint64_t *)one);
}

int router_ping(struct farkv *kv, uint64_t *rtt_ns_out)
{
	uint64_t rtt = 0;
	struct all a = {.call = ping, .add = longest, .start = &rtt, .bytes = sizeof(rtt)};
	int err = sum_up(kv, &a, &rtt);

	if (!err && rtt_ns_out)
		*rtt_ns_out = rtt;
	return err;
}

/* Add the fields of a struct whose first is its size, and whose others are u64. */
static void add_fields(void *sum, const void *one, size_t size)
{
	for (size_t at = sizeof(size_t); at < size; at += sizeof(uint64_t)) {
		uint64_t a, b;

		memcpy(&a, (uint8_t *)sum + at, sizeof(a));
		memcpy(&b, (const uint8_t *)one + at, sizeof(b));
		a += b;
		memcpy((uint8_t *)sum + at, &a, sizeof(a));
	}
}

/* The smaller of two numbers, of which 0 counts as none. */
static uint64_t smallest(uint64_t a, uint64_t b)
{
	return a && b ? UTIL_MIN(a, b) : a | b;
}

/* Set the fields of farkv_stats whose sum would be meaningless. */
static void stats_extremes(struct farkv_stats *sum, const struct farkv_stats *a,
			   const struct farkv_stats *b)
{
	uint64_t slots = a->index_slots + b->index_slots;

	sum->uptime_ms = UTIL_MAX(a->uptime_ms, b->uptime_ms);
	sum->grace_ns = UTIL_MAX(a->grace_ns, b->grace_ns);
	sum->dir_depth = UTIL_MAX(a->dir_depth, b->dir_depth);
	sum->migration_ns_max = UTIL_MAX(a->migration_ns_max, b->migration_ns_max);
	sum->sweep_ns = UTIL_MAX(a->sweep_ns, b->sweep_ns);
	sum->follower_lag_ms = UTIL_MAX(a->follower_lag_ms, b->follower_lag_ms);
	/* What every server takes; `a` is all 0 at first. */
	sum->max_key = smallest(a->max_key, b->max_key);
	sum->max_value = smallest(a->max_value, b->max_value);
	sum->cache = a->cache | b->cache;
	sum->saved_at_ms = smallest(a->saved_at_ms, b->saved_at_ms);
	sum->victim_age_ms = smallest(a->victim_age_ms, b->victim_age_ms);
	for (unsigned i = 0; i < FARKV_SIZES; i++)
		sum->sizes[i].victim_age_ms = smallest(a->sizes[i].victim_age_ms, b->sizes[i].victim_age_ms);
	sum->index_load_permille = slots ? (a->index_load_permille * a->index_slots +
					    b->index_load_permille * b->index_slots) / slots : 0;
}

static int stats(struct farkv *m, void *one)
{
	struct farkv_stats *s = one;

	s->size = sizeof(*s);
	return farkv_stats(m, s);
}

static void add_stats(void *sum, const void *one)
{
	struct farkv_stats before;

	memcpy(&before, sum, sizeof(before));
	add_fields(sum, one, sizeof(before));
	stats_extremes(sum, &before, one);
}

int router_stats(struct farkv *kv, struct farkv_stats *sum)
{
	struct all a = {.call = stats, .add = add_stats, .start = sum, .bytes = sizeof(*sum)};

	return sum_up(kv, &a, sum);
}

static bool finds_fault(const struct farkv_fsck *f)
{
	return f->bad_directory | f->bad_empty | f->bad_words | f->damaged | f->shared |
	       f->misplaced | f->behind_empty | f->duplicates | f->bad_sums;
}

static int fsck(struct farkv *m, void *one)
{
	struct farkv_fsck *f = one;

	f->size = sizeof(*f);
	return farkv_fsck(m, f);
}

/*
 * The place of the first problem and of the first undecided item are those of the first server that
 * has any.
 */
static void add_fsck(void *all, const void *single)
{
	struct farkv_fsck *sum = all, before = *sum;
	const struct farkv_fsck *one = single;

	add_fields(sum, one, sizeof(*one));
	sum->duration_ns = UTIL_MAX(before.duration_ns, one->duration_ns);
	sum->first_page = finds_fault(&before) ? before.first_page : one->first_page;
	sum->first_slot = finds_fault(&before) ? before.first_slot : one->first_slot;
	sum->undecided = before.undecided ? before.undecided : one->undecided;
	sum->silent_session = before.undecided ? before.silent_session : one->silent_session;
	sum->silent_pid = before.undecided ? before.silent_pid : one->silent_pid;
}

int router_fsck(struct farkv *kv, struct farkv_fsck *sum)
{
	struct all a = {.call = fsck, .add = add_fsck, .start = sum, .bytes = sizeof(*sum)};

	return sum_up(kv, &a, sum);
}

/* *one without a size: the server has no larger one. */
static int class_next(struct farkv *m, void *one)
{
	struct farkv_class *c = one;
	int err;

	c->size = sizeof(*c);
	err = farkv_class_next(m, c);
	if (err != FARKV_ENOTFOUND)
		return err;
	c->block_bytes = 0;
	return 0;
}

/* The smallest size so far, with the blocks of that size of all servers so far. */
static void add_class(void *all, const void *single)
{
	struct farkv_class *sum = all;
	const struct farkv_class *one = single;

	if (!one->block_bytes)
		return;
	if (!sum->block_bytes || one->block_bytes < sum->block_bytes) {
		*sum = *one;
	} else if (one->block_bytes == sum->block_bytes) {
		add_fields(sum, one, sizeof(*one));
		sum->block_bytes = one->block_bytes;
	}
}

int router_class_next(struct farkv *kv, struct farkv_class *c)
{
	struct farkv_class sum = {0};
	struct all a = {.call = class_next, .add = add_class, .start = c, .bytes = sizeof(*c)};
	int err = sum_up(kv, &a, &sum);

	if (err)
		return err;
	if (!sum.block_bytes)
		return err_set(FARKV_ENOTFOUND, "there are no more sizes of blocks");
	*c = sum;
	return 0;
}

void router_counters(const struct farkv *kv, struct farkv_counters *sum)
{
	const struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		struct farkv_counters one;

		handle_counters(r->member[i], &one);
		add_fields(sum, &one, sizeof(one));
	}
}

/* ---- memory ---------------------------------------------------------------------------- */

int router_register(struct farkv *kv, void *ptr, size_t len)
{
	const struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		int err = buffers_register(&r->member[i]->buffers, ptr, len);

		if (!err)
			continue;
		while (i-- > 0)
			buffers_unregister(&r->member[i]->buffers, ptr);
		return err;
	}
	return 0;
}

void router_unregister(struct farkv *kv, void *ptr)
{
	const struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++)
		buffers_unregister(&r->member[i]->buffers, ptr);
}
