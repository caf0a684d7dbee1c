/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * board.h - whose notices are free again (layout.h, common/notice.h).
 *
 * Sessions take notices for themselves, and keep them to their end. One that ended without
 * goodbye may still store to its own while its process lives, so that waits, as a barrier
 * does (departed.h). Nothing depends on it but how fast one hot key is.
 */
#ifndef SERVER_BOARD_H
#define SERVER_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

struct control;

struct board {
	bool left[BOARD_NOTICES]; /* by sessions that ended */
	uint32_t n_left;
};

/**
 * Local session `id` has ended, and departed.h knows if its process may be at work: give
 * its notice back, and those of earlier ones whose processes are gone by now.
 */
void board_session_ended(struct control *c, uint32_t id);

#endif
