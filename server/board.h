/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * board.h - whose notices are free again (layout.h, common/notice.h).
 *
 * Sessions take notices for themselves, and keep them to their end. Only one may ever store to
 * one: were there two, puts would be reported done that never were (doc/protocol.md,
 * *Notices*). A session that ended without goodbye may still store while its process lives, so
 * its notice waits for that, as a barrier does (departed.h).
 */
#ifndef SERVER_BOARD_H
#define SERVER_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

struct control;
struct session;

struct board {
	bool left[BOARD_NOTICES]; /* by sessions whose processes may be at work */
	uint32_t n_left;
};

/** A local session has ended: its notice is free, now or when it has let go of the region. */
void board_session_ended(struct control *c, const struct session *s);

/** departed_gone(): all that was left is free. */
void board_departed_gone(struct control *c);

#endif
