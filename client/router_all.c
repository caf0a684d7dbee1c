/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_all.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"

#include "router.h"
#include "router_map.h"

/* ---- scan ------------------------------------------------------------------------------ */

#define SERVER_BITS 6u
#define POSITION_BITS (64 - SERVER_BITS)
static_assert(CLUSTERMAP_SERVERS_MAX <= 1u << SERVER_BITS, "a cursor holds the server");

/* The items whose hash is below `end`; they are in the order of their hashes. */
static size_t below(const struct farkv *m, const struct farkv_scan_item *items, size_t n,
		    uint64_t end)
{
	while (n > 0 && hash_key(m->conn.sb->hash_seed, items[n - 1].key, items[n - 1].key_len) >= end)
		n--;
	return n;
}

/*
 * Scan a server from `position` on. *position becomes one that a cursor can hold, or 0 at the end;
 * items from there on are left to the next call. More than `max` keys may lie between two such
 * positions, but not by chance: hashes that share 58 bits.
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
	} else if ((err = router_enter_wholly(kv, UINT64_C(1) << server)) == 0) {
		err = scan_member(r->member[server], &position, max, items_out, n_out);
		if (!err || err == FARKV_ECORRUPT)
			lapsed = router_counts(kv, r->member[server]);
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

int router_clear(struct farkv *kv, uint64_t *deleted_out)
{
	const struct router *r = kv->router;
	char line[ERR_LINE_MAX];
	int first = 0, err = router_begin(kv);

	if (!err && (err = router_enter_wholly(kv, UINT64_MAX)))
		err = router_end(kv, err);
	if (err)
		return err;
	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		uint64_t deleted = 0;

		if (router_skips(r, i))
			continue;
		err = farkv_clear(r->member[i], &deleted);
		*deleted_out += deleted;
		if (!err)
			err = router_counts(kv, r->member[i]);
		if (!err || first)
			continue;
		handle_name_server(r->member[i], err);
		first = err;
		snprintf(line, sizeof(line), "%s", err_detail());
	}
	router_leave_all(kv, UINT64_MAX);
	return router_end(kv, first ? err_set(first, "%s", line) : 0);
}

/* ---- figures --------------------------------------------------------------------------- */

/* A call on one member; *sum is of the call's type. */
typedef int member_call(struct farkv *m, void *sum);

static int on_all(struct farkv *kv, member_call *call, void *sum)
{
	const struct router *r = kv->router;
	int err = router_begin(kv);

	if (err)
		return err;
	for (uint32_t i = 0; !err && i < r->map.n_servers; i++) {
		err = router_skips(r, i) ? 0 : call(r->member[i], sum);
		if (err)
			handle_name_server(r->member[i], err);
	}
	return router_end(kv, err);
}

static int ping(struct farkv *m, void *sum)
{
	uint64_t *longest = sum, rtt;
	int err = farkv_ping(m, &rtt);

	if (!err)
		*longest = UTIL_MAX(*longest, rtt);
	return err;
}

int router_ping(struct farkv *kv, uint64_t *rtt_ns_out)
{
	uint64_t longest = 0;
	int err = on_all(kv, ping, &longest);

	if (!err && rtt_ns_out)
		*rtt_ns_out = longest;
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

/* Fields of farkv_stats of which a sum means nothing. */
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
	sum->max_key = a->max_key ? UTIL_MIN(a->max_key, b->max_key) : b->max_key;
	sum->max_value = a->max_value ? UTIL_MIN(a->max_value, b->max_value) : b->max_value;
	sum->index_load_permille = slots ? (a->index_load_permille * a->index_slots +
					    b->index_load_permille * b->index_slots) / slots : 0;
}

static int stats(struct farkv *m, void *sum)
{
	struct farkv_stats before, one = {.size = sizeof(one)};
	int err = farkv_stats(m, &one);

	if (err)
		return err;
	memcpy(&before, sum, sizeof(before));
	add_fields(sum, &one, sizeof(one));
	stats_extremes(sum, &before, &one);
	return 0;
}

int router_stats(struct farkv *kv, struct farkv_stats *sum)
{
	return on_all(kv, stats, sum);
}

static bool finds_fault(const struct farkv_fsck *f)
{
	return f->bad_directory | f->bad_empty | f->bad_words | f->damaged | f->shared |
	       f->misplaced | f->behind_empty | f->duplicates | f->bad_sums;
}

/* The place of the first problem, and what could not be decided, are those of the first server that
 * has any. */
static int fsck(struct farkv *m, void *out)
{
	struct farkv_fsck *sum = out, before = *sum, one = {.size = sizeof(one)};
	int err = farkv_fsck(m, &one);

	if (err)
		return err;
	add_fields(sum, &one, sizeof(one));
	sum->first_page = finds_fault(&before) ? before.first_page : one.first_page;
	sum->first_slot = finds_fault(&before) ? before.first_slot : one.first_slot;
	sum->undecided = before.undecided ? before.undecided : one.undecided;
	sum->silent_session = before.undecided ? before.silent_session : one.silent_session;
	sum->silent_pid = before.undecided ? before.silent_pid : one.silent_pid;
	return 0;
}

int router_fsck(struct farkv *kv, struct farkv_fsck *sum)
{
	return on_all(kv, fsck, sum);
}

/* The smallest size above `after` so far, with the blocks of that size of all servers so far. */
struct class_sum {
	uint64_t after;
	struct farkv_class c;
};

static int class_next(struct farkv *m, void *out)
{
	struct class_sum *sum = out;
	struct farkv_class one = {.size = sizeof(one), .block_bytes = sum->after};
	int err = farkv_class_next(m, &one);

	if (err)
		return err == FARKV_ENOTFOUND ? 0 : err;
	if (!sum->c.block_bytes || one.block_bytes < sum->c.block_bytes) {
		sum->c = one;
	} else if (one.block_bytes == sum->c.block_bytes) {
		add_fields(&sum->c, &one, sizeof(one));
		sum->c.block_bytes = one.block_bytes;
	}
	return 0;
}

int router_class_next(struct farkv *kv, struct farkv_class *c)
{
	struct class_sum sum = {.after = c->block_bytes};
	int err = on_all(kv, class_next, &sum);

	if (err)
		return err;
	if (!sum.c.block_bytes)
		return err_set(FARKV_ENOTFOUND, "there are no more sizes of blocks");
	*c = sum.c;
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
