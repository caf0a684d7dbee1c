/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fanout.h - a call on several servers: threads carry out its parts at the same time.
 *
 * The caller carries out parts, too. A thread is started by the first call that needs it, sleeps
 * between calls, blocks signals (common/base/thread.h), and ends with fanout_fini(). If fewer
 * threads can be started, fewer parts run at the same time; with none, they run one after another.
 */
#ifndef CLIENT_FANOUT_H
#define CLIENT_FANOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define FANOUT_PARTS_MAX 64
#define FANOUT_HELPERS_MAX 15

/** The part with that number: 0, or an error with its line. */
typedef int fanout_step(void *arg, uint32_t part);

struct fanout {
	pthread_t thread[FANOUT_HELPERS_MAX];
	uint32_t n_threads;
	/* written while no part runs */
	fanout_step *step;
	void *arg;
	pthread_mutex_t lock; /* of what follows, up to the results */
	pthread_cond_t work, idle;
	bool closing;
	uint64_t not_begun;      /* parts of the present call, a bit for each */
	unsigned helpers_wanted; /* threads that may still join it */
	uint32_t running;        /* its parts that have begun and not ended */
	/* of each part of the last call */
	int err[FANOUT_PARTS_MAX];
	char line[FANOUT_PARTS_MAX][ERR_LINE_MAX];
};

/** Starts no thread. */
void fanout_init(struct fanout *f);

/** End the threads. Do not call it in a child of fork(2), which has none. */
void fanout_fini(struct fanout *f);

/**
 * Call step(arg, part) once for each part in `parts`, a bit for each, and return when all have
 * returned. At most `helpers` threads (and FANOUT_HELPERS_MAX) help the caller; with 0 the parts
 * run in their order. Steps see what the caller wrote before, and the caller then sees what they
 * wrote. One call at a time.
 */
void fanout_run(struct fanout *f, uint64_t parts, unsigned helpers, fanout_step *step, void *arg);

/**
 * The result of a part of the last call. An error also sets this thread's error line to that
 * part's.
 */
int fanout_take_result(const struct fanout *f, uint32_t part);

#endif
