/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fanout.h - a call on several servers: threads carry out its parts at the same time.
 *
 * The caller carries out parts, too. Threads start when a call first has use for them, sleep between
 * calls, block all signals, and end with fanout_fini(). Without threads (none can be started) the caller
 * carries out one part after the other.
 */
#ifndef CLIENT_FANOUT_H
#define CLIENT_FANOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define FANOUT_PARTS_MAX 64

/** The part with that number: 0, or an error with its line. */
typedef int fanout_step(void *arg, uint32_t part);

struct fanout {
	pthread_mutex_t lock; /* of what follows, up to the results */
	pthread_cond_t begun, ended;
	pthread_t thread[FANOUT_PARTS_MAX - 1];
	uint32_t n_threads;
	bool ends;
	fanout_step *step;
	void *arg;
	uint64_t left;    /* parts that have not begun, a bit for each */
	unsigned helpers; /* so many threads more may take parts of this call */
	uint32_t running; /* parts that have begun and not ended */
	/* of each part of the last call */
	int err[FANOUT_PARTS_MAX];
	char line[FANOUT_PARTS_MAX][ERR_LINE_MAX];
};

/** Starts no thread. */
void fanout_init(struct fanout *f);

/** Ends the threads. In a child of fork(2) there are none: not to be called there. */
void fanout_fini(struct fanout *f);

/**
 * Call step(arg, part) once for each part in `parts`, a bit for each, and return when all have returned.
 * At most `helpers` threads help the caller; with 0 the parts follow one another, in their order. What the
 * caller wrote is seen by the steps; what these wrote is seen by the caller afterwards. One call at a time.
 */
void fanout_run(struct fanout *f, uint64_t parts, unsigned helpers, fanout_step *step, void *arg);

/** The result of a part of the last call; sets the error line to the part's if that is an error. */
int fanout_result(const struct fanout *f, uint32_t part);

#endif
