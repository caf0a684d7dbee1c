/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * quick.h - "kvbench quick": a few seconds of workload B to see the store at work, with a
 * result in words.
 */
#ifndef BENCH_CORE_QUICK_H
#define BENCH_CORE_QUICK_H

#include <stdio.h>

#include "bench/base/props.h"

#include "bench.h"

/** Set the defaults that make it quick; later settings win. FARKV_ENOMEM. */
int quick_props(struct props *p);

/** Load, run, and print the result to `out`. Errors as bench_run(). */
int quick_run(struct bench *b, FILE *out);

#endif
