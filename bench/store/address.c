/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

static int bad(const char *name, const char *text)
{
	return err_set(FARKV_EINVAL,
		       "%s: '%.100s' is no address; give /path/of/socket, host, "
		       "or host:port",
		       name, text);
}

static bool copy_part(char *dst, size_t cap, const char *from, size_t len)
{
	if (!len || len >= cap)
		return false;
	memcpy(dst, from, len);
	dst[len] = '\0';
	return true;
}

int address_parse(const char *name, const char *text, uint16_t default_port,
		  struct address *out)
{
	struct address a = {.port = default_port};
	const char *host = text, *end, *port;
	uint64_t n;

	if (!strncmp(text, "unix://", 7))
		text += 7;
	if (text[0] == '/') {
		if (!copy_part(a.path, sizeof(a.path), text, strlen(text)))
			return bad(name, text);
		*out = a;
		return 0;
	}
	if (text[0] == '[') {
		host = text + 1;
		end = strchr(host, ']');
		port = end ? end + 1 : NULL;
	} else {
		end = port = text + strcspn(text, ":");
	}
	if (!end || !copy_part(a.host, sizeof(a.host), host,
			       (size_t)(end - host)) ||
	    strchr(a.host, '/'))
		return bad(name, text);
	if (*port) {
		if (*port != ':' || !util_parse_u64(port + 1, &n) || !n ||
		    n > UINT16_MAX)
			return bad(name, text);
		a.port = (uint16_t)n;
	}
	*out = a;
	return 0;
}

static int set_timeouts(int fd, uint64_t timeout_ms)
{
	struct timeval tv = {.tv_sec = (time_t)(timeout_ms / 1000),
			     .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	       setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

static int connect_to(int family, const struct sockaddr *to, socklen_t len,
		      uint64_t timeout_ms)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	if (family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (set_timeouts(fd, timeout_ms) || connect(fd, to, len)) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static int connect_tcp(const struct address *a, uint64_t timeout_ms)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all, *i;
	char port[8];
	int fd = -1, rc;

	snprintf(port, sizeof(port), "%u", a->port);
	rc = getaddrinfo(a->host, port, &hints, &all);
	if (rc) {
		err_set(FARKV_EUNREACHABLE, "%s: %s", a->host,
			gai_strerror(rc));
		return -1;
	}
	for (i = all; i && fd < 0; i = i->ai_next)
		fd = connect_to(i->ai_family, i->ai_addr, i->ai_addrlen,
				timeout_ms);
	if (fd < 0)
		err_set_errno(FARKV_EUNREACHABLE, errno,
			      "cannot connect to %s port %u", a->host,
			      a->port);
	freeaddrinfo(all);
	return fd;
}

static int connect_unix(const struct address *a, uint64_t timeout_ms)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", a->path);
	fd = connect_to(AF_UNIX, (const struct sockaddr *)&to, sizeof(to),
			timeout_ms);
	if (fd < 0)
		err_set_errno(FARKV_EUNREACHABLE, errno,
			      "cannot connect to %s", a->path);
	return fd;
}

int address_connect(const struct address *a, uint64_t timeout_ms, int *fd_out)
{
	int fd = a->path[0] ? connect_unix(a, timeout_ms)
			    : connect_tcp(a, timeout_ms);

	if (fd < 0)
		return FARKV_EUNREACHABLE;
	*fd_out = fd;
	return 0;
}
