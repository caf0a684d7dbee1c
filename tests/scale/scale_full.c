/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that is full: what is deleted makes room for what is put, and who finds none
 * is told so, whatever its deadline.
 *
 * The grace period is a minute in make check: a put that waits for it fails. The figures,
 * in make check-scale, are those of the default one.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "scale.h"
#include "tests/rig/test_main.h"

#define WRITERS 3u

static struct real_server srv;

static struct stage {
	uint32_t stop;
	uint64_t puts[WRITERS], full[WRITERS];
} *stage;

static void serve(uint64_t mib)
{
	char memory[24];
	const char *args[] = {"-m", memory, "--hugepages=never", NULL, NULL};

	if (scale_pick(1, 0, 0))
		args[3] = "--grace-ms=60000";
	snprintf(memory, sizeof(memory), "%um", (unsigned)mib);
	real_server_init(&srv, args);
}

static void setup(void)
{
	stage = scale_shared(sizeof(*stage));
	serve(scale_pick(16, 64, 64));
}

static void teardown(void)
{
	real_server_fini(&srv);
}

/* Keys from `n` on until there is no memory; the first that is not there. */
static uint64_t fill(struct farkv *kv, uint64_t n, size_t len)
{
	int err;

	while ((err = scale_put(kv, n, 1, len)) == 0)
		n++;
	ck_assert_msg(err == FARKV_ENOSPC, "%s: %s", farkv_strerror(err),
		      farkv_errdetail());
	return n;
}

/* One key deleted, one put, in turn, the oldest first. */
static void turn_over(struct farkv *kv, uint64_t first, uint64_t next, uint64_t n,
		      size_t len)
{
	uint64_t t = scale_now_ns();

	for (uint64_t i = 0; i < n; i++) {
		int err = scale_delete(kv, first + i);

		ck_assert_msg(err == 0, "delete %" PRIu64 ": %s", i, farkv_errdetail());
		err = scale_put(kv, next + i, 1, len);
		ck_assert_msg(err == 0, "put %" PRIu64 " of %" PRIu64 ": %s", i, n,
			      farkv_errdetail());
	}
	t = scale_now_ns() - t;
	scale_say("%5zu bytes: %" PRIu64 " values fill it; %.0f deletes and puts a "
		  "second, in turn", len, next - first,
		  (double)n / ((double)t / 1e9));
}

static const size_t lens[] = {8, 100, 1000, 20000};

START_TEST(delete_and_put_in_turn_in_a_full_store_goes_on)
{
	uint64_t n = scale_pick(20000, 200000, 3000000), next;
	struct farkv *kv = worker_open(srv.path, 0);
	size_t len = lens[_i];

	if (len > 4096)
		n /= 10;
	next = fill(kv, 0, len);
	turn_over(kv, 0, next, n, len);
	/* Filled completely again: the same as before. */
	next = fill(kv, next + n, len);
	turn_over(kv, n, next, n, len);
	for (uint64_t i = 2 * n; i < 2 * n + 100; i++)
		ck_assert_uint_eq(scale_get(kv, i, len), 1);
	farkv_close(kv);
	scale_fsck_swept(&srv, "after the turns");
}
END_TEST

/* ---- one deletes, others put ------------------------------------------------- */

#define MIXED_LEN 100u

static void writer_main(unsigned me, void *arg)
{
	struct farkv *kv = worker_open(srv.path, 0);
	uint64_t next = SCALE_ABSENT / 8 * (me + 1);
	int err;

	(void)arg;
	worker_say('r');
	worker_wait();
	while (!__atomic_load_n(&stage->stop, __ATOMIC_RELAXED)) {
		err = scale_put(kv, next, 1, MIXED_LEN);
		MUST(err == 0 || err == FARKV_ENOSPC, "put: %s", farkv_strerror(err));
		next += err == 0;
		__atomic_fetch_add(err ? &stage->full[me] : &stage->puts[me], 1,
				   __ATOMIC_RELAXED);
	}
	farkv_close(kv);
	_exit(0);
}

static uint64_t puts_done(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < WRITERS; i++)
		n += __atomic_load_n(&stage->puts[i], __ATOMIC_RELAXED);
	return n;
}

START_TEST(puts_of_others_while_one_deletes_succeed)
{
	uint64_t n = scale_pick(20000, 200000, 3000000), next, t, end;
	struct farkv *kv = worker_open(srv.path, 0);
	struct scale_worker w[WRITERS];

	next = fill(kv, 0, MIXED_LEN);
	n = n < next ? n : next;
	for (unsigned i = 0; i < WRITERS; i++) {
		w[i] = scale_start(writer_main, i, NULL);
		scale_expect(&w[i], 'r', 60000);
		scale_tell(&w[i], 'g');
	}
	t = scale_now_ns();
	for (uint64_t i = 0; i < n; i++)
		ck_assert_int_eq(scale_delete(kv, i), 0);
	/* All but the reserve, and the blocks that each client holds. */
	end = t + UINT64_C(120000000000);
	while (puts_done() < n / 2 && scale_now_ns() < end)
		usleep(1000);
	ck_assert_uint_ge(puts_done(), n / 2);
	t = scale_now_ns() - t;
	scale_say("one deletes %" PRIu64 ", %u put: %.0f puts a second", n, WRITERS,
		  (double)puts_done() / ((double)t / 1e9));
	__atomic_store_n(&stage->stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < WRITERS; i++)
		scale_join(&w[i], 0, 60000);
	farkv_close(kv);
	scale_fsck_swept(&srv, "after the mixture");
}
END_TEST

/* ---- what it says -------------------------------------------------------------- */

/*
 * A call whose deadline passes before the server has searched everywhere gets the same
 * error.
 */
START_TEST(put_in_a_full_store_says_so_under_any_deadline)
{
	static const uint32_t ms[] = {20, 100, 1000};
	struct farkv *kv = worker_open(srv.path, 0), *hasty;
	struct farkv_options o;
	uint64_t next = fill(kv, 0, 1000);
	unsigned full = 0;

	farkv_options_init(&o);
	o.op_timeout_ms = ms[_i];
	ck_assert_int_eq(farkv_open(srv.path, &o, &hasty), 0);
	for (unsigned i = 0; i < 20; i++) {
		int err = scale_put(hasty, next + i, 1, 1000);

		/* A busy machine may be silent for this long; then the error comes. */
		if (err == FARKV_ETIMEDOUT && ms[_i] < 1000)
			continue;
		ck_assert_msg(err == FARKV_ENOSPC, "%u ms: %s: %s", ms[_i],
			      farkv_strerror(err), farkv_errdetail());
		ck_assert_ptr_nonnull(strstr(farkv_errdetail(),
					     "no memory left for a block of 1280 bytes"));
		ck_assert_ptr_nonnull(strstr(farkv_errdetail(), "free in other sizes"));
		full++;
	}
	ck_assert_uint_gt(full, 0);
	farkv_close(hasty);
	farkv_close(kv);
}
END_TEST

static void add(Suite *s, const char *name, const TTest *test, int n)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, (double)scale_pick(300, 900, 1800));
	tcase_add_loop_test(t, test, 0, n);
	suite_add_tcase(s, t);
}

static Suite *suite(void)
{
	Suite *s = suite_create("full");

	real_server_require();
	add(s, "in-turn", delete_and_put_in_turn_in_a_full_store_goes_on, 4);
	add(s, "mixed", puts_of_others_while_one_deletes_succeed, 1);
	add(s, "deadlines", put_in_a_full_store_says_so_under_any_deadline, 3);
	return s;
}

TEST_MAIN(suite())
