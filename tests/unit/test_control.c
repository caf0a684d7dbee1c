/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h alone: sources are eventfds. Threads start late, and not before a fork() that
 * has to wait for them has begun.
 */
#include "config.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "client/atfork.h"
#include "client/control.h"
#include "tests/rig/cases.h"

#define LATE_US 100000

/* ---- threads that start late ---------------------------------------------- */

struct late {
	void *(*fn)(void *);
	void *arg;
};

static _Atomic bool begun, held, forking;

static void *late_main(void *arg)
{
	struct late l = *(struct late *)arg;

	free(arg);
	while (atomic_load(&held) && !atomic_load(&forking))
		usleep(1000);
	usleep(LATE_US);
	atomic_store(&begun, true);
	return l.fn(l.arg);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	struct late *l = malloc(sizeof(*l));

	ck_assert_ptr_nonnull(l);
	*l = (struct late){fn, arg};
	return __real_pthread_create(t, attr, late_main, l);
}

/* ---- membarrier(2) -------------------------------------------------------- */

static _Atomic unsigned barriers;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long d);

long __wrap_syscall(long number, long a, long b, long d)
{
	if (number == SYS_membarrier &&
	    (a == MEMBARRIER_CMD_PRIVATE_EXPEDITED ||
	     a == MEMBARRIER_CMD_GLOBAL))
		atomic_fetch_add(&barriers, 1);
	return __real_syscall(number, a, b, d);
}

/* ---- a source ------------------------------------------------------------- */

static _Atomic unsigned readies, ticks, losses;

static void on_ready(struct control_source *src)
{
	uint64_t n;

	if (read(src->fd, &n, sizeof(n)) == sizeof(n))
		atomic_fetch_add(&readies, 1);
	control_tick(src, true);
}

static void on_tick(struct control_source *src)
{
	if (atomic_fetch_add(&ticks, 1) + 1 >= 3)
		control_tick(src, false);
}

static void on_lost(struct control_source *src)
{
	control_mute(src);
	atomic_fetch_add(&losses, 1);
}

static void on_fork(struct control_source *src)
{
	(void)src;
	_exit(readies > 0);
}

static struct control_source source(void)
{
	struct control_source s = {.ready = on_ready, .tick = on_tick,
				   .lost = on_lost,
				   .forked = on_fork};

	s.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(s.fd, 0);
	return s;
}

/* Another source: its ticks show that the thread continues. */
static _Atomic unsigned beats;

static void on_beat_ready(struct control_source *src)
{
	uint64_t n;

	if (read(src->fd, &n, sizeof(n)) == sizeof(n))
		control_tick(src, true);
}

static void on_beat(struct control_source *src)
{
	(void)src;
	atomic_fetch_add(&beats, 1);
}

static void expect_within(_Atomic unsigned *counter, unsigned want)
{
	for (unsigned i = 0; i < 10000 && *counter < want; i++)
		usleep(1000);
	ck_assert_uint_eq(*counter, want);
}

/* By then the thread has finished its work for other sources. */
static void let_three_ticks_pass(void)
{
	struct control_source s = {.ready = on_beat_ready, .tick = on_beat,
				   .forked = on_fork};

	s.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(s.fd, 0);
	beats = 0;
	ck_assert_int_eq(control_add(&s), 0);
	for (unsigned i = 0; i < 10000 && beats < 3; i++)
		usleep(1000);
	ck_assert_uint_ge(beats, 3);
	control_remove(&s);
	close(s.fd);
}

/* ---- cases ---------------------------------------------------------------- */

TEST(ready_and_ticks_are_called)
{
	struct control_source s = source();

	ck_assert_int_eq(control_add(&s), 0);
	ck_assert_int_eq(eventfd_write(s.fd, 1), 0);
	expect_within(&readies, 1);
	expect_within(&ticks, 3);
	let_three_ticks_pass();
	ck_assert_uint_eq(ticks, 3);
	control_remove(&s);
	ck_assert_int_eq(eventfd_write(s.fd, 1), 0);
	let_three_ticks_pass();
	ck_assert_uint_eq(readies, 1);
	close(s.fd);
}

/* Runs before control.h's handler, which was registered earlier. */
static void fork_begins(void)
{
	atomic_store(&forking, true);
}

/* The quiescence counter needs no fence because its reader makes all CPUs execute one. */
TEST(heavy_barrier_calls_membarrier_unless_qsbr_has_fences)
{
	struct control_source s = source();

	ck_assert_int_eq(control_add(&s), 0);
	barriers = 0;
	control_heavy_barrier();
	ck_assert_uint_eq(barriers, control_qsbr_fence() ? 0 : 1);
	control_remove(&s);
	close(s.fd);
}

/* Closes all descriptors of a kind, as programs do that clean up. */
static unsigned close_all(const char *kind)
{
	unsigned n = 0;

	for (int fd = 3; fd < 64; fd++) {
		char path[40], to[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, kind))
			n += close(fd) == 0;
	}
	return n;
}

/* Otherwise the last farkv_close() would wait for the thread forever. */
TEST_LOOP(thread_ends_though_its_descriptors_were_closed, 0, 3)
{
	static const char *const kinds[] = {"eventfd", "eventpoll", "socket"};
	struct control_source s = source();

	ck_assert_int_eq(control_add(&s), 0);
	ck_assert_uint_ge(close_all(kinds[_i]), 1);
	control_remove(&s);
}

/*
 * Locks that a starting thread holds (the allocator's, in builds with sanitizers) would
 * stay locked in the child forever.
 */
TEST(fork_waits_for_a_thread_that_is_starting)
{
	struct control_source s = source();
	int status;
	pid_t pid;

	ck_assert_int_eq(atfork_init(), 0);
	ck_assert_int_eq(pthread_atfork(fork_begins, NULL, NULL), 0);
	atomic_store(&held, true);
	ck_assert_int_eq(control_add(&s), 0);
	ck_assert(!begun);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(2); /* on_fork() comes before */
	ck_assert(begun);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	control_remove(&s);
	close(s.fd);
}

TEST_SUITE("control")
