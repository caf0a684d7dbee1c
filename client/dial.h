/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * dial.h - makes a handle's new connection in a thread of its own, so that the handle's thread
 * waits for an address, a server or a device only when it wants to.
 *
 * A thread runs from dial_start() until the connection is made or given up. It first closes the
 * broken one. Temporary errors (no answer, no route, a port that is down) are retried, with
 * randomized exponential backoff, until the given time; others (nobody listens, the server refuses)
 * end the attempts at once. dial_take() returns the result.
 *
 * All functions belong to the handle's thread; only dial_wait() and dial_free() wait.
 */
#ifndef CLIENT_DIAL_H
#define CLIENT_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

struct dial;
struct notifier;

/**
 * Start a thread that closes *old (which may be empty, and is empty afterwards) and then tries to
 * connect until `until_ns`; 0: it only closes. The first call creates *d. No previous thread of *d
 * may be running, and its connection must have been taken. The order is copied. 0, FARKV_ENOMEM or
 * FARKV_ESYS with a detail: then this call has closed *old.
 */
int dial_start(struct dial **d, const struct conn_order *o, struct conn *old,
	       uint64_t until_ns);

/**
 * Extend the attempts until at least `until_ns`. False if no thread is connecting: it has given up,
 * or there is none (NULL is allowed).
 */
bool dial_extend(struct dial *d, uint64_t until_ns);

/** True if the thread is finished: dial_take() returns its result. */
bool dial_is_over(const struct dial *d);

/** Sleep until the thread is finished, or `until_ns`. */
void dial_wait(struct dial *d, uint64_t until_ns);

/** Call `w` (NULL: nobody) when the thread finishes; not if it has finished already. */
void dial_wakes(struct dial *d, struct notifier *w);

/**
 * Take the result, once. 0: *out is the connection. FARKV_ETIMEDOUT if the thread still runs,
 * which it continues to do; otherwise the last attempt's error, with its detail.
 */
int dial_take(struct dial *d, struct conn *out);

/**
 * Stop connecting. Waits until the old connection is closed, and at most until `until_ns` for a
 * running attempt: a thread that takes longer cleans up by itself. True: a connection was made,
 * *out, which becomes the caller's. NULL is allowed.
 */
bool dial_free(struct dial *d, uint64_t until_ns, struct conn *out);

/**
 * dial_free() in a child of fork(), which does not have the thread: memory that it uses stays
 * allocated.
 */
bool dial_abandon(struct dial *d, struct conn *out);

#endif
