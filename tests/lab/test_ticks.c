/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ticks.h"
#include "tests/rig/test_main.h"

#define ROUNDS 2000u
#define PLAYERS 4u /* two a machine */

static char file[] = "/tmp/ticks.XXXXXX";
static struct ticks side[2];

static void make_page(void)
{
	int fd = mkstemp(file);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	close(fd);
	ck_assert_int_eq(ticks_open(&side[0], file, 0), 0);
	ck_assert_int_eq(ticks_open(&side[1], file, 1), 0);
	unlink(file);
}

/* Passes on what the clock shows; ends with 1 if it is not later than what came. */
static void play(const struct ticks *t, int from, int to)
{
	uint64_t before, now;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(from, &before, sizeof(before)) == sizeof(before)) {
		now = ticks_now(t);
		if (now <= before)
			_exit(1);
		if (write(to, &now, sizeof(now)) != sizeof(now))
			_exit(2);
	}
	_exit(0);
}

static pid_t disturb(const struct ticks *t)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			ticks_now(t);
			usleep(50);
		}
	}
	return pid;
}

START_TEST(readings_one_after_the_other_on_both_machines_grow)
{
	uint64_t first = 0, last = 0;
	int pipes[PLAYERS + 1][2], status;
	pid_t pid[PLAYERS], other[2];

	make_page();
	for (unsigned i = 0; i <= PLAYERS; i++)
		ck_assert_int_eq(pipe(pipes[i]), 0);
	for (unsigned i = 0; i < PLAYERS; i++) {
		pid[i] = fork();
		ck_assert_int_ge(pid[i], 0);
		if (pid[i] == 0) {
			for (unsigned k = 0; k <= PLAYERS; k++)
				close(pipes[k][1 - (k == i + 1)]);
			play(&side[i % 2], pipes[i][0], pipes[i + 1][1]);
		}
	}
	for (unsigned i = 0; i < 2; i++)
		other[i] = disturb(&side[i]);
	for (unsigned n = 0; n < ROUNDS; n++) {
		last = 0;
		ck_assert_int_eq(write(pipes[0][1], &first, sizeof(first)), 8);
		ck_assert_int_eq(read(pipes[PLAYERS][0], &last, sizeof(last)),
				 8);
		ck_assert_uint_ge(last, first + PLAYERS);
		first = last;
	}
	for (unsigned i = 0; i < 2; i++) {
		kill(other[i], SIGKILL);
		waitpid(other[i], &status, 0);
	}
	for (unsigned i = 0; i <= PLAYERS; i++)
		close(pipes[i][1]);
	for (unsigned i = 0; i < PLAYERS; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

START_TEST(file_that_cannot_be_mapped_is_an_error)
{
	struct ticks t = {NULL, NULL};

	ck_assert_int_eq(ticks_open(&t, "/dev/null/x", 0), -1);
	ck_assert_int_eq(ticks_open(&t, "/dev/null", 0), -1);
	ck_assert_ptr_null(t.own);
}
END_TEST

static Suite *ticks_suite(void)
{
	Suite *s = suite_create("ticks");
	TCase *t = tcase_create("ticks");

	tcase_add_test(t, readings_one_after_the_other_on_both_machines_grow);
	tcase_add_test(t, file_that_cannot_be_mapped_is_an_error);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(ticks_suite())
