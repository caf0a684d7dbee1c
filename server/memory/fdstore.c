/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"

#define FIRST_FD 3 /* of sd_listen_fds(3) */

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

/* Send `text`, and a copy of `fd` unless it is -1. 0 or an errno. */
static int notify(const char *text, int fd)
{
	static const struct timeval patience = {.tv_sec = 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
	struct msghdr h = {.msg_name = &a, .msg_iov = &iov, .msg_iovlen = 1};
	const char *path = getenv("NOTIFY_SOCKET");
	int s, errnum = 0;

	if (!path || strlen(path) >= sizeof(a.sun_path))
		return EINVAL;
	strcpy(a.sun_path, path);
	h.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (*path == '@') /* an abstract name */
		a.sun_path[0] = '\0';
	if (fd >= 0) {
		struct cmsghdr *c;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return errno;
	(void)setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (sendmsg(s, &h, MSG_NOSIGNAL) < 0)
		errnum = errno;
	close(s);
	return errnum;
}

int fdstore_put(const char *name, int fd)
{
	char text[80];

	/* No memfd becomes readable; a poll of it would be for nothing. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	return notify(text, fd);
}

void fdstore_drop(const char *name)
{
	char text[80];
	int errnum;

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	errnum = notify(text, -1);
	if (errnum)
		log_warn("cannot remove %s from the descriptor store: %s", name,
			 strerror(errnum));
}
