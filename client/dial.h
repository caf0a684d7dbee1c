/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * dial.h - makes a handle's new connection in a thread of its own, so that the handle's thread
 * waits for an address, a server or a device only when it wants to.
 *
 * A thread runs from dial_start() until the connection is made or given up. It first closes the
 * broken one. Errors that may pass (no answer, no route, a port that is down) are retried, with
 * randomized exponential backoff, until the given time; others (nobody listens, the server
 * refuses) end the attempts at once. dial_take() returns the result.
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
 * Start a thread that closes *old (which may be empty, and is empty afterwards) and then tries
 * to connect until `until_ns`; 0: it only closes. The first call makes *d. No thread of it may
 * be running, and a previous connection must have been taken. The order is copied. 0,
 * FARKV_ENOMEM or FARKV_ESYS with a detail: then this call has closed *old.
 */
int dial_start(struct dial **d, const struct conn_order *o, struct conn *old,
	       uint64_t until_ns);

/**
 * Extend the attempts to `until_ns` at least. False if the thread has given up or there is none
 * (NULL is allowed): then nobody tries.
 */
bool dial_extend(struct dial *d, uint64_t until_ns);

/** True if the thread is finished: dial_take() returns its result. */
bool dial_is_over(const struct dial *d);

/** Sleep until it is over, or `until_ns`. */
void dial_wait(struct dial *d, uint64_t until_ns);

/** Call `w` (NULL: nobody) when it is over; not if it is over already. */
void dial_wakes(struct dial *d, struct notifier *w);

/**
 * Take the result, once. 0: *out is the connection. FARKV_ETIMEDOUT if the thread still runs,
 * which it continues to do; otherwise the last attempt's error, with its detail.
 */
int dial_take(struct dial *d, struct conn *out);

/**
 * End: no connection is wanted. Waits until the old one is closed, and at most until `until_ns`
 * for a running attempt: a thread that takes longer cleans up after itself. True: a connection
 * was made, *out, which is the caller's. NULL is allowed.
 */
bool dial_free(struct dial *d, uint64_t until_ns, struct conn *out);

/**
 * The same in a child of fork(), which does not have the thread: memory in its use stays
 * allocated.
 */
bool dial_abandon(struct dial *d, struct conn *out);

#endif
