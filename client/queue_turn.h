/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * queue_turn.h - how the requests of a queue are driven: the critical section, the op queue, broken
 * lanes. queue.c has submissions, completions, waiting, and the descriptor that shows when to drive
 * them.
 */
#ifndef CLIENT_QUEUE_TURN_H
#define CLIENT_QUEUE_TURN_H

#include "queue_state.h"

/** Keep the thread's error line as the reason why `r` failed. */
void queue_keep_line(struct request *r);

/** A call begins: read the clock. */
void queue_turn_begin(struct farkv *kv);

/** Advance everything as far as possible without waiting. */
void queue_turn(struct farkv *kv);

/** Post new submissions, unless that needs more than a doorbell. */
void queue_kick(struct farkv *kv);

/** Check a request that was not begun against the present store: 0, or an error with the
 * synchronous call's line. */
int queue_check(struct farkv *kv, const struct request *r,
		struct index_key *key_out);

/** While a connection is being made: the first deadline of the requests that wait for it. */
uint64_t queue_conn_deadline(const struct queue *q);

/** True if queue_turn() may begin a request now. */
bool queue_can_begin(const struct queue *q);

/** True if the session has flags pending and the critical section is left. */
bool queue_is_called(const struct farkv *kv);

/** True if waiting requests need something new, or the server has answered. */
bool queue_must_ask(const struct farkv *kv);

/** Leave the critical section; the op queue is empty. */
void queue_leave(struct farkv *kv);

#endif
