/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * environ.h - where a measurement was made: machine, kernel, memory pages, RDMA
 * devices, versions. A figure without these cannot be compared with another.
 */
#ifndef BENCH_ENVIRON_H
#define BENCH_ENVIRON_H

#include "db.h"

/**
 * Hand every fact to `fn`: "Kernel", "Linux 6.1.0 x86_64". What cannot be found
 * out is left out. Texts are one line. Opens files and RDMA devices:
 * milliseconds.
 */
void environ_facts(db_fact_fn fn, void *arg);

#endif
