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

struct control;
struct session;

/**
 * A local session has ended, and stands among the sessions yet: its notice is free, now or
 * when it has let go of the region.
 */
void board_session_ended(struct control *c, const struct session *s);

/**
 * departed_gone(): free is what no session owns. One that was ended without its knowledge may
 * have claimed a notice since.
 */
void board_departed_gone(struct control *c);

#endif
