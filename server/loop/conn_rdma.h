/* SPDX-License-Identifier: BSD-3-Clause */
/** conn_rdma.h - RDMA connections: sessions over common/rdma/verbs.h. */
#ifndef SERVER_LOOP_CONN_RDMA_H
#define SERVER_LOOP_CONN_RDMA_H

#include <stdbool.h>

struct conn_rdma;
struct control;
struct verbs_server_config;

/**
 * Register the region and listen as `cfg` says (its fields about the region and its callbacks
 * are set here), and set c->verbs. 0, or an error as verbs_server_open().
 */
int conn_rdma_open(struct control *c, const struct verbs_server_config *cfg,
		   struct conn_rdma **out);
void conn_rdma_close(struct conn_rdma *p);

/** Release connections that have ended. True: call again. */
bool conn_rdma_tick(struct conn_rdma *p);

#endif
