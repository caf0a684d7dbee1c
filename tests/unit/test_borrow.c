/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_borrow() and farkv_borrow_check() with a real kvserver: what is found, when a view holds
 * and when it does not, beside writers, growth, restarts and borrowers that are killed.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define LARGEST ((size_t)1 << 20)

static struct real_server srv;
static struct farkv *kv;

/* T/2 does not pass within a case. */
static const char *const long_grace[] = {"-m", "64m", "-I", "1m", "--grace-ms", "60000", NULL};
/* It passes at once. */
static const char *const short_grace[] = {"-m", "64m", "-I", "1m", "--grace-ms", "1", NULL};

static void setup_with(const char *const *args)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}
static void setup_long(void)
{
	setup_with(long_grace);
}
static void setup_short(void)
{
	setup_with(short_grace);
}
static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

static struct farkv_view borrow(const char *key)
{
	struct farkv_view v;

	OK(farkv_borrow(kv, key, strlen(key), &v));
	ck_assert_ptr_nonnull(v.value.data);
	return v;
}

/* As long as its subtable is being rebuilt a key cannot be borrowed. */
static void borrow_at_last(const void *key, size_t key_len, struct farkv_view *out)
{
	int err;

	do
		err = farkv_borrow(kv, key, key_len, out);
	while (err == FARKV_ESTALE);
	OK(err);
}

/* T/2 has passed: a value that was replaced just now is not certain any more. */
static void pass_grace(struct farkv *writer)
{
	struct farkv_view v;

	OK(e2e_put(writer, "clock", "tick"));
	v = borrow("clock");
	OK(e2e_put(writer, "clock", "tock"));
	while (farkv_borrow_check(kv, &v) == 0)
		;
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
}

static bool is_local(void)
{
	return !real_server_is_remote();
}

TEST_GROUP(.setup = setup_long, .teardown = teardown, .skip = real_server_is_remote);

TEST(borrowed_value_is_the_one_that_a_get_returns)
{
	static const size_t lengths[] = {0, 1, 100, 640, 4096, 65536, LARGEST};
	uint8_t *value = malloc(LARGEST);

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct farkv_value got;
		struct farkv_view v;

		e2e_fill(value, lengths[i], i);
		OK(farkv_put(kv, &i, sizeof(i), value, lengths[i]));
		OK(farkv_get(kv, &i, sizeof(i), &got));
		OK(farkv_borrow(kv, &i, sizeof(i), &v));
		ck_assert_uint_eq(v.value.len, lengths[i]);
		ck_assert_uint_eq(v.value.version, got.version);
		ck_assert(memcmp(v.value.data, value, lengths[i]) == 0);
		OK(farkv_borrow_check(kv, &v));
	}
	free(value);
}

/* A handle's first call, so it knows nothing of the index; and one that may not write. */
TEST(borrow_as_the_first_call_finds_the_value)
{
	struct farkv *kvs[2] = {e2e_open(srv.path, 5000), e2e_open_readonly(srv.path, 5000)};

	OK(e2e_put(kv, "k", "value"));
	for (unsigned i = 0; i < 2; i++) {
		struct farkv_view v;

		OK(farkv_borrow(kvs[i], "k", 1, &v));
		ck_assert_uint_eq(v.value.len, 5);
		ck_assert(memcmp(v.value.data, "value", 5) == 0);
		OK(farkv_borrow_check(kvs[i], &v));
		farkv_close(kvs[i]);
	}
}

TEST(borrow_of_an_absent_key_finds_nothing)
{
	struct farkv_view v;

	memset(&v, POISON, sizeof(v));
	FAILS(FARKV_ENOTFOUND, farkv_borrow(kv, "none", 4, &v));
	OK(e2e_put(kv, "k", "value"));
	OK(e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_borrow(kv, "k", 1, &v));
	ck_assert(e2e_poisoned(&v, sizeof(v)));
}

TEST(borrowed_value_has_time_and_user_word_until_it_expires)
{
	struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = 1000000, .user = 4711};
	struct farkv_request req = {.kind = FARKV_REQUEST_PUT, .key = "k", .key_len = 1,
				    .value = "value", .value_len = 5, .options = &o};
	struct farkv_view v;
	int err;

	OK(farkv_write(kv, &req, NULL));
	v = borrow("k");
	ck_assert(v.value.ttl_ms > 0 && v.value.ttl_ms <= 1000000);
	ck_assert_uint_eq(v.value.user, 4711);
	OK(farkv_borrow_check(kv, &v));
	OK(e2e_put(kv, "k", "plain"));
	v = borrow("k");
	ck_assert_uint_eq(v.value.ttl_ms + v.value.user, 0);
	o.ttl_ms = 30;
	OK(farkv_write(kv, &req, NULL));
	while ((err = farkv_borrow(kv, "k", 1, &v)) == 0)
		ck_assert_uint_ne(v.value.ttl_ms, 0);
	FAILS(FARKV_ENOTFOUND, err);
}

TEST(borrow_with_bad_arguments_is_refused)
{
	struct farkv *second = e2e_open(srv.path, 5000);
	struct farkv_view v = {.proof = {0}};

	OK(e2e_put(kv, "k", "value"));
	FAILS(FARKV_EINVAL, farkv_borrow(NULL, "k", 1, &v));
	FAILS(FARKV_EINVAL, farkv_borrow(kv, "k", 1, NULL));
	FAILS(FARKV_EINVAL, farkv_borrow(kv, "k", 0, &v));
	FAILS(FARKV_EINVAL, farkv_borrow(kv, NULL, 1, &v));
	FAILS(FARKV_EINVAL, farkv_borrow_check(NULL, &v));
	FAILS(FARKV_EINVAL, farkv_borrow_check(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_borrow_check(kv, &v));
	v = borrow("k");
	FAILS(FARKV_EINVAL, farkv_borrow_check(second, &v));
	e2e_detail("not one of this handle");
	OK(farkv_borrow_check(kv, &v));
	/* What the caller has spoilt leads nowhere. */
	v.proof[2] = UINT64_MAX - 7;
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
	farkv_close(second);
}

/* A new handle soon gets the memory, and so the address, of the closed one. */
TEST(view_of_a_closed_handle_is_refused)
{
	struct farkv_view v;

	OK(e2e_put(kv, "k", "value"));
	v = borrow("k");
	for (unsigned i = 0; i < 50; i++) {
		farkv_close(kv);
		kv = e2e_open(srv.path, 20000);
		FAILS(FARKV_EINVAL, farkv_borrow_check(kv, &v));
	}
}

/* Nobody writes to a block for T after it was replaced. */
TEST(view_of_a_replaced_value_holds_for_half_of_T)
{
	struct farkv_view v;

	OK(e2e_put(kv, "k", "first"));
	v = borrow("k");
	OK(e2e_put(kv, "k", "other"));
	OK(farkv_borrow_check(kv, &v));
	ck_assert(memcmp(v.value.data, "first", 5) == 0);
	OK(e2e_del(kv, "k"));
	OK(farkv_borrow_check(kv, &v));
	ck_assert(memcmp(v.value.data, "first", 5) == 0);
}

TEST_GROUP(.setup = setup_short, .teardown = teardown, .skip = real_server_is_remote);

TEST(view_of_a_kept_value_outlasts_T)
{
	struct farkv *writer = e2e_open(srv.path, 5000);
	struct farkv_view v;

	OK(e2e_put(kv, "k", "value"));
	v = borrow("k");
	pass_grace(writer);
	OK(farkv_borrow_check(kv, &v));
	ck_assert(memcmp(v.value.data, "value", 5) == 0);
	/* Replaced, and by the same bytes: another value. */
	OK(e2e_put(writer, "k", "value"));
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
	e2e_detail("replaced");
	v = borrow("k");
	pass_grace(writer);
	OK(e2e_del(writer, "k"));
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
	farkv_close(writer);
}

/* On a read-only handle the kernel refuses to write there, too. */
TEST(view_of_a_readonly_handle_cannot_be_written)
{
	struct farkv *reader = e2e_open_readonly(srv.path, 5000);
	struct farkv_view v;
	int p[2];

	OK(e2e_put(kv, "k", "value"));
	OK(farkv_borrow(reader, "k", 1, &v));
	ck_assert_int_eq(pipe(p), 0);
	ck_assert_int_eq(write(p[1], "other", 5), 5);
	ck_assert_int_lt(read(p[0], (void *)(uintptr_t)v.value.data, 5), 0);
	OK(farkv_borrow_check(reader, &v));
	e2e_expect_str(kv, "k", "value");
	farkv_close(reader);
	close(p[0]);
	close(p[1]);
}

/* Subtables are split: the words of the old one freeze, and its page goes after a barrier. */
TEST(view_beside_growth_is_right_or_stale)
{
	enum { N = 64 };
	struct farkv *writer = e2e_open(srv.path, 20000);
	struct farkv_view v[N];
	struct farkv_stats s = {.size = sizeof(s)};
	unsigned right = 0, stale = 0;
	uint64_t splits;

	for (unsigned i = 0; i < N; i++)
		OK(farkv_put(kv, &i, sizeof(i), &i, sizeof(i)));
	OK(farkv_stats(kv, &s));
	splits = s.splits;
	for (unsigned n = 1000; s.splits < splits + 20; n++) {
		for (unsigned i = 0; n % 1000 == 0 && i < N; i++)
			borrow_at_last(&i, sizeof(i), &v[i]);
		OK(farkv_put(writer, &n, sizeof(n), &n, sizeof(n)));
		for (unsigned i = 0; n % 1000 == 999 && i < N; i++) {
			unsigned copy;
			int err;

			memcpy(&copy, v[i].value.data, sizeof(copy));
			err = farkv_borrow_check(kv, &v[i]);
			ck_assert(err == 0 || err == FARKV_ESTALE);
			ck_assert(err || copy == i);
			right += err == 0;
			stale += err != 0;
		}
		if (n % 1000 == 999)
			OK(farkv_stats(writer, &s));
	}
	ck_assert_uint_gt(right, 0);
	ck_assert_uint_gt(stale, 0);
	farkv_close(writer);
}

/* A value that tells whether it is whole: each word is its number. */
#define WORDS 2048u

static void write_on(const char *path, int ready)
{
	struct farkv *writer = e2e_open(path, 20000);
	static uint64_t value[WORDS];

	for (uint64_t n = 1;; n++) {
		for (unsigned i = 0; i < WORDS; i++)
			value[i] = n * 1000003;
		OK(farkv_put(writer, "k", 1, value, sizeof(value)));
		if (n == 1)
			ck_assert_int_eq(write(ready, "r", 1), 1);
	}
}

struct word { /* of a value, at any address */
	uint64_t n;
} __attribute__((packed));

/* Copy a view's words slowly; true if all are the same. */
static bool is_whole(const struct farkv_view *v, unsigned slow)
{
	static volatile uint64_t copy[WORDS];
	const volatile struct word *data = v->value.data;

	for (unsigned i = 0; i < WORDS; i++)
		copy[i] = data[i].n;
	for (unsigned i = 0; i < slow; i++) /* the end again, later */
		copy[WORDS - 1 - i % (WORDS / 2)] =
			data[WORDS - 1 - i % (WORDS / 2)].n;
	for (unsigned i = 1; i < WORDS; i++)
		if (copy[i] != copy[0])
			return false;
	return true;
}

/*
 * A process overwrites the key without pause, and its blocks are used again every millisecond.
 * Views that are read slowly get torn; the check refuses each of them.
 */
TEST(torn_view_beside_a_writer_is_refused)
{
	unsigned right = 0, torn = 0;
	int ready[2];
	pid_t child;
	char c;

	if (test_tsan_skips("torn views"))
		return;
	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		write_on(srv.path, ready[1]);
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	for (unsigned n = 0; right < test_rounds(200) || torn < test_rounds(20); n++) {
		struct farkv_view v;
		bool whole;
		int err;

		borrow_at_last("k", 1, &v);
		ck_assert_uint_eq(v.value.len, WORDS * 8);
		whole = is_whole(&v, n % 8 << 18);
		err = farkv_borrow_check(kv, &v);
		ck_assert_msg(whole || err == FARKV_ESTALE, "a torn value passed the check");
		right += err == 0;
		torn += !whole;
	}
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(ready[0]);
	close(ready[1]);
}

/* Killed in the middle of reading, many times: no byte of the store is lost. */
TEST(killed_borrower_leaves_nothing)
{
	struct farkv_fsck before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	uint8_t *value = malloc(LARGEST);
	int ready[2];
	char c;

	if (test_tsan_skips("killed borrower"))
		return;
	e2e_fill(value, LARGEST, 1);
	OK(farkv_put(kv, "k", 1, value, LARGEST));
	OK(farkv_fsck(kv, &before));
	ck_assert_int_eq(pipe(ready), 0);
	for (unsigned i = 0; i < 8; i++) {
		pid_t child = fork();

		if (child == 0) {
			struct farkv *mine = e2e_open_readonly(srv.path, 5000);
			struct farkv_view v;
			volatile uint8_t sum = 0;

			OK(farkv_borrow(mine, "k", 1, &v));
			ck_assert_int_eq(write(ready[1], "r", 1), 1);
			for (size_t at = 0;; at = (at + 1) % LARGEST)
				sum = (uint8_t)(sum + ((const uint8_t *)v.value.data)[at]);
		}
		ck_assert_int_eq(read(ready[0], &c, 1), 1);
		kill(child, SIGKILL);
		ck_assert_int_eq(waitpid(child, NULL, 0), child);
	}
	/* More than the store's memory, with what the dead have read. */
	for (unsigned i = 0; i < 200; i++)
		OK(farkv_put(kv, "k", 1, value, LARGEST));
	OK(farkv_fsck(kv, &after));
	ck_assert_uint_eq(after.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(after.blocks_leaked, 0);
	ck_assert_uint_eq(after.live_bytes, before.live_bytes);
	free(value);
	close(ready[0]);
	close(ready[1]);
}

TEST_GROUP(.setup = setup_long, .teardown = teardown, .skip = real_server_is_remote);

/* The memory stays readable until the program is told, and the check never passes. */
TEST(view_of_a_server_that_was_restarted_is_refused)
{
	struct farkv_view v, w;
	int err = 0;

	OK(e2e_put(kv, "k", "value"));
	v = borrow("k");
	(void)real_server_end(&srv, SIGKILL);
	real_server_start(&srv, long_grace);
	while (err != FARKV_EDISCONNECTED) {
		ck_assert(memcmp(v.value.data, "value", 5) == 0);
		err = farkv_borrow_check(kv, &v);
		ck_assert(err == 0 || err == FARKV_EDISCONNECTED);
	}
	/* The new store has another value there, or none. */
	for (unsigned i = 0; i < 1000 && err == FARKV_EDISCONNECTED; i++) {
		usleep(i ? 10000 : 0);
		err = e2e_put(kv, "k", "again");
	}
	OK(err);
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
	w = borrow("k");
	ck_assert(memcmp(w.value.data, "again", 5) == 0);
	OK(farkv_borrow_check(kv, &w));
	FAILS(FARKV_ESTALE, farkv_borrow_check(kv, &v));
}

TEST(borrow_in_a_child_is_refused)
{
	struct farkv_view v;
	pid_t child;
	int status;

	OK(e2e_put(kv, "k", "value"));
	v = borrow("k");
	child = fork();
	if (child == 0) {
		struct farkv_view w;
		int err = farkv_borrow_check(kv, &v);
		int err2 = farkv_borrow(kv, "k", 1, &w);

		farkv_close(kv);
		_exit(err == FARKV_EDISCONNECTED && err2 == FARKV_EDISCONNECTED ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	OK(farkv_borrow_check(kv, &v));
	ck_assert(memcmp(v.value.data, "value", 5) == 0);
}

TEST_GROUP(.setup = setup_long, .teardown = teardown, .skip = is_local);

TEST(borrow_by_rdma_is_refused)
{
	struct farkv_view v;

	OK(e2e_put(kv, "k", "value"));
	FAILS(FARKV_ENOTSUP, farkv_borrow(kv, "k", 1, &v));
	e2e_detail("shared memory only");
	e2e_detail("farkv_get_into");
	e2e_expect_str(kv, "k", "value");
}

TEST_SUITE("borrow", real_server_require())
