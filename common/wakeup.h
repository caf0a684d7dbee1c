/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wakeup.h - descriptors that a library leaves in a program which may close what it
 * does not know (closefrom(3)), and open files of its own with the same numbers.
 *
 * A socket is known again by its inode. Descriptors of epoll, timers and events all
 * share one; such a one is known by the epoll instance that watches it, and that by the
 * socket that it watches as well. So a thread is woken by a pair of sockets, not by an
 * eventfd. Between such a look and the use lies a moment in which another thread could
 * still close the descriptor; that is the program's race.
 */
#ifndef COMMON_WAKEUP_H
#define COMMON_WAKEUP_H

#include <stdbool.h>
#include <sys/types.h>

/** What a descriptor stands for. */
struct fd_id {
	dev_t dev;
	ino_t ino;
};

/** All zero, which no file has, if `fd` is none. */
struct fd_id fd_id_of(int fd);
/** Is `fd` open, and what `id` was taken of? True if nobody can tell. One fstat(2). */
bool fd_id_is(int fd, struct fd_id id);
/** Close *fd if it is still that; it is -1 then in any case. */
void fd_id_close(int *fd, struct fd_id id);

/** fd[0] is readable after wakeup_ring(). */
struct wakeup {
	int fd[2];
	struct fd_id id[2];
};

/** A wakeup without descriptors. */
#define WAKEUP_NONE {.fd = {-1, -1}}

/** Open it: close-on-exec, non-blocking. 0 or an errno. */
int wakeup_open(struct wakeup *w);
/** Closes what is still its own. */
void wakeup_close(struct wakeup *w);
/** Are both descriptors its own? Any thread. */
bool wakeup_is_whole(const struct wakeup *w);
/** False if the descriptor is gone. Never blocks. Any thread. */
bool wakeup_ring(const struct wakeup *w);
/**
 * Not readable any more, unless it was rung very often: then call it again. False if it
 * stays readable, since the other end is gone.
 */
bool wakeup_clear(const struct wakeup *w);

/** Have `epoll_fd` watch fd[0], with `ptr` as its data. 0 or an errno. */
int wakeup_watch(const struct wakeup *w, int epoll_fd, void *ptr);
/** Is `epoll_fd` the instance that wakeup_watch() was called for? */
bool wakeup_knows(const struct wakeup *w, int epoll_fd);
/** Is `fd` open, and the file that `epoll_fd`, which is known, watches there? */
bool wakeup_watches(int epoll_fd, int fd);

#endif
