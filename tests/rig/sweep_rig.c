/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sweep_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "fsck_text.h"

struct real_server srv;
static struct farkv *watcher; /* a read-only handle, for statistics */

/* ---- the server's side ----------------------------------------------------------- */

struct farkv_stats stats(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(watcher, &s));
	return s;
}

struct farkv_fsck check(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(watcher, &f));
	ck_assert_uint_eq(fsck_problems(&f), 0);
	return f;
}

void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};

	real_server_init(&srv, args);
	watcher = e2e_open_readonly(srv.path, 20000);
}

void teardown(void)
{
	farkv_close(watcher);
	real_server_fini(&srv);
}

/* ---- victims: processes that are killed ----------------------------------------------- */

static void victim_main(int to_parent, bool acks)
{
	struct block_ref refs[BLOCKS];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = raw_session(srv.path, MSG_ROLE_RW, NULL);
	raw_grant(fd, 0, BLOCKS, refs);
	if (write(to_parent, refs, sizeof(refs)) != (ssize_t)sizeof(refs))
		_exit(1);
	while (acks) {
		struct msg m = raw_next(fd);
		struct msg ack = {.type = MSG_SWEEP_ACK, .epoch = m.epoch};

		if (m.type == MSG_SWEEP_BEGIN)
			raw_say(fd, &ack, NULL);
		if (m.type == 0)
			_exit(1);
	}
	pause();
	_exit(0);
}

struct victim victim_new(bool acks)
{
	struct victim v;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	v.pid = fork();
	ck_assert_int_ge(v.pid, 0);
	if (v.pid == 0)
		victim_main(fds[1], acks);
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], v.refs, sizeof(v.refs)),
			 (ssize_t)sizeof(v.refs));
	close(fds[0]);
	return v;
}

void victim_kill(const struct victim *v)
{
	ck_assert_int_eq(kill(v->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(v->pid, NULL, 0), v->pid);
}

/*
 * ---- living sessions ------------------------------------------------------------------
 */

int writer(void)
{
	return raw_session(srv.path, MSG_ROLE_RW, NULL);
}

uint64_t hear_begin(int fd)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_BEGIN");
	ck_assert_uint_gt(m.epoch.number, 0);
	return m.epoch.number;
}

void hear_end(int fd, uint64_t number)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_END");
	ck_assert_uint_eq(m.epoch.number, number);
}

void ack(int fd, uint64_t number)
{
	struct msg m = {.type = MSG_SWEEP_ACK, .epoch = {number}};

	raw_say(fd, &m, NULL);
}

void claim(int fd, uint64_t number, uint32_t req,
		  const struct block_ref *refs, uint32_t n)
{
	struct msg m = {.type = MSG_SWEEP_CLAIM, .req = req,
			.blocks = {.number = number, .n = n}};

	raw_say(fd, &m, refs);
}

void say_bye(int fd)
{
	struct msg m = {.type = MSG_BYE, .req = 9};

	raw_say(fd, &m, NULL);
	/* After the earlier messages. */
	while ((m = raw_next(fd)).type != MSG_BYE_ACK)
		ck_assert_uint_ne(m.type, 0);
	close(fd);
}

void check_alive(int fd)
{
	struct msg m = {.type = MSG_PING, .req = 77};

	raw_say(fd, &m, NULL);
	ck_assert_uint_eq(raw_next(fd).type, MSG_PONG);
}

void check_thrown_out(int fd, enum msg_reason reason)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "REFUSE");
	ck_assert_uint_eq(m.refuse.reason, reason);
	ck_assert_uint_eq(raw_hear(fd).type, 0);
	close(fd);
}

struct asked hear_question(int fd, uint64_t number)
{
	struct msg m = raw_next(fd);
	struct asked a = {.req = m.req, .n = m.blocks.n};

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_QUERY");
	ck_assert_uint_eq(m.blocks.number, number);
	ck_assert_uint_eq(m.req, 1);
	ck_assert_uint_le(a.n, REFS_MAX);
	for (uint32_t i = 0; i < a.n; i++)
		a.refs[i] = msg_ref(&m, i);
	return a;
}

unsigned among(const struct asked *a, const struct block_ref *refs,
		      unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < a->n; k++)
			found += refs[i].off == a->refs[k].off;
	return found;
}

void give_back(int fd, const struct block_ref *refs, uint32_t n)
{
	struct msg m = {.type = MSG_RETURN, .blocks = {.n = n}};

	raw_say(fd, &m, refs);
}
