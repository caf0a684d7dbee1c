/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "verbs.h"

#ifndef HAVE_VERBS

const struct xport_verbs_ops *xport_verbs;

#else

static const struct xport_verbs_ops ops = {
	.ctrl_open = verbs_ctrl_open,
	.ctrl_close = verbs_ctrl_close,
	.ctrl_forked = verbs_ctrl_forked,
	.ctrl_fd = verbs_ctrl_fd,
	.ctrl_send = verbs_ctrl_send,
	.ctrl_receive = verbs_ctrl_receive,
	.ctrl_why = verbs_ctrl_why,
	.lane_open = verbs_lane_open,
	.claim_open = verbs_claim_open,
	.claim_close = verbs_claim_close,
	.server_open = verbs_server_open,
	.server_close = verbs_server_close,
	.server_fd = verbs_server_fd,
	.server_dispatch = verbs_server_dispatch,
	.server_tick = verbs_server_tick,
	.server_probe = verbs_server_probe,
	.server_address = verbs_server_address,
	.server_device = verbs_server_device,
	.server_read8_atomic = verbs_server_read8_atomic,
	.server_areas = verbs_server_areas,
	.server_lane = verbs_server_lane,
	.server_lane_lost = verbs_server_lane_lost,
	.server_counters = verbs_server_counters,
	.peer_set_user = verbs_peer_set_user,
	.peer_user = verbs_peer_user,
	.peer_name = verbs_peer_name,
	.peer_same_host = verbs_peer_same_host,
	.peer_send = verbs_peer_send,
	.peer_fence = verbs_peer_fence,
	.peer_close = verbs_peer_close,
	.available = verbs_available,
};

const struct xport_verbs_ops *xport_verbs = &ops;

#endif
