/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * work.h - the server's maintenance, in slices.
 *
 * Growth, sweeps, checks and counts can take long, while the control loop must answer. Each of
 * them is a piece of work whose step() is called between two rounds of the loop, for a short
 * while each time, until it has nothing left to do. All in the event loop's thread: no locks.
 */
#ifndef SERVER_LOOP_WORK_H
#define SERVER_LOOP_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "pauses.h"

struct event;
struct event_base;

/** Time of a slice; an indivisible step may take longer. */
#define WORK_SLICE_NS UINT64_C(300000)

struct work {
	/** Continue until `until_ns` (clock_now_ns()). False: nothing left to do. */
	bool (*step)(void *arg, uint64_t until_ns);
	void *arg;
	enum msg_pause_kind kind; /* what a long step is called */
	bool on; /* in the queue; the queue's */
	TAILQ_ENTRY(work) link;
};

TAILQ_HEAD(work_list, work);

struct work_queue {
	struct work_list list;
	struct event *due;
	struct pauses *pauses;
};

/** Long steps are added to `pauses`. False: out of memory. */
bool work_queue_init(struct work_queue *q, struct event_base *base, struct pauses *pauses);
void work_queue_fini(struct work_queue *q);

/** Call w->step() soon, and again until it returns false. No effect if already started. */
void work_start(struct work_queue *q, struct work *w);

#endif
