/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "rival.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "bench/core/phase.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#define START_MS 10000u
#define STOP_MS 2000u
#define STEP_NS (10 * NS_PER_MS)
#define ARGS_MAX 24
#define PATH_CAP 4096

struct command {
	const char *argv[ARGS_MAX];
	char text[4][32]; /* of numbers */
};

static const char *program_of(const char *name, const struct rival_plan *plan)
{
	if (!strcmp(name, "farkv"))
		return plan->kvserver ? plan->kvserver : "kvserver";
	if (!strcmp(name, "memcached"))
		return "memcached";
	return !strcmp(name, "redis") ? "redis-server" : NULL;
}

bool rival_known(const char *name)
{
	static const struct rival_plan none;

	return program_of(name, &none) != NULL;
}

/* ---- command lines ----------------------------------------------------------- */

static void set_args(struct command *c, const char *const *args, size_t n)
{
	for (size_t i = 0; i < n; i++)
		c->argv[i] = args[i];
}

static void farkv_command(struct command *c, const struct rival *v,
			  const struct rival_plan *plan)
{
	const char *const args[] = {c->argv[0], "-q", "-s", v->socket,
				    "--hugepages", "-m", c->text[0]};

	snprintf(c->text[0], sizeof(c->text[0]), "%llum",
		 (unsigned long long)(plan->bytes >> 20));
	set_args(c, args, ARRAY_SIZE(args));
}

/* The default limits items to 1 MiB. */
static void memcached_command(struct command *c, const struct rival *v,
			      const struct rival_plan *plan)
{
	uint64_t item = util_align_up(plan->value_len + (1u << 16), 1u << 20);
	const char *const args[] = {
		c->argv[0], "-s", v->socket, "-m", c->text[0], "-t",
		c->text[1], "-I", c->text[2], "-c", "4096",
		/* memcached refuses to run as root without this. */
		geteuid() == 0 ? "-u" : NULL, "root",
	};

	snprintf(c->text[0], sizeof(c->text[0]), "%llu",
		 (unsigned long long)(plan->bytes >> 20));
	snprintf(c->text[1], sizeof(c->text[1]), "%llu",
		 (unsigned long long)UTIL_MIN(plan->threads, UINT64_C(16)));
	snprintf(c->text[2], sizeof(c->text[2]), "%llum",
		 (unsigned long long)(item >> 20));
	set_args(c, args, ARRAY_SIZE(args));
}

static void redis_command(struct command *c, const struct rival *v,
			  const char *dir)
{
	const char *const args[] = {
		c->argv[0], "--port", "0", "--unixsocket", v->socket, "--save",
		"", "--appendonly", "no", "--daemonize", "no", "--dir", dir,
	};

	set_args(c, args, ARRAY_SIZE(args));
}

/* Find the program: by its path, or in $PATH. */
static int find_program(const char *name, char out[PATH_CAP])
{
	const char *at = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(out, PATH_CAP, "%s", name);
		if (access(out, X_OK) == 0)
			return 0;
		return err_set(FARKV_ENOTSUP, "there is no program %s", name);
	}
	while (at && *at) {
		size_t len = strcspn(at, ":");

		snprintf(out, PATH_CAP, "%.*s/%s", (int)len, at, name);
		if (len && access(out, X_OK) == 0)
			return 0;
		at += len + (at[len] == ':');
	}
	return err_set(FARKV_ENOTSUP, "there is no %s in $PATH", name);
}

/* ---- processes --------------------------------------------------------------- */

/* In the child of a multithreaded process: async-signal-safe calls only. */
static void become(const struct command *c, const char *path, const char *log)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
	    dup2(out, 2) < 0)
		_exit(127);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	execv(path, (char *const *)(uintptr_t)c->argv);
	_exit(127);
}

/* The last line that it printed, as the reason for its end. */
static void last_line(const struct rival *v, char *buf, size_t cap)
{
	FILE *in = fopen(v->log, "re");
	char line[256];

	snprintf(buf, cap, "it printed nothing");
	while (in && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0])
			snprintf(buf, cap, "%s", util_one_line(line));
	}
	if (in)
		fclose(in);
}

static bool is_gone(struct rival *v)
{
	if (v->pid && waitpid(v->pid, NULL, WNOHANG) == v->pid)
		v->pid = 0;
	return v->pid == 0;
}

static void stop(struct rival *v)
{
	if (is_gone(v))
		return;
	kill(v->pid, SIGTERM);
	for (uint64_t ms = 0; ms < STOP_MS && !is_gone(v);
	     ms += STEP_NS / NS_PER_MS)
		clock_sleep_ns(STEP_NS);
	if (is_gone(v))
		return;
	kill(v->pid, SIGKILL);
	waitpid(v->pid, NULL, 0);
	v->pid = 0;
}

static bool answers(const struct rival *v)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	bool is_farkv = strcmp(v->name, "farkv") == 0, yes;
	int fd = socket(AF_UNIX,
			(is_farkv ? SOCK_SEQPACKET : SOCK_STREAM) |
				SOCK_CLOEXEC,
			0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", v->socket);
	yes = fd >= 0 &&
	      connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
	if (fd >= 0)
		close(fd);
	return yes;
}

/* Wait until it answers at its socket. */
static int await(struct rival *v, const char *program)
{
	char why[256];

	for (uint64_t ms = 0; ms < START_MS; ms += STEP_NS / NS_PER_MS) {
		if (is_gone(v)) {
			last_line(v, why, sizeof(why));
			return err_set(FARKV_ESYS, "%s ended at once: %s",
				       program, why);
		}
		if (phase_was_interrupted())
			return err_set(FARKV_EABORTED,
				       "interrupted while %s starts", program);
		if (answers(v))
			return 0;
		clock_sleep_ns(STEP_NS);
	}
	return err_set(FARKV_ETIMEDOUT, "%s does not answer after %u s",
		       program, START_MS / 1000);
}

int rivals_begin(struct rivals *r)
{
	const char *named = getenv("TMPDIR"), *tmp = "/tmp";
	char whole[PATH_MAX];

	memset(r, 0, sizeof(*r));
	/*
	 * The path must be short, for a socket, and absolute, as a server may change its
	 * folder.
	 */
	if (named && *named && !realpath(named, whole))
		return err_set_errno(FARKV_ESYS, errno, "TMPDIR: %s", named);
	if (named && *named && strlen(whole) < 40)
		tmp = whole;
	snprintf(r->dir, sizeof(r->dir), "%s/kvbench.XXXXXX", tmp);
	if (mkdtemp(r->dir))
		return 0;
	r->dir[0] = '\0';
	return err_set_errno(FARKV_ESYS, errno,
			     "cannot make a folder for the servers in %s", tmp);
}

int rival_start(struct rivals *r, const char *name,
		const struct rival_plan *plan, const struct rival **out)
{
	const char *program = program_of(name, plan);
	struct command c = {.argv = {program}};
	struct rival *v = &r->v[r->n];
	char path[PATH_CAP], dir[sizeof(r->dir)];
	int err;

	if (!program)
		return err_set(FARKV_EINVAL, "'%s' is no server that is known", name);
	if (r->n == RIVALS_MAX)
		return err_set(FARKV_EINVAL, "too many servers");
	err = find_program(program, path);
	if (err)
		return err;
	*v = (struct rival){.pid = 0};
	snprintf(v->name, sizeof(v->name), "%s", name);
	memcpy(dir, r->dir, sizeof(dir));
	snprintf(v->socket, sizeof(v->socket), "%s/%s", dir, name);
	snprintf(v->log, sizeof(v->log), "%s/%s.log", dir, name);
	if (!strcmp(name, "farkv"))
		farkv_command(&c, v, plan);
	else if (!strcmp(name, "memcached"))
		memcached_command(&c, v, plan);
	else
		redis_command(&c, v, r->dir);
	r->n++;
	v->pid = fork();
	if (v->pid == 0)
		become(&c, path, v->log);
	if (v->pid < 0) {
		v->pid = 0;
		return err_set_errno(FARKV_ESYS, errno, "cannot start %s",
				     program);
	}
	err = await(v, program);
	if (err)
		stop(v);
	else
		*out = v;
	return err;
}

void rival_place(const struct rival *v, const cpu_set_t *cpus)
{
	char path[64];
	DIR *tasks;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)v->pid);
	tasks = v->pid ? opendir(path) : NULL;
	while (tasks && (e = readdir(tasks)))
		if (e->d_name[0] != '.')
			sched_setaffinity((pid_t)atoi(e->d_name),
					  sizeof(*cpus), cpus);
	if (tasks)
		closedir(tasks);
}

/* Removes all files, also those of a server that was killed. */
static void remove_folder(const char *path)
{
	DIR *files = opendir(path);
	const struct dirent *e;

	while (files && (e = readdir(files)))
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0)
			unlinkat(dirfd(files), e->d_name, 0);
	if (files)
		closedir(files);
	rmdir(path);
}

void rivals_end(struct rivals *r)
{
	if (!r->dir[0])
		return;
	for (size_t i = 0; i < r->n; i++)
		stop(&r->v[i]);
	remove_folder(r->dir);
	r->dir[0] = '\0';
}
