/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define FDS_MAX 8 /* that a peer may send at once; they are closed */

struct session *session_new(struct control *control, struct event_base *base,
			    int fd, event_callback_fn on_read,
			    event_callback_fn on_write)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (!s)
		return NULL;
	s->control = control;
	s->fd = fd;
	s->connected_ns = clock_now_ns();
	STAILQ_INIT(&s->out);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		s->pid = peer.pid;
	s->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_read, s);
	s->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_write, s);
	if (!s->readable || !s->writable || event_add(s->readable, NULL)) {
		s->fd = -1; /* stays the caller's */
		session_free(s);
		return NULL;
	}
	return s;
}

void session_free(struct session *s)
{
	struct out_packet *p;

	if (!s)
		return;
	while ((p = STAILQ_FIRST(&s->out))) {
		STAILQ_REMOVE_HEAD(&s->out, link);
		free(p);
	}
	if (s->readable)
		event_free(s->readable);
	if (s->writable)
		event_free(s->writable);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

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

bool session_send(struct session *s, const struct msg *m,
		  const struct block_ref *refs, const int *fds, int n_fds)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct out_packet *p;
	size_t len;

	if (msg_encode(m, refs, buf, sizeof(buf), &len))
		return false;
	if (STAILQ_EMPTY(&s->out)) {
		if (send_packet(s->fd, buf, len, fds, n_fds) >= 0)
			return true;
		if ((errno != EAGAIN && errno != ENOBUFS) || n_fds)
			return false;
	}
	if (s->out_bytes + len > SESSION_OUT_MAX) {
		log_warn("session %u (pid %d) does not read; closed", s->id,
			 (int)s->pid);
		return false;
	}
	p = malloc(sizeof(*p) + len);
	if (!p)
		return false;
	p->len = len;
	memcpy(p->bytes, buf, len);
	STAILQ_INSERT_TAIL(&s->out, p, link);
	s->out_bytes += len;
	return event_add(s->writable, NULL) == 0;
}

bool session_flush(struct session *s)
{
	struct out_packet *p;

	while ((p = STAILQ_FIRST(&s->out))) {
		if (send_packet(s->fd, p->bytes, p->len, NULL, 0) < 0)
			return errno == EAGAIN || errno == ENOBUFS;
		STAILQ_REMOVE_HEAD(&s->out, link);
		s->out_bytes -= p->len;
		free(p);
	}
	event_del(s->writable);
	return true;
}

ssize_t session_receive(struct session *s, void *buf, size_t cap)
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
	ssize_t n = recvmsg(s->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			close(fd);
		}
	}
	return h.msg_flags & MSG_TRUNC ? -2 : n;
}
