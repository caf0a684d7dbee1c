/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle of a cluster: keys go to their servers; batches, requests, scans and sums go to all.
 */
#include "config.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "client/handle.h"
#include "common/base/util.h"
#include "tests/rig/cluster_rig.h"
#include "tests/rig/test_main.h"

static struct farkv *member(unsigned i)
{
	struct farkv_server s = {.size = sizeof(s)};

	ck_assert_int_eq(farkv_server(kv, i, &s), 0);
	return s.handle;
}

/* ---- calls for one key ------------------------------------------------------------------------
 */

START_TEST(put_and_get_go_to_the_server_of_the_key_and_to_no_other)
{
	struct farkv_value v;
	unsigned had[CLUSTER_SERVERS] = {0};

	store_all();
	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		size_t len = strlen(keys[i]);

		had[owner(i)]++;
		ck_assert_int_eq(farkv_get(kv, keys[i], len, &v), 0);
		ck_assert_uint_eq(v.len, len);
		ck_assert_mem_eq(v.data, keys[i], len);
		for (unsigned s = 0; s < CLUSTER_SERVERS; s++)
			ck_assert_int_eq(farkv_exists(member(s), keys[i], len),
					 s == owner(i) ? 0 : FARKV_ENOTFOUND);
	}
	for (unsigned s = 0; s < CLUSTER_SERVERS; s++)
		ck_assert_uint_gt(had[s], CLUSTER_KEYS / 6);
}
END_TEST

/* All calls for one key, for keys of every server. */
START_TEST(every_call_for_one_key_finds_what_the_others_wrote)
{
	for (unsigned i = 0; i < 30; i++) {
		size_t len = key_make(i), got;
		struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = 3600000, .user = 7};
		struct farkv_request w = {.kind = FARKV_REQUEST_PUT, .key = keys[i], .key_len = len,
					  .value = "w", .value_len = 1, .options = &o};
		struct farkv_incr_options incr = {.size = sizeof(incr), .delta = 5, .initial = 10,
						  .flags = FARKV_INCR_CREATE};
		uint64_t version, version2, number;
		struct farkv_value v;
		char buf[16];

		ck_assert_int_eq(farkv_replace(kv, keys[i], len, "r", 1), FARKV_ENOTFOUND);
		ck_assert_int_eq(farkv_add(kv, keys[i], len, "1", 1), 0);
		ck_assert_int_eq(farkv_add(kv, keys[i], len, "x", 1), FARKV_EEXISTS);
		ck_assert_int_eq(farkv_exists(kv, keys[i], len), 0);
		ck_assert_int_eq(farkv_append(kv, keys[i], len, "2", 1), 0);
		ck_assert_int_eq(farkv_prepend(kv, keys[i], len, "9", 1), 0);
		ck_assert_int_eq(farkv_incr(kv, keys[i], len, NULL, &number), 0);
		ck_assert_uint_eq(number, 913);
		ck_assert_int_eq(farkv_get_into(kv, keys[i], len, buf, sizeof(buf), &got, &version), 0);
		ck_assert_uint_eq(got, 3);
		ck_assert_mem_eq(buf, "913", 3);
		ck_assert_int_eq(farkv_cas(kv, keys[i], len, "c", 1, version + 1, NULL), FARKV_EVERSION);
		ck_assert_int_eq(farkv_cas(kv, keys[i], len, "c", 1, version, &version2), 0);
		ck_assert_int_eq(farkv_write(kv, &w, &version), 0);
		ck_assert_uint_ne(version, version2);
		ck_assert_int_eq(farkv_get_touch(kv, keys[i], len, 7200000, &v), 0);
		ck_assert_uint_eq(v.user, 7);
		ck_assert_int_eq(farkv_get(kv, keys[i], len, &v), 0);
		ck_assert_uint_gt(v.ttl_ms, 3600000);
		ck_assert_int_eq(farkv_delete(kv, keys[i], len), 0);
		ck_assert_int_eq(farkv_delete(kv, keys[i], len), FARKV_ENOTFOUND);
		ck_assert_int_eq(farkv_decr(kv, keys[i], len, &incr, &number), 0);
		ck_assert_uint_eq(number, 10);
	}
	ck_assert_int_eq(farkv_get_into(kv, "", 0, NULL, 0, &(size_t){0}, NULL), FARKV_EINVAL);
	ck_assert_int_eq(farkv_put(kv, NULL, 3, "", 0), FARKV_EINVAL);
}
END_TEST

START_TEST(borrow_is_checked_by_the_server_that_has_the_key)
{
	struct farkv_view view[4];

	if (real_server_skips("borrow", "values are borrowed over shared memory only"))
		return;
	store_all();
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(farkv_borrow(kv, keys[i], strlen(keys[i]), &view[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(farkv_borrow_check(kv, &view[i]), 0);
	view[0].proof[0] += 1000;
	ck_assert_int_eq(farkv_borrow_check(kv, &view[0]), FARKV_EINVAL);
}
END_TEST

/* ---- batches ------------------------------------------------------------------------------------
 */

/*
 * What an mget returned lies in the memory of all servers' handles, and is the next mput's values.
 * It is more than a handle keeps, so that one that gave it back too early has unmapped it.
 */
#define LARGE 600000u
START_TEST(mput_takes_values_that_an_mget_returned)
{
	static char large[LARGE];
	struct farkv_get_item get[60];
	struct farkv_put_item put[60];
	char copy[60][16];

	for (unsigned i = 0; i < 60; i++) {
		size_t len = key_make(i);

		memset(large, 'A' + (int)i, sizeof(large));
		get[i] = (struct farkv_get_item){.key = keys[i], .key_len = len};
		OK(farkv_put(kv, keys[i], len, large, sizeof(large)));
	}
	OK(farkv_mget(kv, get, 60));
	for (unsigned i = 0; i < 60; i++) {
		snprintf(copy[i], sizeof(copy[i]), "copy%u", i);
		put[i] = (struct farkv_put_item){copy[i], strlen(copy[i]), get[i].value.data,
						 get[i].value.len, 0};
	}
	OK(farkv_mput(kv, put, 60));
	for (unsigned i = 0; i < 60; i++) {
		struct farkv_value v;

		memset(large, 'A' + (int)i, sizeof(large));
		OK(farkv_get(kv, copy[i], strlen(copy[i]), &v));
		ck_assert_uint_eq(v.len, sizeof(large));
		ck_assert_mem_eq(v.data, large, sizeof(large));
	}
}
END_TEST

/* A chain: each value is the next key, of any server; again more than a handle keeps. */
#define CHAIN 1200u
#define LINK 30000u
START_TEST(mget_takes_keys_that_an_mget_returned)
{
	static char chain[CHAIN + 2][LINK];
	static struct farkv_get_item get[CHAIN], next[CHAIN];

	for (unsigned i = 0; i < CHAIN + 2; i++) {
		memset(chain[i], 'x', LINK);
		memcpy(chain[i], &i, sizeof(i));
	}
	for (unsigned i = 0; i < CHAIN + 1; i++)
		OK(farkv_put(kv, chain[i], LINK, chain[i + 1], LINK));
	for (unsigned i = 0; i < CHAIN; i++)
		get[i] = (struct farkv_get_item){.key = chain[i], .key_len = LINK};
	OK(farkv_mget(kv, get, CHAIN));
	for (unsigned i = 0; i < CHAIN; i++)
		next[i] = (struct farkv_get_item){.key = get[i].value.data,
						  .key_len = get[i].value.len};
	OK(farkv_mget(kv, next, CHAIN));
	for (unsigned i = 0; i < CHAIN; i++)
		ck_assert_mem_eq(next[i].value.data, chain[i + 2], LINK);
}
END_TEST

START_TEST(batches_over_all_servers_give_each_item_its_own_result)
{
	static struct farkv_get_into_item into[CLUSTER_KEYS];
	static struct farkv_key ask[CLUSTER_KEYS];
	static char buf[CLUSTER_KEYS][16];
	uint8_t bitmap[CLUSTER_KEYS / 8];
	size_t prefix;

	store_all();
	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		size_t len = strlen(keys[i]);

		if (i >= 500)
			ck_assert_int_eq(farkv_delete(kv, keys[i], len), 0);
		into[i] = (struct farkv_get_into_item){keys[i], len, buf[i], i == 77 ? 2 : 16, 0, 0, 1};
		ask[i] = (struct farkv_key){keys[i], len};
	}
	ck_assert_int_eq(farkv_mget_into(kv, into, CLUSTER_KEYS), FARKV_ETOOSMALL);
	ck_assert_msg(strstr(farkv_errdetail(), "item 78 of 600: the value has 5 bytes"), "%s",
		      farkv_errdetail());
	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		ck_assert_int_eq(into[i].result, i >= 500 ? FARKV_ENOTFOUND :
						 i == 77  ? FARKV_ETOOSMALL : 0);
		if (i < 500 && i != 77)
			ck_assert_mem_eq(buf[i], keys[i], into[i].len);
	}
	ck_assert_int_eq(farkv_mexists(kv, ask, CLUSTER_KEYS, bitmap, &prefix), 0);
	ck_assert_uint_eq(prefix, 500);
	for (unsigned i = 0; i < CLUSTER_KEYS; i++)
		ck_assert_int_eq(bitmap[i / 8] >> i % 8 & 1, i < 500);
	ask[123].key_len = 0;
	ck_assert_int_eq(farkv_mexists(kv, ask, CLUSTER_KEYS, NULL, &prefix), FARKV_EINVAL);
	ck_assert_msg(strstr(farkv_errdetail(), "item 124 of 600: "), "%s", farkv_errdetail());
	ck_assert_uint_eq(prefix, 123);
}
END_TEST

/* A key that no store takes, whose server is `server`. */
static void refused_key(char *key, unsigned server)
{
	memset(key, 'x', 70000);
	for (unsigned i = 0; clustermap_owner(map, key, 70000) != server; i++)
		memcpy(key, &i, sizeof(i));
}

START_TEST(a_batch_reports_its_first_failure_whichever_server_it_is_of)
{
	static char long_key[2][70000];
	struct farkv_get_item get[20];

	for (unsigned i = 0; i < 20; i++)
		get[i] = (struct farkv_get_item){.key = keys[i], .key_len = key_make(i)};
	for (unsigned last = 0; last < CLUSTER_SERVERS; last++) {
		refused_key(long_key[0], (last + 1) % CLUSTER_SERVERS);
		refused_key(long_key[1], last);
		get[7].key = long_key[0];
		get[12].key = long_key[1];
		get[7].key_len = get[12].key_len = 70000;
		ck_assert_int_eq(farkv_mget(kv, get, 20), FARKV_ETOOLARGE);
		ck_assert_msg(strstr(farkv_errdetail(), "item 8 of 20: "), "%s", farkv_errdetail());
		ck_assert_int_eq(get[12].result, FARKV_ETOOLARGE);
	}
}
END_TEST

START_TEST(mput_of_one_key_twice_leaves_the_later_value)
{
	static struct farkv_put_item put[CLUSTER_KEYS];
	struct farkv_value v;

	for (unsigned i = 0; i < CLUSTER_KEYS; i++) {
		key_make(i);
		put[i] = (struct farkv_put_item){keys[i / 2 * 2], strlen(keys[i / 2 * 2]),
						 i % 2 ? "later" : "first", 5, 1};
	}
	ck_assert_int_eq(farkv_mput(kv, put, CLUSTER_KEYS), 0);
	for (unsigned i = 0; i < CLUSTER_KEYS; i += 2) {
		ck_assert_int_eq(put[i].result, 0);
		ck_assert_int_eq(farkv_get(kv, keys[i], strlen(keys[i]), &v), 0);
		ck_assert_mem_eq(v.data, "later", 5);
	}
}
END_TEST

/* ---- requests ----------------------------------------------------------------------------------
 */

/* Take `n` completions, each tag from 0 on once, by `take`. */
static void complete(unsigned n, int (*take)(struct farkv_completion *c, size_t max))
{
	struct farkv_completion c[50];
	bool seen[CLUSTER_KEYS] = {false};

	for (unsigned left = n; left > 0;) {
		int got = take(c, 50);

		ck_assert_int_ge(got, 0);
		for (int i = 0; i < got; i++) {
			ck_assert_int_eq(c[i].result, 0);
			ck_assert(!seen[c[i].tag]);
			seen[c[i].tag] = true;
			if (c[i].kind == FARKV_REQUEST_GET)
				ck_assert_mem_eq(c[i].value.data, keys[c[i].tag], c[i].value.len);
		}
		left -= (unsigned)got;
	}
	ck_assert_uint_eq(farkv_in_flight(kv), 0);
}

static int by_poll(struct farkv_completion *c, size_t max)
{
	return farkv_poll(kv, c, max);
}

static int by_wait(struct farkv_completion *c, size_t max)
{
	return farkv_wait(kv, c, max, CLUSTER_TIMEOUT_MS);
}

static int by_event(struct farkv_completion *c, size_t max)
{
	struct pollfd p = {.fd = farkv_event_fd(kv), .events = POLLIN};
	int n = farkv_poll(kv, c, max);

	if (n == 0)
		ck_assert_int_eq(poll(&p, 1, CLUSTER_TIMEOUT_MS), 1);
	return n;
}

START_TEST(requests_for_all_servers_are_as_many_as_one_handle_takes)
{
	static struct farkv_request reqs[CLUSTER_KEYS];

	requests_make(reqs, 300, FARKV_REQUEST_PUT);
	ck_assert_int_eq(farkv_submit(kv, reqs, 300), 128);
	ck_assert_uint_eq(farkv_in_flight(kv), 128);
	ck_assert_int_eq(farkv_submit(kv, reqs, 1), FARKV_EAGAIN);
	complete(128, by_poll);
	requests_make(reqs, 128, FARKV_REQUEST_GET);
	reqs[100].flags = 1;
	ck_assert_int_eq(farkv_submit(kv, reqs, 128), 100);
	ck_assert_int_eq(farkv_submit(kv, reqs + 100, 1), FARKV_EINVAL);
	complete(100, by_wait);
	ck_assert_int_eq(farkv_wait(kv, NULL, 0, 0), 0);
}
END_TEST

START_TEST(event_fd_is_readable_while_a_server_has_something)
{
	static struct farkv_request reqs[CLUSTER_KEYS];
	struct pollfd p = {.fd = farkv_event_fd(kv), .events = POLLIN};

	ck_assert_int_ge(p.fd, 0);
	ck_assert_int_eq(farkv_event_fd(kv), p.fd);
	for (unsigned round = 0; round < 3; round++) {
		requests_make(reqs, 100, round ? FARKV_REQUEST_GET : FARKV_REQUEST_PUT);
		ck_assert_int_eq(farkv_submit(kv, reqs, 100), 100);
		complete(100, by_event);
	}
	while (poll(&p, 1, 0) == 1) /* sometimes without need; a poll ends that */
		ck_assert_int_eq(farkv_poll(kv, NULL, 0), 0);
}
END_TEST

START_TEST(a_call_completes_the_requests_of_all_servers)
{
	static struct farkv_request reqs[CLUSTER_KEYS];
	struct farkv *other = e2e_open(srv[2].path, CLUSTER_TIMEOUT_MS);
	struct farkv_value v;

	requests_make(reqs, 100, FARKV_REQUEST_PUT);
	ck_assert_int_eq(farkv_submit(kv, reqs, 100), 100);
	ck_assert_int_eq(farkv_get(kv, "none", 4, &v), FARKV_ENOTFOUND);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(farkv_exists(other, keys[i], strlen(keys[i])), 0);
	farkv_close(other);
	complete(100, by_poll);
}
END_TEST

/* ---- all keys ------------------------------------------------------------------------- */

/* Each call by another handle in turn: the cursor is all that a scan needs. */
static void scan_all(size_t max)
{
	struct farkv *h[2] = {kv, e2e_open(srv[0].path, CLUSTER_TIMEOUT_MS)};
	unsigned seen[CLUSTER_KEYS] = {0}, turn = 0;
	uint64_t cursor = 0;

	do {
		const struct farkv_scan_item *items;
		size_t n;

		ck_assert_int_eq(farkv_scan(h[turn++ % 2], &cursor, max, &items, &n), 0);
		ck_assert_uint_le(n, max);
		for (size_t i = 0; i < n; i++)
			seen[atoi(strndupa((const char *)items[i].key + 3, items[i].key_len - 3))]++;
	} while (cursor);
	for (unsigned i = 0; i < CLUSTER_KEYS; i++)
		ck_assert_uint_eq(seen[i], 1);
	farkv_close(h[1]);
}

START_TEST(scan_lists_the_keys_of_all_servers_once)
{
	uint64_t cursor = UINT64_MAX, deleted;
	const struct farkv_scan_item *items;
	size_t n;

	store_all();
	scan_all(SIZE_MAX);
	scan_all(FARKV_SCAN_MIN);
	ck_assert_int_eq(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n), FARKV_EINVAL);
	ck_assert_int_eq(farkv_clear(kv, &deleted), 0);
	ck_assert_uint_eq(deleted, CLUSTER_KEYS);
	for (unsigned i = 0; i < CLUSTER_KEYS; i++)
		ck_assert_int_eq(farkv_exists(kv, keys[i], strlen(keys[i])), FARKV_ENOTFOUND);
}
END_TEST

static uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

/* The key of 8 bytes that XXH3 with this seed gives `hash`: its steps for that length, undone. */
static void key_for(uint64_t seed, uint64_t hash, uint8_t key[8])
{
	const uint64_t prime = UINT64_C(0x9FB21C651E98DF25);
	uint64_t inverse = prime, v, flip;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - prime * inverse;
	v = hash ^ hash >> 28 ^ hash >> 56;
	v *= inverse;
	v ^= (v >> 35) + 8;
	v *= inverse;
	for (int i = 0; i < 63; i++) /* to the power of 64 it is the identity */
		v ^= rotate(v, 49) ^ rotate(v, 24);
	seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
	flip = (XXH_readLE64(XXH3_kSecret + 8) ^ XXH_readLE64(XXH3_kSecret + 16)) - seed;
	v = rotate(v ^ flip, 32);
	memcpy(key, &v, 8);
}

/* Store `most` keys of server 0 with hashes from `hash` on, `step` apart, if `n` tries suffice. */
static unsigned store_hashes(uint64_t hash, uint64_t step, unsigned n, unsigned most)
{
	uint64_t seed = member(0)->conn.sb->hash_seed;
	unsigned stored = 0;

	for (; n > 0 && stored < most; n--, hash += step) {
		uint8_t key[8];

		key_for(seed, hash, key);
		ck_assert_uint_eq(XXH3_64bits_withSeed(key, 8, seed), hash);
		if (clustermap_owner(map, key, 8) != 0)
			continue;
		OK(farkv_put(kv, key, 8, "", 0));
		stored++;
	}
	return stored;
}

/* Some 20 keys have hashes so close together that a cursor cannot stand between them; the first
 * call of a scan has room for half of them. */
START_TEST(scan_cuts_between_no_keys_that_share_a_position)
{
	const uint64_t middle = UINT64_C(5) << 60, step = (UINT64_C(1) << 51) + (UINT64_C(1) << 24);
	unsigned together = store_hashes(middle, 1, 64, 64), before = FARKV_SCAN_MIN - together / 2;
	unsigned stored, listed = 0;
	uint64_t cursor = 0;

	ck_assert_uint_gt(together, 3);
	ck_assert_uint_eq(store_hashes(middle - step, -step, 1000, before), before);
	stored = together + before + store_hashes(middle + step, step, 100, 100);
	do {
		const struct farkv_scan_item *items;
		size_t n;

		OK(farkv_scan(kv, &cursor, FARKV_SCAN_MIN, &items, &n));
		listed += (unsigned)n;
	} while (cursor);
	ck_assert_uint_eq(listed, stored);
}
END_TEST

START_TEST(figures_are_sums_over_the_servers)
{
	struct farkv_stats all = {.size = sizeof(all)}, one = {.size = sizeof(one)};
	struct farkv_server s = {.size = sizeof(s)};
	struct farkv_fsck f = {.size = sizeof(f)};
	uint64_t items = 0, region = 0, partitions = 0, rtt = 0;

	store_all();
	ck_assert_int_eq(farkv_stats(kv, &all), 0);
	for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
		ck_assert_int_eq(farkv_server(kv, i, &s), 0);
		ck_assert_str_eq(s.name, server_names[i]);
		ck_assert_str_eq(s.address, srv[i].path);
		ck_assert_uint_eq(s.epoch, 1);
		ck_assert_str_eq(s.follower, "");
		ck_assert_uint_eq(s.moving, 0);
		partitions += s.partitions;
		ck_assert_int_eq(farkv_stats(s.handle, &one), 0);
		region += one.region_bytes;
		items += one.sets;
	}
	ck_assert_uint_eq(partitions, 4096);
	ck_assert_uint_eq(all.region_bytes, region);
	ck_assert_uint_eq(all.sets, CLUSTER_KEYS);
	ck_assert_uint_eq(items, CLUSTER_KEYS);
	ck_assert_uint_eq(all.max_key, 65535);
	ck_assert_uint_eq(all.grace_ns, 100000000);
	ck_assert_uint_eq(all.followers, 0);
	ck_assert_int_eq(farkv_wait_followers(kv, 1), FARKV_ENOTSUP);
	ck_assert_int_eq(farkv_server(kv, CLUSTER_SERVERS, &s), FARKV_ENOTFOUND);
	ck_assert_int_eq(farkv_fsck(kv, &f), 0);
	ck_assert_uint_eq(f.items, CLUSTER_KEYS);
	ck_assert_int_eq(farkv_ping(kv, &rtt), 0);
	ck_assert_uint_gt(rtt, 0);
}
END_TEST

/* Blocks that are out, of all sizes; sizes grow. */
static uint64_t blocks_out(struct farkv *h)
{
	struct farkv_class c = {.size = sizeof(c)};
	uint64_t sum = 0, last = 0;
	int err;

	while ((err = farkv_class_next(h, &c)) == 0) {
		ck_assert_uint_gt(c.block_bytes, last);
		last = c.block_bytes;
		sum += c.out;
	}
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	return sum;
}

static uint64_t recorded(const struct farkv *h, uint32_t kind)
{
	struct farkv_latency l = {.size = sizeof(l)};

	OK(farkv_latency(h, kind, &l));
	return l.count;
}

START_TEST(latency_is_recorded_by_the_handle_of_all_servers)
{
	struct farkv_latency l = {.size = sizeof(l)};
	struct farkv_server one = {.size = sizeof(one)};
	struct farkv_request reqs[30];
	struct farkv_completion c[30];
	struct farkv_options o;
	struct farkv *h;

	store_all();
	farkv_options_init(&o);
	o.flags = FARKV_OPEN_LATENCY;
	o.connect_timeout_ms = o.op_timeout_ms = CLUSTER_TIMEOUT_MS;
	OK(farkv_open(srv[0].path, &o, &h));
	for (unsigned i = 0; i < 30; i++) {
		OK(e2e_probe(h, keys[i]));
		OK(e2e_put(h, keys[i], "value"));
		OK(e2e_del(h, keys[i]));
	}
	OK(farkv_server(h, 0, &one));
	ck_assert_int_ne(e2e_probe(one.handle, keys[100]), FARKV_EINVAL);
	FAILS(FARKV_EINVAL, farkv_latency(one.handle, FARKV_LATENCY_GET, &l));
	requests_make(reqs, 30, FARKV_REQUEST_EXISTS);
	ck_assert_int_eq(farkv_submit(h, reqs, 30), 30);
	for (int n = 0; n < 30;)
		n += farkv_wait(h, c, 30, CLUSTER_TIMEOUT_MS);
	ck_assert_uint_eq(recorded(h, FARKV_LATENCY_GET), 30);
	ck_assert_uint_eq(recorded(h, FARKV_LATENCY_PUT), 30);
	ck_assert_uint_eq(recorded(h, FARKV_LATENCY_DELETE), 30);
	ck_assert_uint_eq(recorded(h, FARKV_LATENCY_REQUEST), 30);
	farkv_close(h);
	ck_assert_uint_eq(recorded(NULL, FARKV_LATENCY_REQUEST), 30);
}
END_TEST

START_TEST(sizes_of_blocks_are_sums_and_sessions_each_servers)
{
	struct farkv_pause p = {.size = sizeof(p)};
	struct farkv_client c = {.size = sizeof(c)};
	struct farkv_server s = {.size = sizeof(s)};
	uint64_t sum = 0;

	store_all();
	for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
		ck_assert_int_eq(farkv_server(kv, i, &s), 0);
		sum += blocks_out(s.handle);
		c.session = 0;
		ck_assert_int_eq(farkv_client_next(s.handle, &c), 0);
		ck_assert_uint_gt(c.session, 0);
		p.rank = 0;
		ck_assert_int_eq(farkv_pause_next(s.handle, &p), 0);
	}
	ck_assert_uint_ge(sum, CLUSTER_KEYS);
	ck_assert_int_eq(farkv_pause_next(kv, &p), FARKV_ENOTSUP);
	ck_assert_uint_eq(blocks_out(kv), sum);
	c.session = 0;
	ck_assert_int_eq(farkv_client_next(kv, &c), FARKV_ENOTSUP);
	ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "farkv_server()"));
	ck_assert_int_eq(farkv_kill(kv, c.session), FARKV_ENOTSUP);
}
END_TEST

START_TEST(buffers_are_for_values_of_all_servers)
{
	static char own[65536];
	void *buf;

	ck_assert_int_eq(farkv_buf_alloc(kv, 65536, &buf), 0);
	ck_assert_int_eq(farkv_buf_register(kv, own, sizeof(own)), 0);
	ck_assert_int_eq(farkv_buf_register(kv, own, sizeof(own)), FARKV_EINVAL);
	for (unsigned i = 0; i < 20; i++) {
		size_t len = key_make(i), got;

		memset(buf, (int)i, 65536);
		ck_assert_int_eq(farkv_put(kv, keys[i], len, buf, 65536), 0);
		ck_assert_int_eq(farkv_get_into(kv, keys[i], len, own, sizeof(own), &got, NULL), 0);
		ck_assert_mem_eq(own, buf, 65536);
	}
	ck_assert_int_eq(farkv_buf_unregister(kv, buf), FARKV_EINVAL);
	farkv_buf_free(kv, own); /* no effect */
	ck_assert_int_eq(farkv_buf_unregister(kv, own), 0);
	ck_assert_int_eq(farkv_buf_unregister(kv, own), FARKV_EINVAL);
	farkv_buf_free(kv, buf);
}
END_TEST

static void add_what_knows_a_transport(TCase *t)
{
	tcase_add_test(t, put_and_get_go_to_the_server_of_the_key_and_to_no_other);
	tcase_add_test(t, batches_over_all_servers_give_each_item_its_own_result);
	tcase_add_test(t, requests_for_all_servers_are_as_many_as_one_handle_takes);
	tcase_add_test(t, event_fd_is_readable_while_a_server_has_something);
	tcase_add_test(t, scan_lists_the_keys_of_all_servers_once);
	tcase_add_test(t, buffers_are_for_values_of_all_servers);
}

static void add_others(TCase *t)
{
	tcase_add_test(t, every_call_for_one_key_finds_what_the_others_wrote);
	tcase_add_test(t, borrow_is_checked_by_the_server_that_has_the_key);
	tcase_add_test(t, mput_takes_values_that_an_mget_returned);
	tcase_add_test(t, mget_takes_keys_that_an_mget_returned);
	tcase_add_test(t, a_batch_reports_its_first_failure_whichever_server_it_is_of);
	tcase_add_test(t, mput_of_one_key_twice_leaves_the_later_value);
	tcase_add_test(t, a_call_completes_the_requests_of_all_servers);
	tcase_add_test(t, scan_cuts_between_no_keys_that_share_a_position);
	tcase_add_test(t, figures_are_sums_over_the_servers);
	tcase_add_test(t, latency_is_recorded_by_the_handle_of_all_servers);
	tcase_add_test(t, sizes_of_blocks_are_sums_and_sessions_each_servers);
}

static Suite *suite(void)
{
	Suite *s = suite_create("cluster");
	TCase *t = tcase_create("cluster");

	real_server_require();
	tcase_add_checked_fixture(t, cluster_setup, cluster_teardown);
	tcase_set_timeout(t, 600);
	add_what_knows_a_transport(t);
	if (!real_server_skips("other cases", "each starts six servers"))
		add_others(t);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
