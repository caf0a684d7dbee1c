/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * recorder.h - what is written down at intervals while a phase runs: .hdr logs
 * (hdrhistogram.fileoutput) and a timeline. Only the thread that watches the
 * phase calls it; it reads what the others record, and never stops them.
 */
#ifndef BENCH_RECORDER_H
#define BENCH_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "params.h"
#include "status.h"
#include "timeline.h"

/** A log of each kind of operation, clock and outcome. */
#define RECORDER_LOGS (CLOCK_KINDS * SERIES_COUNT * SLOT_COUNT)

/** What is new since the last interval. */
struct recorder_tap {
	uint64_t interval_ns; /* 0: not in use */
	uint64_t last_ns, next_ns, last_done;
	struct measure before;
};

struct recorder {
	/* set by the caller */
	const struct params *params;
	const char *tag; /* of .hdr files, between prefix and series; NULL: none */
	struct status_source source;
	struct timeline *timeline; /* NULL: none is wanted */

	/* own */
	uint64_t next_ns; /* when recorder_tick() has something to do */
	uint64_t open_ns;  /* the logs' time 0 */
	double epoch_s;    /* the same by the clock on the wall */
	uint64_t start_ns; /* of the phase; 0: not begun */
	struct recorder_tap log, line;
	FILE *file[RECORDER_LOGS];
	int err; /* the first error, with its text */
	char why[256];
};

/** Create the files of the series that are known already, so that a wrong path
 * shows before the work. FARKV_ESYS with a detail. */
int recorder_open(struct recorder *r);

/** The phase began at `now_ns` of ticks_clock_ns(). */
void recorder_start(struct recorder *r, uint64_t now_ns);

void recorder_tick(struct recorder *r, uint64_t now_ns);

/**
 * The last interval, which may be a part of one, and the end of the files.
 * Returns the first error of all that was recorded, with a detail.
 */
int recorder_end(struct recorder *r, uint64_t now_ns);

#endif
