/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wakeup.h - a library's descriptors in a program that may close descriptors it does not know
 * (closefrom(3)) and reuse their numbers for its own files.
 *
 * A socket is recognized by its inode. Descriptors of epoll, timers and eventfd share one inode;
 * such a descriptor is recognized by the epoll instance that watches it, and the instance by a
 * socket that it watches. Therefore a pair of sockets, not an eventfd, wakes a thread. Another
 * thread can still close the descriptor between check and use; that race is the program's.
 */
#ifndef COMMON_BASE_WAKEUP_H
#define COMMON_BASE_WAKEUP_H

#include <stdbool.h>
#include <sys/types.h>

/** Identity of an open file. */
struct fd_id {
	dev_t dev;
	ino_t ino;
};

/** All zero, which no file has, if `fd` is not open. */
struct fd_id fd_id_of(int fd);
/** True if `fd` is open and is the file of `id`, or if that is unknown. One fstat(2). */
bool fd_id_is(int fd, struct fd_id id);
/** Close *fd if it is still the file of `id`; sets it to -1 in any case. */
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
/** Close those descriptors that are still this wakeup's. */
void wakeup_close(struct wakeup *w);
/** True if both descriptors are still this wakeup's. Any thread. */
bool wakeup_is_whole(const struct wakeup *w);
/** False if the descriptor is gone. Never blocks. Any thread. */
bool wakeup_ring(const struct wakeup *w);
/**
 * Read what was rung; call again if it stays readable after very many rings. False if it stays
 * readable because the other end is closed.
 */
bool wakeup_clear(const struct wakeup *w);

/** Add fd[0] to `epoll_fd` with `ptr` as its data. 0 or an errno. */
int wakeup_watch(const struct wakeup *w, int epoll_fd, void *ptr);
/** True if `epoll_fd` is the instance of wakeup_watch(). */
bool wakeup_knows(const struct wakeup *w, int epoll_fd);
/** True if `fd` is open and is the file that `epoll_fd`, a known instance, watches. */
bool wakeup_watches(int epoll_fd, int fd);

#endif
