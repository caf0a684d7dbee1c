/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "port_unix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"

#define FDS_MAX 8 /* that a peer may send at once; they are closed */

struct port_unix {
	struct control *control;
	struct event *acceptable;
};

struct unix_conn {
	struct session *session;
	int fd;
	struct event *readable, *writable;
	pid_t pid;
};

/* ---- packets ------------------------------------------------------------------- */

static ssize_t send_packet(int fd, const void *buf, size_t len, const int *fds,
			   int n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		size_t bytes = (size_t)n_fds * sizeof(int);
		struct cmsghdr *c;

		h.msg_control = control.bytes;
		h.msg_controllen = CMSG_SPACE(bytes);
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), fds, bytes);
	}
	return sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int unix_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	struct unix_conn *u = conn;

	if (send_packet(u->fd, buf, len, fds, n_fds) >= 0)
		return 0;
	if (errno != EAGAIN && errno != ENOBUFS)
		return errno;
	return event_add(u->writable, NULL) ? ENOMEM : EAGAIN;
}

/*
 * One packet: its length, 0 at the end of the connection, -1 with errno, -2 if it
 * was too long. Descriptors that came along are closed.
 */
static ssize_t receive_packet(int fd, void *buf, size_t cap)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = cap};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(got));
			close(got);
		}
	}
	return h.msg_flags & MSG_TRUNC ? -2 : n;
}

/* ---- a connection ---------------------------------------------------------------- */

static void unix_close(void *conn)
{
	struct unix_conn *u = conn;

	if (u->readable)
		event_free(u->readable);
	if (u->writable)
		event_free(u->writable);
	close(u->fd);
	free(u);
}

/* The mapping is its process's, which departed.c waits for. */
static void unix_fence(void *conn)
{
	(void)conn;
}

static const char *unix_peer(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "pid %d", (int)((struct unix_conn *)conn)->pid);
	return buf;
}

static const struct session_port unix_ops = {
	.send = unix_send,
	.fence = unix_fence,
	.close = unix_close,
	.peer = unix_peer,
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct unix_conn *u = arg;
	struct session *s = u->session;

	(void)what;
	/* A few at a time: one busy client must not starve the others. */
	for (int i = 0; i < 16; i++) {
		ssize_t n = receive_packet((int)fd, buf, sizeof(buf));

		if (n == -1 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == -1 || n == 0) {
			control_end_session(s);
			return;
		}
		if (n == -2) {
			control_refuse(s, MSG_REASON_PROTOCOL,
				       "message is too long");
			return;
		}
		if (!control_packet(s, buf, (size_t)n))
			return;
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct unix_conn *u = arg;

	(void)fd;
	(void)what;
	event_del(u->writable);
	if (!session_flush(u->session))
		control_end_session(u->session);
}

/* Takes the descriptor. NULL if out of memory. */
static struct unix_conn *conn_new(struct event_base *base, int fd)
{
	struct unix_conn *u = calloc(1, sizeof(*u));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (!u) {
		close(fd);
		return NULL;
	}
	u->fd = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		u->pid = peer.pid;
	u->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, u);
	u->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, u);
	if (u->readable && u->writable && !event_add(u->readable, NULL))
		return u;
	unix_close(u);
	return NULL;
}

/* ---- the port ---------------------------------------------------------------------- */

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct port_unix *p = arg;
	struct unix_conn *u;
	int peer;

	(void)what;
	peer = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (peer < 0) {
		if (errno == EMFILE || errno == ENFILE) {
			/* The tick listens again. */
			if (control_complaint_due(p->control))
				log_warn("out of descriptors: connections wait");
			port_unix_accept(p, false);
			control_tick_soon(p->control);
		}
		return;
	}
	u = conn_new(p->control->base, peer);
	if (!u)
		return;
	u->session = session_new(p->control, &unix_ops, u);
	if (!u->session) {
		unix_close(u);
		return;
	}
	u->session->pid = u->pid;
	control_begin_session(u->session);
}

struct port_unix *port_unix_new(struct control *c, struct listen_socket *l)
{
	struct port_unix *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->control = c;
	p->acceptable = event_new(c->base, l->fd, EV_READ | EV_PERSIST,
				  on_acceptable, p);
	if (p->acceptable && !event_add(p->acceptable, NULL))
		return p;
	port_unix_free(p);
	return NULL;
}

void port_unix_free(struct port_unix *p)
{
	if (!p)
		return;
	if (p->acceptable)
		event_free(p->acceptable);
	free(p);
}

void port_unix_accept(struct port_unix *p, bool on)
{
	if (on)
		event_add(p->acceptable, NULL);
	else
		event_del(p->acceptable);
}
