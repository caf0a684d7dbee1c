/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "listen.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/privileges.h"

#define BACKLOG 256
/* While a passed socket has no server, clients that look for one add to its queue. */
#define PASSED_BACKLOG 4096

static int make_parent(const char *path)
{
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	char dir[108];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	if (mkdir(dir, mode) == 0) {
		privileges_give(dir);
		if (chmod(dir, mode) == 0) /* whatever the umask */
			return 0;
	} else if (errno == EEXIST) {
		return 0;
	}
	return err_set_errno(FARKV_ESYS, errno,
			     "cannot make the folder %s for the socket; "
			     "choose another with --socket",
			     dir);
}

/* Whether `name` is still that file: another server may have made its own there. */
static bool is_still(const char *name, const struct stat *st)
{
	struct stat there;

	return lstat(name, &there) == 0 && there.st_dev == st->st_dev &&
	       there.st_ino == st->st_ino;
}

/* PID of the lock's holder, which it wrote into the file; 0 if unknown. */
static long lock_holder(int fd)
{
	char text[32] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return strtol(text, NULL, 10);
}

/*
 * Take PATH.lock. A server that ends may remove the file between open and flock: then try
 * again with the new file.
 */
static int lock_take(const char *path)
{
	char name[128];

	snprintf(name, sizeof(name), "%s.lock", path);
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			      0600);
		struct stat mine;

		if (fd < 0)
			return err_set_errno(FARKV_ESYS, errno,
					     "cannot open the lock file %s",
					     name);
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			int errnum = errno;
			long pid = lock_holder(fd);

			close(fd);
			if (errnum != EWOULDBLOCK)
				return err_set_errno(FARKV_ESYS, errnum,
						     "cannot lock %s", name);
			return err_set(FARKV_EREFUSED,
				       "address already in use: a kvserver "
				       "(pid %ld) already serves %s; stop it or "
				       "choose another --socket",
				       pid, path);
		}
		if (fstat(fd, &mine) == 0 && is_still(name, &mine)) {
			(void)fchmod(fd, 0600); /* whatever the umask */
			privileges_give(name);
			if (ftruncate(fd, 0) == 0)
				dprintf(fd, "%ld\n", (long)getpid());
			return fd;
		}
		close(fd);
	}
}

static void lock_release(const char *path, int fd)
{
	struct stat mine;
	char name[128];

	snprintf(name, sizeof(name), "%s.lock", path);
	if (fstat(fd, &mine) == 0 && is_still(name, &mine))
		unlink(name);
	close(fd);
}

static int unlink_stale(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, busy;

	if (lstat(path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return err_set(FARKV_EINVAL,
			       "%s exists and is not a socket; remove it or "
			       "choose another --socket",
			       path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "cannot make a socket");
	memcpy(a.sun_path, path, strlen(path) + 1);
	busy = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 ||
	       errno != ECONNREFUSED;
	close(fd);
	if (busy)
		return err_set(FARKV_EREFUSED,
			       "address already in use: another program "
			       "listens at %s; stop it or choose another "
			       "--socket",
			       path);
	unlink(path);
	return 0;
}

int listen_open(const char *path, unsigned mode, struct listen_socket *l_out)
{
	struct listen_socket l = {.fd = -1, .lock_fd = -1};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	bool bound = false;
	struct stat st;
	int err;

	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(FARKV_EINVAL,
			       "socket path of %zu bytes is longer than %zu: %s",
			       strlen(path), sizeof(a.sun_path) - 1, path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	memcpy(l.path, a.sun_path, sizeof(a.sun_path));
	err = make_parent(path);
	if (err)
		return err;
	l.lock_fd = lock_take(path);
	if (l.lock_fd < 0)
		return l.lock_fd;
	err = unlink_stale(path);
	if (err)
		goto err_unlock;
	err = FARKV_ESYS;
	l.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l.fd >= 0 && fchmod(l.fd, mode) == 0)
		bound = bind(l.fd, (struct sockaddr *)&a, sizeof(a)) == 0;
	if (bound)
		privileges_give(path);
	if (!bound || chmod(path, mode) || lstat(path, &st)) {
		err_set_errno(err, errno, "cannot listen at %s", path);
		goto err_close;
	}
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	*l_out = l;
	return 0;

err_close:
	if (bound)
		unlink(path);
	if (l.fd >= 0)
		close(l.fd);
err_unlock:
	lock_release(path, l.lock_fd);
	return err;
}

/* ---- a socket that was passed ------------------------------------------------------------- */

static int option_of(int fd, int name)
{
	socklen_t len = sizeof(int);
	int value;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? -1 : value;
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

int listen_adopt(int fd, const char *path, struct listen_socket *l_out)
{
	struct listen_socket l = {.fd = fd, .lock_fd = -1, .passed = true};
	struct sockaddr_un a = {0};
	socklen_t len = sizeof(a) - 1; /* a NUL remains */

	if (option_of(fd, SO_DOMAIN) != AF_UNIX || option_of(fd, SO_TYPE) != SOCK_SEQPACKET ||
	    option_of(fd, SO_ACCEPTCONN) != 1 || getsockname(fd, (struct sockaddr *)&a, &len) ||
	    !a.sun_path[0])
		return err_set(FARKV_EINVAL,
			       "the descriptor that was passed as the socket is no listening Unix "
			       "socket with a path; the unit needs ListenSequentialPacket=PATH");
	memcpy(l.path, a.sun_path, sizeof(l.path));
	if (path && !is_same_file(path, l.path))
		return err_set(FARKV_EINVAL,
			       "socket: %s, but the socket that was passed is %s; leave out "
			       "--socket, or make them equal",
			       path, l.path);
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		return err_set_errno(FARKV_ESYS, errno, "cannot use the socket %s", l.path);
	*l_out = l;
	return 0;
}

/* ---- the address for clients -------------------------------------------------------------- */

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

int listen_uri(const char *path, char uri[LISTEN_URI_MAX])
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

/* ---- life ---------------------------------------------------------------------------------- */

int listen_begin(const struct listen_socket *l)
{
	if (listen(l->fd, l->passed ? PASSED_BACKLOG : BACKLOG) == 0)
		return 0;
	return err_set_errno(FARKV_ESYS, errno, "cannot listen at %s", l->path);
}

void listen_hide(const struct listen_socket *l)
{
	struct stat mine = {.st_dev = l->dev, .st_ino = l->ino};

	if (l->passed)
		return;
	/* While it is open no other file can have its inode number. */
	if (is_still(l->path, &mine))
		unlink(l->path);
}

void listen_close(struct listen_socket *l)
{
	int fd;

	if (l->passed)
		return;
	listen_hide(l);
	/*
	 * A client in the accept queue may have sent descriptors, which must not be dropped
	 * here (closer.h): the end of the process closes the socket. The client learns of the end
	 * now, because a server of a cluster may begin again in the same process.
	 */
	shutdown(l->fd, SHUT_RD);
	while ((fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		shutdown(fd, SHUT_RDWR);
	close(l->fd);
	lock_release(l->path, l->lock_fd);
}
