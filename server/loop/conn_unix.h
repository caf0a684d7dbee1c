/* SPDX-License-Identifier: BSD-3-Clause */
/** conn_unix.h - socket connections: sessions of this host, one packet socket each. */
#ifndef SERVER_LOOP_CONN_UNIX_H
#define SERVER_LOOP_CONN_UNIX_H

#include <stdbool.h>

struct conn_unix;
struct control;
struct listen_socket;

/** Accept at `l`, which stays the caller's, and set c->closer. NULL if out of memory. */
struct conn_unix *conn_unix_new(struct control *c, struct listen_socket *l);
void conn_unix_free(struct conn_unix *p);

/** Accept connections, or pause. False: out of memory, try later. */
bool conn_unix_accept(struct conn_unix *p, bool on);

#endif
