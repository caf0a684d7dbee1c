/* SPDX-License-Identifier: BSD-3-Clause */
/** clients.h - who is connected, and ending one: CLIENT_REQ and KILL. */
#ifndef SERVER_LOOP_CLIENTS_H
#define SERVER_LOOP_CLIENTS_H

#include <stdbool.h>

struct msg;
struct session;

/** Handle CLIENT_REQ: the session with the next number. False: the session is gone. */
bool clients_on_request(struct session *s, const struct msg *m);

/**
 * Handle KILL, for sessions that may write: end another session, whose program may connect again.
 * False: the session that asks is gone.
 */
bool clients_on_kill(struct session *s, const struct msg *m);

#endif
