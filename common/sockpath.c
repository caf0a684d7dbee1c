/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sockpath.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "err.h"
#include "util.h"

#define SYSTEM_SOCKET "/run/farkv/kvserver.sock"

int sockpath_server_default(char *buf, size_t cap)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[SOCKPATH_MAX];
	int n;

	/* The XDG specification: a path that is not absolute is ignored. */
	if (dir && dir[0] == '/')
		n = snprintf(path, sizeof(path), "%s/farkv/kvserver.sock", dir);
	else
		n = snprintf(path, sizeof(path), "%s", SYSTEM_SOCKET);
	if (n < 0 || (size_t)n >= UTIL_MIN(cap, sizeof(path)))
		return err_set(FARKV_EURI,
			       "the default socket's path is longer than %zu "
			       "bytes (XDG_RUNTIME_DIR=%.80s...); choose another "
			       "with --socket",
			       UTIL_MIN(cap, sizeof(path)) - 1, dir ? dir : "");
	memcpy(buf, path, (size_t)n + 1);
	return 0;
}

int sockpath_client_default(char *buf, size_t cap)
{
	int err = sockpath_server_default(buf, cap);

	if (err || access(buf, F_OK) == 0)
		return err;
	if (access(SYSTEM_SOCKET, F_OK) == 0)
		snprintf(buf, cap, "%s", SYSTEM_SOCKET);
	return 0;
}
