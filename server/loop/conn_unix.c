/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "conn_unix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#include "closer.h"
#include "core.h"
#include "dispatch.h"
#include "listen.h"
#include "session.h"
#include "welcome.h"

#define FDS_MAX 4 /* sent with WELCOME */
/* Connections accepted before the existing ones are served. */
#define ACCEPT_BURST 32
/* Errors read off a socket before it counts as broken. */
#define ERRORS_MAX 4

struct conn_unix {
	struct control *control;
	struct event *acceptable;
};

struct unix_conn {
	struct closer_item socket; /* first: the closer may take the whole struct */
	struct conn_unix *port;
	struct session *session;
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

	if (send_packet(u->socket.fd, buf, len, fds, n_fds) >= 0)
		return 0;
	/* The peer hung up: first handle what it sent before, then the end. */
	if (errno == EPIPE || errno == ECONNRESET)
		return 0;
	if (errno != EAGAIN && errno != ENOBUFS)
		return errno;
	return event_add(u->writable, NULL) ? ENOMEM : EAGAIN;
}

/*
 * Look at the next packet without taking it: as recvmsg(2), with the flags of the packet.
 * Its descriptors stay in the queue; as there is no room for them they show as MSG_CTRUNC.
 */
static ssize_t peek(int fd, void *buf, size_t cap, int *flags_out)
{
	struct iovec iov = {.iov_base = buf, .iov_len = cap};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	/* A peer that left data unread resets: that is reported once, before the packets. */
	do
		n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_PEEK);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	*flags_out = n < 0 ? 0 : h.msg_flags;
	return n;
}

/* Drop the packet that peek() has read. */
static void drop_packet(int fd)
{
	uint8_t none;

	(void)!recv(fd, &none, 0, MSG_DONTWAIT);
}

enum received { GOT_PACKET, GOT_NOTHING, GOT_END, GOT_TOO_LONG, GOT_DESCRIPTORS };

/*
 * Receive one packet. A packet with descriptors stays in the queue: taking it would drop
 * them, which may take forever (closer.h).
 */
static enum received receive_packet(int fd, void *buf, size_t cap,
				    size_t *len_out)
{
	int flags;
	ssize_t n = peek(fd, buf, cap, &flags);

	if (n < 0)
		return errno == EAGAIN ? GOT_NOTHING : GOT_END;
	if (flags & MSG_CTRUNC)
		return GOT_DESCRIPTORS;
	if (n == 0)
		return GOT_END;
	drop_packet(fd);
	*len_out = (size_t)n;
	return flags & MSG_TRUNC ? GOT_TOO_LONG : GOT_PACKET;
}

/*
 * True if a packet in the queue has descriptors; packets without are dropped. Nothing can join
 * the queue from here on. The end of the queue and a packet of 0 bytes look the same, but
 * only a packet has its sender's credentials.
 */
static bool holds_descriptors(int fd)
{
	static const int off = 0, on = 1;
	uint8_t byte;
	int flags, errors = 0;

	shutdown(fd, SHUT_RD);
	for (;;) {
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
		if (peek(fd, &byte, 1, &flags) < 0) {
			if (++errors == ERRORS_MAX)
				return true;
			continue;
		}
		if (!(flags & MSG_CTRUNC))
			return false;
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off));
		if (peek(fd, &byte, 1, &flags) < 0 || flags & MSG_CTRUNC)
			return true;
		drop_packet(fd);
	}
}

/* ---- a connection ---------------------------------------------------------------- */

static void unix_close(void *conn)
{
	struct unix_conn *u = conn;

	core_event_free(u->readable);
	core_event_free(u->writable);
	if (holds_descriptors(u->socket.fd)) {
		/* The peer learns of the end now; the closer may close much later. */
		shutdown(u->socket.fd, SHUT_RDWR);
		closer_take(u->port->control->closer, &u->socket);
		return;
	}
	close(u->socket.fd);
	free(u);
}

/* The mapping is the process's; lingering.h tells when it is gone. */
static void unix_fence(void *conn)
{
	(void)conn;
}

/* A packet is either in the queue before the shutdown, or its sender gets EPIPE. */
static bool unix_silence(void *conn)
{
	int fd = ((struct unix_conn *)conn)->socket.fd, unread;

	return shutdown(fd, SHUT_RD) == 0 && ioctl(fd, FIONREAD, &unread) == 0 &&
	       unread == 0;
}

static const char *unix_peer(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "pid %d", (int)((struct unix_conn *)conn)->pid);
	return buf;
}

static const struct conn_ops unix_ops = {
	.send = unix_send,
	.fence = unix_fence,
	.silence = unix_silence,
	.close = unix_close,
	.peer = unix_peer,
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct unix_conn *u = arg;
	struct session *s = u->session;
	uint64_t until = clock_now_ns() + SESSION_SLICE_NS;
	size_t len;

	(void)what;
	/* Limited, so that one busy client does not starve the others. */
	for (int i = 0; i < 16 && session_may_take(s) && clock_now_ns() < until;
	     i++) {
		switch (receive_packet((int)fd, buf, sizeof(buf), &len)) {
		case GOT_NOTHING:
			return;
		case GOT_END:
			session_end(s);
			return;
		case GOT_TOO_LONG:
			session_refuse(s, MSG_REASON_PROTOCOL,
				       "message is too long");
			return;
		case GOT_DESCRIPTORS:
			session_refuse(s, MSG_REASON_PROTOCOL,
				       "descriptors came with a message");
			return;
		case GOT_PACKET:
			if (!dispatch_packet(s, buf, len))
				return;
		}
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct unix_conn *u = arg;

	(void)fd;
	(void)what;
	event_del(u->writable);
	if (!session_flush(u->session))
		session_end(u->session);
}

/* Takes the descriptor. NULL if out of memory. */
static struct unix_conn *conn_new(struct conn_unix *p, int fd)
{
	struct event_base *base = p->control->base;
	struct unix_conn *u = calloc(1, sizeof(*u));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (!u) {
		close(fd);
		return NULL;
	}
	u->port = p;
	u->socket.fd = fd;
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

static void pause_accepting(struct conn_unix *p, const char *why)
{
	/* The tick resumes it. */
	if (core_complaint_due(p->control))
		log_warn("%s: connections wait", why);
	(void)conn_unix_accept(p, false);
	core_tick_soon(p->control);
}

/*
 * accept4() failed with `errnum`. True: try again at once. After most errors the connection
 * stays in the queue, so the event would fire again and again.
 */
static bool try_after(struct conn_unix *p, int errnum)
{
	if (errnum == EAGAIN)
		return false;
	if (errnum == ECONNABORTED || errnum == EINTR)
		return true;
	if ((errnum == EMFILE || errnum == ENFILE) &&
	    welcome_make_room(p->control))
		return true;
	pause_accepting(p, strerror(errnum));
	return false;
}

/* False if there is no connection, or none can be taken now. */
static bool accept_one(struct conn_unix *p, int fd)
{
	struct unix_conn *u;
	int peer;

	if (closer_pending(p->control->closer) >= p->control->cfg.max_sessions) {
		pause_accepting(p, "clients have sent too many descriptors");
		return false;
	}
	peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (peer < 0)
		return try_after(p, errno);
	u = conn_new(p, peer);
	if (!u)
		return false;
	u->session = session_new(p->control, &unix_ops, u);
	if (!u->session) {
		unix_close(u);
		return false;
	}
	u->session->pid = u->pid;
	welcome_begin(u->session);
	return true;
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	for (int i = 0; i < ACCEPT_BURST; i++)
		if (!accept_one(arg, (int)fd))
			return;
}

struct conn_unix *conn_unix_new(struct control *c, struct listen_socket *l)
{
	struct conn_unix *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->control = c;
	c->closer = closer_new();
	p->acceptable = event_new(c->base, l->fd, EV_READ | EV_PERSIST,
				  on_acceptable, p);
	if (c->closer && p->acceptable && !event_add(p->acceptable, NULL))
		return p;
	conn_unix_free(p);
	return NULL;
}

void conn_unix_free(struct conn_unix *p)
{
	if (!p)
		return;
	core_event_free(p->acceptable);
	closer_free(p->control->closer);
	p->control->closer = NULL;
	free(p);
}

bool conn_unix_accept(struct conn_unix *p, bool on)
{
	if (on)
		return event_add(p->acceptable, NULL) == 0;
	event_del(p->acceptable);
	return true;
}
