/* SPDX-License-Identifier: BSD-3-Clause */
/** stat.h - the median. */
#ifndef BENCH_BASE_STAT_H
#define BENCH_BASE_STAT_H

#include <stddef.h>

/** Median of `n` > 0 figures, which it sorts. */
double stat_median(double *v, size_t n);

#endif
