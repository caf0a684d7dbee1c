/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * latency.h - histograms of the times that calls took (FARKV_OPEN_LATENCY), and the list of all
 * histograms of this process.
 *
 * Counter i counts times of more than latency_bound(i - 1) and at most latency_bound(i) ns: 16 for
 * each power of two, so the width of a counter is at most 1/16 of its times.
 *
 * The handle's thread writes; any other may read at the same time, with loads of whole words. The
 * list has a lock, taken by every function that reads or changes it.
 */
#ifndef CLIENT_LATENCY_H
#define CLIENT_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include <farkv.h>

#define LATENCY_KINDS (FARKV_LATENCY_REQUEST + 1)
/* Fields of struct farkv_counters after `size`. */
#define LATENCY_FIGURES (sizeof(struct farkv_counters) / sizeof(uint64_t) - 1)

/** Of a handle, or of all that were closed. */
struct latency {
	struct latency *next;
	uint64_t figures_ns; /* when `figures` were stored */
	uint64_t figures[LATENCY_FIGURES]; /* the handle's counters */
	struct farkv_latency kind[LATENCY_KINDS]; /* `count` is computed when it is read */
};

/** Add an empty one to the list. NULL: out of memory. */
struct latency *latency_new(void);
/**
 * A handle is being closed: add its histograms to the sum of closed ones, and free them. NULL is
 * allowed.
 */
void latency_retire(struct latency *l);

/** A call of that kind ended with `result` after `ns`. */
void latency_record(struct latency *l, enum farkv_latency_kind kind, int result, uint64_t ns);
/** Store the handle's counters, as of `now_ns`. */
void latency_store(struct latency *l, const struct farkv_counters *c, uint64_t now_ns);

/** Read one kind of `l`, or with NULL the sum of all handles, also closed ones. `size` is 0. */
void latency_read(const struct latency *l, enum farkv_latency_kind kind,
		  struct farkv_latency *out);
/** The sums of the counters of all handles, open and closed. Returns how many are open. */
uint64_t latency_figures(uint64_t sum_out[LATENCY_FIGURES]);

/** As farkv_latency_bound(). */
uint64_t latency_bound(size_t i);

/** Around fork(2); see atfork.c. */
void latency_fork_prepare(void);
void latency_fork_end(void);

#endif
