/* SPDX-License-Identifier: BSD-3-Clause */
/** port_unix.h - socket connections: sessions of this host, one packet socket each. */
#ifndef SERVER_PORT_UNIX_H
#define SERVER_PORT_UNIX_H

#include <stdbool.h>

#include "control_priv.h"
#include "listen.h"

struct port_unix;

/** Accept at `l`, which stays the caller's. NULL if out of memory. */
struct port_unix *port_unix_new(struct control *c, struct listen_socket *l);
void port_unix_free(struct port_unix *p);

/** Accept connections, or pause. False: out of memory, try later. */
bool port_unix_accept(struct port_unix *p, bool on);

/** Connections that have ended and whose sockets are not closed yet. */
uint32_t port_unix_closing(const struct port_unix *p);

#endif
