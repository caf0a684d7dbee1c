/* SPDX-License-Identifier: BSD-3-Clause */
/** loopback.h - the server's lane over the loopback QP; see verbs_server_lane(). */
#ifndef COMMON_RDMA_LOOPBACK_H
#define COMMON_RDMA_LOOPBACK_H

#include "server_state.h"

/** Connect vs->lane, with all rights to these two areas. FARKV_* with a detail. */
int verbs_loopback_create(struct verbs_server *vs,
			  const struct verbs_area areas[2]);
/** NULL lane is allowed. */
void verbs_loopback_destroy(struct verbs_server *vs);
/** Reconnect a lost lane. True if it is still lost: call again. */
bool verbs_loopback_tick(struct verbs_server *vs, uint64_t now);

#endif
