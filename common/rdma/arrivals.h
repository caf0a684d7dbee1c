/* SPDX-License-Identifier: BSD-3-Clause */
/** arrivals.h - the loop handles completed sends and messages of clients. */
#ifndef COMMON_RDMA_ARRIVALS_H
#define COMMON_RDMA_ARRIVALS_H

#include "server_state.h"

/**
 * Handle completed sends, then messages for a bounded time; if some are left, arrived_fd
 * stays readable.
 */
void verbs_arrivals_dispatch(struct verbs_server *vs);

#endif
