/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fail_run.h - one scenario, run again and again with another call failing.
 *
 * Each run is a process of its own, which cannot spoil the next one, and whose
 * crash or hang is a finding like others. Its results are in memory that
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
	char late[96];	/* the step that took too long, and how long; "": none */
	char at[64];	/* the step it is at */
	bool reached;	/* the call that was to fail came */
	char which[24]; /* its name */
	char when[64];	/* ... and the step it came in, where that is known */
	uint64_t calls; /* counted */
};

/** In the process of a run: what is wrong, once; the first counts. */
void fail_wrong(struct fail_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * In the process of a run: this step took longer than it may. That may be the
 * machine's fault, so the run is done again, and it is wrong if it is late each time.
 */
void fail_late(struct fail_report *r, uint64_t ms);

/** Is this a number of farkv.h, with a text and a detail? Else it is wrong. */
bool fail_typed(struct fail_report *r, const char *what, int err);

/**
 * Run `fn` in a process of its own. False if it was wrong or did not end within
 * `timeout_s`; then r->why is not empty. The process that calls this must have
 * one thread only. `timeout_s` is for hangs: more than a busy machine needs.
 */
bool fail_process(struct fail_report *r,
		  void (*fn)(struct fail_report *, void *), void *arg,
		  unsigned timeout_s);

/** The store is whole, or else it is wrong; the line names the damage. */
void fail_fsck(struct fail_report *r, struct farkv *kv);

/** Zeroed memory that all processes share. */
void *fail_shared(size_t bytes);

/**
 * Call `run` with 1, 2, 3, ... until a run ends before that call; with $FARKV_LAB other
 * than "large" only with every
 * `stride`-th number, from another one at each time ($FARKV_SEED fixes it).
 * $FARKV_CALL is the only one to try, to look into a finding, $FARKV_RUNS (1) times:
 * which call has that number depends on the threads' order. The case fails if one was
 * wrong, after all have been tried, and prints the command that repeats it.
 */
struct fail_case {
	const char *program; /* below the build directory */
	const char *name;    /* of libcheck's case */
	unsigned stride;
	uint64_t times; /* so many calls fail */
	void (*run)(struct fail_report *, uint64_t at, uint64_t times);
};
void fail_each(const struct fail_case *c);

#endif
