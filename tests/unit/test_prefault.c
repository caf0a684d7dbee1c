/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory is collapsed into huge pages, and when, with a kernel that the test plays.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define MIB (UINT64_C(1) << 20)
#define TOTAL (300 * MIB)

static bool collapse(void *at, uint64_t bytes);
#define hugepage_collapse collapse
#include "server/memory/prefault.c"

static struct prefault *a;
static uint8_t *const data = (uint8_t *)(uintptr_t)(64 * MIB); /* not read by anything */

/* Calls of the thread to the kernel. `kernel` gives the result: 0 or an errno. */
#define CALLS_MAX 1000u
static struct call {
	uint64_t from, to, at_ns;
} call[CALLS_MAX];
static uint32_t calls; /* atomic */
static int (*kernel)(const struct call *c, uint32_t nth);

static bool collapse(void *at, uint64_t bytes)
{
	uint64_t off = (uint64_t)((uint8_t *)at - data);
	uint32_t n = __atomic_load_n(&calls, __ATOMIC_RELAXED);

	call[n] = (struct call){off, off + bytes, clock_now_ns()};
	errno = kernel(&call[n], n);
	if (n + 1 < CALLS_MAX)
		__atomic_store_n(&calls, n + 1, __ATOMIC_RELEASE);
	return errno == 0;
}

static int makes_all(const struct call *c, uint32_t nth)
{
	(void)c;
	(void)nth;
	return 0;
}

static void setup(uint64_t bytes, int (*how)(const struct call *c, uint32_t nth))
{
	calls = 0;
	kernel = how;
	a = prefault_new(data, bytes);
	ck_assert_ptr_nonnull(a);
	a->again_ns = 5 * NS_PER_MS;
	a->again_ns_max = 40 * NS_PER_MS;
}

static uint32_t calls_now(void)
{
	return __atomic_load_n(&calls, __ATOMIC_ACQUIRE);
}

static void wait_for_calls(uint32_t n)
{
	for (unsigned i = 0; i < 10000 && calls_now() < n; i++)
		usleep(1000);
	ck_assert_uint_ge(calls_now(), n);
}

/* It is idle and has not been stopped. */
static bool is_idle(void)
{
	bool idle;

	pthread_mutex_lock(&a->lock);
	idle = !a->running || a->useless ||
	       (!due(a, &a->low) && !due(a, &a->high) && !a->n_again);
	pthread_mutex_unlock(&a->lock);
	return idle;
}

static void settle(void)
{
	for (unsigned i = 0; i < 10000 && !is_idle(); i++)
		usleep(1000);
	ck_assert(is_idle());
	prefault_free(a); /* its current step is finished then */
}

static unsigned times(uint64_t page)
{
	uint64_t from = page * HUGEPAGE_BYTES;
	unsigned n = 0;

	for (uint32_t i = 0; i < calls; i++)
		n += call[i].from <= from && from < call[i].to;
	return n;
}

/* Each of the first `low` and of the last `high` MiB once, and nothing else. */
static void check_made(uint64_t low, uint64_t high, uint64_t of)
{
	for (uint64_t i = 0; i * 2 < of; i++)
		ck_assert_msg(times(i) == (i * 2 < low || i * 2 >= of - high),
			      "at %u MiB: %u times", (unsigned)i * 2, times(i));
	for (uint32_t i = 0; i < calls; i++) {
		ck_assert_uint_eq(call[i].from % HUGEPAGE_BYTES, 0);
		ck_assert_uint_eq(call[i].to % HUGEPAGE_BYTES, 0);
		ck_assert_uint_lt(call[i].from, call[i].to);
		ck_assert_uint_le(call[i].to, of * MIB);
	}
}

TEST(empty_store_prefaults_nothing)
{
	setup(TOTAL, makes_all);
	prefault_used(a, 0, 32768);
	ck_assert(!a->running);
	settle();
	ck_assert_uint_eq(calls, 0);
}

TEST(prefault_makes_as_much_as_is_in_use)
{
	static const struct {
		uint64_t low, high, made_low, made_high;
	} cases[] = {
		{1, 32768, 4, 4},
		{2 * MIB, 0, 4, 2},
		{20 * MIB + 5, 2 * MIB, 42, 4},
		{100 * MIB, 7 * MIB, 164, 14},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		setup(TOTAL, makes_all);
		prefault_used(a, cases[i].low, cases[i].high);
		settle();
		check_made(cases[i].made_low, cases[i].made_high, 300);
	}
}

TEST(prefault_from_both_ends_meets)
{
	setup(101 * MIB, makes_all);
	prefault_used(a, 40 * MIB, 30 * MIB);
	prefault_used(a, 101 * MIB, 101 * MIB);
	settle();
	check_made(100, 0, 100);
}

TEST(rest_below_a_huge_page_is_left_alone)
{
	setup(2 * MIB - 4096, makes_all);
	prefault_used(a, MIB, MIB);
	settle();
	ck_assert_uint_eq(calls, 0);
}

/* The kernel reports busy pages in the first and the third of 32 MiB, once. */
static int some_in_hand(const struct call *c, uint32_t nth)
{
	usleep(3000);
	return nth < 6 && (c->from == 0 || c->from == 64 * MIB) ? EAGAIN : 0;
}

TEST(busy_pages_are_retried_last)
{
	setup(TOTAL, some_in_hand);
	prefault_used(a, 100 * MIB, 0); /* five steps and a bit, and one from the end */
	settle();
	ck_assert_uint_eq(calls, 9);
	for (uint64_t i = 0; i < TOTAL / HUGEPAGE_BYTES; i++)
		ck_assert_uint_eq(times(i), i < 16 || (i >= 32 && i < 48) ? 2 : i < 82 || i == 149);
	ck_assert_uint_eq(call[7].from, 0);
	ck_assert_uint_eq(call[8].from, 64 * MIB);
}

static int none_for_a_while(const struct call *c, uint32_t nth)
{
	(void)c;
	return nth < 6 ? ENOMEM : 0;
}

/* The kernel has no huge pages free: one call per round, and all of it once it has. */
TEST(short_memory_is_waited_for)
{
	setup(TOTAL, none_for_a_while);
	prefault_used(a, 40 * MIB, 0); /* two steps and a third, and one from the end */
	settle();
	ck_assert_uint_eq(calls, 6 + 4);
	for (uint32_t i = 4; i < 7; i++)
		ck_assert_uint_eq(call[i].from, 0);
	for (uint64_t i = 0; i < TOTAL / HUGEPAGE_BYTES; i++)
		ck_assert_uint_eq(times(i) >= 2, i < 40 || i == 149);
}

static int makes_none(const struct call *c, uint32_t nth)
{
	(void)c;
	(void)nth;
	return EINVAL;
}

TEST(kernel_without_huge_pages_is_asked_once)
{
	setup(TOTAL, makes_none);
	prefault_used(a, TOTAL, 0);
	wait_for_calls(1);
	prefault_used(a, TOTAL, TOTAL);
	settle();
	ck_assert_uint_eq(calls, 1);
}

TEST_SUITE("prefault")
