/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int notify_send(const char *text, int fd)
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
