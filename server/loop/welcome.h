/* SPDX-License-Identifier: BSD-3-Clause */
/** welcome.h - how a session begins: a connection, HELLO, CHALLENGE, AUTH, WELCOME. */
#ifndef SERVER_LOOP_WELCOME_H
#define SERVER_LOOP_WELCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;
struct loop_module;
struct msg;
struct session;

/** Remembers remote sessions that ended; ends connections that do not say HELLO in time. */
extern const struct loop_module welcome_module;

/** Session `id` ended just now, or with the server before: no barrier has passed since. */
void welcome_note_ended(struct control *c, uint32_t id);

/** A connection was made: add its session. May end it at once. */
void welcome_begin(struct session *s);
/** End the oldest connection that has not sent HELLO; false if there is none. */
bool welcome_make_room(struct control *c);

/** Handle HELLO, whose body is `body`; false: the session is gone. */
bool welcome_on_hello(struct session *s, const struct msg *m, const void *body,
		      size_t len);
/** Go on with the clients whose HELLO waits for the end of a restore. May end sessions. */
void welcome_waiting(struct control *c);
/** Handle AUTH. */
bool welcome_on_auth(struct session *s, const struct msg *m);

#endif
