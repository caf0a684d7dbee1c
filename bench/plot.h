/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * plot.h - a picture of a benchmark, drawn by gnuplot: throughput over time
 * above, latency by percentile below, a curve for each store and kind of
 * operation. SVG, so that it stays sharp and can be searched.
 */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include "bench.h"

/** Whether there is a gnuplot to call. FARKV_ESYS with a detail if not. */
int plot_check(void);

/**
 * Draw the median rounds of `b`, whose timelines were kept, to `path`.
 * FARKV_ESYS with a detail.
 */
int plot_write(const struct bench *b, const char *path);

/** The same as gnuplot is told it, for those who want to change the picture. */
void plot_script(const struct bench *b, const char *path, FILE *out);

#endif
