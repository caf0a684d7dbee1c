/* SPDX-License-Identifier: BSD-3-Clause */
/** recv_thread.h - the thread that empties the receive buffers of the server. */
#ifndef COMMON_RDMA_RECV_THREAD_H
#define COMMON_RDMA_RECV_THREAD_H

#include "server_state.h"

/** Post receive buffer `i`. 0 or an errno. */
int verbs_recv_post(struct verbs_server *vs, uint64_t i);
/** Move completions to vs->arrivals and to the inboxes. Any thread. */
void verbs_move_all(struct verbs_server *vs);
/** 0 or FARKV_ESYS, with a detail. */
int verbs_recv_thread_start(struct verbs_server *vs);
/** Stop it and wait for its end. No effect if it does not run. */
void verbs_recv_thread_stop(struct verbs_server *vs);

#endif
