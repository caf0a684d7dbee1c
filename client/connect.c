/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "connect.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/msg.h"
#include "common/util.h"

/* More descriptors than a peer should send: the rest can then be counted. */
#define FDS_MAX 16
#define WELCOME_FDS 2
/* Pause between attempts while the server's backlog is full. */
#define BACKLOG_PAUSE_NS (2 * NS_PER_MS)

/* One packet with what came along. */
struct packet {
	uint8_t buf[MSG_MAX_BYTES + 1];
	size_t len;
	int fds[FDS_MAX];
	unsigned n_fds;
	bool cut; /* larger than any message, or with more descriptors */
};

/* ---- reaching the socket --------------------------------------------------- */

static int dial_error(const char *path, int errnum)
{
	struct stat st;

	switch (errnum) {
	case ECONNREFUSED:
		if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
			return err_set(FARKV_EUNREACHABLE,
				       "%s is not a socket; give the path of "
				       "kvserver's socket",
				       path);
		/* fall through */
	case ENOENT:
	case ENOTDIR:
		return err_set(FARKV_EUNREACHABLE,
			       "no server at %s (%s): is kvserver running? "
			       "start it with: kvserver --socket %s",
			       path, strerror(errnum), path);
	case EACCES:
	case EPERM:
		return err_set_errno(FARKV_EPERM, errnum,
				     "may not connect to %s; see kvserver "
				     "--socket-mode",
				     path);
	case EPROTOTYPE:
		return err_set(FARKV_EPROTOCOL,
			       "%s is not a farkv socket: another program "
			       "listens there",
			       path);
	default:
		return err_set_errno(FARKV_ESYS, errnum,
				     "cannot connect to %s", path);
	}
}

static int dial_timeout(const char *path)
{
	return err_set(FARKV_ETIMEDOUT,
		       "the server at %s did not answer in time; is it stopped "
		       "or overloaded?",
		       path);
}

static int dial(const struct connect_params *p, int *fd_out)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t len = strlen(p->path);
	int err, fd;

	if (len >= sizeof(sa.sun_path))
		return err_set(FARKV_EURI, "the socket's path is too long");
	memcpy(sa.sun_path, p->path, len + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "cannot make a socket");
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (errno == EINTR)
			continue;
		/* A Unix socket says EAGAIN while the backlog is full. */
		if (errno != EAGAIN) {
			err = dial_error(p->path, errno);
			goto err_close;
		}
		if (clock_now_ns() >= p->deadline_ns) {
			err = dial_timeout(p->path);
			goto err_close;
		}
		clock_sleep_ns(BACKLOG_PAUSE_NS);
	}
	*fd_out = fd;
	return 0;

err_close:
	close(fd);
	return err;
}

static bool peer_may_kill(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	return cred.uid == 0 || cred.uid == geteuid();
}

/* ---- packets --------------------------------------------------------------- */

/* Wait until the socket is ready; 0 or FARKV_ETIMEDOUT. */
static int fd_wait(const struct connect_params *p, int fd, short events)
{
	for (;;) {
		uint64_t now = clock_now_ns();
		struct pollfd pfd = {.fd = fd, .events = events};
		uint64_t ms;

		if (now >= p->deadline_ns)
			return dial_timeout(p->path);
		ms = (p->deadline_ns - now) / NS_PER_MS + 1;
		if (poll(&pfd, 1, (int)UTIL_MIN(ms, 1000u)) > 0)
			return 0;
	}
}

static void packet_close_fds(struct packet *pk)
{
	for (unsigned i = 0; i < pk->n_fds; i++)
		close(pk->fds[i]);
	pk->n_fds = 0;
}

static void packet_take_fds(struct packet *pk, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t bytes;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = c->cmsg_len - CMSG_LEN(0);
		memcpy(pk->fds + pk->n_fds, CMSG_DATA(c), bytes);
		pk->n_fds += (unsigned)(bytes / sizeof(int));
	}
}

static int packet_receive(const struct connect_params *p, int fd,
			  struct packet *pk)
{
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = pk->buf, .iov_len = sizeof(pk->buf)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control)};
	bool reset = false;
	ssize_t n;

	pk->n_fds = 0;
	for (;;) {
		n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		if (n >= 0)
			break;
		/*
		 * A server that refuses before it has read HELLO: the reset
		 * comes first, its reason can still be read.
		 */
		if (errno == ECONNRESET && !reset) {
			reset = true;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return err_set_errno(FARKV_EPROTOCOL, errno,
					     "%s: the connection broke before "
					     "the server's answer",
					     p->path);
		if (fd_wait(p, fd, POLLIN))
			return FARKV_ETIMEDOUT;
	}
	packet_take_fds(pk, &mh);
	pk->len = (size_t)n;
	pk->cut = (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
	return 0;
}

static int hello_send(const struct connect_params *p, int fd)
{
	struct msg m = {.type = MSG_HELLO, .req = 1};
	uint8_t buf[MSG_HEADER_BYTES + 64 + MSG_TEXT_MAX];
	size_t len;
	int err;

	m.hello.role = p->readonly ? MSG_ROLE_RO : MSG_ROLE_RW;
	m.hello.pid = (uint32_t)getpid();
	m.hello.replaces = p->replaces;
	memcpy(m.hello.replaces_region, p->replaces_region,
	       sizeof(m.hello.replaces_region));
	m.hello.name = (const uint8_t *)p->name;
	if (p->name)
		m.hello.name_len = (uint16_t)strnlen(p->name, MSG_TEXT_MAX);
	err = msg_encode(&m, NULL, buf, sizeof(buf), &len);
	if (err)
		return err;
	while (send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return 0; /* what it said before it left says why */
		if (errno != EAGAIN && errno != EINTR)
			return err_set_errno(FARKV_EPROTOCOL, errno,
					     "%s: the server hung up at once",
					     p->path);
		if (fd_wait(p, fd, POLLOUT))
			return FARKV_ETIMEDOUT;
	}
	return 0;
}

/* ---- the answer ------------------------------------------------------------- */

/* The server's own words, made fit for one line of text. */
static void text_copy(const struct msg *m, char *buf, size_t cap)
{
	size_t n = UTIL_MIN((size_t)m->refuse.text_len, cap - 1);

	for (size_t i = 0; i < n; i++) {
		uint8_t c = m->refuse.text[i];

		buf[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	buf[n] = '\0';
}

static int refused(const struct connect_params *p, const struct msg *m)
{
	char text[MSG_TEXT_MAX + 1];

	text_copy(m, text, sizeof(text));
	return err_set(m->refuse.reason == MSG_REASON_PERMISSION ?
			       FARKV_EPERM :
			       FARKV_EREFUSED,
		       "the server at %s refused the session: %s", p->path,
		       text[0] ? text : "no reason given");
}

static int areas_check(const struct connect_params *p, const struct msg *m)
{
	const struct msg_area *a = m->welcome.areas;

	if (m->welcome.n_areas == 2 && a[0].off == 0 &&
	    a[0].bytes == m->welcome.meta_bytes &&
	    a[1].off == m->welcome.meta_bytes &&
	    m->welcome.region_bytes > m->welcome.meta_bytes &&
	    a[1].bytes == m->welcome.region_bytes - m->welcome.meta_bytes)
		return 0;
	return err_set(FARKV_EPROTOCOL,
		       "the server at %s announced areas that do not make up "
		       "its region",
		       p->path);
}

static int welcome_check(const struct connect_params *p, const struct packet *pk,
			 struct msg *m)
{
	int err;

	if (pk->len == 0)
		return err_set(FARKV_EPROTOCOL,
			       "%s: closed without an answer; is that a "
			       "kvserver?",
			       p->path);
	if (pk->cut)
		return err_set(FARKV_EPROTOCOL,
			       "%s: the answer is larger than any farkv "
			       "message; is that a kvserver?",
			       p->path);
	err = msg_decode(pk->buf, pk->len, m);
	if (err) {
		char why[300];

		strncpy(why, err_detail(), sizeof(why) - 1);
		why[sizeof(why) - 1] = '\0';
		return err_set(FARKV_EPROTOCOL,
			       "%s does not speak this version of the farkv "
			       "protocol: %s",
			       p->path, why);
	}
	if (m->type == MSG_REFUSE || m->type == MSG_SHUTDOWN)
		return refused(p, m);
	if (m->type != MSG_WELCOME || m->welcome.session == 0)
		return err_set(FARKV_EPROTOCOL,
			       "the server at %s answered HELLO with %s",
			       p->path, msg_type_name(m->type));
	if (pk->n_fds != WELCOME_FDS)
		return err_set(FARKV_EPROTOCOL,
			       "the server at %s sent %u descriptors instead of "
			       "%d",
			       p->path, pk->n_fds, WELCOME_FDS);
	return areas_check(p, m);
}

static void result_fill(const struct connect_params *p, const struct packet *pk,
			const struct msg *m, int fd, struct connect_result *out)
{
	*out = (struct connect_result){
		.fd = fd,
		.meta_fd = pk->fds[0],
		.data_fd = pk->fds[1],
		.session = m->welcome.session,
		.prefix = m->welcome.prefix,
		.readonly = p->readonly || m->welcome.role == MSG_ROLE_RO,
		.peer_may_kill = peer_may_kill(fd),
		.region_bytes = m->welcome.region_bytes,
		.meta_bytes = m->welcome.meta_bytes,
		.grace_ns = m->welcome.grace_ns,
	};
	memcpy(out->region_id, m->welcome.region_id, sizeof(out->region_id));
}

int connect_open(const struct connect_params *p, struct connect_result *out)
{
	struct packet pk;
	struct msg m;
	int err, fd = -1;

	err = dial(p, &fd);
	if (err)
		return err;
	err = hello_send(p, fd);
	if (err)
		goto err_close;
	err = packet_receive(p, fd, &pk);
	if (err)
		goto err_close;
	err = welcome_check(p, &pk, &m);
	if (err)
		goto err_close_fds;
	result_fill(p, &pk, &m, fd, out);
	return 0;

err_close_fds:
	packet_close_fds(&pk);
err_close:
	close(fd);
	return err;
}
