/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"

#include "notify.h"

#define FIRST_FD 3 /* of sd_listen_fds(3) */
#define PREFIX "farkv-"

/* What has come from the store: names, with NULL for those that were taken. */
static char **names;
static int n_names = -1; /* not looked at */

uint64_t fdstore_room(void)
{
	const char *most = getenv("FDSTORE");
	uint64_t n;

	return getenv("NOTIFY_SOCKET") && most && util_parse_u64(most, &n) ? n : 0;
}

/* ---- what came ------------------------------------------------------------------------- */

static void receive(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const char *list = getenv("LISTEN_FDNAMES");
	uint64_t mine, n;

	n_names = 0;
	if (!pid || !count || !list || !util_parse_u64(pid, &mine) ||
	    mine != (uint64_t)getpid() || !util_parse_u64(count, &n) || n > 1u << 20)
		return;
	names = calloc(n, sizeof(*names));
	for (; names && n_names < (int)n && list; n_names++) {
		const char *end = strchr(list, ':');

		names[n_names] = strndup(list, end ? (size_t)(end - list) : strlen(list));
		(void)fcntl(FIRST_FD + n_names, F_SETFD, FD_CLOEXEC);
		list = end ? end + 1 : NULL;
	}
}

int fdstore_take(const char *name)
{
	if (n_names < 0)
		receive();
	for (int i = 0; i < n_names; i++)
		if (names[i] && strcmp(names[i], name) == 0) {
			free(names[i]);
			names[i] = NULL;
			return FIRST_FD + i;
		}
	return -1;
}

void fdstore_close_strangers(void)
{
	if (n_names < 0)
		receive();
	for (int i = 0; i < n_names; i++) {
		if (!names[i] || strncmp(names[i], PREFIX, strlen(PREFIX)) == 0)
			continue;
		log_warn("the descriptor '%s' that was passed is not used; a socket unit needs "
			 "FileDescriptorName=" PREFIX "socket", names[i]);
		close(FIRST_FD + i);
		free(names[i]);
		names[i] = NULL;
	}
}

void fdstore_drop_rest(void)
{
	if (n_names < 0)
		receive();
	for (int i = 0; i < n_names; i++)
		if (names[i]) {
			fdstore_drop(names[i]);
			close(FIRST_FD + i);
			free(names[i]);
		}
	free(names);
	names = NULL;
	n_names = 0;
}

/* ---- what goes ------------------------------------------------------------------------- */

int fdstore_put(const char *name, int fd)
{
	char text[80];

	/* No memfd becomes readable; a poll of it would be for nothing. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	return notify_send(text, fd);
}

void fdstore_drop(const char *name)
{
	char text[80];
	int errnum;

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	errnum = notify_send(text, -1);
	if (errnum)
		log_warn("cannot remove %s from the descriptor store: %s", name,
			 strerror(errnum));
}
