/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * notifier.h - a descriptor for poll(2) and epoll(7) that its owner, another thread, a timer, or a
 * watched descriptor makes readable.
 *
 * It is an epoll descriptor over a socket, a timerfd and the watched one, so it stays the same when
 * these change. All functions but notifier_call() belong to the owner's thread; any thread may wait
 * on the descriptor.
 *
 * In a child of fork(2) the descriptor is replaced by one that is always readable, and the parent's
 * is not used. An epoll instance of the program to which it was added before the fork continues to
 * watch the parent's (epoll(7)).
 */
#ifndef CLIENT_NOTIFIER_H
#define CLIENT_NOTIFIER_H

#include <stdbool.h>
#include <stdint.h>

#define NOTIFIER_NEVER UINT64_MAX

struct notifier;

/** Not readable at first. 0, FARKV_ENOMEM, FARKV_ESYS with a detail. */
int notifier_new(struct notifier **out);
/** Closes the descriptor. NULL is allowed; also in a child of fork(). */
void notifier_free(struct notifier *w);

/** The descriptor. */
int notifier_fd(const struct notifier *w);

/** Make it readable until notifier_clear(). No system call if it is already. */
void notifier_raise(struct notifier *w);

/**
 * notifier_raise() from another thread. Publish the reason before; the owner reads it after the
 * notifier_clear() that ends the notification.
 */
void notifier_call(struct notifier *w);

/**
 * End all notifications by notifier_raise() and notifier_call(). Timer and watched descriptor
 * remain. No system call if there was none.
 */
void notifier_clear(struct notifier *w);

/**
 * Make it readable from `at_ns` (clock_now_ns()) on, or earlier: a timer set for a time between now
 * and `at_ns` is kept, so that not each operation sets it. NOTIFIER_NEVER sets no timer. An expired
 * timer is cleared.
 */
void notifier_at(struct notifier *w, uint64_t now_ns, uint64_t at_ns);
/** True if the timer is set for a time in the future. */
bool notifier_is_set(const struct notifier *w, uint64_t now_ns);

/** Readable while `fd` is, instead of the descriptor watched before. -1: none. False on failure;
 * then none is watched. */
bool notifier_watch(struct notifier *w, int fd);
/** Also make it readable while `fd` is, until `fd` is closed. FARKV_ESYS. */
int notifier_add(struct notifier *w, int fd);
/** True if a descriptor is watched. */
bool notifier_watches(const struct notifier *w);

/** Around fork(2); see atfork.c. */
void notifier_fork_prepare(void);
void notifier_fork_parent(void);
void notifier_fork_child(void);

#endif
