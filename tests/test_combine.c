/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that share a write: who leads, who is done by whom, and who never is. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/atfork.h"
#include "client/combine.h"
#include "common/clock.h"
#include "test_main.h"

#define HASH UINT64_C(77)
#define LONG_NS (20 * NS_PER_SEC)

static const uint64_t region[2] = {1, 2}, elsewhere[2] = {1, 3};

static struct index_key key_of(const char *text)
{
	return (struct index_key){.data = text, .len = (uint16_t)strlen(text),
				  .hash = HASH};
}

static enum combine begin(const uint64_t *where, const char *text,
			  struct combine_run *run)
{
	struct index_key k = key_of(text);

	return combine_begin(where, &k, clock_now_ns() + LONG_NS, run);
}

static void setup(void)
{
	combine_fork_child();
	combine_set_patience(0);
}

/* ---- which keys ------------------------------------------------------------------ */

START_TEST(heat_rivals_then_none_is_hot_for_sixteen_puts)
{
	struct combine_heat h = {0};

	combine_met(&h, 5, false);
	ck_assert(!combine_is_hot(&h, 5));
	combine_met(&h, 5, true);
	ck_assert(combine_is_hot(&h, 5));
	ck_assert(!combine_is_hot(&h, 6));
	for (unsigned i = 0; i < COMBINE_HEAT; i++) {
		ck_assert(combine_is_hot(&h, 5));
		combine_met(&h, 5, false);
	}
	ck_assert(!combine_is_hot(&h, 5));
	ck_assert_uint_eq(h.n, 0);
}
END_TEST

START_TEST(heat_more_keys_than_places_keeps_the_last)
{
	struct combine_heat h = {0};

	for (uint64_t i = 1; i <= 3 * COMBINE_HOT_KEYS; i++) {
		combine_met(&h, i, true);
		ck_assert(combine_is_hot(&h, i));
		ck_assert_uint_le(h.n, COMBINE_HOT_KEYS);
	}
	ck_assert_uint_eq(h.n, COMBINE_HOT_KEYS);
}
END_TEST

/* ---- one thread ------------------------------------------------------------------ */

START_TEST(begin_nobody_there_leads_again_and_again)
{
	struct combine_run run;

	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
		ck_assert(!combine_end(&run, i % 2));
	}
}
END_TEST

START_TEST(begin_during_a_run_of_another_key_is_alone)
{
	char much[COMBINE_KEY_MAX + 2];
	struct combine_run run, other;

	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = 0;
	combine_set_patience(LONG_NS);
	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
	ck_assert_int_eq(begin(region, "b", &other), COMBINE_ALONE);
	ck_assert_int_eq(begin(region, "ab", &other), COMBINE_ALONE);
	ck_assert_int_eq(begin(elsewhere, "a", &other), COMBINE_ALONE);
	ck_assert_int_eq(begin(region, much, &other), COMBINE_ALONE);
	combine_end(&run, true);
	/* Between two runs the slot is whose comes. */
	ck_assert_int_eq(begin(region, "b", &run), COMBINE_LEAD);
	ck_assert_int_eq(begin(region, "a", &other), COMBINE_ALONE);
	combine_end(&run, true);
}
END_TEST

START_TEST(begin_leader_that_has_stopped_is_waited_for_in_vain_but_not_long)
{
	struct combine_run run, other;
	struct index_key k = key_of("a");
	uint64_t t;

	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
	ck_assert_int_eq(begin(region, "a", &other), COMBINE_ALONE);
	combine_set_patience(LONG_NS);
	t = clock_now_ns();
	ck_assert_int_eq(combine_begin(region, &k, t + NS_PER_MS, &other),
			 COMBINE_ALONE);
	ck_assert_uint_ge(clock_now_ns() - t, NS_PER_MS);
	/* What it waited for may come yet; nobody else is harmed. */
	ck_assert(combine_end(&run, true));
	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
	combine_end(&run, true);
}
END_TEST

START_TEST(fork_child_has_no_leaders)
{
	struct combine_run run;

	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
	combine_fork_child();
	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
}
END_TEST

/* A leader of the parent's will never be through in the child: no thread of it is there. */
START_TEST(fork_itself_leaves_no_leaders)
{
	struct combine_run run;
	int status;
	pid_t pid;

	ck_assert_int_eq(atfork_init(), 0);
	ck_assert_int_eq(begin(region, "a", &run), COMBINE_LEAD);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(begin(region, "a", &run) == COMBINE_LEAD ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	combine_end(&run, true);
}
END_TEST

/* ---- many ------------------------------------------------------------------------ */

#define THREADS 6u
#define KEYS 2u

/*
 * Moments are numbers of one counter. A run that succeeds notes when it began; who is
 * done by others must find a run of its key that began after itself.
 */
static uint64_t moment, began_ok[KEYS];
static uint64_t count_lead, count_done, count_alone, count_wrong;
static unsigned keys_used;
static const char *const names[KEYS] = {"one key", "two key"};

static void *worker(void *arg)
{
	uint64_t x = (uintptr_t)arg;
	unsigned rounds = test_rounds(4000);

	for (unsigned i = 0; i < rounds; i++) {
		unsigned k = (unsigned)(x >> 20) % keys_used;
		uint64_t t = __atomic_add_fetch(&moment, 1, __ATOMIC_SEQ_CST);
		struct combine_run run;

		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		switch (begin(region, names[k], &run)) {
		case COMBINE_LEAD:
			t = __atomic_add_fetch(&moment, 1, __ATOMIC_SEQ_CST);
			__atomic_add_fetch(&count_lead, 1, __ATOMIC_RELAXED);
			/* Others come. */
			if (x >> 40 & 1)
				sched_yield();
			if (x >> 41 & 3)
				__atomic_store_n(&began_ok[k], t,
						 __ATOMIC_SEQ_CST);
			combine_end(&run, x >> 41 & 3);
			break;
		case COMBINE_DONE:
			__atomic_add_fetch(&count_done, 1, __ATOMIC_RELAXED);
			if (__atomic_load_n(&began_ok[k], __ATOMIC_SEQ_CST) < t)
				__atomic_add_fetch(&count_wrong, 1,
						   __ATOMIC_RELAXED);
			break;
		default:
			__atomic_add_fetch(&count_alone, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void run_workers(unsigned keys)
{
	pthread_t thread[THREADS];
	struct combine_run run;

	keys_used = keys;

	/* The place is the first key's. */
	ck_assert_int_eq(begin(region, names[0], &run), COMBINE_LEAD);
	combine_end(&run, false);
	moment = count_lead = count_done = count_alone = count_wrong = 0;
	memset(began_ok, 0, sizeof(began_ok));
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, worker,
						(void *)(uintptr_t)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	printf("  %u keys: %llu led, %llu done by others, %llu alone\n", keys,
	       (unsigned long long)count_lead, (unsigned long long)count_done,
	       (unsigned long long)count_alone);
	ck_assert_uint_eq(count_wrong, 0);
	ck_assert_uint_eq(count_lead + count_done + count_alone,
			  THREADS * test_rounds(4000));
}

START_TEST(threads_one_key_are_done_by_runs_that_began_later)
{
	combine_set_patience(LONG_NS);
	run_workers(1);
	ck_assert_uint_gt(count_done, 0);
	ck_assert_uint_eq(count_alone, 0);
}
END_TEST

START_TEST(threads_two_keys_in_one_place_are_done_by_runs_of_their_own)
{
	combine_set_patience(LONG_NS);
	run_workers(2);
	ck_assert_uint_gt(count_alone, 0);
}
END_TEST

START_TEST(threads_without_patience_go_on_alone)
{
	combine_set_patience(1);
	run_workers(1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("combine");
	TCase *t = tcase_create("combine");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, heat_rivals_then_none_is_hot_for_sixteen_puts);
	tcase_add_test(t, heat_more_keys_than_places_keeps_the_last);
	tcase_add_test(t, begin_nobody_there_leads_again_and_again);
	tcase_add_test(t, begin_during_a_run_of_another_key_is_alone);
	tcase_add_test(t, begin_leader_that_has_stopped_is_waited_for_in_vain_but_not_long);
	tcase_add_test(t, fork_child_has_no_leaders);
	tcase_add_test(t, fork_itself_leaves_no_leaders);
	tcase_add_test(t, threads_one_key_are_done_by_runs_that_began_later);
	tcase_add_test(t, threads_two_keys_in_one_place_are_done_by_runs_of_their_own);
	tcase_add_test(t, threads_without_patience_go_on_alone);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
