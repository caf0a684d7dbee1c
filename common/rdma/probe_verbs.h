/* SPDX-License-Identifier: BSD-3-Clause */
/** probe_verbs.h - the part of the probe that asks libibverbs and librdmacm. */
#ifndef COMMON_RDMA_PROBE_VERBS_H
#define COMMON_RDMA_PROBE_VERBS_H

#include "probe_host.h"

/**
 * Fill `built`, `devices`, `fork` from libibverbs: everything except software, driver, netdevs that
 * GIDs do not name, and the verdicts. *list_error_out is the errno of listing devices, or 0.
 * Returns 0 or FARKV_ENOMEM; the caller frees *h in either case.
 */
int rdma_verbs_list(struct rdma_host *h, int *list_error_out);

/** errno of opening a channel of the connection manager; 0 if it answers. */
int rdma_verbs_cm_error(void);

/** Append a zeroed device; NULL if out of memory. */
struct rdma_device *rdma_probe_add(struct rdma_host *h, const char *name);

#endif
