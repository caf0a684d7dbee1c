/* SPDX-License-Identifier: BSD-3-Clause */
/** compare_table.h - what `kvbench compare` prints. */
#ifndef BENCH_COMPARE_COMPARE_TABLE_H
#define BENCH_COMPARE_COMPARE_TABLE_H

#include <stdio.h>

#include "bench/core/bench.h"

/**
 * Print a line for each store with its ratio to the first one, and one for each store that
 * was left out. At least one round must have ended.
 */
void compare_print(const struct bench *b, FILE *out);

#endif
