/* SPDX-License-Identifier: BSD-3-Clause */
/** conn_unix.h - socket connections: sessions of this host, one packet socket each. */
#ifndef SERVER_LOOP_CONN_UNIX_H
#define SERVER_LOOP_CONN_UNIX_H

#include <stdbool.h>

#include "control_priv.h"
#include "listen.h"

struct conn_unix;

/** Accept at `l`, which stays the caller's. NULL if out of memory. */
struct conn_unix *conn_unix_new(struct control *c, struct listen_socket *l);
void conn_unix_free(struct conn_unix *p);

/** Accept connections, or pause. False: out of memory, try later. */
bool conn_unix_accept(struct conn_unix *p, bool on);

/** Connections that have ended and whose sockets are not closed yet. */
uint32_t conn_unix_closing(const struct conn_unix *p);

#endif
