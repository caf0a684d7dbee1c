/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's lane over the loopback QP. It can break like any connection: a software device finds
 * no route while the port is down, and a machine that is stopped for a second exhausts its retries.
 * The store must survive that, so the lane is reconnected while its users wait.
 */
#include "config.h"

#include "loopback.h"

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "lane.h"
#include "peer.h"

/* A reconnected lane that works for this long counts as repaired. */
#define REPAIRED_NS (10 * NS_PER_SEC)
/* The device is lost after this long of failing with the port up. */
#define GIVE_UP_NS (30 * NS_PER_SEC)

#define RIGHTS                                              \
	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)

int verbs_loopback_create(struct verbs_server *vs,
			  const struct verbs_area areas[2])
{
	struct verbs_lane_params p = {.areas = areas,
				      .n_areas = 2,
				      .region_bytes = vs->cfg.region_bytes,
				      .read8_atomic = !vs->dev.software};

	return verbs_device_loop(&vs->dev, &p, RIGHTS, &vs->lane,
				 &vs->lane_far);
}

void verbs_loopback_destroy(struct verbs_server *vs)
{
	if (vs->lane)
		log_debug("rdma: the server's loopback connection did %llu "
			  "compare-and-swaps with %llu doorbells",
			  (unsigned long long)vs->lane->counters.cas,
			  (unsigned long long)vs->lane->counters.doorbells);
	verbs_conn_destroy(&vs->lane_far);
	xport_close(vs->lane);
	vs->lane = NULL;
}

struct xport_lane *verbs_server_lane(struct verbs_server *vs)
{
	return vs->lane;
}

void verbs_server_lane_lost(struct verbs_server *vs)
{
	uint64_t now = clock_now_ns();
	const char *why = verbs_lane_reason(verbs_lane_of(vs->lane));

	if (vs->lane_lost || vs->lost)
		return;
	vs->lane_lost = true;
	vs->lane_fails = vs->lane_made_ns &&
			 now - vs->lane_made_ns < REPAIRED_NS;
	if (!vs->lane_fails) {
		vs->lane_lost_ns = now;
		log_warn("rdma: the server's loopback connection broke (%s); "
			 "reconnecting", why);
	}
	vs->cfg.ops->on_tick_due(vs->cfg.arg);
}

static bool port_is_down(const struct verbs_server *vs)
{
	struct ibv_port_attr port;

	return !ibv_query_port(vs->dev.ctx, vs->dev.port, &port) &&
	       port.state < IBV_PORT_ACTIVE;
}

bool verbs_loopback_tick(struct verbs_server *vs, uint64_t now)
{
	if (!vs->lane_lost || vs->lost)
		return false;
	if (port_is_down(vs)) {
		vs->lane_lost_ns = now;
		return true;
	}
	if (now - vs->lane_lost_ns > GIVE_UP_NS) {
		verbs_device_lost(vs, "the RDMA device cannot connect to "
				      "itself any more");
		return false;
	}
	if (verbs_device_loop_again(&vs->dev, RIGHTS, vs->lane,
				    &vs->lane_far)) {
		log_debug("rdma: loopback connection: %s", err_detail());
		return true;
	}
	vs->lane_lost = false;
	vs->lane_made_ns = clock_now_ns();
	if (!vs->lane_fails)
		log_info("rdma: the server's loopback connection works again");
	if (vs->cfg.ops->on_lane)
		vs->cfg.ops->on_lane(vs->cfg.arg);
	return false;
}
