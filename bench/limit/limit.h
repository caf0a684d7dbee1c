/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * limit.h - `kvbench limit`: the best that this machine can do with farkv's formats, and
 * the share of it that farkv reaches.
 *
 * The sides (limit_*.c) do the same operations on the same keys. Shared memory: the limit,
 * which is the necessary loads, stores and sums without a protocol; farkv; and libcuckoo if
 * built in. RDMA: the bare requests, and their parts; farkv, and farkv without its location
 * cache. They alternate many times a round, so that disturbances affect all alike. Keys are
 * drawn before the clock runs: the figures contain no harness.
 */
#ifndef BENCH_LIMIT_LIMIT_H
#define BENCH_LIMIT_LIMIT_H

#include <stdio.h>

#include "bench/base/props.h"

/** Set the defaults of `limit`. */
int limit_props(struct props *p);

/**
 * Load, run all rounds, print the table to `out`. FARKV_EINVAL for properties,
 * FARKV_ENOTSUP, the store's errors; with a detail. Checks for signals every LIMIT_CHUNK
 * operations: FARKV_EABORTED, without a table.
 */
int limit_run(struct props *p, const char *uri, FILE *out);

#endif
