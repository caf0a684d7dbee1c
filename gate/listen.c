/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/util.h"

#define BACKLOG 1024

/* The path of a Unix socket, or NULL. */
static const char *path_of(const char *text)
{
	if (strncmp(text, "unix:", 5) == 0)
		return text + 5;
	return strchr(text, '/') ? text : NULL;
}

/* Split into host and port. `host` NULL: every address. */
static int split(const char *option, const char *text, char *host, const char **port_out)
{
	const char *colon = strrchr(text, ':');
	const char *from = text;
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	*port_out = colon ? colon + 1 : text;
	if (!util_parse_u64(*port_out, &port) || port > 65535 || len >= LISTEN_TEXT)
		return err_set(FARKV_EINVAL,
			       "%s: '%s' is no address: give PORT, HOST:PORT, [IPV6]:PORT or the "
			       "path of a socket",
			       option, text);
	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		from++;
		len -= 2;
	}
	memcpy(host, from, len);
	host[len] = '\0';
	if (!colon || !len)
		strcpy(host, "127.0.0.1");
	return 0;
}

int listen_check(const char *option, const char *text)
{
	const char *path = path_of(text), *port;
	char host[LISTEN_TEXT];

	if (!path)
		return split(option, text, host, &port);
	if (!*path || strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(FARKV_EINVAL, "%s: '%s': a socket's path has 1 to 107 bytes", option,
			       text);
	return 0;
}

/* ---- Unix sockets -------------------------------------------------------------------- */

/* True if nobody listens at the socket of this path, which can be replaced then. */
static bool is_stale(const struct sockaddr_un *un)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool stale;

	if (fd < 0)
		return false;
	stale = connect(fd, (const struct sockaddr *)un, sizeof(*un)) && errno == ECONNREFUSED;
	close(fd);
	return stale;
}

static int bind_path(int fd, const struct sockaddr_un *un, unsigned mode)
{
	const struct sockaddr *at = (const struct sockaddr *)un;
	mode_t before = umask(0777 & ~mode);
	int failed = bind(fd, at, sizeof(*un));

	if (failed && errno == EADDRINUSE && is_stale(un) && unlink(un->sun_path) == 0)
		failed = bind(fd, at, sizeof(*un));
	umask(before);
	return failed ? errno : 0;
}

static int open_path(const char *option, const char *path, unsigned mode, struct listen_at *l)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct stat st = {0};
	int errnum;

	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "%s: %s", option, path);
	strcpy(un.sun_path, path);
	errnum = bind_path(l->fd, &un, mode);
	if (!errnum && (listen(l->fd, BACKLOG) || stat(path, &st)))
		errnum = errno;
	if (errnum) {
		close(l->fd);
		if (errnum == EADDRINUSE)
			return err_set(FARKV_EREFUSED,
				       "%s: %s is in use, or is no socket; choose another path",
				       option, path);
		return err_set_errno(FARKV_ESYS, errnum, "%s: %s", option, path);
	}
	snprintf(l->text, sizeof(l->text), "%s", path);
	l->local = l->is_path = true;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

/* ---- TCP ----------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *at)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)at;

	if (at->sa_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return at->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static void name_of(int fd, struct listen_at *l)
{
	struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(at);
	char host[64] = "?", port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
		getnameinfo((struct sockaddr *)&at, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(l->text, sizeof(l->text), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	l->local = is_loopback((struct sockaddr *)&at);
}

static int bind_tcp(const struct addrinfo *a)
{
	int one = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	one = errno;
	close(fd);
	errno = one;
	return -1;
}

static int open_tcp(const char *option, const char *text, struct listen_at *l)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[LISTEN_TEXT];
	const char *port;
	int err = split(option, text, host, &port);

	if (err)
		return err;
	err = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
	if (err)
		return err_set(FARKV_EINVAL, "%s: %s: %s", option, text, gai_strerror(err));
	l->fd = bind_tcp(found);
	freeaddrinfo(found);
	if (l->fd < 0 && errno == EADDRINUSE)
		return err_set(FARKV_EREFUSED,
			       "%s: another program listens at %s; choose another port", option,
			       text);
	if (l->fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "%s: %s", option, text);
	name_of(l->fd, l);
	return 0;
}

int listen_open_at(const char *option, const char *text, unsigned mode, struct listen_at *out)
{
	struct listen_at l = {.fd = -1, .speaks = out->speaks};
	const char *path = path_of(text);
	int err = listen_check(option, text);

	if (!err)
		err = path ? open_path(option, path, mode, &l) : open_tcp(option, text, &l);
	if (!err)
		*out = l;
	return err;
}

void listen_close_at(struct listen_at *l)
{
	struct stat st;

	close(l->fd);
	if (l->is_path && stat(l->text, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->text);
}
