/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sockpath.h - where kvserver listens by default, and where clients look for it:
 *
 *   1. $XDG_RUNTIME_DIR/farkv/kvserver.sock   if that is an absolute path
 *   2. /run/farkv/kvserver.sock
 *   3. /tmp/farkv-UID/kvserver.sock           in the user's own folder of mode 0700
 */
#ifndef COMMON_BASE_SOCKPATH_H
#define COMMON_BASE_SOCKPATH_H

#include <stddef.h>

/** Longest path of a Unix socket with its NUL (sun_path). */
#define SOCKPATH_MAX 108

/**
 * The server's default: the first of the three where this user may create a socket. For the first
 * path only the variable is checked. Creates no file. Returns 0 or FARKV_EURI with a detail (path
 * too long for a socket).
 */
int sockpath_server_default(char *buf, size_t cap);

/**
 * For a server at its default: create the folder if `path` is the third one. Returns 0, or
 * with a detail FARKV_ESYS or FARKV_EPERM (others may enter an existing folder).
 */
int sockpath_make_folder(const char *path);

/**
 * The client's default: sockpath_first_live() of the three paths, or the server's default if none
 * exists. The third path counts only if the user owns its folder, because anybody can create a
 * folder of that name.
 */
int sockpath_client_default(char *buf, size_t cap);

/**
 * The first of `n` paths at which a server listens, otherwise the first that exists, otherwise
 * NULL. If several exist, it connects to them and hangs up at once.
 */
const char *sockpath_first_live(const char *const *paths, size_t n);

#endif
