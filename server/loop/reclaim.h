/* SPDX-License-Identifier: BSD-3-Clause */
/** reclaim.h - RECLAIM: sessions are asked for memory that they hold and do not use. */
#ifndef SERVER_LOOP_RECLAIM_H
#define SERVER_LOOP_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct session;

/**
 * Ask each session but `asker` (NULL: all) that was not asked since `since_ns` to give back
 * what it holds and does not use. A session that was asked a moment before is asked again
 * later, if it was granted blocks in between; `asker` returns its own when its request fails. Ends
 * sessions whose process is gone, never `asker`. True while an answer is worth waiting for:
 * call again in some ms.
 */
bool reclaim_ask(struct control *c, const struct session *asker,
		 uint64_t since_ns);

#endif
