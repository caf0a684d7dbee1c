/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * step_lane.h - a lane on which nothing happens but by polls: each carries out one
 * chain, the oldest, or none while the lane stands still.
 *
 * Or one that plays a card: polls find only what step_lane_card() has carried out
 * since, and xport_wait_fd() tells of it, if the lane was armed before.
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
	unsigned in_vain; /* ... so many so far */
	bool at_once;  /* a poll carries out all there is */

	int fd;        /* -1: no card */
	unsigned over; /* chains that the card has carried out, and no poll has seen */
	unsigned slip; /* ... so many more when the lane is armed, just before */
	bool armed;
	const char *last_word; /* not NULL: it breaks, and says so, when no chain that
				  waits is over */
	bool unarmable; /* to arm it breaks it, with an error line */
	unsigned arms; /* times it was, and was not before */
};

/** Around `inner`, which it owns. NULL if out of memory. */
struct step_lane *step_lane_open(struct xport_lane *inner);
/** The same with a card, which carries everything out until `over` is set to 0. */
struct step_lane *step_lane_open_card(struct xport_lane *inner);
/** The card carries out `n` more chains; those that are posted later count, too. */
void step_lane_card(struct step_lane *l, unsigned n);

#endif
