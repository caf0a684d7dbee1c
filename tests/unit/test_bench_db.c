/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract of every binding of kvbench (bench/store/db.h), tested on the stores in
 * the process and on those whose server is installed: values of all lengths come back
 * whole, a batch returns its values side by side and reports missing keys, and removed
 * keys are gone.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/store/address.h"
#include "bench/store/db.h"
#include "bench/compare/rival.h"
#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define VALUE_MAX 4000u
#define RECORDS 2000u
#define ITEMS 40u

static struct props props;
static struct rivals rivals;
static const struct rival *server;
static struct db_store *store;
static struct db *db;

/* False if it is not installed. */
static bool begin_server(const char *name)
{
	struct rival_plan plan = {
		.bytes = 64u << 20,
		.value_len = VALUE_MAX,
		.threads = 1,
		.kvserver = getenv("KVSERVER"),
	};
	char key[32], uri[160];
	int err;

	ck_assert_int_eq(rivals_begin(&rivals), 0);
	err = rival_start(&rivals, name, &plan, &server);
	if (err == FARKV_ENOTSUP) {
		printf("  left out: %s\n", err_detail());
		rivals_end(&rivals);
		return false;
	}
	ck_assert_msg(err == 0, "%s", err_detail());
	snprintf(key, sizeof(key), "%s.uri", name);
	snprintf(uri, sizeof(uri), "%s%s",
		 strcmp(name, "farkv") ? "" : "shm://", server->socket);
	ck_assert_int_eq(props_set(&props, key, uri, "test"), 0);
	return true;
}

/* False if this build has no such binding, or this machine no such server. */
static bool begin(const char *name, size_t value_len)
{
	const struct db_ops *ops = db_find(name, strlen(name));
	struct db_setup setup = {
		.props = &props,
		.threads = 1,
		.records = RECORDS,
		.key_prefix = "user",
		.key_len = 16,
		.value_len = value_len,
		.queue_depth = 8,
	};

	if (!ops) {
		printf("  left out: %s was not built\n", name);
		return false;
	}
	if (!strcmp(name, "farkv") && !getenv("KVSERVER")) {
		printf("  left out: KVSERVER is not set\n");
		return false;
	}
	if (rival_known(name) && !begin_server(name))
		return false;
	ck_assert_msg(ops->init(&setup, &store) == 0, "%s", err_detail());
	ck_assert_msg(ops->open(store, &db) == 0, "%s", err_detail());
	return true;
}

static void end(void)
{
	char dir[sizeof(rivals.dir)];
	pid_t pid;

	db->ops->close(db);
	store->ops->fini(store);
	props_free(&props);
	if (!server)
		return;
	pid = server->pid;
	memcpy(dir, rivals.dir, sizeof(dir));
	ck_assert_int_eq(access(dir, F_OK), 0);
	rivals_end(&rivals);
	ck_assert_int_eq(kill(pid, 0), -1);
	ck_assert_int_ne(access(dir, F_OK), 0);
	server = NULL;
}

static const char *key_of(unsigned i)
{
	static char text[ITEMS][24];
	char *at = text[i % ITEMS];

	snprintf(at, sizeof(text[0]), "user%012u", i);
	return at;
}

static void fill(char *value, unsigned seed, size_t len)
{
	for (size_t i = 0; i < len; i++)
		value[i] = (char)('a' + (seed + i * 7) % 26);
}

static void put(unsigned i, unsigned seed, size_t len)
{
	char value[VALUE_MAX];

	fill(value, seed, len);
	ck_assert_int_eq(db->ops->update(db, key_of(i), 16, value, len), DB_OK);
}

static void has(const struct db_value *v, unsigned seed, size_t len)
{
	char value[VALUE_MAX];

	fill(value, seed, len);
	ck_assert_uint_eq(v->len, len);
	ck_assert_mem_eq(v->data, value, len);
}

static void gives(unsigned i, unsigned seed, size_t len)
{
	struct db_value v = {NULL, 12345};

	ck_assert_int_eq(db->ops->read(db, key_of(i), 16, &v), DB_OK);
	has(&v, seed, len);
}

static void lengths(size_t max)
{
	const size_t lens[] = {1, 2, max / 2, max - 1, max};
	struct db_value v;

	ck_assert_int_eq(db->ops->read(db, key_of(0), 16, &v), DB_NOT_FOUND);
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
		put(i, i, lens[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
		gives(i, i, lens[i]);
	/* Shorter and longer than what was there. */
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		put(0, 10 + i, lens[ARRAY_SIZE(lens) - 1 - i]);
		gives(0, 10 + i, lens[ARRAY_SIZE(lens) - 1 - i]);
	}
}

static void removal(void)
{
	struct db_value v;

	put(7, 1, 50);
	ck_assert_int_eq(db->ops->remove(db, key_of(7), 16), DB_OK);
	ck_assert_int_eq(db->ops->read(db, key_of(7), 16, &v), DB_NOT_FOUND);
	ck_assert_int_eq(db->ops->remove(db, key_of(7), 16), DB_NOT_FOUND);
	put(7, 2, 50);
	gives(7, 2, 50);
}

static void batches(size_t max)
{
	static char value[ITEMS][VALUE_MAX];
	struct db_item items[ITEMS + 3];

	for (unsigned i = 0; i < ITEMS; i++) {
		size_t len = 1 + i * (max - 1) / (ITEMS - 1);

		fill(value[i], 100 + i, len);
		items[i] = (struct db_item){.key = key_of(i),
					    .key_len = 16,
					    .value = {value[i], len},
					    .status = DB_ERROR};
	}
	db->ops->write_many(db, items, ITEMS);
	for (unsigned i = 0; i < ITEMS; i++) {
		ck_assert_int_eq(items[i].status, DB_OK);
		items[i].value = (struct db_value){NULL, 0};
		items[i].status = DB_ERROR;
	}
	/* A present key twice, a missing key twice, then the first key again. */
	items[3] = items[2];
	items[5].key = items[6].key = "nobody0123456789";
	items[ITEMS] = items[0];
	items[ITEMS + 1] = items[5];
	items[ITEMS + 2] = items[ITEMS - 1];
	db->ops->read_many(db, items, ITEMS + 3);
	for (unsigned i = 0; i < ITEMS + 3; i++) {
		unsigned is = i == 3 ? 2 : i == ITEMS ? 0 : i;

		if (i == 5 || i == 6 || i == ITEMS + 1) {
			ck_assert_int_eq(items[i].status, DB_NOT_FOUND);
			continue;
		}
		is = i == ITEMS + 2 ? ITEMS - 1 : is;
		ck_assert_int_eq(items[i].status, DB_OK);
		has(&items[i].value, 100 + is, 1 + is * (max - 1) / (ITEMS - 1));
	}
}

/* Which keys are there, without their values; of more than one batch. */
static void presence(void)
{
	static char keys[3 * DB_BATCH_MAX][24];
	static struct db_item items[3 * DB_BATCH_MAX];
	size_t n = ARRAY_SIZE(items);

	for (size_t i = 0; i < n; i++) {
		snprintf(keys[i], sizeof(keys[i]), "here%012zu", i);
		items[i] = (struct db_item){.key = keys[i], .key_len = 16};
		if (i % 3)
			ck_assert_int_eq(db->ops->update(db, keys[i], 16, "x",
							 1),
					 DB_OK);
	}
	db_exists(db, items, n);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(items[i].status,
				 i % 3 ? DB_OK : DB_NOT_FOUND);
}

/* Values go to the caller's memory, and one that is too long does not. */
static void own_memory(size_t max)
{
	struct db_item items[4];
	char *memory = db_buf_new(db, ARRAY_SIZE(items) * max);

	ck_assert_ptr_nonnull(memory);
	for (unsigned i = 0; i < ARRAY_SIZE(items); i++) {
		put(i, 50 + i, max - i);
		items[i] = (struct db_item){.key = key_of(i),
					    .key_len = 16,
					    .into = memory + i * max,
					    .cap = max};
	}
	items[1].key = "nobody0123456789";
	items[3].cap = max - 4;
	db_read_into(db, items, ARRAY_SIZE(items));
	ck_assert_int_eq(items[1].status, DB_NOT_FOUND);
	ck_assert_int_eq(items[3].status, DB_UNEXPECTED_STATE);
	for (unsigned i = 0; i < 3; i += 2) {
		ck_assert_int_eq(items[i].status, DB_OK);
		ck_assert_ptr_eq(items[i].value.data, memory + i * max);
		has(&items[i].value, 50 + i, max - i);
	}
	db_buf_free(db, memory);
}

/* Far enough that no machine is too slow; that values expire is the stores' affair. */
#define LONG_MS UINT64_C(3600000)

static void lifetimes(void)
{
	struct db_value v = {"12345", 5};

	if (!db->ops->update_ttl)
		return;
	ck_assert_int_eq(db->ops->update_ttl(db, key_of(1), 16, v, LONG_MS),
			 DB_OK);
	ck_assert_int_eq(db->ops->read(db, key_of(1), 16, &v), DB_OK);
	ck_assert_uint_eq(v.len, 5);
	/* Until it has expired. */
	v = (struct db_value){"1", 1};
	ck_assert_int_eq(db->ops->update_ttl(db, key_of(1), 16, v, 1), DB_OK);
	while (db->ops->read(db, key_of(1), 16, &v) == DB_OK)
		clock_sleep_ns(NS_PER_MS);
	ck_assert_int_eq(db->ops->read(db, key_of(1), 16, &v), DB_NOT_FOUND);
}

static const char *const names[] = {"lmdb", "libcuckoo", "memcached", "redis", "farkv"};

TEST_EACH(bindings_keep_their_contract, names)
{
	static const size_t max[] = {100, VALUE_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(max); i++) {
		if (!begin(names[_i], max[i]))
			return;
		lengths(max[i]);
		removal();
		batches(max[i]);
		presence();
		own_memory(max[i]);
		lifetimes();
		ck_assert_ptr_nonnull(db->ops->error(db));
		end();
	}
}

TEST_EACH(bindings_hold_all_records, names)
{
	if (!begin(names[_i], 100))
		return;
	for (unsigned i = 0; i < RECORDS; i++)
		put(i, i, 100);
	for (unsigned i = 0; i < RECORDS; i++)
		gives(i, i, 100);
	end();
}

/* Polls until both requests have ended, in one poll. */
static void poll_two(struct db_completion *by_tag)
{
	struct db_completion c[DB_POLL_MAX];
	size_t n = 0;

	for (int i = 0; i < 10000 && !n; i++)
		ck_assert_int_eq(db->ops->poll(db, c, &n), DB_OK);
	ck_assert_uint_eq(n, 2);
	for (size_t i = 0; i < n; i++)
		by_tag[c[i].tag] = c[i];
}

TEST(farkv_gives_each_failed_request_its_reason)
{
	static char value[1];
	struct db_request too_long = {.key = key_of(0),
				      .key_len = FARKV_KEY_MAX + 1,
				      .write = true,
				      .value = {value, 1}};
	struct db_request missing = {.key = key_of(0), .key_len = 16};
	struct db_completion end_of[2];

	if (!getenv("KVSERVER") || !begin("farkv", 100))
		return;
	for (unsigned last = 0; last < 2; last++) {
		too_long.tag = 1 - last;
		missing.tag = last;
		ck_assert_int_eq(db->ops->submit(db, last ? &too_long
							  : &missing), DB_OK);
		ck_assert_int_eq(db->ops->submit(db, last ? &missing
							  : &too_long), DB_OK);
		poll_two(end_of);
		ck_assert_int_eq(end_of[last].status, DB_NOT_FOUND);
		ck_assert_str_eq(end_of[last].why,
				 farkv_strerror(FARKV_ENOTFOUND));
		ck_assert_int_eq(end_of[1 - last].status, DB_BAD_REQUEST);
		ck_assert_str_ne(end_of[1 - last].why, end_of[last].why);
	}
	end();
}

/* A batch is as many operations as it has items. */
TEST(null_store_delays_each_item_of_a_batch)
{
	struct db_item items[ITEMS] = {{.key = "user", .key_len = 4}};
	uint64_t start;

	ck_assert_int_eq(props_set(&props, "null.delay_us", "2000", "test"), 0);
	ck_assert_int_eq(props_set(&props, "null.stall_ms", "300", "test"), 0);
	ck_assert_int_eq(props_set(&props, "null.stall_at", "60", "test"), 0);
	ck_assert(begin("null", 100));
	start = clock_now_ns();
	db->ops->read_many(db, items, ITEMS);
	ck_assert_uint_ge(clock_now_ns() - start, ITEMS * 2 * NS_PER_MS);
	/* The 60th is in the middle of this one. */
	start = clock_now_ns();
	db->ops->write_many(db, items, ITEMS);
	ck_assert_uint_ge(clock_now_ns() - start,
			  (ITEMS * 2 + 300) * NS_PER_MS);
	end();
}

/* A server that is gone gives "service not available" with a reason. */
TEST_LOOP(bindings_notice_a_dead_server, 0, 2)
{
	const char *name = names[2 + _i];
	struct db_item item = {.key = "user000000000000", .key_len = 16};
	struct db_value v;
	siginfo_t info;

	if (!begin(name, 100))
		return;
	put(0, 0, 100);
	ck_assert_int_eq(kill(server->pid, SIGKILL), 0);
	/* Dead, its end of the connection closed. */
	ck_assert_int_eq(waitid(P_PID, (id_t)server->pid, &info,
				WEXITED | WNOWAIT),
			 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(db->ops->read(db, key_of(0), 16, &v),
				 DB_SERVICE_UNAVAILABLE);
	ck_assert_int_eq(db->ops->update(db, key_of(0), 16, "x", 1),
			 DB_SERVICE_UNAVAILABLE);
	db->ops->read_many(db, &item, 1);
	ck_assert_int_eq(item.status, DB_SERVICE_UNAVAILABLE);
	ck_assert_int_ne(db->ops->error(db)[0], '\0');
	end();
}

/* A refusal of memcached is reported, and the connection goes on. */
TEST(memcached_refuses_and_goes_on)
{
	static char large[4u << 20];
	struct db_item items[3] = {
		{.key = "a", .key_len = 1, .value = {"1", 1}},
		{.key = "b", .key_len = 1, .value = {large, sizeof(large)}},
		{.key = "c", .key_len = 1, .value = {"3", 1}},
	};
	struct db_value v;

	if (!begin("memcached", VALUE_MAX))
		return;
	memset(large, 'x', sizeof(large));
	db->ops->write_many(db, items, 3);
	ck_assert_int_eq(items[0].status, DB_OK);
	ck_assert_int_eq(items[1].status, DB_BAD_REQUEST);
	ck_assert_int_eq(items[2].status, DB_OK);
	ck_assert_ptr_nonnull(strstr(db->ops->error(db), "too large"));
	ck_assert_int_eq(db->ops->read(db, "b", 1, &v), DB_NOT_FOUND);
	ck_assert_int_eq(db->ops->read(db, "c", 1, &v), DB_OK);
	ck_assert_uint_eq(v.len, 1);
	end();
}

static const struct {
	const char *text, *path, *host;
	unsigned port; /* 0: refused */
} addresses[] = {
	{"/run/x.sock", "/run/x.sock", "", 7},
	{"unix:///run/x.sock", "/run/x.sock", "", 7},
	{"localhost", "", "localhost", 7},
	{"10.0.0.1:65535", "", "10.0.0.1", 65535},
	{"[::1]", "", "::1", 7},
	{"[::1]:80", "", "::1", 80},
	{"", "", "", 0},
	{":80", "", "", 0},
	{"host:", "", "", 0},
	{"host:0", "", "", 0},
	{"host:65536", "", "", 0},
	{"host:80x", "", "", 0},
	{"[::1", "", "", 0},
	{"[::1]80", "", "", 0},
	{"tcp://host", "", "", 0},
	{"unix://run", "", "", 0},
};

TEST_EACH(address_parse_table, addresses)
{
	struct address a = {.port = 1};
	int err = address_parse("x.uri", addresses[_i].text, 7, &a);

	if (!addresses[_i].port) {
		ck_assert_int_eq(err, FARKV_EINVAL);
		ck_assert_ptr_nonnull(strstr(err_detail(), "x.uri: '"));
		ck_assert_uint_eq(a.port, 1);
		return;
	}
	ck_assert_int_eq(err, 0);
	ck_assert_str_eq(a.path, addresses[_i].path);
	ck_assert_str_eq(a.host, addresses[_i].host);
	ck_assert_uint_eq(a.port, addresses[_i].port);
}

TEST_SUITE("bench_db")
