/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that clients send with messages that take none: the server does not keep
 * them, they do not accumulate, and slow close(2) calls delay nobody.
 */
#include "config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/proto/msg.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"

#define FDS_MAX 200
/* The socket lingers for longer than all tests take. */
#define LINGER_S 600
/* Time allowed for good clients on a busy machine. */
#define GOOD_MS 30000u

static struct real_server srv;
static unsigned idle_fds;

static void check_server_fds(unsigned want)
{
	for (int i = 0; i < 3000 && real_server_fds(&srv) != want; i++)
		usleep(10000);
	ck_assert_uint_eq(real_server_fds(&srv), want);
}

static void check_good_client(void)
{
	uint64_t began = e2e_now_ms();
	struct farkv *kv = e2e_open(srv.path, GOOD_MS);

	OK(e2e_put(kv, "good", "value"));
	e2e_expect_str(kv, "good", "value");
	farkv_close(kv);
	ck_assert_uint_lt(e2e_now_ms() - began, GOOD_MS);
}

static void setup(void)
{
	static const char *const args[] = {"-m", "16", NULL};

	real_server_init(&srv, args);
	idle_fds = real_server_fds(&srv);
}

static void teardown(void)
{
	uint64_t began;

	check_good_client();
	began = e2e_now_ms();
	real_server_fini(&srv);
	ck_assert_uint_lt(e2e_now_ms() - began, GOOD_MS);
}

/* ---- packets with descriptors -------------------------------------------------- */

/* False if the server has already ended the session. */
static bool send_with(int fd, const void *buf, size_t len, const int *fds, int n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
	return sendmsg(fd, &h, MSG_NOSIGNAL) == (ssize_t)len;
}

static size_t ping(uint8_t *buf)
{
	static const struct msg m = {.type = MSG_PING, .req = 2};
	size_t len;

	ck_assert_int_eq(msg_encode(&m, NULL, buf, MSG_MAX_BYTES, &len), 0);
	return len;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(message_with_descriptors_ends_the_session)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len = ping(buf);
	int fds[FDS_MAX];

	for (int n = 1; n <= FDS_MAX; n += n < 20 ? 1 : 45) {
		int fd = raw_session(srv.path, MSG_ROLE_RW, NULL);
		struct msg m;

		for (int k = 0; k < n; k++)
			fds[k] = fd;
		ck_assert(send_with(fd, buf, len, fds, n));
		/* A reset, caused by unread data, may overtake the reason. */
		m = raw_hear(fd);
		if (m.type == MSG_REFUSE) {
			ck_assert_uint_eq(m.refuse.reason, MSG_REASON_PROTOCOL);
			ck_assert_ptr_nonnull(memmem(m.refuse.text,
						     m.refuse.text_len,
						     "descriptors", 11));
			m = raw_hear(fd);
		}
		ck_assert_uint_eq(m.type, 0);
		close(fd);
	}
	check_server_fds(idle_fds);
}

/* ---- sockets that linger --------------------------------------------------------- */

struct linger_pair {
	int sender, receiver; /* TCP; the receiver never reads */
};

/* A socket with unsent bytes: closing it takes ten minutes, or until the peer ends. */
static void linger_make(struct linger_pair *p)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger slow = {.l_onoff = 1, .l_linger = LINGER_S};
	static uint8_t bytes[65536];
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(l, (struct sockaddr *)&a, len), 0);
	ck_assert_int_eq(listen(l, 1), 0);
	ck_assert_int_eq(getsockname(l, (struct sockaddr *)&a, &len), 0);
	p->sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(p->sender, (struct sockaddr *)&a, len), 0);
	p->receiver = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(p->receiver, 0);
	close(l);
	while (send(p->sender, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	ck_assert_int_eq(setsockopt(p->sender, SOL_SOCKET, SO_LINGER, &slow,
				    sizeof(slow)), 0);
}

/* The server may end the session earlier. */
static void send_way(int way, int fd, const struct linger_pair *p)
{
	static const struct msg before = {.type = MSG_STATS_REQ, .req = 3};
	uint8_t buf[MSG_MAX_BYTES], more[MSG_MAX_BYTES];
	size_t len = ping(buf), n;

	switch (way) {
	case 0: /* with a message */
		break;
	case 1: /* with none */
		len = 0;
		break;
	case 2: /* after the message that ends the session */
		(void)!send(fd, buf, 5, MSG_NOSIGNAL);
		(void)!send(fd, buf, 0, MSG_NOSIGNAL);
		break;
	default: /* after the message that is read first */
		ck_assert_int_eq(msg_encode(&before, NULL, more, sizeof(more),
					    &n), 0);
		for (int i = 0; i < 30; i++)
			(void)!send(fd, more, n, MSG_NOSIGNAL);
	}
	(void)send_with(fd, buf, len, &p->sender, 1);
}

/*
 * Leave such a socket in the queue of a session that the server or the client ends. A
 * child sends it and ends: the end of a process does not wait for its sockets, but the
 * close of the last copy does.
 */
static void leave_behind(int way, struct linger_pair *p)
{
	int fd = way % 2 ? raw_session(srv.path, MSG_ROLE_RO, NULL) :
			   raw_dial(srv.path);
	int go[2], status;
	pid_t pid;

	linger_make(p);
	ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(go[1]);
		(void)!read(go[0], &status, 1);
		send_way(way / 2, fd, p);
		_exit(0);
	}
	close(p->sender); /* not the last one */
	close(fd);
	close(go[0]);
	close(go[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
#define WAYS 8

TEST_LOOP(descriptor_that_is_slow_to_close_delays_nobody, 0, WAYS)
{
	struct linger_pair p;

	leave_behind(_i, &p);
	check_good_client();
	check_good_client();
	close(p.receiver); /* now it can go */
	check_server_fds(idle_fds);
}

/* The socket that is closed later has ended by now, and its peer knows. */
TEST(end_of_a_session_does_not_wait_for_slow_closes)
{
	struct linger_pair p;
	uint8_t buf[MSG_MAX_BYTES];
	struct msg m;
	int fd;

	leave_behind(0, &p); /* closing is busy with that one */
	fd = raw_session(srv.path, MSG_ROLE_RW, NULL);
	ck_assert(send_with(fd, buf, ping(buf), &fd, 1));
	do
		m = raw_hear(fd);
	while (m.type == MSG_REFUSE);
	ck_assert_uint_eq(m.type, 0);
	close(fd);
	close(p.receiver);
	check_server_fds(idle_fds);
}

/* The server's own end does not wait either. */
TEST(server_ends_with_sockets_that_are_slow_to_close)
{
	struct linger_pair p[WAYS];

	for (int i = 0; i < WAYS; i++)
		leave_behind(i, &p[i]);
	check_good_client();
}

/* Sockets that cannot be closed count as connections do. */
TEST(slow_descriptors_do_not_use_up_the_servers)
{
	static const char *const args[] = {"-m", "16", "--max-sessions", "20",
					   NULL};
	struct linger_pair p[30];
	struct farkv *kv;
	unsigned fds;

	real_server_fini(&srv);
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, GOOD_MS);
	for (int i = 0; i < 30; i++)
		leave_behind(2, &p[i]);
	for (int i = 0; i < 100; i++) {
		OK(e2e_put(kv, "k", "served all the while"));
		usleep(2000);
	}
	fds = real_server_fds(&srv);
	ck_assert_uint_le(fds, idle_fds + 1 + 20);
	for (int i = 0; i < 30; i++)
		close(p[i].receiver);
	farkv_close(kv);
	check_server_fds(idle_fds);
}

TEST_SUITE("hostile_fds", real_server_require())
