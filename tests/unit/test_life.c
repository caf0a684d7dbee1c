/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Effects of a program on its handles, with a real kvserver: it closes unknown
 * descriptors, opens its own files in their place, calls exec(2), dumps core.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define FDS_MAX 64

static struct real_server srv;

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};

	real_server_init(&srv, args);
}

static void teardown(void)
{
	real_server_fini(&srv);
}

/* ---- core dumps ----------------------------------------------------------------- */

/* Number of mappings of the region in process `pid`; all must be excluded from dumps. */
static unsigned region_mappings(pid_t pid)
{
	char path[64], line[512];
	bool ours = false;
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "/memfd:farkv"))
			ours = true;
		if (!ours || strncmp(line, "VmFlags:", 8) != 0)
			continue;
		ck_assert_msg(strstr(line, " dd"), "%d: %s", (int)pid, line);
		n++;
		ours = false;
	}
	fclose(f);
	return n;
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(region_is_in_no_core_dump)
{
	struct farkv *kv = e2e_open(srv.path, 20000);

	OK(e2e_put(kv, "key", "value"));
	/* Both areas; and the client's tether. */
	ck_assert_uint_ge(region_mappings(srv.pid), 2);
	ck_assert_uint_ge(region_mappings(getpid()), 3);
	farkv_close(kv);
}

/* ---- what a barrier waits for ------------------------------------------------------- */

static struct farkv *watcher;

static uint64_t waits(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(watcher, &s));
	return s.barrier_waits;
}

static void wait_for_sessions(uint64_t n)
{
	struct farkv_stats s = {.size = sizeof(s)};

	do {
		usleep(1000);
		OK(farkv_stats(watcher, &s));
	} while (s.sessions != n);
}

static void expect_no_ghost(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	while (waits() > 0)
		usleep(1000);
	OK(farkv_fsck(watcher, &f));
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
}

/* A child with a session acts, and reports it by a byte. */
static pid_t child(void (*act)(struct farkv *kv), int *says)
{
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct farkv *kv = e2e_open(srv.path, 20000);

		OK(e2e_put(kv, "child", "value"));
		dup2(fds[1], 1);
		act(kv);
		_exit(1);
	}
	close(fds[1]);
	*says = fds[0];
	return pid;
}

static void hear(int fd)
{
	char c;

	ck_assert_int_eq(read(fd, &c, 1), 1);
}

static void finish(pid_t pid, int fd)
{
	close(fd);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void runs_another_program(struct farkv *kv)
{
	(void)kv;
	execl("/bin/sh", "sh", "-c", "echo; exec sleep 1000", (char *)NULL);
}

static void setup_watched(void)
{
	setup();
	watcher = e2e_open_readonly(srv.path, 20000);
}

static void teardown_watched(void)
{
	farkv_close(watcher);
	teardown();
}

TEST_GROUP(.setup = setup_watched, .teardown = teardown_watched, .timeout_s = 120);

/* Its mapping is gone, though its process is not. */
TEST(program_that_calls_exec_is_not_waited_for)
{
	int says;
	pid_t pid = child(runs_another_program, &says);

	hear(says);
	wait_for_sessions(1);
	expect_no_ghost();
	ck_assert_int_eq(kill(pid, 0), 0);
	finish(pid, says);
}

static void closes_everything(struct farkv *kv)
{
	(void)kv;
	syscall(SYS_close_range, 3, ~0u, 0);
	(void)!write(1, "", 1);
	pause();
}

/* The control thread notices, and ends the session without a call. */
TEST(idle_program_that_closed_all_descriptors_is_not_waited_for)
{
	int says;
	pid_t pid = child(closes_everything, &says);

	hear(says);
	wait_for_sessions(1);
	expect_no_ghost();
	finish(pid, says);
}

static void leaves_without_goodbye(struct farkv *kv)
{
	(void)kv;
	(void)!write(1, "", 1);
	pause();
}

static void kills(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(killed_program_is_not_waited_for)
{
	int says;
	pid_t pid = child(leaves_without_goodbye, &says);

	hear(says);
	kills(pid);
	close(says);
	wait_for_sessions(1);
	ck_assert_uint_eq(waits(), 0);
	expect_no_ghost();
}

/* ---- the program's own files in the place of the library's ----------------------------- */

static bool was_open[FDS_MAX];

static void note_open(void)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Number of descriptors that the library has opened since note_open(). */
static unsigned count_new(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		n += !was_open[fd] && fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int nth_new(unsigned n)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (!was_open[fd] && fcntl(fd, F_GETFD) >= 0 && n-- == 0)
			return fd;
	ck_abort_msg("there are not so many");
}

/* A file of the program, which the library must leave alone. */
enum kind { KIND_FILE, KIND_SOCKET, KIND_EPOLL, KINDS };

struct owned {
	enum kind kind;
	int fd, peer;
	struct stat st;
};

static struct owned own(enum kind kind)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0xA5A5A5A5A5};
	struct owned o = {.kind = kind, .peer = -1};
	int fds[2];

	switch (kind) {
	case KIND_FILE:
		o.fd = memfd_create("program's", 0);
		break;
	case KIND_SOCKET:
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
		o.fd = fds[0];
		o.peer = fds[1];
		break;
	default:
		ck_assert_int_eq(pipe(fds), 0);
		ck_assert_int_eq(write(fds[1], "x", 1), 1);
		close(fds[1]);
		o.fd = epoll_create1(0);
		o.peer = fds[0];
		ev.events |= EPOLLONESHOT;
		ck_assert_int_eq(epoll_ctl(o.fd, EPOLL_CTL_ADD, o.peer, &ev), 0);
	}
	ck_assert_int_ge(o.fd, 0);
	return o;
}

/* Moves it to the number `fd`. */
static void take_place(struct owned *o, int fd)
{
	ck_assert_int_eq(dup2(o->fd, fd), fd);
	ck_assert_int_eq(fstat(fd, &o->st), 0);
	close(o->fd);
	o->fd = fd;
}

static void expect_untouched(const struct owned *o)
{
	struct epoll_event ev;
	struct stat st;
	char c;

	ck_assert_msg(fstat(o->fd, &st) == 0 && st.st_ino == o->st.st_ino,
		      "descriptor %d was closed", o->fd);
	switch (o->kind) {
	case KIND_FILE:
		ck_assert_int_eq(st.st_size, 0);
		break;
	case KIND_SOCKET:
		ck_assert_int_lt(recv(o->peer, &c, 1, MSG_DONTWAIT), 0);
		ck_assert_int_eq(errno, EAGAIN);
		break;
	default:
		ck_assert_int_eq(epoll_wait(o->fd, &ev, 1, 0), 1);
		ck_assert_uint_eq(ev.data.u64, 0xA5A5A5A5A5);
	}
	close(o->fd);
	close(o->peer);
}

static struct farkv *open_with_descriptor(void)
{
	struct farkv *kv = e2e_open(srv.path, 20000);

	ck_assert_int_ge(farkv_event_fd(kv), 0);
	OK(e2e_put(kv, "key", "value"));
	return kv;
}

/* Blocks run out, so it has to talk to the server, and messages can reach it. */
static void put_many(struct farkv *kv)
{
	char key[32];

	for (unsigned i = 0; i < 20000; i++) {
		snprintf(key, sizeof(key), "key %u", i);
		OK(e2e_put(kv, key, "value"));
	}
}

static void submit_one(struct farkv *kv)
{
	struct farkv_request get = {.kind = FARKV_REQUEST_GET,
				    .key = "key",
				    .key_len = 3};
	struct farkv_completion done = {0};

	ck_assert_int_eq(farkv_submit(kv, &get, 1), 1);
	while (farkv_poll(kv, &done, 1) == 0)
		;
	OK(done.result);
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

/* Each descriptor in turn: calls continue, and the program's file is not touched. */
TEST_LOOP(each_descriptor_of_the_library_may_be_replaced, 0, KINDS)
{
	struct farkv *kv, *other;
	unsigned n;

	note_open();
	kv = open_with_descriptor();
	n = count_new();
	ck_assert_uint_ge(n, 5);
	farkv_close(kv);
	for (unsigned i = 0; i < n; i++) {
		struct owned o = own((enum kind)_i);

		note_open();
		kv = open_with_descriptor();
		take_place(&o, nth_new(i));
		put_many(kv);
		submit_one(kv);
		other = e2e_open(srv.path, 20000);
		put_many(other);
		farkv_close(other);
		farkv_close(kv);
		expect_untouched(&o);
	}
}

TEST_LOOP(all_descriptors_of_the_library_may_be_replaced, 0, KINDS)
{
	struct owned o[FDS_MAX];
	struct farkv *kv, *other;
	unsigned n;

	note_open();
	kv = open_with_descriptor();
	n = count_new();
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (!was_open[fd])
			close(fd);
	/* New files get those numbers, the lowest first. */
	for (unsigned i = 0; i < n; i++) {
		o[i] = own((enum kind)_i);
		ck_assert_int_eq(fstat(o[i].fd, &o[i].st), 0);
	}
	put_many(kv);
	submit_one(kv);
	other = e2e_open(srv.path, 20000);
	put_many(other);
	farkv_close(other);
	farkv_close(kv);
	for (unsigned i = 0; i < n; i++)
		expect_untouched(&o[i]);
}

TEST_SUITE("life", real_server_require())
