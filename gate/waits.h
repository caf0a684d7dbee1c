/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * waits.h - Redis's WAIT: a thread with a handle of its own waits for the followers of a cluster's
 * servers, on behalf of connections, whose threads go on with other ones.
 *
 * Its farkv_wait_followers() covers what any handle has written before it began, if
 * - its map is at least as new as that handle's: otherwise there may be a server that it does not
 * ask;
 * - no server was lost since the connection's last WAIT, or since it began. That fails one call of
 * the thread's handle, so each connection compares the number of such calls with the one it has
 * seen.
 */
#ifndef GATE_WAITS_H
#define GATE_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <farkv.h>

struct waits;

/** Of one connection, one after the other. */
struct wait {
	TAILQ_ENTRY(wait) link;  /* while it is not done */
	void (*wake)(void *arg); /* it is done; called by the thread, under its lock */
	void *arg;
	/* Under the lock: */
	bool asked, running, done;
	bool reached;    /* the followers have all; valid when it is done */
	uint64_t epoch;  /* of the map under which the connection has written */
	uint64_t losses; /* that the connection has been told of */
};

/** Start the thread; `kv` is its own from then on. 0, or FARKV_ENOMEM or FARKV_ESYS with a detail.
 */
int waits_start(struct farkv *kv, struct waits **out);
/**
 * End the thread, within 5 s, while those of the connections still run, which it wakes; and free
 * what is left, when they have ended. NULL is allowed.
 */
void waits_stop(struct waits *w);
void waits_free(struct waits *w);

/** A connection begins. `w` NULL: it will never ask. */
void waits_enter(struct waits *w, struct wait *q);
/** Begin to wait for what was written by `kv`; the end is told by `wake`. */
void waits_ask(struct waits *w, struct wait *q, struct farkv *kv);
/** True if it is done. */
bool waits_done(struct waits *w, const struct wait *q);
/** End it, done or not: true if the followers have all. Without effect if none was asked. */
bool waits_end(struct waits *w, struct wait *q);

#endif
