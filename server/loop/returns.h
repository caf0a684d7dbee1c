/* SPDX-License-Identifier: BSD-3-Clause */
/** returns.h - RETURN: blocks come back. */
#ifndef SERVER_LOOP_RETURNS_H
#define SERVER_LOOP_RETURNS_H

#include <stdbool.h>

struct control;
struct msg;
struct session;

void returns_init(struct control *c);

/** Handle a RETURN, or begin to; false: the session is gone. */
bool returns_on_message(struct session *s, const struct msg *m);
/** Finish a RETURN in progress at once; false: the session is gone. */
bool returns_finish(struct session *s);
/** `s` is about to end: blocks of its unfinished RETURN stay out. */
void returns_session_ended(struct session *s);

#endif
