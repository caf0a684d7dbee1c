/* SPDX-License-Identifier: BSD-3-Clause */
/** rdma_probe_priv.h - between the two halves of the probe, and for its tests. */
#ifndef COMMON_RDMA_PROBE_PRIV_H
#define COMMON_RDMA_PROBE_PRIV_H

#include "common/rdma_probe.h"

/** Stands before /sys, /dev and /lib; "" but in tests, which set it at start. */
extern const char *rdma_probe_root;

/**
 * Fill `built`, `devices`, `fork` with what libibverbs says: everything about a
 * device but software, driver, ports[].netdev where the GIDs name none, and the
 * verdicts. *list_error_out is the errno of listing devices, or 0. Returns 0 or
 * FARKV_ENOMEM; *h can be freed in either case.
 */
int rdma_verbs_list(struct rdma_host *h, int *list_error_out);

/** errno of opening a channel to the connection manager, 0: it answers. */
int rdma_verbs_cm_error(void);

/** A new zeroed device at the end of the list, or NULL. */
struct rdma_device *rdma_probe_add(struct rdma_host *h, const char *name);

#endif
