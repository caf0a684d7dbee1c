/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "follower.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"

#define THIS_PROGRAM "/proc/self/exe"

extern char **environ;

/* 0, or an errno. The child's signals of a terminal are the parent's to handle. */
static int spawn(int fd, pid_t *pid_out)
{
	char name[] = "kvserver", argument[] = FOLLOWER_ARGUMENT;
	char *argv[] = {name, argument, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t blocked, usual;
	int err = posix_spawn_file_actions_init(&files);

	if (err)
		return err;
	err = posix_spawnattr_init(&attr);
	if (err) {
		posix_spawn_file_actions_destroy(&files);
		return err;
	}
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGHUP);
	sigfillset(&usual);
	(void)posix_spawnattr_setsigmask(&attr, &blocked);
	(void)posix_spawnattr_setsigdefault(&attr, &usual);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	err = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
	if (!err)
		err = posix_spawn(pid_out, THIS_PROGRAM, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return err;
}

static int cannot_start(int errnum)
{
	return err_set_errno(FARKV_ESYS, errnum, "cannot start a process that copies keys");
}

int follower_start(const struct follower_order *o, struct follower *f_out)
{
	struct follower f = {.pid = -1};
	uint64_t secret;
	int fds[2], err = 0;

	if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return cannot_start(errno);
	snprintf(f.name, sizeof(f.name), FOLLOWER_NAME "%016" PRIx64, secret);
	f.fd = fds[0];
	if (send(f.fd, o, sizeof(*o), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
	    send(f.fd, f.name, sizeof(f.name), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		err = errno;
	if (!err)
		err = spawn(fds[1], &f.pid);
	close(fds[1]);
	if (err) {
		close(f.fd);
		return cannot_start(err);
	}
	*f_out = f;
	return 0;
}

int follower_report(const struct follower *f, struct follower_report *out)
{
	ssize_t n = recv(f->fd, out, sizeof(*out), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(*out))
		return 1;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void follower_stop(struct follower *f)
{
	(void)kill(f->pid, SIGKILL);
	close(f->fd);
	while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
		;
	f->pid = -1;
	f->fd = -1;
}
