/* SPDX-License-Identifier: BSD-3-Clause */
/** welcome.h - HELLO, CHALLENGE, AUTH, WELCOME. */
#ifndef SERVER_LOOP_WELCOME_H
#define SERVER_LOOP_WELCOME_H

#include <stdbool.h>
#include <stddef.h>

struct msg;
struct session;

/** Handle HELLO, whose body is `body`; false: the session is gone. */
bool welcome_on_hello(struct session *s, const struct msg *m, const void *body,
		      size_t len);
/** `s` is about to end. To be called before a barrier can pass because of that. */
void welcome_session_ended(struct session *s);
/** Handle AUTH. */
bool welcome_on_auth(struct session *s, const struct msg *m);

/** Continue the HELLO of a parked session. May end it. */
void welcome_resume(struct session *s);

#endif
