/* SPDX-License-Identifier: BSD-3-Clause */
/** sockpath.h - where kvserver listens when nobody says otherwise. */
#ifndef COMMON_SOCKPATH_H
#define COMMON_SOCKPATH_H

#include <stddef.h>

/** Longest path of a Unix socket with its NUL (sun_path). */
#define SOCKPATH_MAX 108

/**
 * The server's default: $XDG_RUNTIME_DIR/farkv/kvserver.sock if that variable
 * is an absolute path, otherwise /run/farkv/kvserver.sock. Does not touch the
 * file system.
 * Returns 0 or FARKV_EURI with a detail (path too long for a socket).
 */
int sockpath_server_default(char *buf, size_t cap);

/**
 * The client's default: the first of the two paths above that exists, or the
 * server's default if neither does.
 */
int sockpath_client_default(char *buf, size_t cap);

#endif
