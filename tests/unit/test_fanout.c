/* SPDX-License-Identifier: BSD-3-Clause */
/* client/fanout.h: parts of a call, carried out by threads at the same time. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "client/fanout.h"
#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "tests/rig/cases.h"

static struct fanout f;
static unsigned calls[FANOUT_PARTS_MAX];

static void setup(void)
{
	memset(calls, 0, sizeof(calls));
	fanout_init(&f);
}

static void teardown(void)
{
	fanout_fini(&f);
}

/* Parts of 3 and more fail. */
static int count_call(void *arg, uint32_t part)
{
	unsigned *each = arg;

	each[part]++;
	return part < 3 ? 0 : err_set(FARKV_EINVAL, "part %u", part);
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST_LOOP(parts__each_is_called_once_and_its_result_is_kept, 0, 4)
{
	const uint64_t parts = UINT64_C(1) << 63 | 0x2e;

	fanout_run(&f, parts, (unsigned)_i, count_call, calls);
	for (uint32_t i = 0; i < FANOUT_PARTS_MAX; i++)
		ck_assert_uint_eq(calls[i], parts >> i & 1);
	err_clear();
	ck_assert_int_eq(fanout_take_result(&f, 1), 0);
	ck_assert_str_eq(err_detail(), "");
	ck_assert_int_eq(fanout_take_result(&f, 63), FARKV_EINVAL);
	ck_assert_str_eq(err_detail(), "part 63");
	ck_assert_int_eq(fanout_take_result(&f, 5), FARKV_EINVAL);
	ck_assert_str_eq(err_detail(), "part 5");
}

struct meeting {
	pthread_barrier_t all;
	pthread_t caller;
	unsigned left;
};

/* The caller is the first one to leave. */
static int meet(void *arg, uint32_t part)
{
	struct meeting *m = arg;

	sigset_t blocked;

	(void)part;
	pthread_barrier_wait(&m->all);
	if (!pthread_equal(m->caller, pthread_self())) {
		clock_sleep_ns(10 * NS_PER_MS);
		pthread_sigmask(SIG_SETMASK, NULL, &blocked);
		/* A handler of the program may resolve a fault at its memory. */
		ck_assert(!sigismember(&blocked, SIGSEGV) && !sigismember(&blocked, SIGBUS));
		ck_assert(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1));
	}
	(void)atom_count(&m->left, 1u);
	return 0;
}

/* One after the other, none would return. */
TEST(helpers__parts_run_at_the_same_time_and_all_are_waited_for)
{
	for (unsigned n = 2; n <= 5; n++) {
		struct meeting m = {.caller = pthread_self()};

		pthread_barrier_init(&m.all, NULL, n);
		fanout_run(&f, (UINT64_C(1) << n) - 1, n - 1, meet, &m);
		ck_assert_uint_eq(m.left, n);
		pthread_barrier_destroy(&m.all);
	}
}

struct seen {
	pthread_t thread;
	uint32_t last;
	bool in_order;
};

static int look(void *arg, uint32_t part)
{
	struct seen *s = arg;

	s->in_order &= part > s->last && pthread_equal(s->thread, pthread_self());
	s->last = part;
	return 0;
}

TEST(no_helpers__parts_follow_one_another_in_the_caller)
{
	for (unsigned i = 0; i < 5000; i++) {
		struct seen s = {.thread = pthread_self(), .in_order = true};

		/* Threads may be waking up for this one. */
		fanout_run(&f, 7, 2, count_call, calls);
		fanout_run(&f, UINT64_MAX - 1, 0, look, &s);
		ck_assert(s.in_order);
		ck_assert_uint_eq(s.last, 63);
	}
}

TEST(calls__many_in_turn__none_loses_a_part)
{
	uint64_t parts = 1, sum = 0;

	for (unsigned i = 0; i < 20000; i++) {
		parts = parts * UINT64_C(6364136223846793005) + 1;
		fanout_run(&f, parts >> 40, i % 4, count_call, calls);
		sum += (unsigned)__builtin_popcountll(parts >> 40);
		for (uint32_t p = 0; p < 24 && i % 1000 == 0; p++)
			if (parts >> 40 >> p & 1)
				ck_assert_int_eq(fanout_take_result(&f, p), p < 3 ? 0 : FARKV_EINVAL);
	}
	for (uint32_t i = 0; i < FANOUT_PARTS_MAX; i++)
		sum -= calls[i];
	ck_assert_uint_eq(sum, 0);
}

static unsigned long mapped_bytes(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	ck_assert_ptr_nonnull(statm);
	ck_assert_int_eq(fscanf(statm, "%lu", &pages), 1);
	fclose(statm);
	return pages * 4096;
}

/* A stack is larger than what may be mapped. */
TEST(no_thread_can_start__the_caller_does_all)
{
	struct seen s = {.thread = pthread_self(), .in_order = true};
	struct rlimit l = {.rlim_cur = mapped_bytes() + (1u << 20), .rlim_max = RLIM_INFINITY};

	if (TEST_UNDER_ASAN || TEST_UNDER_TSAN) {
		printf("  left out: no thread can start: sanitizers map more than any limit\n");
		return;
	}
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &l), 0);
	fanout_run(&f, 0x1e, 3, look, &s);
	ck_assert_uint_eq(f.n_threads, 0);
	ck_assert(s.in_order);
	ck_assert_uint_eq(s.last, 4);
}

TEST_SUITE("fanout")
