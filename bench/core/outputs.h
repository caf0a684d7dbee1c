/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * outputs.h - where results go: the report (exportfile or stdout), the timeline as a table
 * (csv), a picture (plot) and a page (html). Files are opened before the work, so that a wrong
 * path costs no run, and keep their contents until there are results.
 */
#ifndef BENCH_CORE_OUTPUTS_H
#define BENCH_CORE_OUTPUTS_H

#include <stdbool.h>
#include <stdio.h>

#include "common/snapshot/outfile.h"

#include "bench.h"

struct outputs {
	const struct params *params;
	FILE *report; /* stdout, or exportfile */
	FILE *csv;    /* NULL: not wanted */
	struct outfile html; /* open unless it is a regular file */
	bool new_report, new_csv, new_plot; /* created by outputs_open() */
};

/** FARKV_ESYS with a detail; then nothing stays open. */
int outputs_open(struct outputs *o, const struct params *p);

/** There are results: discard the files' old contents. Before anything is written. */
void outputs_begin(struct outputs *o);

/**
 * Write table, picture and page of the results of `b`; the caller writes the report. FARKV_ESYS
 * with a detail.
 */
int outputs_write(struct outputs *o, const struct bench *b);

/**
 * FARKV_ESYS with a detail if something was not written completely. Without outputs_begin()
 * old files stay unchanged and new ones are removed.
 */
int outputs_close(struct outputs *o);

#endif
