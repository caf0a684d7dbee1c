/* SPDX-License-Identifier: BSD-3-Clause */
/** compare_table.h - what `kvbench compare` prints. */
#ifndef BENCH_COMPARE_TABLE_H
#define BENCH_COMPARE_TABLE_H

#include "compare.h"

/** A line for each store, the first one being what the others are set against, and
 * one for each that was left out. At least one round has ended. */
void compare_print(const struct compare *c, const struct bench *b, FILE *out);

#endif
