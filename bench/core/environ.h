/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * environ.h - the environment of a measurement: machine, kernel, memory pages, RDMA
 * devices, versions. Figures cannot be compared without it.
 */
#ifndef BENCH_CORE_ENVIRON_H
#define BENCH_CORE_ENVIRON_H

#include "bench/store/db.h"

/**
 * Pass every fact to `fn`: "Kernel", "Linux 6.1.0 x86_64". Leaves out what is unknown.
 * Texts are one line. Opens files and RDMA devices: takes milliseconds.
 */
void environ_facts(db_fact_fn fn, void *arg);

#endif
