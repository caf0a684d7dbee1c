/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sockpath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "err.h"
#include "util.h"

#define SYSTEM_FOLDER "/run/farkv"
#define SYSTEM_SOCKET SYSTEM_FOLDER "/kvserver.sock"

/* XDG specification: ignore a path that is not absolute. */
static const char *runtime_dir(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");

	return dir && dir[0] == '/' ? dir : NULL;
}

static void own_folder(char buf[SOCKPATH_MAX])
{
	snprintf(buf, SOCKPATH_MAX, "/tmp/farkv-%lu", (unsigned long)geteuid());
}

static void own_socket(char buf[SOCKPATH_MAX])
{
	snprintf(buf, SOCKPATH_MAX, "/tmp/farkv-%lu/kvserver.sock",
		 (unsigned long)geteuid());
}

static bool may_write(const char *dir)
{
	return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0;
}

/* True if this user can create the system socket, and its folder if needed. */
static bool may_use_system(void)
{
	return may_write(SYSTEM_FOLDER) ||
	       (errno == ENOENT && may_write("/run"));
}

int sockpath_server_default(char *buf, size_t cap)
{
	const char *dir = runtime_dir();
	char path[SOCKPATH_MAX];
	int n;

	if (dir) {
		n = snprintf(path, sizeof(path), "%s/farkv/kvserver.sock", dir);
	} else if (may_use_system()) {
		n = snprintf(path, sizeof(path), "%s", SYSTEM_SOCKET);
	} else {
		own_socket(path);
		n = (int)strlen(path);
	}
	if (n < 0 || (size_t)n >= UTIL_MIN(cap, sizeof(path)))
		return err_set(FARKV_EURI,
			       "the default socket's path is longer than %zu "
			       "bytes (XDG_RUNTIME_DIR=%.80s...); choose another "
			       "with --socket",
			       UTIL_MIN(cap, sizeof(path)) - 1, dir ? dir : "");
	memcpy(buf, path, (size_t)n + 1);
	return 0;
}

/* True if nobody else can create a socket in it. */
static bool is_own(const char *folder)
{
	struct stat st;

	return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

int sockpath_make_folder(const char *path)
{
	char folder[SOCKPATH_MAX], own[SOCKPATH_MAX];

	own_socket(own);
	if (strcmp(path, own) != 0)
		return 0;
	own_folder(folder);
	if (mkdir(folder, 0700) ? errno != EEXIST : chmod(folder, 0700) != 0)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot make the folder %s for the socket; "
				     "choose another with --socket",
				     folder);
	if (is_own(folder))
		return 0;
	return err_set(FARKV_EPERM,
		       "%s is not a folder of mode 0700 that belongs to you: "
		       "others could take the socket's place; remove it, or "
		       "choose another with --socket",
		       folder);
}

static bool is_live(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);
	bool live;

	if (fd < 0)
		return false;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	/* EAGAIN: its backlog is full, so a server listens. */
	live = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 ||
	       errno == EAGAIN;
	close(fd);
	return live;
}

const char *sockpath_first_live(const char *const *paths, size_t n)
{
	const char *first = NULL;
	size_t there = 0;

	for (size_t i = n; i-- > 0;)
		if (access(paths[i], F_OK) == 0) {
			first = paths[i];
			there++;
		}
	for (size_t i = 0; there > 1 && i < n; i++)
		if (is_live(paths[i]))
			return paths[i];
	return first;
}

int sockpath_client_default(char *buf, size_t cap)
{
	char folder[SOCKPATH_MAX], own[SOCKPATH_MAX], server[SOCKPATH_MAX];
	const char *paths[3], *found;
	size_t n = 0;
	int err = sockpath_server_default(server, UTIL_MIN(cap, sizeof(server)));

	if (err)
		return err;
	own_folder(folder);
	own_socket(own);
	if (runtime_dir())
		paths[n++] = server;
	paths[n++] = SYSTEM_SOCKET;
	if (is_own(folder))
		paths[n++] = own;
	found = sockpath_first_live(paths, n);
	snprintf(buf, cap, "%s", found ? found : server);
	return 0;
}
