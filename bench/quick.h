/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * quick.h - "kvbench quick": a few seconds of workload B for somebody who wants
 * to see the store at work, with a result in words.
 */
#ifndef BENCH_QUICK_H
#define BENCH_QUICK_H

#include <stdio.h>

#include "bench.h"
#include "props.h"

/** The defaults that make it quick; whatever is set later wins. FARKV_ENOMEM. */
int quick_props(struct props *p);

/** Load, run, and say on `out` how it went. Errors as bench_run(). */
int quick_run(struct bench *b, FILE *out);

#endif
