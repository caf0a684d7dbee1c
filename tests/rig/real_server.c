/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "real_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "marks.h"

#define ARGS_MAX 16
#define ARGS_OWN 10
/* Much more than it needs; a guest on a busy machine took more than 20 s. */
#define READY_TIMEOUT_MS 120000

void real_server_require(void)
{
	const char *program = getenv("KVSERVER");

	if (program && access(program, X_OK) == 0)
		return;
	fprintf(stderr, "SKIP: $KVSERVER (%s) is not a program; run by make "
			"check\n", program ? program : "not set");
	exit(77);
}

bool real_server_is_remote(void)
{
	const char *transport = getenv("FARKV_TEST_TRANSPORT");

	return transport && strcmp(transport, "rdma") == 0;
}

bool real_server_tears(void)
{
	return real_server_is_remote() && getenv("FARKV_TEST_TEARS");
}

bool real_server_skips(const char *test, const char *why)
{
	if (!real_server_is_remote())
		return false;
	printf("  left out: %s: %s\n", test, why);
	fflush(stdout);
	return true;
}

/* "kv://host:port" or "kv://[host]:port": in the form that --listen takes. */
static const char *listen_at(const struct real_server *s)
{
	return s->path[0] ? s->path + strlen("kv://") : ":0";
}

static void exec_server(const struct real_server *s, const char *const *args,
			int ready_fd, pid_t parent)
{
	const char *argv[ARGS_MAX + ARGS_OWN] = {getenv("KVSERVER"), "-q",
						 "--ready-fd"};
	char fd[16], log[80];
	int n = 3;

	snprintf(fd, sizeof(fd), "%d", ready_fd);
	snprintf(log, sizeof(log), "%s/log", s->dir);
	argv[n++] = fd;
	if (real_server_is_remote()) {
		argv[n++] = "--transport=rdma";
		argv[n++] = "--no-auth";
		argv[n++] = "--listen";
		argv[n++] = listen_at(s);
	} else {
		argv[n++] = "-s";
		argv[n++] = s->path;
	}
	for (int i = 0; args && args[i] && i < ARGS_MAX - 1; i++)
		argv[n++] = args[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || !freopen(log, "w", stdout))
		_exit(126);
	execv(argv[0], (char *const *)(void *)argv);
	fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* The address that it reports. */
static void find_address(struct real_server *s)
{
	char log[80], line[512] = "", *at;
	FILE *f;

	snprintf(log, sizeof(log), "%s/log", s->dir);
	f = fopen(log, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	at = strstr(line, "kv://");
	ck_assert_msg(at != NULL, "no address in '%s'", line);
	snprintf(s->path, sizeof(s->path), "%.*s", (int)strcspn(at, " ,;)"),
		 at);
}

static void wait_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char text[8] = "";

	ck_assert_int_eq(poll(&p, 1, READY_TIMEOUT_MS), 1);
	ck_assert_int_eq(read(fd, text, sizeof(text) - 1), 6);
	ck_assert_str_eq(text, "READY\n");
}

void real_server_start(struct real_server *s, const char *const *args)
{
	pid_t parent = getpid();
	int fds[2];

	ck_assert_int_eq(s->pid, 0);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	s->pid = fork();
	ck_assert_int_ge(s->pid, 0);
	if (s->pid == 0) {
		fcntl(fds[1], F_SETFD, 0);
		exec_server(s, args, fds[1], parent);
	}
	close(fds[1]);
	wait_ready(fds[0]);
	close(fds[0]);
	if (!s->path[0])
		find_address(s);
}

void real_server_init(struct real_server *s, const char *const *args)
{
	const char *tmp = getenv("TMPDIR");

	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "%.40s/farkv-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(s->dir));
	if (!real_server_is_remote())
		snprintf(s->path, sizeof(s->path), "%s/sock", s->dir);
	real_server_start(s, args);
}

static void signal_and_wait(struct real_server *s, int sig, int flag)
{
	siginfo_t info;

	ck_assert_int_gt(s->pid, 0);
	ck_assert_int_eq(kill(s->pid, sig), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)s->pid, &info, flag), 0);
}

void real_server_pause(struct real_server *s)
{
	signal_and_wait(s, SIGSTOP, WSTOPPED);
}

void real_server_resume(struct real_server *s)
{
	signal_and_wait(s, SIGCONT, WCONTINUED);
}

int real_server_end(struct real_server *s, int sig)
{
	int status;

	ck_assert_int_gt(s->pid, 0);
	ck_assert_int_eq(kill(s->pid, sig), 0);
	ck_assert_int_eq(waitpid(s->pid, &status, 0), s->pid);
	s->pid = 0;
	return status;
}

/* Also a folder in it, such as the one of a memory file's sessions. */
static void dir_remove(const char *path)
{
	char inner[PATH_MAX];
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name);
		dir_remove(inner);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

void real_server_fini(struct real_server *s)
{
	int status = s->pid ? real_server_end(s, SIGTERM) : 0;

	dir_remove(s->dir);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "kvserver ended with status 0x%x", (unsigned)status);
}

/* Sessions' files, and what the server reads for a moment, of the machine's memory. */
static bool passes(const char *link)
{
	return strstr(link, "farkv-session") || strncmp(link, "/proc/", 6) == 0 ||
	       strncmp(link, "/sys/", 5) == 0;
}

unsigned real_server_fds(const struct real_server *s)
{
	char path[64], link[64];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)s->pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		memset(link, 0, sizeof(link));
		n += readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1) >
			     0 &&
		     !passes(link);
	}
	closedir(d);
	return n;
}
