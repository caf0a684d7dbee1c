/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store's limits: memory, index and item size exhausted, memory that deletes free,
 * the largest value, one session too many.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/util.h"

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define MIB (1u << 20)

static struct real_server srv;
static struct farkv *kv;

static void setup_in(const char *const *args, unsigned op_timeout_ms)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, op_timeout_ms);
}

static void setup_with(const char *const *args)
{
	setup_in(args, 5000);
}

static void setup_small(void)
{
	static const char *const args[] = {"-m",	 "8m", "-I", "1m",
					   "--grace-ms", "5",  NULL};

	setup_with(args);
}

static void setup_tiny(void)
{
	static const char *const args[] = {"-m", "1m", "--grace-ms", "1", NULL};

	setup_with(args);
}

/* Software RDMA takes a thousand times as long as a load: a part of the keys and bytes is enough.
 */
static size_t large_bytes(void)
{
	return (size_t)(real_server_is_remote() ? 20 : 64) * MIB;
}

static void setup_few_slots(void)
{
	static const char *const args[] = {"-m", "32m", "--index-slots", "4096",
					   "--max-sessions", "2", NULL};

	setup_with(args);
}

static void setup_deletes(void)
{
	static const char *const args[] = {"-m", "32m", "--grace-ms", "5", NULL};

	setup_with(args);
}

static void setup_large(void)
{
	static const char *const args[] = {"-m", "512m", NULL};
	static const char *const remote[] = {"-m", "128m", "-I", "20m", NULL};

	/* As for put_large(): the connection may break, and a get is repeated then. */
	if (real_server_is_remote())
		setup_in(remote, 20000);
	else
		setup_with(args);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- memory ---------------------------------------------------------------- */

#define VALUE_BYTES 60000u

static uint8_t value[VALUE_BYTES];

static int put_number(struct farkv *h, unsigned i)
{
	e2e_fill(value, VALUE_BYTES - i % 100, i);
	return farkv_put(h, &i, sizeof(i), value, VALUE_BYTES - i % 100);
}

static void expect_number(struct farkv *h, unsigned i)
{
	e2e_fill(value, VALUE_BYTES - i % 100, i);
	e2e_expect(h, &i, sizeof(i), value, VALUE_BYTES - i % 100);
}

static int probe_number(struct farkv *h, unsigned i)
{
	struct farkv_value v;

	return farkv_get(h, &i, sizeof(i), &v);
}

/* Put keys 0, 1, ... until memory is out; returns the number stored. */
static unsigned fill_memory(void)
{
	unsigned n = 0;
	int err;

	while ((err = put_number(kv, n)) == 0)
		ck_assert_uint_lt(++n, 8 * MIB / VALUE_BYTES);
	FAILS(FARKV_ENOSPC, err);
	e2e_detail("--memory");
	/* The index and the smallest blocks take less than a tenth. */
	ck_assert_uint_gt(n * 65536, 8 * MIB / 10 * 9);
	return n;
}

TEST_GROUP(.setup = setup_small, .teardown = teardown);

TEST(put_in_a_full_store_is_refused_and_nothing_leaks)
{
	unsigned n = fill_memory();

	FAILS(FARKV_ENOSPC, farkv_add(kv, &n, sizeof(n), value, VALUE_BYTES));
	FAILS(FARKV_ENOTFOUND, probe_number(kv, n));
	FAILS(FARKV_ENOSPC, farkv_replace(kv, &(unsigned){0}, sizeof(n), value,
					  VALUE_BYTES));
	for (unsigned i = 0; i < n; i++)
		expect_number(kv, i);
	/* Half is deleted, and as much can be stored. */
	for (unsigned i = 0; i < n; i += 2)
		OK(farkv_delete(kv, &i, sizeof(i)));
	for (unsigned i = 0; i < n; i += 2)
		OK(put_number(kv, 1000 + i));
	for (unsigned i = 0; i < n; i++)
		expect_number(kv, i % 2 ? i : 1000 + i);
	FAILS(FARKV_ENOTFOUND, probe_number(kv, 0));
	FAILS(FARKV_ENOSPC, put_number(kv, n));
	/* Many times: nothing leaks. */
	for (int round = 0; round < 3; round++)
		for (unsigned i = 1; i < n; i += 2) {
			OK(farkv_delete(kv, &i, sizeof(i)));
			OK(put_number(kv, i));
		}
	for (unsigned i = 0; i < n; i++)
		expect_number(kv, i % 2 ? i : 1000 + i);
}

/* Another handle gets freed memory once the first one calls or closes. */
TEST(memory_freed_by_one_handle_serves_another)
{
	struct farkv *other = e2e_open(srv.path, 5000);
	unsigned n = fill_memory();
	uint64_t end = e2e_now_ms() + 5000;
	int err;

	FAILS(FARKV_ENOSPC, put_number(other, 5000));
	for (unsigned i = 0; i < 10; i++)
		OK(farkv_delete(kv, &i, sizeof(i)));
	do {
		err = put_number(other, 5000);
		expect_number(kv, 11);
	} while (err == FARKV_ENOSPC && e2e_now_ms() < end);
	OK(err);
	farkv_close(kv);
	/* Deferred for T: worth waiting for. */
	for (unsigned i = 1; i < 10; i++)
		OK(put_number(other, 5000 + i));
	for (unsigned i = 10; i < n; i++)
		expect_number(other, i);
	for (unsigned i = 0; i < 10; i++)
		expect_number(other, 5000 + i);
	kv = other;
}

/* Bytes that clients hold, without published ones. */
static uint64_t in_hands(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(kv, &f));
	return f.out_bytes - f.live_bytes - f.dead_bytes;
}

TEST_GROUP(.setup = setup_deletes, .teardown = teardown);

/*
 * A handle that only deletes large values gets their blocks. It returns them unasked: of
 * 32 MiB it may keep two, and the deferred ones.
 */
TEST(handle_that_only_deletes_gives_blocks_back)
{
	struct farkv *other = e2e_open(srv.path, 5000);

	for (unsigned i = 0; i < 300; i++)
		OK(put_number(other, i));
	for (unsigned i = 0; i < 300; i++) {
		OK(farkv_delete(kv, &i, sizeof(i)));
		usleep(1000);
	}
	farkv_close(other);
	ck_assert_uint_lt(in_hands(), 4 * MIB);
}

/* The same for a handle that overwrites `n` larger values with smaller ones. */
static void shrink(unsigned n, size_t bytes)
{
	struct farkv *other;

	if (real_server_skips("returned blocks", "handle_that_only_deletes shows it by RDMA"))
		return;
	other = e2e_open(srv.path, 5000);
	for (unsigned i = 0; i < n; i++)
		OK(farkv_put(other, &i, sizeof(i), value, bytes));
	farkv_close(other);
	for (unsigned i = 0; i < n; i++) {
		OK(farkv_put(kv, &i, sizeof(i), value, 9));
		if (i % 16 == 0)
			usleep(100);
	}
	ck_assert_uint_lt(in_hands(), 4 * MIB);
}

TEST(handle_that_shrinks_values_gives_blocks_back)
{
	shrink(8000, 1800);
}

/* Blocks of this size mostly wait undated. */
TEST(handle_that_shrinks_small_values_gives_blocks_back)
{
	shrink(16000, 900);
}

TEST_GROUP(.setup = setup_tiny, .teardown = teardown);

/*
 * Each block is exhausted more than once: a barrier with both clients makes it usable
 * again, and no put fails meanwhile.
 */
TEST(blocks_exhausted_are_usable_after_a_barrier)
{
	struct farkv *other = e2e_open(srv.path, 5000);
	struct farkv_stats s = {.size = sizeof(s)};
	enum { PAGES = 32, FEW = 2, USES = 4096 };
	/* RDMA is slower. */
	const unsigned bytes = real_server_is_remote() ? 4000 : 30000;
	unsigned n = 0;

	e2e_fill(value, bytes, 1);
	/* Other keys hold all blocks but a few. */
	while (farkv_put(kv, &n, sizeof(n), value, bytes) == 0)
		n++;
	ck_assert_uint_gt(n, PAGES / 2);
	for (unsigned i = 0; i < FEW; i++) {
		n--;
		OK(farkv_delete(kv, &n, sizeof(n)));
	}
	for (unsigned i = 0; i < FEW * USES * 5 / 4; i++) {
		memcpy(value, &i, sizeof(i));
		OK(farkv_put(kv, "k", 1, value, bytes));
		if (i % 1000 == 0)
			e2e_expect(other, "k", 1, value, bytes);
	}
	e2e_expect(other, "k", 1, value, bytes);
	OK(farkv_stats(kv, &s));
	ck_assert_uint_le(s.heap_bytes, PAGES * 32768);
	farkv_close(other);
}

TEST_GROUP(.setup = setup_small, .teardown = teardown);

/* A batch that runs out of memory reports it item by item. */
TEST(batch_out_of_memory_reports_each_item)
{
	enum { N = 200 };
	static struct farkv_put_item it[N];
	static unsigned key[N];
	unsigned stored = 0;

	for (unsigned i = 0; i < N; i++) {
		key[i] = i;
		it[i] = (struct farkv_put_item){.key = &key[i],
						.key_len = sizeof(key[i]),
						.value = value,
						.value_len = VALUE_BYTES};
	}
	e2e_fill(value, VALUE_BYTES, 0);
	FAILS(FARKV_ENOSPC, farkv_mput(kv, it, N));
	for (unsigned i = 0; i < N; i++) {
		if (it[i].result == 0) {
			stored++;
			e2e_expect(kv, &i, sizeof(i), value, VALUE_BYTES);
		} else {
			ck_assert_int_eq(it[i].result, FARKV_ENOSPC);
			FAILS(FARKV_ENOTFOUND, probe_number(kv, i));
		}
	}
	ck_assert_uint_gt(stored, 100);
	ck_assert_uint_lt(stored, N);
}

/* Put keys with values of this length until memory is out; returns the number. */
static unsigned fill_with(unsigned len)
{
	uint64_t t, best = UINT64_MAX;
	unsigned n = 0;
	int err;

	do {
		t = e2e_now_ms();
		e2e_fill(value, len, n);
		err = farkv_put(kv, &n, sizeof(n), value, len);
	} while (err == 0 && ++n);
	FAILS(FARKV_ENOSPC, err);
	/* A stopped client gets one second, once; then the store is full. */
	ck_assert_uint_lt(e2e_now_ms() - t, 4500);
	for (int i = 0; i < 3; i++) {
		t = e2e_now_ms();
		FAILS(FARKV_ENOSPC, farkv_put(kv, &n, sizeof(n), value, len));
		best = UTIL_MIN(best, e2e_now_ms() - t);
	}
	ck_assert_uint_lt(best, 500);
	return n;
}

static void delete_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(farkv_delete(kv, &i, sizeof(i)));
}

/* Memory of small values serves large ones and the other way round. */
TEST(memory_of_one_size_serves_others)
{
	bool fast = !real_server_is_remote();
	const unsigned len[] = {fast ? 20 : 8000, 4000, fast ? 100 : 16000,
				50000};
	/* Of the large ones, two pages each, gaps between subtables take some. */
	const unsigned gaps[] = {65536, 65536, 65536, 4 * 65536};
	struct farkv_stats st = {.size = sizeof(st)};
	unsigned first[4] = {0}, n;
	uint64_t index[4], grown;

	for (unsigned round = 0; round < 8; round++) {
		unsigned k = round % 4;

		n = fill_with(len[k]);
		OK(farkv_stats(kv, &st));
		if (round < 4) {
			first[k] = n;
			index[k] = st.index_bytes;
		}
		/* No segment is lost, except to subtables. */
		grown = st.index_bytes - index[k];
		ck_assert_uint_ge(n * len[k] + gaps[k] + grown,
				  first[k] * len[k]);
		for (unsigned i = 0; i < n; i++) {
			e2e_fill(value, len[k], i);
			e2e_expect(kv, &i, sizeof(i), value, len[k]);
		}
		delete_all(n);
	}
	/* The index has what 100000 keys need: 16 bytes for each. */
	ck_assert_uint_gt(first[0], fast ? 80000 : 700);
	ck_assert_uint_gt(first[1] * 4096, 8 * MIB / 10 * 7);
	ck_assert_uint_gt(first[3] * 65536, 8 * MIB / 10 * 6);
}

/* A process with an idle handle. */
static pid_t idle_client(void)
{
	int fds[2];
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct farkv *h = e2e_open(srv.path, 5000);

		OK(e2e_put(h, "idle", "client"));
		if (write(fds[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], &c, 1), 1);
	close(fds[0]);
	return pid;
}

/*
 * Each of these puts needs the block of its delete, so the tombstone is removed from the
 * index. Neighbouring keys move up meanwhile and sometimes fill its window; then the
 * index would have to grow, which is refused. Returns the number of refusals: these keys
 * are absent.
 */
static unsigned replace_all(unsigned n)
{
	unsigned refused = 0;
	int err;

	for (unsigned i = 0; i < n; i++) {
		OK(farkv_delete(kv, &i, sizeof(i)));
		err = farkv_put(kv, &i, sizeof(i), "x", 1);
		if (err == FARKV_ENOSPC && strstr(farkv_errdetail(), "index"))
			refused++;
		else
			OK(err);
	}
	ck_assert_uint_le(refused, n / 20);
	return refused;
}

/* Pages keep their class while a client is stopped. */
TEST(memory_under_a_stopped_client_keeps_its_use)
{
	unsigned n, stopped, refused, absent = 0;
	uint64_t end;
	int status, err;
	pid_t pid;

	if (real_server_skips("memory_under_a_stopped_client_keeps_its_use",
			      "who comes from afar is not waited for"))
		return;
	pid = idle_client();
	n = fill_with(20);
	/* Deletes of small values leave the client no block: the index has it at once. */
	refused = replace_all(100);
	for (unsigned i = 0; i < n; i++) {
		err = farkv_delete(kv, &i, sizeof(i));
		if (err == FARKV_ENOTFOUND && i < 100)
			absent++;
		else
			OK(err);
	}
	ck_assert_uint_eq(absent, refused);
	kill(pid, SIGSTOP);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	stopped = fill_with(50000);
	ck_assert_uint_lt(stopped, 8 * MIB / 65536 / 4);
	kill(pid, SIGCONT);
	end = e2e_now_ms() + 5000;
	do
		err = farkv_put(kv, "first", 5, value, 50000);
	while (err == FARKV_ENOSPC && e2e_now_ms() < end);
	OK(err);
	n = fill_with(50000);
	/* The index has a fifth, and there are gaps. */
	ck_assert_uint_gt(n * 65536, 8 * MIB / 10 * 6);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- index ----------------------------------------------------------------- */

TEST_GROUP(.setup = setup_few_slots, .teardown = teardown);

TEST(index_of_one_subtable_grows)
{
	unsigned n = real_server_is_remote() ? 6000 : 4 * 4096;
	struct farkv_stats st = {.size = sizeof(st)};

	for (unsigned i = 0; i < n; i++)
		OK(farkv_add(kv, &i, sizeof(i), &i, sizeof(i)));
	OK(farkv_stats(kv, &st));
	ck_assert_uint_gt(st.subtables * 4096, n); /* at most 74 % full */
	ck_assert_uint_eq(st.items, n);
	FAILS(FARKV_ENOTFOUND, probe_number(kv, n));
	FAILS(FARKV_ENOTFOUND, farkv_delete(kv, &n, sizeof(n)));
	FAILS(FARKV_ENOTFOUND, farkv_replace(kv, &n, sizeof(n), "x", 1));
	/* A session that was accepted has all rights. */
	for (unsigned i = 0; i < n; i++) {
		e2e_expect(kv, &i, sizeof(i), &i, sizeof(i));
		FAILS(FARKV_EEXISTS, farkv_add(kv, &i, sizeof(i), "x", 1));
		if (i % 3 == 0)
			OK(farkv_put(kv, &i, sizeof(i), "over", 4));
		if (i % 3 == 1)
			OK(farkv_delete(kv, &i, sizeof(i)));
	}
	for (unsigned i = 1; i < n; i += 3)
		OK(farkv_add(kv, &i, sizeof(i), "back", 4));
	for (unsigned i = 0; i < n; i++)
		if (i % 3 == 2)
			e2e_expect(kv, &i, sizeof(i), &i, sizeof(i));
		else
			e2e_expect(kv, &i, sizeof(i), i % 3 ? "back" : "over",
				   4);
}

/* ---- large values ---------------------------------------------------------- */

/*
 * A WRITE of this length takes a software device on a busy machine longer than the
 * connection waits for acknowledgements; a put may be repeated.
 */
static int put_large(const uint8_t *big, size_t bytes)
{
	int err;

	for (unsigned n = 0;; n++) {
		err = farkv_put(kv, "big", 3, big, bytes);
		if (err != FARKV_EMAYBE || !real_server_is_remote() || n == 5)
			return err;
	}
}

TEST_GROUP(.setup = setup_large, .teardown = teardown);

TEST(value_of_the_largest_size_is_stored)
{
	size_t bytes = large_bytes(), len = 0;
	uint8_t *big = calloc(1, bytes + 1), *copy = malloc(bytes);
	struct farkv_get_item it = {.key = "big", .key_len = 3};

	FAILS(FARKV_ETOOLARGE, farkv_put(kv, "big", 3, big, bytes + 1));
	for (unsigned round = 0; round < 2; round++) {
		e2e_fill(big, bytes, round);
		OK(put_large(big, bytes));
		memset(copy, POISON, bytes);
		OK(farkv_get_into(kv, "big", 3, copy, bytes, &len, NULL));
		ck_assert_uint_eq(len, bytes);
		ck_assert(memcmp(copy, big, bytes) == 0);
	}
	OK(farkv_mget(kv, &it, 1));
	ck_assert_uint_eq(it.value.len, bytes);
	ck_assert(memcmp(it.value.data, big, bytes) == 0);
	memset(copy, POISON, 16);
	FAILS(FARKV_ETOOSMALL,
	      farkv_get_into(kv, "big", 3, copy, bytes - 1, &len, NULL));
	ck_assert(e2e_poisoned(copy, 16));
	OK(e2e_del(kv, "big"));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "big"));
	free(big);
	free(copy);
}

/* ---- sessions ------------------------------------------------------------ */

TEST_GROUP(.setup = setup_few_slots, .teardown = teardown);

TEST(session_beyond_the_limit_is_refused_until_one_ends)
{
	struct farkv *second = e2e_open(srv.path, 1000), *third = NULL;

	FAILS(FARKV_EREFUSED, farkv_open(srv.path, NULL, &third));
	ck_assert_ptr_null(third);
	e2e_detail("max-sessions");
	farkv_close(second);
	OK(e2e_put(kv, "k", "v"));
	second = e2e_open(srv.path, 1000);
	e2e_expect_str(second, "k", "v");
	farkv_close(second);
}

TEST_SUITE("limits", real_server_require())
