/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * dial.h - makes a handle's new connection in a thread of its own, so that the handle's
 * thread never waits for an address, a server or a card unless it wants to.
 *
 * A thread runs from dial_start() until the connection is made or given up. It first closes
 * the link that broke. Errors that may pass (no answer, no route, a port that is down) are
 * tried again, with pauses that double and vary, until the time given; others (nobody
 * listens, the server refuses) end the attempts at once. What came of it waits for
 * dial_take().
 *
 * All functions belong to the handle's thread; none but dial_wait() and dial_free() waits.
 */
#ifndef CLIENT_DIAL_H
#define CLIENT_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

struct dial;
struct waker;

/**
 * Start a thread that closes *old (which may be empty, and is empty afterwards) and then
 * tries to connect until `until_ns`; 0: it only closes. *d is made at the first call. No
 * thread may be at work for it, and a link must have been taken. The order is copied.
 * 0, FARKV_ENOMEM or FARKV_ESYS with a detail: then the caller's thread closed *old.
 */
int dial_start(struct dial **d, const struct link_order *o, struct link *old,
	       uint64_t until_ns);

/**
 * Try until `until_ns` at least. False if the thread has given up, or there was none (NULL
 * is allowed): then nobody tries.
 */
bool dial_extend(struct dial *d, uint64_t until_ns);

/** The thread has nothing left to do: dial_take() says what came of it. */
bool dial_is_over(const struct dial *d);

/** Sleep until it is over, or `until_ns`. */
void dial_wait(struct dial *d, uint64_t until_ns);

/** Call `w` (NULL: nobody) when it is over. What was over before is not told. */
void dial_wakes(struct dial *d, struct waker *w);

/**
 * What came of it. 0: *out is the link. FARKV_ETIMEDOUT if it is not over yet, and the thread
 * goes on; else the last attempt's error, with its detail. Each outcome is taken once.
 */
int dial_take(struct dial *d, struct link *out);

/**
 * Nobody wants a connection any more. Waits until the old link is closed, and until
 * `until_ns` at most for an attempt that is under way: a thread that takes longer ends
 * by itself and leaves nothing behind. True: there is a link, *out, which is the caller's.
 * NULL is allowed.
 */
bool dial_free(struct dial *d, uint64_t until_ns, struct link *out);

/**
 * The same in a child of fork(), where the thread is not: what it had in hand stays
 * allocated.
 */
bool dial_abandon(struct dial *d, struct link *out);

#endif
