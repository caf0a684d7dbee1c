/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * barrier.h - when nobody can hold anything old any more (I5).
 *
 * Every live session answers when all operations begun before are over, and
 * sessions that ended without goodbye are waited for until their process lets go
 * (departed.h); who comes by RDMA and stays silent is cut off. A process of this host
 * cannot be: it is waited for, and named in the log.
 *
 * Behind a barrier worn blocks and retired pages are free. One is on at a time;
 * what comes after its beginning has the next one. The control thread's.
 */
#ifndef SERVER_BARRIER_H
#define SERVER_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct event;
struct msg;
struct session;

struct barrier {
	struct event *due;
	uint64_t number;      /* of the last one */
	uint64_t passed;      /* how many did */
	uint64_t began_ns;
	uint64_t reported_ns; /* when the silent were last named; 0 never */
	uint32_t waits;       /* sessions that have not answered */
	bool on;
	bool hurry;           /* the next one begins at the end of this one */
};

bool barrier_init(struct control *c);
void barrier_fini(struct control *c);

/** Something waits for a barrier: one begins soon, for all that gather until then. */
void barrier_want(struct control *c);

/**
 * Somebody waits for memory: a barrier begins with the next round of the loop, or
 * at the end of the one that is on. Ends no session before it returns. Nothing
 * happens if there are neither worn blocks nor retired pages then.
 */
void barrier_now(struct control *c);

/**
 * True if the one that is on has not passed for a second: somebody is stopped, and
 * nothing that waits for it should be counted on.
 */
bool barrier_stuck(const struct control *c);

/** Handle BARRIER_ACK; false: the session is gone. */
bool barrier_on_ack(struct session *s, const struct msg *m);

/** `s` is about to end: it is not waited for any more. Ends no session. */
void barrier_session_ended(struct session *s);

/** Processes may have ended that it waits for. True: come again. */
bool barrier_tick(struct control *c);

#endif
