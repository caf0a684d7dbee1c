/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * played_device.h - a device beneath a lane, played by the test: it takes the place of
 * libibverbs' functions that a lane calls. What is posted is done when the lane polls.
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
	unsigned lost;   /* the answer of this one of the posted, */
	unsigned refuse; /* and so many more it takes, if not NONE */
	unsigned executed;
	bool hold;   /* it takes its time */
	bool finish; /* and does not stop at ERR what is under way */
	bool error;
	const struct verbs_area *areas;
	unsigned n_areas;
};

extern struct played_device device;
/** What it holds; device_lane() fills it with numbers. */
extern uint8_t region[DEVICE_REGION] __attribute__((aligned(8)));
extern const struct verbs_conn device_conn;

/** As if nothing had been posted, by a lane that sees these areas. */
void device_reset(const struct verbs_area *areas, unsigned n_areas);
/** A lane to these areas of it, connected. */
struct verbs_lane *device_lane(const struct verbs_area *areas, unsigned n_areas);

#endif
