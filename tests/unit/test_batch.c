/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_mget(), farkv_mget_into(), farkv_mput() and farkv_mexists() against a real kvserver, and
 * what each operation costs: the table of budgets, by farkv_counters().
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define ITEMS_MAX 1000

static struct real_server srv;
static struct farkv *kv;

/* A long T: a slow moment of this machine costs no extra READ. */
static const char *const args[] = {"-m", "64m", "-I", "1m",
				   "--index-slots", "131072",
				   "--grace-ms", "2000", NULL};

static void setup(void)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 5000);
}

/* tests/guest/rdma_count.c counts operations on cached keys. */
static void setup_searching(void)
{
	struct farkv_options o;

	real_server_init(&srv, args);
	farkv_options_init(&o);
	o.connect_timeout_ms = 60000;
	o.cache_entries = 0;
	OK(farkv_open(srv.path, &o, &kv));
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- batches --------------------------------------------------------------- */

/* Item i has key `i % distinct`; its value names i and has its own length. */
struct batch {
	size_t n, distinct;
	uint32_t key[ITEMS_MAX];
	uint8_t value[ITEMS_MAX][300];
	struct farkv_put_item put[ITEMS_MAX];
	struct farkv_get_item get[ITEMS_MAX];
};

static size_t value_len(size_t i)
{
	return i * 7 % sizeof(((struct batch *)NULL)->value[0]);
}

static void batch_fill(struct batch *b, size_t n, size_t distinct)
{
	memset(b, POISON, sizeof(*b));
	b->n = n;
	b->distinct = distinct;
	for (size_t i = 0; i < n; i++) {
		b->key[i] = (uint32_t)(i % distinct);
		e2e_fill(b->value[i], value_len(i), i);
		b->put[i].key = &b->key[i];
		b->put[i].key_len = sizeof(b->key[i]);
		b->put[i].value = b->value[i];
		b->put[i].value_len = value_len(i);
		b->get[i].key = &b->key[i];
		b->get[i].key_len = sizeof(b->key[i]);
	}
}

/* The last item that was put under item i's key. */
static size_t winner(const struct batch *b, size_t i)
{
	size_t last = i % b->distinct;

	while (last + b->distinct < b->n)
		last += b->distinct;
	return last;
}

/* Every third key is deleted between: its items must miss. */
static bool is_gone(const struct batch *b, size_t i)
{
	return b->key[i] % 3 == 2;
}

static void batch_check(const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct farkv_get_item *it = &b->get[i];
		size_t last = winner(b, i);

		if (is_gone(b, i)) {
			ck_assert_int_eq(it->result, FARKV_ENOTFOUND);
			ck_assert(e2e_poisoned(&it->value, sizeof(it->value)));
			continue;
		}
		ck_assert_int_eq(it->result, 0);
		ck_assert_uint_eq(it->value.len, value_len(last));
		ck_assert_ptr_nonnull(it->value.data);
		ck_assert(memcmp(it->value.data, b->value[last],
				 it->value.len) == 0);
		ck_assert_uint_ne(it->value.version, 0);
	}
}

static const struct {
	size_t n, distinct;
} batches[] = {{1, 1},	   {2, 1},	{127, 127},  {128, 128}, {128, 5},
	       {129, 129}, {129, 128},	{256, 256},  {257, 200}, {1000, 333},
	       /* By software RDMA they take long, and have no other numbers of groups. */
	       {1000, 1000}, {1000, 1}, {1000, 129}};

static size_t batches_tried(void)
{
	size_t n = sizeof(batches) / sizeof(batches[0]);

	return real_server_is_remote() ? n - 3 : n;
}

/* Large values: of several groups they are many bytes. */
static size_t large_len(void)
{
	return real_server_is_remote() ? 20000 : 100000;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST_LOOP(batch_of_any_length_does_what_single_calls_do, 0, batches_tried())
{
	struct batch *b = malloc(sizeof(*b));
	uint32_t key;

	batch_fill(b, batches[_i].n, batches[_i].distinct);
	OK(farkv_mput(kv, b->put, b->n));
	for (size_t i = 0; i < b->n; i++)
		ck_assert_int_eq(b->put[i].result, 0);
	for (key = 2; key < b->distinct; key += 3)
		OK(farkv_delete(kv, &key, sizeof(key)));
	OK(farkv_mget(kv, b->get, b->n));
	batch_check(b);
	/* Single calls return the same. */
	for (size_t i = 0; i < b->n; i += 37) {
		size_t last = winner(b, i);
		struct farkv_value v;

		if (is_gone(b, i))
			continue;
		OK(farkv_get(kv, &b->key[i], sizeof(b->key[i]), &v));
		ck_assert_uint_eq(v.len, value_len(last));
		ck_assert_uint_eq(v.version, b->get[i].value.version);
	}
	/* Over what is there, and over what was deleted. */
	OK(farkv_mput(kv, b->put, b->n));
	OK(farkv_mget(kv, b->get, b->n));
	for (size_t i = 0; i < b->n; i++) {
		ck_assert_int_eq(b->get[i].result, 0);
		ck_assert_uint_eq(b->get[i].value.len,
				  value_len(winner(b, i)));
	}
	free(b);
}

/* ---- mexists --------------------------------------------------------------- */

/* Asks for the keys of a batch. */
struct question {
	struct farkv_key key[ITEMS_MAX];
	uint8_t bitmap[ITEMS_MAX / 8 + 2];
	size_t prefix;
};

static int ask(struct question *q, const struct batch *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		q->key[i] = (struct farkv_key){&b->key[i], sizeof(b->key[i])};
	memset(q->bitmap, POISON, sizeof(q->bitmap));
	q->prefix = 12345;
	return farkv_mexists(kv, q->key, n, q->bitmap, &q->prefix);
}

static bool is_set(const struct question *q, size_t i)
{
	return q->bitmap[i / 8] >> i % 8 & 1;
}

/* Bits after the last key are 0, bytes after the last bit are not touched. */
static void check_rest(const struct question *q, size_t n)
{
	size_t bytes = (n + 7) / 8;

	for (size_t i = n; i < bytes * 8; i++)
		ck_assert(!is_set(q, i));
	ck_assert(e2e_poisoned(&q->bitmap[bytes], sizeof(q->bitmap) - bytes));
}

TEST_LOOP(mexists_of_any_length_tells_which_keys_have_values, 0, batches_tried())
{
	struct batch *b = malloc(sizeof(*b));
	struct question *q = malloc(sizeof(*q));
	size_t n = batches[_i].n, first = 2;

	batch_fill(b, n, batches[_i].distinct);
	OK(ask(q, b, n));
	ck_assert_uint_eq(q->prefix, 0);
	for (size_t i = 0; i < n; i++)
		ck_assert(!is_set(q, i));
	check_rest(q, n);
	OK(farkv_mput(kv, b->put, n));
	OK(ask(q, b, n));
	ck_assert_uint_eq(q->prefix, n);
	for (size_t i = 0; i < n; i++)
		ck_assert(is_set(q, i));
	check_rest(q, n);
	for (uint32_t key = 2; key < b->distinct; key += 3)
		OK(farkv_delete(kv, &key, sizeof(key)));
	OK(ask(q, b, n));
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(is_set(q, i), !is_gone(b, i));
	ck_assert_uint_eq(q->prefix, b->distinct > first ? first : n);
	/* Either output alone. */
	q->prefix = 12345;
	OK(farkv_mexists(kv, q->key, n, NULL, &q->prefix));
	ck_assert_uint_eq(q->prefix, b->distinct > first ? first : n);
	OK(farkv_mexists(kv, q->key, n, q->bitmap, NULL));
	ck_assert_int_eq(is_set(q, 0), true);
	free(q);
	free(b);
}

/* The prefix ends at the first key without a value, also in a later group. */
TEST(mexists_counts_the_keys_before_the_first_missing_one)
{
	static const size_t missing[] = {0, 1, 7, 8, 127, 128, 129, 255, 299};
	struct batch *b = malloc(sizeof(*b));
	struct question *q = malloc(sizeof(*q));

	batch_fill(b, 300, 300);
	for (size_t m = 0; m < sizeof(missing) / sizeof(missing[0]); m++) {
		uint32_t key = (uint32_t)missing[m];

		OK(farkv_mput(kv, b->put, 300));
		OK(farkv_delete(kv, &key, sizeof(key)));
		OK(ask(q, b, 300));
		ck_assert_uint_eq(q->prefix, missing[m]);
		for (size_t i = 0; i < 300; i++)
			ck_assert_int_eq(is_set(q, i), i != missing[m]);
	}
	free(q);
	free(b);
}

/* What cannot be asked counts as missing, and the others are answered. */
TEST(mexists_with_a_bad_key_answers_the_others)
{
	struct batch *b = malloc(sizeof(*b));
	struct question *q = malloc(sizeof(*q));

	batch_fill(b, 300, 300);
	OK(farkv_mput(kv, b->put, 300));
	OK(ask(q, b, 300));
	q->key[200].key_len = 0;
	q->key[250].key_len = 70000;
	FAILS(FARKV_EINVAL, farkv_mexists(kv, q->key, 300, q->bitmap, &q->prefix));
	e2e_detail("item 201 of 300");
	ck_assert_uint_eq(q->prefix, 200);
	for (size_t i = 0; i < 300; i++)
		ck_assert_int_eq(is_set(q, i), i != 200 && i != 250);
	FAILS(FARKV_EINVAL, farkv_mexists(kv, NULL, 300, q->bitmap, &q->prefix));
	e2e_detail("keys is NULL");
	ck_assert_uint_eq(q->prefix, 0);
	for (size_t i = 0; i < 300; i++)
		ck_assert(!is_set(q, i));
	free(q);
	free(b);
}

/* Large values of several groups stay valid together. */
TEST(mget_of_large_values_in_several_groups_keeps_all_valid)
{
	enum { N = 150 };
	static struct farkv_get_item it[N];
	static unsigned key[N];
	const size_t len = large_len();
	uint8_t *value = malloc(len);

	for (unsigned i = 0; i < N; i++) {
		key[i] = i;
		e2e_fill(value, len - i, i);
		OK(farkv_put(kv, &i, sizeof(i), value, len - i));
		it[i].key = &key[i];
		it[i].key_len = sizeof(key[i]);
	}
	OK(farkv_mget(kv, it, N));
	for (unsigned i = 0; i < N; i++) {
		e2e_fill(value, len - i, i);
		ck_assert_int_eq(it[i].result, 0);
		ck_assert_uint_eq(it[i].value.len, len - i);
		ck_assert(memcmp(it[i].value.data, value, len - i) == 0);
	}
	free(value);
}

/* Items with buffers of their own, of `cap` bytes each. */
static struct farkv_get_into_item *into_items(const struct batch *b, uint8_t *mem, size_t cap)
{
	struct farkv_get_into_item *it = calloc(b->n, sizeof(*it));

	memset(mem, POISON, b->n * cap);
	for (size_t i = 0; i < b->n; i++)
		it[i] = (struct farkv_get_into_item){.key = &b->key[i],
						     .key_len = sizeof(b->key[i]),
						     .buf = mem + i * cap,
						     .cap = cap,
						     .len = SIZE_MAX};
	return it;
}

/* What mget of the same keys has returned. */
static void check_into(const struct farkv_get_into_item *it, const struct farkv_get_item *want)
{
	int result = want->result == 0 && want->value.len > it->cap ? FARKV_ETOOSMALL :
								      want->result;

	ck_assert_int_eq(it->result, result);
	if (want->result) {
		ck_assert_uint_eq(it->len, SIZE_MAX);
		ck_assert(e2e_poisoned(it->buf, it->cap));
		return;
	}
	ck_assert_uint_eq(it->len, want->value.len);
	if (result == 0) {
		ck_assert_uint_eq(it->version, want->value.version);
		ck_assert(memcmp(it->buf, want->value.data, it->len) == 0);
	}
}

static void compare_with_mget(size_t n, size_t distinct)
{
	struct batch *b = malloc(sizeof(*b));
	uint8_t *mem = malloc(ITEMS_MAX * sizeof(b->value[0]));
	struct farkv_get_into_item *it;
	uint32_t key;

	batch_fill(b, n, distinct);
	OK(farkv_mput(kv, b->put, b->n));
	for (key = 2; key < b->distinct; key += 3)
		OK(farkv_delete(kv, &key, sizeof(key)));
	it = into_items(b, mem, sizeof(b->value[0]));
	OK(farkv_mget(kv, b->get, b->n));
	/* The keys may be what mget has returned. */
	OK(farkv_mget_into(kv, it, b->n));
	OK(farkv_mget(kv, b->get, b->n));
	for (size_t i = 0; i < b->n; i++)
		check_into(&it[i], &b->get[i]);
	free(it);
	free(mem);
	free(b);
}

TEST(mget_into_returns_what_mget_returns)
{
	for (size_t i = 0; i < batches_tried(); i++)
		compare_with_mget(batches[i].n, batches[i].distinct);
}

TEST(mget_into_small_buffers_tells_the_lengths)
{
	enum { CAP = 100 };
	struct batch *b = malloc(sizeof(*b));
	uint8_t *mem = malloc(ITEMS_MAX * CAP);
	struct farkv_get_into_item *it;

	batch_fill(b, 300, 300);
	OK(farkv_mput(kv, b->put, b->n));
	it = into_items(b, mem, CAP);
	it[3].buf = NULL;
	it[4] = (struct farkv_get_into_item){.key = b->get[4].key, .key_len = 4};
	it[5].key_len = 0;
	FAILS(FARKV_EINVAL, farkv_mget_into(kv, it, b->n));
	e2e_detail("item 4 of 300: buf is NULL");
	ck_assert_int_eq(it[3].result, FARKV_EINVAL);
	ck_assert_int_eq(it[4].result, FARKV_ETOOSMALL);
	ck_assert_uint_eq(it[4].len, value_len(4));
	ck_assert_int_eq(it[5].result, FARKV_EINVAL);
	it[3].buf = it[5].buf;
	it[5] = it[4];
	FAILS(FARKV_ETOOSMALL, farkv_mget_into(kv, it, b->n));
	e2e_detail("item 5 of 300: the value has 28 bytes, the buffer 0");
	OK(farkv_mget(kv, b->get, b->n));
	for (size_t i = 6; i < b->n; i++)
		check_into(&it[i], &b->get[i]);
	free(it);
	free(mem);
	free(b);
}

/* Of several groups, with one that is too long; each goes to its buffer directly. */
TEST(mget_into_of_large_values_fills_all_buffers)
{
	enum { N = 140 };
	const size_t len = large_len();
	static struct farkv_get_into_item it[N];
	static struct farkv_get_item get[N];
	static unsigned key[N];
	uint8_t *value = malloc(len), *mem = malloc(N * len);

	OK(farkv_buf_register(kv, mem, N * len));
	for (unsigned i = 0; i < N; i++) {
		key[i] = i;
		e2e_fill(value, len - i, i);
		OK(farkv_put(kv, &i, sizeof(i), value, len - i));
		it[i] = (struct farkv_get_into_item){.key = &key[i],
						     .key_len = sizeof(key[i]),
						     .buf = mem + i * len,
						     .cap = i == 70 ? 10000 : len};
	}
	FAILS(FARKV_ETOOSMALL, farkv_mget_into(kv, it, N));
	e2e_detail(real_server_is_remote() ?
			   "item 71 of 140: the value has 19930 bytes, the buffer 10000" :
			   "item 71 of 140: the value has 99930 bytes, the buffer 10000");
	for (unsigned i = 0; i < N; i++) {
		e2e_fill(value, len - i, i);
		ck_assert_int_eq(it[i].result, i == 70 ? FARKV_ETOOSMALL : 0);
		ck_assert_uint_eq(it[i].len, len - i);
		ck_assert(i == 70 || memcmp(it[i].buf, value, len - i) == 0);
	}
	/* The next mget does not write to them. */
	memset(mem, POISON, N * len);
	for (unsigned i = 0; i < N; i++)
		get[i] = (struct farkv_get_item){.key = &key[i], .key_len = sizeof(key[i])};
	OK(farkv_mget(kv, get, N));
	ck_assert(e2e_poisoned(mem, N * len));
	OK(farkv_buf_unregister(kv, mem));
	free(mem);
	free(value);
}

TEST(batch_with_a_bad_item_does_the_others)
{
	static uint8_t big[(1 << 20) + 1];
	struct batch *b = malloc(sizeof(*b));

	batch_fill(b, 300, 300);
	b->put[7].value = big;
	b->put[7].value_len = sizeof(big);
	b->put[200].key_len = 0;
	FAILS(FARKV_ETOOLARGE, farkv_mput(kv, b->put, b->n));
	e2e_detail("item 8 of 300");
	b->get[8].key = NULL;
	FAILS(FARKV_EINVAL, farkv_mget(kv, b->get, b->n));
	e2e_detail("item 9 of 300");
	for (size_t i = 0; i < b->n; i++) {
		int put = i == 7   ? FARKV_ETOOLARGE
			  : i == 200 ? FARKV_EINVAL
				     : 0;
		int get = i == 8   ? FARKV_EINVAL
			  : put ? FARKV_ENOTFOUND
				     : 0;

		ck_assert_int_eq(b->put[i].result, put);
		ck_assert_int_eq(b->get[i].result, get);
	}
	free(b);
}

/* ---- budgets --------------------------------------------------------------- */

struct budget {
	const char *what;
	unsigned round_trips, reads, writes, cas;
	uint64_t n; /* doorbells */
	unsigned chance; /* extra READs for keys that share a fingerprint */
	/* Where words tear: */
	unsigned gets;    /* READ their window twice */
	unsigned refused; /* READ it again after the block of another key */
};

static struct farkv_counters before;

static void budget_begin(void)
{
	before.size = sizeof(before);
	OK(farkv_counters(kv, &before));
}

/* Exactly these counts without rivals; over shared memory 0. */
static void budget_end(const struct budget *b)
{
	struct farkv_counters c = {.size = sizeof(c)};
	struct budget quiet = {0};
	unsigned more = b->chance && b->round_trips == 1 ? 2 : 0;
	bool tears = real_server_tears();
	unsigned trips = b->round_trips + (tears ? b->refused : 0);
	unsigned reads = b->reads + (tears ? b->gets + b->refused : 0);

	OK(farkv_counters(kv, &c));
	if (!real_server_is_remote()) { /* loads and stores are no requests */
		trips = reads = 0;
		quiet.what = b->what;
		b = &quiet;
	}
	printf("  %-28s %4llu %6llu %7llu %5llu %10llu\n", b->what,
	       (unsigned long long)(c.round_trips - before.round_trips),
	       (unsigned long long)(c.reads - before.reads),
	       (unsigned long long)(c.writes - before.writes),
	       (unsigned long long)(c.cas - before.cas),
	       (unsigned long long)(c.doorbells - before.doorbells));
	fflush(stdout);
	ck_assert_uint_ge(c.round_trips - before.round_trips, trips);
	/*
	 * Without other READs another key's block takes one more, and one more for the
	 * window where words may tear.
	 */
	ck_assert_uint_le(c.round_trips - before.round_trips, trips + more);
	ck_assert_uint_ge(c.reads - before.reads, reads);
	ck_assert_uint_le(c.reads - before.reads, reads + 2 * b->chance);
	ck_assert_uint_eq(c.writes - before.writes, b->writes);
	ck_assert_uint_eq(c.cas - before.cas, b->cas);
	ck_assert_uint_eq(c.doorbells - before.doorbells,
			  c.round_trips - before.round_trips);
	ck_assert_uint_eq(c.retries, before.retries);
}

/* With blocks and all locations cached no call needs the server. */
static void budget_warm(void)
{
	for (int i = 0; i < 40; i++)
		OK(e2e_put(kv, i % 2 ? "here" : "other", "value"));
}

TEST_GROUP(.setup = setup_searching, .teardown = teardown);

TEST(single_calls_keep_to_their_round_trips)
{
	static const struct budget
		get_hit = {"GET, hit", 2, 2, 0, 0, 1, 0, 1, 0},
		get_miss = {"GET, miss", 1, 1, 0, 0, 1, 0, 1, 0},
		over = {"PUT over a value", 3, 2, 1, 1, 1, 0, 0, 0},
		fresh = {"PUT of a new key", 2, 1, 1, 1, 1, 0, 0, 0},
		add = {"ADD of a new key", 2, 1, 1, 1, 1, 0, 0, 0},
		exists = {"ADD, key exists", 2, 2, 0, 0, 1, 0, 0, 1},
		repl = {"REPLACE", 3, 2, 1, 1, 1, 0, 0, 0},
		cas = {"CAS", 3, 2, 1, 1, 1, 0, 0, 0},
		del = {"DELETE", 3, 2, 0, 1, 1, 0, 0, 0},
		dead = {"GET of a deleted key", 1, 1, 0, 0, 1, 0, 1, 0},
		there = {"EXISTS", 2, 2, 0, 0, 1, 0, 1, 0},
		not_there = {"EXISTS, missing", 1, 1, 0, 0, 1, 0, 1, 0};
	uint64_t version;

	printf("  %-28s %4s %6s %7s %5s %10s\n", "uncached", "RTT", "READs",
	       "WRITEs", "CASs", "doorbells");
	budget_warm();
#define COSTS(b, call)             \
	do {                       \
		budget_begin();    \
		call;              \
		budget_end(&(b));  \
	} while (0)
	COSTS(get_hit, e2e_expect_str(kv, "here", "value"));
	COSTS(get_miss, FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "nobody")));
	COSTS(there, OK(farkv_exists(kv, "here", 4)));
	COSTS(not_there, FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "nobody", 6)));
	COSTS(over, OK(e2e_put(kv, "here", "again")));
	COSTS(fresh, OK(e2e_put(kv, "new", "value")));
	COSTS(add, OK(farkv_add(kv, "newer", 5, "v", 1)));
	COSTS(exists, FAILS(FARKV_EEXISTS, farkv_add(kv, "new", 3, "v", 1)));
	COSTS(repl, OK(farkv_replace(kv, "new", 3, "v", 1)));
	version = e2e_version(kv, "new");
	COSTS(cas, OK(farkv_cas(kv, "new", 3, "w", 1, version, NULL)));
	COSTS(del, OK(e2e_del(kv, "new")));
	COSTS(dead, FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "new")));
}

/* All the GETs of a group share their round trips. */
TEST(mget_of_a_group_shares_its_round_trips)
{
	static const struct budget
		hits = {"128 GETs, hits", 2, 256, 0, 0, 128, 16, 128, 0},
		misses = {"128 GETs, misses", 1, 128, 0, 0, 128, 16, 128, 0},
		one = {"mget of 1", 2, 2, 0, 0, 1, 1, 1, 0},
		two = {"129 GETs, hits", 4, 258, 0, 0, 129, 16, 129, 0},
		puts = {"100 PUTs over values", 3, 200, 100, 100, 100, 16, 0, 0},
		there = {"128 EXISTS", 2, 256, 0, 0, 128, 16, 128, 0},
		not_there = {"128 EXISTS, missing", 1, 128, 0, 0, 128, 16, 128, 0};
	struct batch *b = malloc(sizeof(*b));
	struct question *q = malloc(sizeof(*q));
	static struct farkv_get_into_item into[129];

	batch_fill(b, 300, 300);
	OK(farkv_mput(kv, b->put, 300));
	for (size_t i = 0; i < 300; i++) /* one size: no class is missing */
		b->put[i].value_len = 10;
	for (int i = 0; i < 4; i++)
		OK(farkv_mput(kv, b->put, 300));
	COSTS(one, OK(farkv_mget(kv, b->get, 1)));
	COSTS(hits, OK(farkv_mget(kv, b->get, 128)));
	COSTS(two, OK(farkv_mget(kv, b->get, 129)));
	for (size_t i = 0; i < 129; i++)
		into[i] = (struct farkv_get_into_item){.key = b->get[i].key,
						       .key_len = b->get[i].key_len,
						       .buf = b->value[i],
						       .cap = sizeof(b->value[i])};
	COSTS(hits, OK(farkv_mget_into(kv, into, 128)));
	COSTS(two, OK(farkv_mget_into(kv, into, 129)));
	COSTS(puts, OK(farkv_mput(kv, b->put, 100)));
	COSTS(there, OK(ask(q, b, 128)));
	ck_assert_uint_eq(q->prefix, 128);
	for (size_t i = 0; i < 128; i++)
		b->key[i] += 100000;
	COSTS(misses, OK(farkv_mget(kv, b->get, 128)));
	COSTS(not_there, OK(ask(q, b, 128)));
	ck_assert_uint_eq(q->prefix, 0);
	free(q);
	free(b);
}

TEST_SUITE("batch", real_server_require())
