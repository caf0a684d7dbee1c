/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * outputs.h - where a benchmark's results go: the report (exportfile, or
 * stdout), the timeline as a table (csv) and a picture (plot). Files are opened
 * before the work, so that a wrong path costs no run.
 */
#ifndef BENCH_OUTPUTS_H
#define BENCH_OUTPUTS_H

#include <stdio.h>

#include "bench.h"

struct outputs {
	const struct params *params;
	FILE *report; /* stdout, or exportfile */
	FILE *csv;    /* NULL: none is wanted */
};

/** FARKV_ESYS with a detail; then nothing is open. */
int outputs_open(struct outputs *o, const struct params *p);

/** Table and picture of what `b` has measured; the report is the caller's.
 * FARKV_ESYS with a detail. */
int outputs_write(struct outputs *o, const struct bench *b);

/** FARKV_ESYS with a detail if something was not written whole. */
int outputs_close(struct outputs *o);

#endif
