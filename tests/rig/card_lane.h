/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * card_lane.h - a lane that, like a network card, accesses only registered memory, over the lane of
 * handle_rig.h. It checks each request, and counts.
 */
#ifndef TESTS_RIG_CARD_LANE_H
#define TESTS_RIG_CARD_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/xport/xport.h"

#define KNOWN_MAX 64u

/** The lane of the present connection. */
extern struct card {
	struct xport_lane lane; /* first */
	struct xport_lane *inner;
	struct {
		const uint8_t *at;
		size_t len;
		bool added; /* otherwise the lane's own */
	} known[KNOWN_MAX];
	unsigned parts_read, parts_written; /* requests with a segment */
	bool mute; /* answers nothing more */
	struct xport_chain *stuck; /* the unanswered chain */
} card;
extern unsigned cards;    /* number of lanes made */
extern bool card_refuses; /* registers no caller's memory */
extern uint32_t card_lacks; /* capabilities */

/** True if the card may access the memory; `added`: as the caller's alone. */
bool card_has(const void *p, size_t len, bool added);

/** setup_long_grace() of handle_rig.h, with such lanes. */
void setup_card(void);

#endif
