/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * step_lane.h - a lane on which only polls make progress: each executes the oldest chain,
 * or none while the lane is stalled. Or a lane that plays a card: polls find only the
 * chains that step_lane_card() has executed, and xport_wait_fd() reports them if the lane
 * was armed before.
 */
#ifndef TESTS_RIG_STEP_LANE_H
#define TESTS_RIG_STEP_LANE_H

#include "common/xport/xport.h"

struct step_lane {
	struct xport_lane lane; /* first */
	struct xport_lane *inner;
	struct xport_chain *queue, **end;
	unsigned waiting; /* chains in it */
	unsigned posts, polls;
	bool still;    /* polls do nothing; very many in a row fail the test */
	unsigned in_vain; /* number of these so far */
	bool at_once;  /* a poll executes all chains */

	int fd;        /* -1: no card */
	unsigned over; /* executed chains that no poll has seen */
	unsigned slip; /* executes this many more when the lane is armed, just before */
	bool armed;
	const char *last_word; /* not NULL: breaks with this line when no chain is done */
	bool unarmable; /* arming breaks it, with an error line */
	unsigned arms; /* times it was armed while it was not before */
};

/** Around `inner`, which it owns. NULL if out of memory. */
struct step_lane *step_lane_open(struct xport_lane *inner);
/** The same with a card, which executes everything until `over` is set to 0. */
struct step_lane *step_lane_open_card(struct xport_lane *inner);
/** The card executes `n` more chains, including later posts. */
void step_lane_card(struct step_lane *l, unsigned n);

#endif
