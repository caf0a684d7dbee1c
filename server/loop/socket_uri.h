/* SPDX-License-Identifier: BSD-3-Clause */
/** socket_uri.h - the address by which clients find a socket. */
#ifndef SERVER_LOOP_SOCKET_URI_H
#define SERVER_LOOP_SOCKET_URI_H

#include "common/base/sockpath.h"

/* "shm://", each byte of a path as %XX, and a NUL. */
#define SOCKET_URI_MAX (3 * SOCKPATH_MAX + 8)

/**
 * The address as a client needs it: an absolute path, or one relative to the server's folder, with
 * %XX for characters that are special in a URI. FARKV_EINVAL with a detail for a path that no client
 * accepts.
 */
int socket_uri(const char *path, char uri[SOCKET_URI_MAX]);

#endif
