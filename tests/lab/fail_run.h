/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fail_run.h - one scenario, run again and again with another call failing.
 *
 * Each run is a process of its own, which cannot spoil the next one, and whose
 * crash or hang is a finding like others. What it has to tell is in memory that
 * all share.
 */
#ifndef TESTS_LAB_FAIL_RUN_H
#define TESTS_LAB_FAIL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#define FAIL_ALWAYS UINT64_MAX /* for `times`: all that follow, too */

/** What one run found. */
struct fail_report {
	char why[400];	/* what is wrong; "": nothing */
	char at[64];	/* the step it is at */
	bool reached;	/* the call that was to fail came */
	char which[24]; /* its name */
	uint64_t calls; /* counted */
};

/** In the process of a run: what is wrong, once; the first counts. */
void fail_wrong(struct fail_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Is this a number of farkv.h, with a text and a detail? Else it is wrong. */
bool fail_typed(struct fail_report *r, const char *what, int err);

/**
 * Run `fn` in a process of its own. False if it was wrong or did not end within
 * `timeout_s`; then r->why is not empty. The process that calls this must have
 * one thread only.
 */
bool fail_process(struct fail_report *r,
		  void (*fn)(struct fail_report *, void *), void *arg,
		  unsigned timeout_s);

/** The store is whole, else it is wrong; what is damaged is said. */
void fail_fsck(struct fail_report *r, struct farkv *kv);

/** Zeroed memory that all processes share. */
void *fail_shared(size_t bytes);

/**
 * Call `run` with 1, 2, 3, ... until it says that it came through without that
 * call having been reached; with $FARKV_LAB other than "large" only with every
 * `stride`-th number, from another one at each time ($FARKV_SEED fixes it).
 * $FARKV_CALL is the only one to try, to look into a finding. The case fails if
 * one was wrong, after all have been tried. `name` is the scenario.
 */
void fail_each(const char *name, unsigned stride, uint64_t times,
	       void (*run)(struct fail_report *, uint64_t at, uint64_t times));

#endif
