/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * work.h - the server's maintenance, in slices.
 *
 * Growth, sweeps, checks and counts can take long; the control loop must answer
 * meanwhile. Each is a piece of work that is asked to go on for a short while,
 * again and again between two rounds of the loop, until it says that there is
 * nothing left to do. All of it runs in the control thread: no locks.
 */
#ifndef SERVER_WORK_H
#define SERVER_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event;
struct event_base;

/** A slice; what cannot be divided may take longer. */
#define WORK_SLICE_NS UINT64_C(300000)

struct work {
	/** Go on until `until_ns` (clock_now_ns()). False: nothing left to do. */
	bool (*step)(void *arg, uint64_t until_ns);
	void *arg;
	bool on; /* the queue's */
	TAILQ_ENTRY(work) link;
};

TAILQ_HEAD(work_list, work);

struct work_queue {
	struct work_list list;
	struct event *due;
};

bool work_queue_init(struct work_queue *q, struct event_base *base);
void work_queue_fini(struct work_queue *q);

/** Call w->step() soon, and again until it returns false. Fine if it is on. */
void work_start(struct work_queue *q, struct work *w);
/** Not any more. Fine if it is not on, and inside step(). */
void work_stop(struct work_queue *q, struct work *w);

#endif
