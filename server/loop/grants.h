/* SPDX-License-Identifier: BSD-3-Clause */
/** grants.h - GRANT and RECLAIM: who gets memory, and who is asked for some. */
#ifndef SERVER_LOOP_GRANTS_H
#define SERVER_LOOP_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct msg;
struct session;

bool memory_init(struct control *c);
void memory_fini(struct control *c);

/** Handle a message; false: the session is gone. */
bool memory_on_grant(struct session *s, const struct msg *m);

/** Blocks or pages have become free, or it is known that none will: serve the waiting
 * requests soon. */
void memory_resume(struct control *c);

/**
 * Ask each session but `asker` (NULL: all) that was not asked since `since_ns` to give back
 * what it holds and does not use. A session that was asked a moment before is asked later if
 * it has been granted blocks since; an asker returns its own when its request fails. Ends
 * sessions whose process is gone, never `asker`. True while an answer is worth waiting for:
 * call again in some ms.
 */
bool memory_reclaim(struct control *c, const struct session *asker,
		    uint64_t since_ns);

/** `s` is about to end. Ends no other session. */
void memory_session_ended(struct session *s);

#endif
