/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * status.h - progress of a phase on stderr: YCSB's status lines (-s), or on a terminal one
 * line that is rewritten, with a bar, the rate and the time left.
 */
#ifndef BENCH_CORE_STATUS_H
#define BENCH_CORE_STATUS_H

#include <stdint.h>
#include <stdio.h>

#include "measure.h"

enum status_mode {
	STATUS_OFF,
	STATUS_LINES,
	STATUS_LIVE,
	STATUS_STEPS, /* the live line as a new line per interval */
};

/** Source of the figures; called by the thread that shows them. */
struct status_source {
	void *arg;
	uint64_t (*done)(void *arg);
	/** Add all that was measured so far to *m. */
	void (*snapshot)(void *arg, struct measure *m);
};

struct status {
	/* set by the caller */
	FILE *out;
	enum status_mode mode;
	const char *label;    /* prefix of every line; "" for none */
	const char *title;    /* of the live line: "run farkv" */
	uint64_t interval_ns; /* between lines */
	uint64_t todo;        /* operations; 0: until time is up */
	uint64_t max_ns;      /* time, or 0 */
	struct status_source source;

	/* own */
	uint64_t start_ns, last_ns, next_ns, last_done;
	double rate; /* smoothed, for the live line */
	struct measure before;
};

/** The mode of a phase: lines if asked for, otherwise live on a terminal with escapes. */
enum status_mode status_mode_for(bool lines, FILE *out);

/** `now_ns` of ticks_clock_ns(). */
void status_start(struct status *s, uint64_t now_ns);

/** Show what is due; call again at s->next_ns. */
void status_tick(struct status *s, uint64_t now_ns);

/** Print the last line, or clear it on a terminal; frees memory. */
void status_end(struct status *s, uint64_t now_ns);

#endif
