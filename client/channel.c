/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "channel.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/proc.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"

/* Pause before a send on a full RDMA connection is tried again. */
#define ROOM_PAUSE_NS (NS_PER_MS / 5)

void channel_wait_message(struct channel *ch, int ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	(void)poll(&p, 1, ms);
}

bool channel_is_away(const struct channel *ch, int errnum)
{
	return ch->next_server[0] &&
	       (errnum == 0 || errnum == EPIPE || errnum == ECONNRESET);
}

void channel_leave(struct channel *ch)
{
	if (channel_is_open(ch))
		(void)shutdown(ch->fd, SHUT_RDWR);
}

/* PID of the process that listened; 0: it is in another PID namespace, or unknown. */
static pid_t peer_pid(int fd)
{
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? 0 : cred.pid;
}

/* Compare `listener`, the peer of a new connection, with `before`, the session's peer. */
static enum channel_next found(pid_t listener, pid_t before)
{
	/* systemd keeps the socket of an ended server open for the next one. */
	if (proc_has_ended(listener))
		return CHANNEL_NO_SERVER;
	return proc_has_ended(before) ? CHANNEL_OTHER_PROCESS : CHANNEL_SAME_PROCESS;
}

enum channel_next channel_look(const struct channel *ch)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enum channel_next next = CHANNEL_NO_SERVER;

	if (fd < 0)
		return next;
	static_assert(sizeof(sa.sun_path) >= sizeof(ch->next_server), "it fits");
	memcpy(sa.sun_path, ch->next_server, sizeof(ch->next_server));
	/* EAGAIN: many clients are connecting, so a server listens. */
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		next = found(peer_pid(fd), peer_pid(ch->fd));
	else if (errno == EAGAIN)
		next = CHANNEL_SAME_PROCESS;
	close(fd);
	return next;
}

void channel_untie(struct channel *ch)
{
	if (ch->tether)
		munmap(ch->tether, CHANNEL_TETHER_BYTES);
	ch->tether = NULL;
}

void channel_close(struct channel *ch)
{
	if (!ch)
		return;
	channel_untie(ch);
	ch->ops->close(ch);
}

const char *channel_explain(int errnum, char *buf, size_t cap)
{
	/* Reset or broken pipe: the server closed before it read our last message. */
	if (errnum == 0 || errnum == ECONNRESET || errnum == EPIPE)
		snprintf(buf, cap, "the server closed the connection; has it "
				   "stopped?");
	else if (errnum == EBADF)
		snprintf(buf, cap, "this program closed the connection's "
				   "descriptor, which is libfarkv's "
				   "(closefrom()?)");
	else
		snprintf(buf, cap, "the connection to the server broke: %s",
			 strerror(errnum));
	return buf;
}

void channel_forget(struct channel *ch)
{
	free(ch);
}

/* ---- packet socket -------------------------------------------------------------- */

struct unix_channel {
	struct channel base; /* first member */
	bool reset;          /* the peer closed without reading everything */
};

static int unix_send(struct channel *ch, const void *buf, size_t len)
{
	if (!channel_is_open(ch))
		return EBADF;
	for (;;) {
		if (send(ch->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno != EINTR)
			return errno;
	}
}

static ssize_t unix_over(struct channel *ch, int errnum)
{
	ch->errnum = errnum;
	(void)channel_explain(errnum, ch->reason, sizeof(ch->reason));
	return 0;
}

static void take_fds(struct channel_fds *fds, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t bytes;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = c->cmsg_len - CMSG_LEN(0);
		memcpy(fds->fd + fds->n, CMSG_DATA(c), bytes);
		fds->n += (unsigned)(bytes / sizeof(int));
	}
	fds->cut = (mh->msg_flags & MSG_CTRUNC) != 0;
}

static ssize_t unix_receive(struct channel *ch, void *buf, size_t cap,
			    struct channel_fds *fds)
{
	struct unix_channel *u = (struct unix_channel *)(void *)ch;
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = cap};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fds) {
		*fds = (struct channel_fds){0};
		mh.msg_control = &control;
		mh.msg_controllen = sizeof(control);
	}
	if (!channel_is_open(ch))
		return unix_over(ch, EBADF);
	for (;;) {
		n = recvmsg(ch->fd, &mh,
			    MSG_CMSG_CLOEXEC | MSG_DONTWAIT | MSG_TRUNC);
		if (n >= 0)
			break;
		/* The kernel reports ECONNRESET before the server's last messages. */
		if (errno == ECONNRESET && !u->reset)
			u->reset = true;
		else if (errno == EAGAIN || errno == EINTR)
			return -1;
		else
			return unix_over(ch, errno);
	}
	if (fds)
		take_fds(fds, &mh);
	return n == 0 ? unix_over(ch, 0) : n;
}

static void unix_wait_room(struct channel *ch, int ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLOUT};

	(void)poll(&p, 1, ms);
}

static void unix_close(struct channel *ch)
{
	fd_id_close(&ch->fd, ch->id);
	free(ch);
}

static const struct channel_ops unix_ops = {
	.send = unix_send,
	.receive = unix_receive,
	.wait_room = unix_wait_room,
	.close = unix_close,
};

struct channel *channel_unix(int fd)
{
	struct unix_channel *u = calloc(1, sizeof(*u));

	if (!u) {
		close(fd);
		return NULL;
	}
	u->base.ops = &unix_ops;
	u->base.fd = fd;
	u->base.id = fd_id_of(fd);
	u->base.pollable = true;
	return &u->base;
}

/* ---- RDMA -------------------------------------------------------------------------- */

struct verbs_channel {
	struct channel base; /* first member */
	struct verbs_ctrl *link;
};

static int verbs_send(struct channel *ch, const void *buf, size_t len)
{
	return xport_verbs->ctrl_send(channel_verbs_ctrl(ch), buf, len);
}

static ssize_t verbs_receive(struct channel *ch, void *buf, size_t cap,
			     struct channel_fds *fds)
{
	struct verbs_ctrl *link = channel_verbs_ctrl(ch);
	ssize_t n = xport_verbs->ctrl_receive(link, buf, cap);

	if (fds)
		*fds = (struct channel_fds){0};
	if (n == 0)
		snprintf(ch->reason, sizeof(ch->reason), "%s", xport_verbs->ctrl_why(link));
	return n;
}

static void verbs_wait_room(struct channel *ch, int ms)
{
	(void)ch;
	clock_sleep_ns(UTIL_MIN((uint64_t)ms * NS_PER_MS, ROOM_PAUSE_NS));
}

static void verbs_close(struct channel *ch)
{
	xport_verbs->ctrl_close(channel_verbs_ctrl(ch));
	free(ch);
}

static void verbs_forked(struct channel *ch)
{
	xport_verbs->ctrl_forked(channel_verbs_ctrl(ch));
}

static const struct channel_ops verbs_ops = {
	.send = verbs_send,
	.receive = verbs_receive,
	.wait_room = verbs_wait_room,
	.close = verbs_close,
	.forked = verbs_forked,
};

struct channel *channel_verbs(struct verbs_ctrl *link)
{
	struct verbs_channel *v = calloc(1, sizeof(*v));

	if (!v) {
		xport_verbs->ctrl_close(link);
		return NULL;
	}
	v->base.ops = &verbs_ops;
	v->base.fd = xport_verbs->ctrl_fd(link);
	v->base.id = fd_id_of(v->base.fd);
	v->link = link;
	return &v->base;
}

struct verbs_ctrl *channel_verbs_ctrl(struct channel *ch)
{
	return ((struct verbs_channel *)(void *)ch)->link;
}
