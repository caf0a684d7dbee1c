/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * step_lane.h - a lane on which nothing happens but by polls: each carries out one
 * chain, the oldest, or none while the lane stands still.
 */
#ifndef TESTS_STEP_LANE_H
#define TESTS_STEP_LANE_H

#include "common/xport.h"

struct step_lane {
	struct xport_lane lane; /* first */
	struct xport_lane *inner;
	struct xport_chain *queue, **end;
	unsigned waiting; /* chains in it */
	unsigned posts, polls;
	bool still;    /* polls do nothing */
	bool at_once;  /* a poll carries out all there is */
};

/** Around `inner`, which it owns. NULL if out of memory. */
struct step_lane *step_lane_open(struct xport_lane *inner);

#endif
