/* SPDX-License-Identifier: BSD-3-Clause */
/** lane.h - a lane over a reliable connection; opening, breaking and closing it. */
#ifndef COMMON_RDMA_LANE_H
#define COMMON_RDMA_LANE_H

#include "conn.h"

/* The send queue of a lane, and its largest inline WRITE in bytes. */
#define VERBS_LANE_SQ 512u
#define VERBS_INLINE 220u

/** A lane; verbs_lane_new() creates it before its connection. */
struct verbs_lane;

/** `owner` is the context of the CQ's async events. FARKV_ENOMEM, FARKV_ESYS. */
int verbs_lane_new(struct ibv_pd *pd, void *owner,
		   const struct verbs_lane_params *p, struct verbs_lane **out);
/** The CQ for its QP. */
struct ibv_cq *verbs_lane_cq(const struct verbs_lane *l);
/** Give the lane its connection, which it owns from then on. */
int verbs_lane_start(struct verbs_lane *l, const struct verbs_conn *conn);
struct xport_lane *verbs_lane_base(struct verbs_lane *l);
struct verbs_lane *verbs_lane_of(struct xport_lane *lane);
/** Break the lane, if it is not broken, and end all its chains. Takes at most 0.5 s. */
void verbs_lane_stop(struct verbs_lane *l);
/** verbs_lane_start() of a broken lane. */
int verbs_lane_restart(struct verbs_lane *l, const struct verbs_conn *conn);
/** Why the lane broke. */
const char *verbs_lane_reason(const struct verbs_lane *l);
/** Free a lane that was not started. */
void verbs_lane_abandon(struct verbs_lane *l);

#endif
