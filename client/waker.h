/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * waker.h - one descriptor for poll(2) and epoll(7) that is readable when somebody
 * says so: its owner, another thread, a clock, or a descriptor that it watches. It
 * knows nothing of why.
 *
 * It is an epoll descriptor over a socket, a timerfd and the watched one, so it
 * stays the same while these come and go. All functions but waker_call() belong to
 * the owner's thread; others may wait on the descriptor.
 *
 * In a child of fork(2) the descriptor is another one, which is always readable: the
 * parent's is left alone. An epoll instance of the caller's to which it was added
 * before goes on watching the parent's (epoll(7)).
 */
#ifndef CLIENT_WAKER_H
#define CLIENT_WAKER_H

#include <stdbool.h>
#include <stdint.h>

#define WAKER_NEVER UINT64_MAX

struct waker;

/** Not readable at first. 0, FARKV_ENOMEM, FARKV_ESYS with a detail. */
int waker_new(struct waker **out);
/** Closes the descriptor. NULL is allowed; also in a child of fork(). */
void waker_free(struct waker *w);

/** The descriptor. */
int waker_fd(const struct waker *w);

/** Readable until waker_clear(). No system call if it is already for that reason. */
void waker_raise(struct waker *w);

/**
 * The same from another thread. What it is about is to be published before, and looked
 * at behind the waker_clear() that takes this back.
 */
void waker_call(struct waker *w);

/**
 * Take back all that waker_raise() and waker_call() said. Clock and watched descriptor
 * still count. No system call if they said nothing.
 */
void waker_clear(struct waker *w);

/**
 * Readable from `at_ns` (clock_now_ns()) on, or earlier: a clock that is set for a
 * moment between now and then stays as it is, so that it need not be set for each
 * operation. WAKER_NEVER asks for nothing. What has gone off is taken back.
 */
void waker_at(struct waker *w, uint64_t now_ns, uint64_t at_ns);
/** A clock is set for a moment to come. */
bool waker_is_set(const struct waker *w, uint64_t now_ns);

/** Readable while `fd` is, in place of the one watched before. -1: none. False if
 * that cannot be; then none is watched. */
bool waker_watch(struct waker *w, int fd);
/** Does it watch one? */
bool waker_watches(const struct waker *w);

/** Around fork(2); see atfork.c. */
void waker_fork_prepare(void);
void waker_fork_parent(void);
void waker_fork_child(void);

#endif
