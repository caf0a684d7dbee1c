/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sockpath.h - where kvserver listens when nobody says otherwise, and where clients then
 * look for it:
 *
 *   1. $XDG_RUNTIME_DIR/farkv/kvserver.sock   where that is an absolute path
 *   2. /run/farkv/kvserver.sock
 *   3. /tmp/farkv-UID/kvserver.sock           in a folder of mode 0700 of the user's
 */
#ifndef COMMON_SOCKPATH_H
#define COMMON_SOCKPATH_H

#include <stddef.h>

/** Longest path of a Unix socket with its NUL (sun_path). */
#define SOCKPATH_MAX 108

/**
 * The server's default: the first of the three where this user may make a socket; of
 * the first nothing is asked but the variable. Makes no file.
 * Returns 0 or FARKV_EURI with a detail (path too long for a socket).
 */
int sockpath_server_default(char *buf, size_t cap);

/**
 * For a server at its default: make the folder of the third path, if `path` is that.
 * Returns 0, or with a detail FARKV_ESYS or FARKV_EPERM (others may enter what is there).
 */
int sockpath_make_folder(const char *path);

/**
 * The client's default: sockpath_first_live() of the three paths above, or the server's
 * default if there is nothing at any. The third only where its folder is the user's own:
 * anybody can make one of that name.
 */
int sockpath_client_default(char *buf, size_t cap);

/**
 * The first of `n` paths at which a server listens, otherwise the first that exists,
 * otherwise NULL. Connects where several exist, and hangs up at once.
 */
const char *sockpath_first_live(const char *const *paths, size_t n);

#endif
