/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "wakeup.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct fd_id fd_id_of(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return (struct fd_id){0};
	return (struct fd_id){.dev = st.st_dev, .ino = st.st_ino};
}

bool fd_id_is(int fd, struct fd_id id)
{
	struct stat st;

	/* If fstat() fails, now or at opening, assume that the descriptor is ours. */
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd >= 0 && errno != EBADF;
	return id.ino == 0 || (st.st_dev == id.dev && st.st_ino == id.ino);
}

void fd_id_close(int *fd, struct fd_id id)
{
	if (fd_id_is(*fd, id))
		close(*fd);
	*fd = -1;
}

int wakeup_open(struct wakeup *w)
{
	*w = (struct wakeup)WAKEUP_NONE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       w->fd) < 0) {
		w->fd[0] = w->fd[1] = -1;
		return errno;
	}
	for (unsigned i = 0; i < 2; i++)
		w->id[i] = fd_id_of(w->fd[i]);
	return 0;
}

void wakeup_close(struct wakeup *w)
{
	for (unsigned i = 0; i < 2; i++)
		fd_id_close(&w->fd[i], w->id[i]);
}

bool wakeup_is_whole(const struct wakeup *w)
{
	return fd_id_is(w->fd[0], w->id[0]) && fd_id_is(w->fd[1], w->id[1]);
}

bool wakeup_ring(const struct wakeup *w)
{
	if (!fd_id_is(w->fd[1], w->id[1]))
		return false;
	/* A full socket is readable too. */
	return send(w->fd[1], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ||
	       errno == EAGAIN;
}

bool wakeup_clear(const struct wakeup *w)
{
	char some[256];

	return fd_id_is(w->fd[0], w->id[0]) &&
	       recv(w->fd[0], some, sizeof(some), MSG_DONTWAIT) != 0;
}

static int add(int epoll_fd, int fd, void *ptr)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ptr};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? errno : 0;
}

int wakeup_watch(const struct wakeup *w, int epoll_fd, void *ptr)
{
	return add(epoll_fd, w->fd[0], ptr);
}

/* EPOLL_CTL_ADD of `fd` fails only if the instance watches it already. */
bool wakeup_watches(int epoll_fd, int fd)
{
	int err = add(epoll_fd, fd, NULL);

	if (!err)
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	/* EEXIST: it is watched. Without memory assume that it is. */
	return err == EEXIST || err == ENOMEM || err == ENOSPC;
}

bool wakeup_knows(const struct wakeup *w, int epoll_fd)
{
	return fd_id_is(w->fd[0], w->id[0]) &&
	       wakeup_watches(epoll_fd, w->fd[0]);
}
