/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * recorder.h - records of a running phase at intervals: .hdr logs (hdrhistogram.fileoutput)
 * and a timeline. Only the thread that watches the phase calls it; it reads the workers'
 * counters without stopping them.
 */
#ifndef BENCH_CORE_RECORDER_H
#define BENCH_CORE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/gen/params.h"

#include "status.h"
#include "timeline.h"

/** One log per kind of operation, clock and outcome. */
#define RECORDER_LOGS (CLOCK_KINDS * SERIES_COUNT * SLOT_COUNT)

/** The difference since the last interval. */
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
	struct timeline *timeline; /* NULL: not wanted */

	/* own */
	uint64_t next_ns; /* time of the next recorder_tick() */
	uint64_t open_ns;  /* the logs' time 0 */
	double epoch_s;    /* the same in wall-clock time */
	uint64_t start_ns; /* of the phase; 0: not started */
	struct recorder_tap log, line;
	FILE *file[RECORDER_LOGS];
	int err; /* the first error, with its text */
	char why[256];
};

/**
 * Create the files of the series known so far, so that a wrong path shows before the work.
 * FARKV_ESYS with a detail.
 */
int recorder_open(struct recorder *r);

/** The phase starts at `now_ns` of ticks_clock_ns(). */
void recorder_start(struct recorder *r, uint64_t now_ns);

void recorder_tick(struct recorder *r, uint64_t now_ns);

/**
 * Record the last, perhaps partial interval and close the files. Returns the first error of
 * all, with a detail.
 */
int recorder_end(struct recorder *r, uint64_t now_ns);

#endif
