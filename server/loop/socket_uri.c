/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "socket_uri.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"

/* The socket's absolute path; `path` unchanged if that is too long for a socket. */
static void full_path(const char *path, char full[SOCKPATH_MAX])
{
	char cwd[SOCKPATH_MAX];
	int n = SOCKPATH_MAX;

	if (*path != '/' && getcwd(cwd, sizeof(cwd)))
		n = snprintf(full, SOCKPATH_MAX, "%s/%s", cwd, path);
	if (n >= SOCKPATH_MAX)
		strcpy(full, path);
}

int socket_uri(const char *path, char uri[SOCKET_URI_MAX])
{
	char full[SOCKPATH_MAX];
	char *at = uri;

	full_path(path, full);
	for (const char *p = full; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(FARKV_EINVAL,
				       "socket: '%s' holds a control character, "
				       "which no client takes; choose another "
				       "--socket",
				       full);
	if (*full != '/') {
		sprintf(uri, "./%s", full);
		return 0;
	}
	at += sprintf(at, "shm://");
	for (const char *p = full; *p; p++)
		if (isalnum((unsigned char)*p) || strchr("/._-+=,@:", *p))
			*at++ = *p;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*p);
	*at = '\0';
	return 0;
}
