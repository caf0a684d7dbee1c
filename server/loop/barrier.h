/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * barrier.h - a moment after which no client holds an old reference (I5).
 *
 * Every live session answers when all operations that it had begun are over. Sessions that
 * ended without BYE are waited for until their process unmaps the region (lingering.h). A
 * silent RDMA session is cut off. A silent process of this host cannot be: the barrier waits
 * for it and names it in the log.
 *
 * After a barrier exhausted blocks and retired pages are free. One runs at a time; memory
 * retired after its beginning waits for the next one. Event loop only.
 */
#ifndef SERVER_LOOP_BARRIER_H
#define SERVER_LOOP_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct event;
struct loop_module;
struct msg;
struct session;

struct barrier {
	struct event *due;
	uint64_t number;      /* of the latest one */
	uint64_t passed;      /* barriers that have passed */
	uint64_t began_ns;
	uint64_t reported_ns; /* when silent sessions were last named; 0 never */
	uint32_t waits;       /* sessions that have not answered */
	bool on;
	bool hurry;           /* start the next one when this one ends */
};

/** Its tick looks for processes that have ended, and for silent sessions. */
extern const struct loop_module barrier_module;

/** Start a barrier soon; memory that is retired before it starts waits for the same one. */
void barrier_want(struct control *c);

/**
 * A request waits for memory: start a barrier in the next round of the loop, or when the
 * running one ends. Ends no session before it returns. Without exhausted blocks and retired
 * pages nothing happens.
 */
void barrier_now(struct control *c);

/**
 * True if the running barrier has not passed for a second: a client is stopped, and nothing
 * that waits for the barrier should be counted on.
 */
bool barrier_stuck(const struct control *c);

/** Handle BARRIER_ACK; false: the session is gone. */
bool barrier_on_ack(struct session *s, const struct msg *m);

#endif
