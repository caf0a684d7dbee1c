/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * passes.h - what the source of a copy does for the server that copies
 * (server/follower/follower.h): a few messages per pass. And clients that wait until the follower
 * has what they wrote.
 *
 * One session follows: the latest that began a pass of that kind. Event loop only.
 */
#ifndef SERVER_LOOP_PASSES_H
#define SERVER_LOOP_PASSES_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct loop_module;
struct msg;
struct session;

extern const struct loop_module passes_module;

/**
 * Handle PASS; false: the session is gone. PASSED has the pages in which incarnations restarted at
 * 0 since the session's previous PASS, of any kind. One of the kind FOLLOW says that all that the
 * session read before is applied.
 */
bool passes_on_pass(struct session *s, const struct msg *m);

/**
 * Handle WAIT_REQ; false: the session is gone. Answers WAITED 1 when the follower has applied a
 * pass that began after this request, and a later view of the map still names it
 * (passes_confirm()); WAITED 0 if there is no follower, or it goes away. A new WAIT_REQ replaces
 * the session's previous one.
 */
bool passes_on_wait(struct session *s, const struct msg *m);

/** cfg.map was the map at that time: if it names a follower, end the waits whose passes are
 * applied. */
void passes_confirm(struct control *c, uint64_t as_of_ns);

/**
 * True if the map says that the follower's copy is whole, and it goes on copying. *lag_ms_out:
 * milliseconds since it began the latest pass that it has applied; 0 if false.
 */
bool passes_followed(const struct control *c, uint64_t *lag_ms_out);

#endif
