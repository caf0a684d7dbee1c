/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths: during a sweep, during a client's work, and repeatedly. */
#include "config.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/rig/cases.h"
#include "tests/rig/sweep_rig.h"

TEST_GROUP(.setup = setup, .teardown = teardown);

/* Killed during its work, by the library. */
TEST(published_blocks_of_the_dead_stay)
{
	struct farkv *kv;
	char key[16];
	pid_t pid;

	for (int round = 0; round < 3; round++) {
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			kv = e2e_open(srv.path, 5000);
			for (int i = 0; i < 3000; i++) {
				snprintf(key, sizeof(key), "key%d", i % 300);
				OK(e2e_put(kv, key, key));
			}
			kill(getpid(), SIGKILL);
		}
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		wait_for(s.sweeps == (uint64_t)round + 1);
	}
	kv = e2e_open(srv.path, 5000);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		e2e_expect_str(kv, key, key);
	}
	ck_assert_uint_eq(check().out_bytes, 300 * 64);
	ck_assert_uint_eq(check().live_bytes, 300 * 64);
	ck_assert_uint_gt(stats().blocks_swept, 0);
	ck_assert_uint_eq(check().blocks_leaked, 0);
	OK(e2e_put(kv, "key1", "new"));
	ck_assert_uint_gt(check().blocks_held, 0);
	farkv_close(kv);
	ck_assert_uint_eq(check().blocks_held, 0);
}

/*
 * A child created without the library's knowledge, as sandboxes and runtimes do, or one
 * between vfork() and exec(), has a copy of the socket, which says nothing about its
 * parent.
 */
TEST(dead_process_is_found_though_a_child_has_its_socket)
{
	int pipes[2], fd = writer();
	pid_t pid, child = 0;

	ck_assert_int_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		struct farkv *kv = e2e_open(srv.path, 5000);

		OK(e2e_put(kv, "key", "value"));
		child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (child == 0) {
			pause();
			_exit(0);
		}
		if (write(pipes[1], &child, sizeof(child)) == sizeof(child))
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	ck_assert_int_eq(read(pipes[0], &child, sizeof(child)), sizeof(child));
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	/* A death that starts a sweep. */
	struct victim v = victim_new(true);

	victim_kill(&v);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t n = hear_begin(fd);

		ack(fd, n);
		if (i == 0)
			hear_end(fd, n);
		else
			claim(fd, n, hear_question(fd, n).req, NULL, 0);
	}
	wait_for(s.sweeps == 1);
	ck_assert_uint_gt(stats().blocks_swept, BLOCKS);
	ck_assert_uint_eq(stats().sessions, 2);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	close(pipes[0]);
	close(pipes[1]);
	say_bye(fd);
}

/*
 * Between question and answer a client dies that may have put a candidate into a slot
 * that was visited before: nobody would claim it.
 */
TEST(death_during_a_sweep_restarts_it)
{
	int fd = writer(), other = writer();
	struct victim first = victim_new(true), second = victim_new(true);
	struct asked a;
	uint64_t n, again;

	victim_kill(&first);
	n = hear_begin(fd);
	ack(fd, n);
	ack(other, hear_begin(other));
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, second.refs, BLOCKS), BLOCKS);
	ck_assert_uint_eq(hear_question(other, n).n, a.n);
	/* All but the dying client have answered. */
	claim(other, n, a.req, NULL, 0);
	claim(fd, n, a.req, NULL, 0);
	check_alive(fd);
	check_alive(other);
	victim_kill(&second);
	hear_end(fd, n);
	/* The end of another session during the wait does not start it either. */
	say_bye(other);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	again = hear_begin(fd);
	ck_assert_uint_gt(again, n);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	ack(fd, again);
	a = hear_question(fd, again);
	ck_assert_uint_eq(a.n, 2 * BLOCKS);
	claim(fd, again, a.req, NULL, 0);
	hear_end(fd, again);
	ck_assert_uint_eq(stats().blocks_swept, 2 * BLOCKS);
	ck_assert_uint_eq(stats().sweeps, 1);
	say_bye(fd);
}

/*
 * The death of the last session that owed an answer stopped a sweep. Before the next
 * begins another session comes and goes: all candidates, claimed or not, are asked about
 * again.
 */
TEST(candidates_of_a_stopped_sweep_stay)
{
	int fd = writer();
	struct victim first = victim_new(true), second = victim_new(true);
	struct block_ref mine[4];
	struct asked a;
	uint64_t n, again;

	raw_grant(fd, 0, 4, mine);
	victim_kill(&first);
	n = hear_begin(fd);
	ack(fd, n);
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, mine, 4), 4);
	claim(fd, n, a.req, mine, 4);
	victim_kill(&second);
	hear_end(fd, n);
	say_bye(writer());
	again = hear_begin(fd);
	ack(fd, again);
	a = hear_question(fd, again);
	ck_assert_uint_eq(a.n, 2 * BLOCKS + 4);
	claim(fd, again, a.req, mine, 4);
	hear_end(fd, again);
	ck_assert_uint_eq(stats().blocks_swept, 2 * BLOCKS);
	give_back(fd, mine, 4);
	check_alive(fd);
	say_bye(fd);
}

/* Four die, and a sweep has begun once more; `fd` owes it an answer. Returns its number. */
static uint64_t three_starts_in_vain(int fd)
{
	struct victim v[4];
	uint64_t n;

	for (int i = 0; i < 4; i++)
		v[i] = victim_new(false);
	victim_kill(&v[0]);
	for (int i = 1; i < 4; i++) {
		n = hear_begin(fd);
		victim_kill(&v[i]);
		hear_end(fd, n);
	}
	return hear_begin(fd);
}

/* A client that is always replaced by one that dies must not prevent sweeps from ending. */
TEST(new_writers_wait_after_three_failed_starts)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	int fd = writer(), waits, reader;
	uint64_t n = three_starts_in_vain(fd);

	waits = raw_dial(srv.path);
	raw_say(waits, &hello, NULL);
	reader = raw_session(srv.path, MSG_ROLE_RO, NULL);
	ck_assert_int_eq(raw_pending(waits, 300), 0);
	ack(reader, hear_begin(reader));
	ack(fd, n);
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	ck_assert_uint_eq(stats().blocks_swept, 4 * BLOCKS);
	check_alive(waits);
	say_bye(waits);
	say_bye(reader);
	say_bye(fd);
}

/* ... but not reconnecting writers: the sweep may wait for handles of the same thread. */
TEST(reconnecting_writers_do_not_wait)
{
	struct msg hello = {.type = MSG_HELLO, .req = 1}, welcome;
	int fd = writer(), reader, waits, back;
	uint64_t n = three_starts_in_vain(fd);

	reader = raw_session(srv.path, MSG_ROLE_RO, &welcome);
	waits = raw_dial(srv.path);
	raw_say(waits, &hello, NULL);
	hello.hello.replaces = 1u << 20;
	memcpy(hello.hello.replaces_region, welcome.welcome.region_id,
	       sizeof(hello.hello.replaces_region));
	back = raw_dial(srv.path);
	raw_say(back, &hello, NULL);
	ck_assert_uint_eq(raw_hear(back).type, MSG_WELCOME);
	ck_assert_int_eq(raw_pending(waits, 0), 0);
	ack(reader, hear_begin(reader));
	ack(back, hear_begin(back));
	ack(fd, n);
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	say_bye(waits);
	say_bye(back);
	say_bye(reader);
	say_bye(fd);
}

/* ... but not forever, if they keep dying. */
TEST(new_writers_are_let_in_after_ten_failed_starts)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	struct victim v[12];
	int fd = writer(), waits = -1;
	uint64_t n;

	for (int i = 0; i < 12; i++)
		v[i] = victim_new(false);
	victim_kill(&v[0]);
	for (int i = 1; i < 12; i++) {
		n = hear_begin(fd);
		if (i == 11)
			ck_assert_int_eq(raw_pending(waits, 0), 0);
		if (i == 9) { /* earlier, the clock might let it in */
			waits = raw_dial(srv.path);
			raw_say(waits, &hello, NULL);
			ck_assert_int_eq(raw_pending(waits, 100), 0);
		}
		victim_kill(&v[i]);
		hear_end(fd, n);
	}
	/* Before the next sweep, in which it takes part. */
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	ck_assert_uint_eq(hear_begin(waits), hear_begin(fd));
	say_bye(waits);
	say_bye(fd);
}

/* No sweep can begin while a process lingers, so new writers do not wait. */
TEST(new_writers_do_not_wait_for_a_lingering_process)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	struct victim v[3];
	int fd = writer(), ghost, waits;
	struct block_ref refs[BLOCKS];
	uint64_t n;

	for (int i = 0; i < 3; i++)
		v[i] = victim_new(false);
	ghost = raw_session(srv.path, MSG_ROLE_RW, NULL);
	raw_grant(ghost, 0, BLOCKS, refs);
	victim_kill(&v[0]);
	for (int i = 1; i < 3; i++) {
		n = hear_begin(fd);
		victim_kill(&v[i]);
		hear_end(fd, n);
	}
	n = hear_begin(fd);
	close(ghost);
	hear_end(fd, n);
	waits = raw_dial(srv.path);
	raw_say(waits, &hello, NULL);
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	check_alive(waits);
	say_bye(waits);
	say_bye(fd);
}

#define KILLS 9

static void worker(unsigned seed)
{
	struct farkv *kv;
	char key[24], value[200];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	kv = e2e_open(srv.path, 20000);
	for (unsigned x = seed;; x = x * 1664525u + 1013904223u) {
		unsigned k = x >> 8;

		snprintf(key, sizeof(key), "%u", k % 20000);
		if (k % 5 == 0)
			(void)e2e_del(kv, key);
		else if (farkv_put(kv, key, strlen(key), value,
				   k % sizeof(value)))
			_exit(1);
	}
}

static pid_t worker_new(unsigned seed)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		worker(seed);
	return pid;
}

TEST(clients_die_at_any_moment_and_nothing_is_lost)
{
	struct farkv_fsck f;
	pid_t pid[4];
	int status;

	for (unsigned i = 0; i < 4; i++)
		pid[i] = worker_new(i);
	for (unsigned kills = 0; kills < KILLS; kills++) {
		unsigned i = kills % 3; /* the last one lives longer */

		usleep(50000);
		if (kills % 3 == 0)
			(void)check();
		ck_assert_int_eq(kill(pid[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFSIGNALED(status));
		pid[i] = worker_new(100 + kills);
	}
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(kill(pid[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFSIGNALED(status));
	}
	wait_for(s.sweep_deaths == 0);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(f.blocks_held + f.blocks_leaked, 0);
	ck_assert_uint_eq(f.out_bytes, f.live_bytes + f.dead_bytes);
	ck_assert_uint_gt(f.items, 1000);
}

TEST_SUITE("sweep, deaths", real_server_require())
