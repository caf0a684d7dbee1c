/* SPDX-License-Identifier: BSD-3-Clause */
/** listen.h - addresses at which kvgate listens: TCP and Unix sockets. */
#ifndef GATE_LISTEN_H
#define GATE_LISTEN_H

#include <stdbool.h>
#include <sys/types.h>

#include "client.h"

/** Longest text of an address. */
#define LISTEN_TEXT 160

struct listen_at {
	int fd;
	enum client_speaks speaks; /* SPEAKS_UNKNOWN: the first byte tells */
	char text[LISTEN_TEXT];    /* "127.0.0.1:6379" or a path */
	bool local;                /* nobody reaches it from another machine */
	bool is_path;
	dev_t dev;                 /* of a path's file */
	ino_t ino;
};

/**
 * Check an address without opening it: "PORT", "HOST:PORT", "[::1]:PORT", "*:PORT", or a path with
 * a '/', "unix:" may precede it. 0 or FARKV_EINVAL with a detail that begins with `option`.
 */
int listen_check(const char *option, const char *text);

/**
 * Listen. A port alone is one of 127.0.0.1, port 0 takes a free one. A path's file gets the mode
 * and replaces a socket at which nobody listens. 0, or FARKV_EINVAL, FARKV_EREFUSED (in use) or
 * FARKV_ESYS with a detail.
 */
int listen_open_at(const char *option, const char *text, unsigned mode, struct listen_at *out);

/** Stop listening; removes the file of a path if it is still its own. */
void listen_close_at(struct listen_at *l);

#endif
