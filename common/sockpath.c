/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sockpath.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "err.h"

#define SYSTEM_SOCKET "/run/farkv/kvserver.sock"

int sockpath_server_default(char *buf, size_t cap)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	int n;

	if (dir && *dir)
		n = snprintf(buf, cap, "%s/farkv/kvserver.sock", dir);
	else
		n = snprintf(buf, cap, "%s", SYSTEM_SOCKET);
	if (n < 0 || (size_t)n >= cap || n >= SOCKPATH_MAX)
		return err_set(FARKV_EURI,
			       "socket path under XDG_RUNTIME_DIR=%s is longer "
			       "than %d bytes; choose another with --socket",
			       dir, SOCKPATH_MAX - 1);
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
