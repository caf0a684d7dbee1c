/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * waker.h - notifier: a descriptor for poll(2) and epoll(7) that its owner, another thread, a
 * timer, or a watched descriptor makes readable.
 *
 * It is an epoll descriptor over a socket, a timerfd and the watched one, so it stays the same
 * while these come and go. All functions but waker_call() belong to the owner's thread; any
 * thread may wait on the descriptor.
 *
 * In a child of fork(2) the descriptor is replaced by one that is always readable: the parent's
 * is left alone. An epoll instance of the program to which it was added earlier continues to
 * watch the parent's (epoll(7)).
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

/** Make it readable until waker_clear(). No system call if it is already. */
void waker_raise(struct waker *w);

/**
 * The same from another thread. Publish the reason before; the owner looks for it after the
 * waker_clear() that ends the notification.
 */
void waker_call(struct waker *w);

/**
 * End all notifications by waker_raise() and waker_call(). Timer and watched descriptor still
 * count. No system call if there was none.
 */
void waker_clear(struct waker *w);

/**
 * Make it readable from `at_ns` (clock_now_ns()) on, or earlier: a timer set for a time between
 * now and `at_ns` stays as it is, so that not each operation sets it. WAKER_NEVER asks for
 * nothing. An expired timer is cleared.
 */
void waker_at(struct waker *w, uint64_t now_ns, uint64_t at_ns);
/** True if the timer is set for a time in the future. */
bool waker_is_set(const struct waker *w, uint64_t now_ns);

/** Readable while `fd` is, instead of the descriptor watched before. -1: none. False on failure;
 * then none is watched. */
bool waker_watch(struct waker *w, int fd);
/** True if a descriptor is watched. */
bool waker_watches(const struct waker *w);

/** Around fork(2); see atfork.c. */
void waker_fork_prepare(void);
void waker_fork_parent(void);
void waker_fork_child(void);

#endif
