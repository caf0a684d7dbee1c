/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * played_device.h - a device under a lane, played by the test: it replaces the functions
 * of libibverbs that a lane calls. Posted requests are executed when the lane polls.
 */
#ifndef TESTS_RIG_PLAYED_DEVICE_H
#define TESTS_RIG_PLAYED_DEVICE_H

#include "common/rdma/lane.h"

#define DEVICE_REGION 8192u
#define DEVICE_POSTED_MAX 2048u
#define DEVICE_PIECE 1024u /* the longest request that it takes */
#define DEVICE_LKEY 77u
#define DEVICE_NONE UINT32_MAX

struct played_device {
	struct ibv_send_wr wr[DEVICE_POSTED_MAX];
	struct ibv_sge sge[DEVICE_POSTED_MAX][VERBS_SGES];
	unsigned n, done;
	unsigned doorbells;
	unsigned lost;   /* the answer to this one of the posted requests, */
	unsigned refuse; /* and takes this many more, if not NONE */
	unsigned executed;
	bool hold;   /* it is slow */
	bool finish; /* and in state ERR it continues the requests in flight */
	bool error;
	const struct verbs_area *areas;
	unsigned n_areas;
};

extern struct played_device device;
/** Its memory; device_lane() fills it with numbers. */
extern uint8_t region[DEVICE_REGION] __attribute__((aligned(8)));
extern const struct verbs_conn device_conn;

/** Reset, for a lane that sees these areas. */
void device_reset(const struct verbs_area *areas, unsigned n_areas);
/** A connected lane to these areas of it. */
struct verbs_lane *device_lane(const struct verbs_area *areas, unsigned n_areas);

#endif
