/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * uri.h - which server an address means.
 *
 *   shm:///run/farkv/kvserver.sock   Unix socket; %XX escapes are decoded
 *   /run/farkv/kvserver.sock         the same, nothing is decoded
 *   ./kvserver.sock                  any text with a '/' and no scheme
 *   NULL                             $FARKV_URI, else the default socket
 *   kv://host:port                   RDMA: understood, not in this build
 *
 * No system call but the look-up of the default socket.
 */
#ifndef CLIENT_URI_H
#define CLIENT_URI_H

#include "common/sockpath.h"

/** Where to connect. */
struct uri {
	char path[SOCKPATH_MAX]; /* of a Unix socket, terminated */
};

/**
 * Resolve `text` (NULL allowed, see above; an empty $FARKV_URI counts as unset).
 * Returns 0, FARKV_EURI with a detail that shows the address, what is wrong and
 * the right form, or FARKV_ENOTSUP for a well-formed kv:// address.
 */
int uri_resolve(const char *text, struct uri *out);

#endif
