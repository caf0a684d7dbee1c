/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * outputs.h - where a benchmark's results go: the report (exportfile, or
 * stdout), the timeline as a table (csv) and a picture (plot). Files are opened
 * before the work, so that a wrong path costs no run, and keep what is in them until
 * there is something to put in its place.
 */
#ifndef BENCH_OUTPUTS_H
#define BENCH_OUTPUTS_H

#include <stdbool.h>
#include <stdio.h>

#include "bench.h"

struct outputs {
	const struct params *params;
	FILE *report; /* stdout, or exportfile */
	FILE *csv;    /* NULL: none is wanted */
	bool new_report, new_csv, new_plot; /* that are there since outputs_open() */
};

/** FARKV_ESYS with a detail; then nothing is open. */
int outputs_open(struct outputs *o, const struct params *p);

/** There are results: the files' old contents go. Before anything is written. */
void outputs_begin(struct outputs *o);

/** Table and picture of what `b` has measured; the report is the caller's.
 * FARKV_ESYS with a detail. */
int outputs_write(struct outputs *o, const struct bench *b);

/**
 * FARKV_ESYS with a detail if something was not written whole. Without outputs_begin()
 * the files are as they were, or not there.
 */
int outputs_close(struct outputs *o);

#endif
