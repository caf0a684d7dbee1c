/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * plot.h - a picture of a benchmark, drawn by gnuplot: throughput over time above, latency
 * by percentile below, a curve per store and kind of operation. SVG: scalable and
 * searchable.
 */
#ifndef BENCH_CORE_PLOT_H
#define BENCH_CORE_PLOT_H

#include "bench.h"

/** FARKV_ESYS with a detail if there is no gnuplot. */
int plot_check(void);

/**
 * Draw the median rounds of `b`, whose timelines were kept, to `path`.
 * FARKV_ESYS with a detail.
 */
int plot_write(const struct bench *b, const char *path);

/** Takes one point of a curve. */
typedef void (*plot_point_fn)(void *arg, double x, double y);

/** Throughput: the middle of each interval in s, and its operations per second. */
void plot_rates(const struct phase_result *r, plot_point_fn fn, void *arg);

/** Operations that the latency curve of a series has; 0: there is none. */
uint64_t plot_count(const struct phase_result *r, enum series s);

/** Latency by percentile: one in how many operations is slower, and the latency in us. */
void plot_latencies(const struct phase_result *r, enum series s, plot_point_fn fn, void *arg);

/** Print the gnuplot script of plot_write(), for users who want to change the picture. */
void plot_script(const struct bench *b, const char *path, FILE *out);

#endif
