/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In steady state operations over shared memory make no system call and take no memory.
 * Also the memory of a connection.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farkv.h>

#include "client/arena.h"
#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/index/spare.h"
#include "common/base/util.h"
#include "tests/rig/calls_rig.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define KEYS 10000u
#define OPERATIONS 100000u
#define BATCH 32u
/* The memory that a handle keeps of large batches and requests until it is closed. */
#define KEPT (SPARE_KEEP + ARENA_KEEP)

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	/*
	 * The blocks that a writer unlinks within T must fit into its share of the
	 * region.
	 */
	static const char *const args[] = {"-m", "128m", "--index-slots",
					   "131072", "--grace-ms", "5", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* Assertions make system calls, so they follow after the counted part. */
static unsigned long wrong;

static void must(bool right)
{
	wrong += !right;
}

static void count_begin(void)
{
	memset(&seen, 0, sizeof(seen));
	counting = true;
}

/* At most this many calls of each kind. */
static void count_end(const char *what, unsigned long most)
{
	counting = false;
	ck_assert_msg(!wrong, "%s: %lu wrong results", what, wrong);
	printf("  %s: %lu system calls, %lu of memory, %lu locks in %u "
	       "operations\n",
	       what, seen.calls, seen.memory, seen.locks, OPERATIONS);
	ck_assert_msg(seen.calls <= most, "%s: %lu system calls, the last %ld",
		      what, seen.calls, seen.last);
	ck_assert_msg(seen.memory <= most, "%s: %lu calls for memory", what,
		      seen.memory);
	ck_assert_msg(seen.locks <= most, "%s: %lu locks", what, seen.locks);
}

/* ---- operations ------------------------------------------------------------------ */

static uint8_t value[2000];

static size_t name_key(char key[32], unsigned i)
{
	return (size_t)sprintf(key, "key %u", i % KEYS);
}

/* Lengths of several classes. */
static size_t length_of(unsigned i)
{
	static const size_t lengths[] = {0, 10, 100, 500, 1900};

	return lengths[i % 5];
}

static void gets(unsigned n)
{
	static uint8_t into[sizeof(value)];
	struct farkv_value v;
	char key[32];
	size_t len;

	for (unsigned i = 0; i < n; i++) {
		size_t key_len = name_key(key, i * 7);

		if (i % 3 == 0)
			must(!farkv_get_into(kv, key, key_len, into,
					     sizeof(into), &len, NULL));
		else
			must(!farkv_get(kv, key, key_len, &v));
		if (i % 16 == 0) {
			key[0] = 'X';
			must(farkv_get(kv, key, key_len, &v) ==
			     FARKV_ENOTFOUND);
		}
	}
}

static void borrows(unsigned n)
{
	static uint8_t into[BATCH][sizeof(value)];
	struct farkv_get_into_item it[BATCH];
	struct farkv_view v[BATCH];
	char key[BATCH][32];

	for (unsigned i = 0; i < n; i += BATCH) {
		for (unsigned k = 0; k < BATCH; k++) {
			size_t len = name_key(key[k], i + k);

			it[k] = (struct farkv_get_into_item){
				.key = key[k], .key_len = len, .buf = into[k], .cap = sizeof(into[k])};
			must(!farkv_borrow(kv, key[k], len, &v[k]));
		}
		for (unsigned k = 0; k < BATCH; k++)
			must(!farkv_borrow_check(kv, &v[k]));
		must(!farkv_mget_into(kv, it, BATCH));
	}
}

static void puts_(unsigned n)
{
	char key[32];

	for (unsigned i = 0; i < n; i++)
		must(!farkv_put(kv, key, name_key(key, i * 7), value,
				length_of(i * 7)));
}

static void batches(unsigned n, bool write)
{
	struct farkv_put_item put[BATCH];
	struct farkv_get_item get[BATCH];
	char key[BATCH][32];

	for (unsigned i = 0; i < n; i += BATCH) {
		for (unsigned k = 0; k < BATCH; k++) {
			size_t len = name_key(key[k], i + k);

			put[k] = (struct farkv_put_item){
				.key = key[k], .key_len = len, .value = value,
				.value_len = length_of(i + k)};
			get[k] = (struct farkv_get_item){.key = key[k],
							 .key_len = len};
		}
		if (write)
			must(!farkv_mput(kv, put, BATCH));
		else
			must(!farkv_mget(kv, get, BATCH));
	}
}

/* Alone and together; every other key is missing. */
static void asks(unsigned n)
{
	struct farkv_key asked[BATCH];
	char key[BATCH][32];
	uint8_t bitmap[BATCH / 8];

	for (unsigned i = 0; i < n; i += 2 * BATCH) {
		for (unsigned k = 0; k < BATCH; k++) {
			size_t len = name_key(key[k], i + k);

			if (k % 2)
				key[k][0] = 'X';
			asked[k] = (struct farkv_key){key[k], len};
			must(farkv_exists(kv, key[k], len) == (k % 2 ? FARKV_ENOTFOUND : 0));
		}
		must(!farkv_mexists(kv, asked, BATCH, bitmap, NULL));
		must(bitmap[0] == 0x55 && bitmap[BATCH / 8 - 1] == 0x55);
	}
}

/*
 * The other operations in a cycle: each key is present, deleted, added, replaced and
 * compared, and a counter is counted up.
 */
static void others(unsigned n)
{
	struct farkv_incr_options o = {.size = sizeof(o), .delta = 1, .flags = FARKV_INCR_CREATE};
	struct farkv_value v;
	char key[32];

	for (unsigned i = 0; i < n; i += 6) {
		size_t len = name_key(key, i / 6 * 7), bytes = length_of(i / 6 * 7);

		must(!farkv_delete(kv, key, len));
		must(!farkv_add(kv, key, len, value, bytes));
		must(!farkv_replace(kv, key, len, value, bytes));
		must(!farkv_get(kv, key, len, &v));
		must(!farkv_cas(kv, key, len, value, bytes, v.version, NULL));
		must(!farkv_incr(kv, "sum", 3, &o, NULL));
	}
}

/* Requests, half of them gets, some into a buffer; then polls for their ends. */
static void requests(unsigned n)
{
	static uint8_t into[BATCH][sizeof(value)];
	struct farkv_request req[BATCH];
	struct farkv_completion done[BATCH];
	char key[BATCH][32];

	for (unsigned i = 0; i < n; i += BATCH) {
		unsigned left = BATCH;

		for (unsigned k = 0; k < BATCH; k++) {
			req[k] = (struct farkv_request){
				.tag = k, .key = key[k], .key_len = name_key(key[k], i + k)};
			if (k % 2) {
				req[k].kind = FARKV_REQUEST_PUT;
				req[k].value = value;
				req[k].value_len = length_of(i + k);
			} else if (k % 4) {
				req[k].buf = into[k];
				req[k].buf_len = sizeof(into[k]);
			}
		}
		must(farkv_submit(kv, req, BATCH) == BATCH);
		while (left) {
			int got = left == BATCH ? farkv_poll(kv, done, BATCH / 2) :
						  farkv_wait(kv, done, BATCH, 10000);

			must(got >= 0);
			for (int k = 0; k < got; k++)
				must(done[k].result == 0);
			left -= (unsigned)got;
		}
	}
}

TEST_GROUP(.setup = setup, .teardown = teardown);

/* A deliberate call is counted, and only while counting is on. */
TEST(each_call_is_counted)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	/* Opaque: otherwise a compiler may drop malloc(). */
	void *(*memory)(size_t n) = __wrap_malloc;
	pid_t me = getpid(), found;
	void *p;

	if (!can_watch())
		return;
	count_begin();
	found = getpid();
	p = memory(10);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	counting = false;
	free(p);
	ck_assert_int_eq(found, me);
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_int_eq(seen.last, SYS_getpid);
	ck_assert_uint_eq(seen.memory, 1);
	ck_assert_uint_eq(seen.locks, 1);
	/* A wrapped call is still made, with its arguments and result. */
	ck_assert_int_eq(write(-1, "", 1), -1);
	ck_assert_int_eq(errno, EBADF);
	ck_assert_uint_eq(seen.calls, 1);
}

TEST(gets_make_no_system_call_and_take_no_memory)
{
	/* Buffers grow to the largest value met, so the rounds use the same sizes. */
	puts_(KEYS);
	gets(OPERATIONS);
	batches(OPERATIONS, false);
	asks(OPERATIONS);
	borrows(OPERATIONS);
	if (!can_watch())
		return;
	count_begin();
	gets(OPERATIONS);
	count_end("get", 0);
	count_begin();
	asks(OPERATIONS);
	count_end("exists, mexists", 0);
	count_begin();
	batches(OPERATIONS, false);
	count_end("mget", 0);
	count_begin();
	borrows(OPERATIONS);
	count_end("borrow, mget_into", 0);
}

/*
 * Blocks are requested and returned in groups, and a handle keeps as many as its write
 * rate needs. So a message, with its lock, is sent once in a while.
 */
TEST(puts_make_almost_no_system_call)
{
	uint64_t end = clock_now_ns() + NS_PER_SEC;

	while (clock_now_ns() < end)
		puts_(OPERATIONS / 10);
	if (!can_watch())
		return;
	count_begin();
	puts_(OPERATIONS);
	count_end("put", OPERATIONS / 100);
	end = clock_now_ns() + NS_PER_SEC / 2;
	while (clock_now_ns() < end)
		batches(OPERATIONS / 10, true);
	count_begin();
	batches(OPERATIONS, true);
	count_end("mput", OPERATIONS / 100);
	others(OPERATIONS);
	count_begin();
	others(OPERATIONS);
	count_end("delete, add, replace, cas, incr", OPERATIONS / 100);
	requests(OPERATIONS);
	count_begin();
	requests(OPERATIONS);
	count_end("requests", OPERATIONS / 100);
}

/* ---- connections --------------------------------------------------------------------- */

/* Private memory of this process: no pages of the region. */
static size_t own_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[128];
	unsigned long kib = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f) &&
	       sscanf(line, "Anonymous: %lu", &kib) != 1)
		;
	fclose(f);
	ck_assert_uint_gt(kib, 0);
	return kib << 10;
}

/* Values of LARGER bytes in one batch. */
static void larger(unsigned n)
{
	enum { MANY = 128, LARGER = 8000 };
	static uint8_t large[LARGER];
	struct farkv_request req[MANY];
	struct farkv_completion done[MANY];
	struct farkv_get_item get[MANY];
	char key[MANY][32];
	unsigned left = MANY;

	for (unsigned i = 0; i < MANY; i++) {
		size_t len = (size_t)sprintf(key[i], "large %u", i);

		get[i] = (struct farkv_get_item){.key = key[i], .key_len = len};
		req[i] = (struct farkv_request){.key = key[i], .key_len = len};
		must(!farkv_put(kv, key[i], len, large, LARGER));
	}
	for (unsigned i = 0; i < n; i += MANY)
		must(!farkv_mget(kv, get, MANY));
	must(farkv_submit(kv, req, MANY) == MANY);
	while (left) {
		int got = farkv_wait(kv, done, MANY, 10000);

		must(got > 0 && done[0].value.len == LARGER);
		left -= (unsigned)got;
	}
	must(!farkv_poll(kv, done, 1));
}

/* An idle connection; after large batches plus the memory that it keeps of them. */
TEST(connection_takes_less_than_a_mebibyte)
{
	enum { HANDLES = 64 };
	static struct farkv *h[HANDLES];
	struct farkv *first = kv;
	size_t before, each;

	if (TEST_UNDER_ASAN || TEST_UNDER_TSAN)
		return; /* their shadows count */
	puts_(KEYS);
	gets(KEYS);
	batches(KEYS, false);
	before = own_bytes();
	for (unsigned i = 0; i < HANDLES; i++) {
		kv = h[i] = e2e_open(srv.path, 20000);
		puts_(1000);
		gets(1000);
		batches(1024, false);
		batches(1024, true);
		requests(1024);
	}
	each = (own_bytes() - before) / HANDLES;
	printf("  a connection that has done everything: %zu KiB\n",
	       each >> 10);
	ck_assert_uint_lt(each, 1u << 20);
	for (unsigned i = 0; i < HANDLES; i++) {
		kv = h[i];
		larger(1024);
	}
	each = (own_bytes() - before) / HANDLES;
	printf("  ... and large batches: %zu KiB\n", each >> 10);
	ck_assert_uint_lt(each, (1u << 20) + KEPT);
	ck_assert_uint_eq(wrong, 0);
	for (unsigned i = 0; i < HANDLES; i++)
		farkv_close(h[i]);
	kv = first;
}

/* Values belong to the handle until its next call, which frees their memory. */
TEST(batch_of_large_values_frees_its_memory)
{
	enum { ITEMS = 16, LARGE = 500000 };
	static uint8_t large[LARGE];
	struct farkv_get_item get[ITEMS];
	char key[ITEMS][32];
	int64_t before;

	memset(large, 'x', sizeof(large));
	puts_(KEYS);
	batches(BATCH, false);
	for (unsigned i = 0; i < ITEMS; i++) {
		get[i] = (struct farkv_get_item){.key = key[i],
						 .key_len = name_key(key[i], i)};
		ck_assert_int_eq(farkv_put(kv, key[i], get[i].key_len, large, LARGE), 0);
	}
	before = atom_load_relaxed(&held_bytes);
	ck_assert_int_eq(farkv_mget(kv, get, ITEMS), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		ck_assert_int_eq(get[i].result, 0);
		ck_assert_uint_eq(get[i].value.len, LARGE);
		ck_assert_mem_eq(get[i].value.data, large, LARGE);
	}
	ck_assert_int_ge(atom_load_relaxed(&held_bytes) - before, ITEMS * LARGE);
	gets(1);
	ck_assert_int_lt(atom_load_relaxed(&held_bytes) - before, 1 << 20);
}

enum { WIDE = 32, WIDE_BYTES = 65536 };
static char wide_key[WIDE][32];

static void wide_puts(const void *of, size_t bytes)
{
	for (unsigned i = 0; i < WIDE; i++)
		must(!farkv_put(kv, wide_key[i], name_key(wide_key[i], i), of, bytes));
}

static void wide_batches(unsigned n, size_t bytes)
{
	struct farkv_get_item get[WIDE];

	for (unsigned i = 0; i < WIDE; i++)
		get[i] = (struct farkv_get_item){.key = wide_key[i],
						 .key_len = strlen(wide_key[i])};
	for (unsigned t = 0; t < n; t++) {
		must(!farkv_mget(kv, get, WIDE));
		for (unsigned i = 0; i < WIDE; i++)
			must(get[i].value.len == bytes);
	}
}

static void wide_requests(unsigned n, size_t bytes)
{
	struct farkv_request req[WIDE];
	struct farkv_completion done[WIDE];

	for (unsigned i = 0; i < WIDE; i++)
		req[i] = (struct farkv_request){.key = wide_key[i],
						.key_len = strlen(wide_key[i])};
	for (unsigned t = 0; t < n; t++) {
		must(farkv_submit(kv, req, WIDE) == WIDE);
		for (unsigned left = WIDE; left && !wrong;) {
			int got = farkv_wait(kv, done, WIDE, 10000);

			must(got > 0);
			for (int i = 0; i < got; i++)
				must(!done[i].result && done[i].value.len == bytes);
			left -= (unsigned)got;
		}
	}
}

/*
 * Large values that are read together again and again reuse the same memory. Reads of
 * small values then free what exceeds the handle's share.
 */
TEST_LOOP(large_values_reuse_the_memory_of_the_previous_ones, 0, 2)
{
	static void (*const how[])(unsigned n, size_t bytes) = {wide_batches,
								wide_requests};
	static uint8_t large[WIDE_BYTES];
	struct farkv *reader = kv, *writer = e2e_open(srv.path, 20000);
	int64_t before;

	puts_(KEYS);
	wide_puts(large, 100);
	how[_i](4, 100);
	before = atom_load_relaxed(&held_bytes);
	wide_puts(large, WIDE_BYTES);
	how[_i](4, WIDE_BYTES);
	ck_assert_int_ge(atom_load_relaxed(&held_bytes) - before, WIDE * WIDE_BYTES);
	memset(&seen, 0, sizeof(seen));
	counting = true;
	how[_i](10, WIDE_BYTES);
	counting = false;
	ck_assert_uint_eq(seen.memory, 0);
	kv = writer;
	wide_puts(large, 100);
	kv = reader;
	how[_i](3, 100);
	ck_assert_int_lt(atom_load_relaxed(&held_bytes) - before, 1 << 20);
	ck_assert_uint_eq(wrong, 0);
	farkv_close(writer);
}

/* ---- alternating kinds of calls ---- */

enum { CROWD = 300, CROWD_BYTES = 3000, TURNS = 8 };
static char crowd_key[CROWD][32];
static struct farkv_get_item crowd_get[CROWD];

static void crowd_mget(size_t n)
{
	must(!farkv_mget(kv, crowd_get, n));
	for (size_t i = 0; i < n; i++)
		must(crowd_get[i].value.len == CROWD_BYTES);
}

static void mget_and_get(void)
{
	crowd_mget(128);
	gets(3);
}

static void mget_and_put(void)
{
	crowd_mget(128);
	puts_(3);
}

static void mget_and_many_gets(void)
{
	crowd_mget(128);
	gets(300);
}

static void mget_and_smaller(void)
{
	crowd_mget(128);
	crowd_mget(8);
}

static void mget_in_groups(void)
{
	crowd_mget(CROWD);
	gets(1);
}

/* Sixty-four requests, completed at most `most` at once, until none is left. */
static void requests_by(size_t most)
{
	struct farkv_request req[64];
	struct farkv_completion done[64];
	int got;

	for (unsigned i = 0; i < 64; i++)
		req[i] = (struct farkv_request){.key = crowd_key[i],
						.key_len = strlen(crowd_key[i])};
	must(farkv_submit(kv, req, 64) == 64);
	do {
		got = farkv_poll(kv, done, most);
		must(got >= 0);
		for (int i = 0; i < got; i++)
			must(!done[i].result && done[i].value.len == CROWD_BYTES);
	} while (got || farkv_in_flight(kv));
}

static void polls_until_none(void)
{
	requests_by(64);
}

static void polls_in_pieces(void)
{
	requests_by(16);
}

static void requests_and_mget(void)
{
	requests_by(64);
	crowd_mget(128);
	puts_(1);
}

/* The next call reuses the memory that a call freed, of whatever kind. */
TEST_LOOP(calls_of_alternating_kinds_take_no_memory, 0, TURNS)
{
	static void (*const turns[])(void) = {
		mget_and_get, mget_and_put, mget_and_many_gets, mget_and_smaller,
		mget_in_groups, polls_until_none, polls_in_pieces, requests_and_mget};
	static uint8_t crowd[CROWD_BYTES];
	int64_t before;

	ck_assert_uint_eq(sizeof(turns) / sizeof(turns[0]), TURNS);
	puts_(KEYS);
	gets(10);
	for (unsigned i = 0; i < CROWD; i++) {
		size_t len = (size_t)sprintf(crowd_key[i], "crowd %u", i);

		crowd_get[i] = (struct farkv_get_item){.key = crowd_key[i],
						       .key_len = len};
		must(!farkv_put(kv, crowd_key[i], len, crowd, CROWD_BYTES));
	}
	crowd_mget(1);
	before = atom_load_relaxed(&held_bytes);
	for (unsigned i = 0; i < 10; i++)
		turns[_i]();
	memset(&seen, 0, sizeof(seen));
	counting = true;
	for (unsigned i = 0; i < 20; i++)
		turns[_i]();
	counting = false;
	ck_assert_uint_eq(seen.memory, 0);
	gets(1);
	ck_assert_int_lt(atom_load_relaxed(&held_bytes) - before, (1 << 20) + KEPT);
	ck_assert_uint_eq(wrong, 0);
}

/* More keys than an mget looks up at once: the first values are copied for the caller. */
TEST(long_batches_do_not_accumulate_values)
{
	/* Short enough that the memory of the operations themselves may stay. */
	enum { ITEMS = 500, LENGTH = 900, TIMES = 20 };
	static uint8_t full[LENGTH];
	static struct farkv_get_item get[ITEMS];
	static char key[ITEMS][32];
	int64_t before, once = 0;

	memset(full, 'y', sizeof(full));
	for (unsigned i = 0; i < ITEMS; i++) {
		get[i] = (struct farkv_get_item){.key = key[i],
						 .key_len = name_key(key[i], i)};
		ck_assert_int_eq(farkv_put(kv, key[i], get[i].key_len, full, LENGTH), 0);
	}
	gets(1);
	before = atom_load_relaxed(&held_bytes);
	for (unsigned t = 0; t < TIMES; t++) {
		ck_assert_int_eq(farkv_mget(kv, get, ITEMS), 0);
		for (unsigned i = 0; i < ITEMS; i++) {
			ck_assert_int_eq(get[i].result, 0);
			ck_assert_uint_eq(get[i].value.len, LENGTH);
			ck_assert_mem_eq(get[i].value.data, full, LENGTH);
		}
		if (t == 0)
			once = atom_load_relaxed(&held_bytes) - before;
	}
	ck_assert_int_ge(once, ITEMS / 2 * LENGTH);
	ck_assert_int_le(atom_load_relaxed(&held_bytes) - before, 2 * once);
}

TEST_SUITE("calls", real_server_require())
