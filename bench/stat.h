/* SPDX-License-Identifier: BSD-3-Clause */
/** stat.h - the middle of a few figures. */
#ifndef BENCH_STAT_H
#define BENCH_STAT_H

#include <stddef.h>

/** Median of `n` > 0 figures, which are put in order. */
double stat_median(double *v, size_t n);

#endif
