/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "region_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/proc.h"
#include "common/region/layout.h"
#include "fdstore.h"

/* A server that was asked to end waits for its clients, --drain-ms. */
#define REPLACE_NS (660 * NS_PER_SEC)
#define REPLACE_PAUSE_NS NS_PER_MS
/* From a server's lock until its pid is in the file. */
#define SIGN_NS (2 * NS_PER_SEC)
/* From a lock's release to the end of its process: device memory is unpinned in between. */
#define END_MS 60000

static const char *beside(const struct region_file *f, const char *suffix,
			  char name[PATH_MAX + 16])
{
	snprintf(name, PATH_MAX + 16, "%s%s", f->path, suffix);
	return name;
}

static int failed(const char *what, const char *name)
{
	return err_set_errno(FARKV_ESYS, errno, "memory-file: cannot %s %s", what, name);
}

/* True if `name` is still the file of `fd`: another server may have renamed its own there. */
static bool is_still(const char *name, int fd)
{
	struct stat a, b;

	return stat(name, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static struct region_state state_of(int fd)
{
	struct region_state st = {0};

	if (pread(fd, &st, sizeof(st), REGION_STATE_OFF) != (ssize_t)sizeof(st))
		memset(&st, 0, sizeof(st));
	return st;
}

/*
 * A file of the server's own user: another user could change the region at will, or have put the
 * file there as a trap.
 */
static int kind_check(const char *name, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return failed("read", name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(FARKV_EINVAL,
			       "memory-file: %s is not a regular file: remove it, or choose another "
			       "path", name);
	if (st.st_uid != geteuid())
		return err_set(FARKV_EPERM,
			       "memory-file: %s belongs to another user (uid %lu): run kvserver as "
			       "that user, remove it, or choose another path",
			       name, (unsigned long)st.st_uid);
	return 0;
}

/* ---- the lock --------------------------------------------------------------------- */

static int in_use(const struct region_file *f)
{
	struct region_state st = state_of(f->fd);
	char pid[32] = "another kvserver";

	if (st.pid == 0)
		return err_set(FARKV_EREFUSED,
			       "memory-file: another kvserver is just making %s: try again later, "
			       "or choose another file", f->path);
	/* Another pid is the previous server's, or of another PID namespace. */
	if (proc_start_time((pid_t)st.pid) == st.start_time)
		snprintf(pid, sizeof(pid), "a kvserver (pid %lu)", (unsigned long)st.pid);
	return err_set(FARKV_EREFUSED,
		       "memory-file: %s is in use by %s: stop it, take over with --replace, or "
		       "choose another file",
		       f->path, pid);
}

static int still_runs(const struct region_file *f, uint64_t ns)
{
	return err_set(FARKV_EREFUSED,
		       "memory-file: the kvserver of %s (pid %lu) has not ended within %lu s: see "
		       "its log, or end it by kill -9",
		       f->path, (unsigned long)state_of(f->fd).pid,
		       (unsigned long)(ns / NS_PER_SEC));
}

static int cannot_end(const struct region_file *f)
{
	return err_set(FARKV_EREFUSED,
		       "memory-file: --replace cannot end the kvserver of %s (pid %lu), which runs "
		       "in another PID namespace or as another user: stop it there",
		       f->path, (unsigned long)state_of(f->fd).pid);
}

/* Ask the server that has the file to end, unless `asked` is it. False: its process is not here. */
static bool ask_to_end(const struct region_file *f, struct region_state *asked)
{
	struct region_state st = state_of(f->fd);

	if (st.pid == asked->pid && st.start_time == asked->start_time)
		return true;
	if (st.pid == 0 || proc_start_time((pid_t)st.pid) != st.start_time ||
	    kill((pid_t)st.pid, SIGTERM))
		return false;
	*asked = st;
	return true;
}

/* The server blocks signals until it serves. */
static bool is_told_to_end(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && (sigismember(&set, SIGINT) == 1 ||
					 sigismember(&set, SIGTERM) == 1);
}

static int lock_replacing(const struct region_file *f)
{
	uint64_t now = clock_now_ns(), until = now + REPLACE_NS, signed_until = now + SIGN_NS;
	struct region_state asked = {0};

	if (state_of(f->fd).pid == 0)
		return in_use(f);
	for (; flock(f->fd, LOCK_EX | LOCK_NB); now = clock_now_ns()) {
		if (errno != EWOULDBLOCK)
			return failed("lock", f->path);
		if (is_told_to_end())
			return err_set(FARKV_EABORTED,
				       "memory-file: ended by a signal; the kvserver of %s (pid %lu) was "
				       "asked to end",
				       f->path, (unsigned long)state_of(f->fd).pid);
		/* Each one in turn: another --replace may have been faster. */
		if (ask_to_end(f, &asked))
			signed_until = now + SIGN_NS;
		else if (now >= signed_until)
			return cannot_end(f);
		if (now >= until)
			return still_runs(f, REPLACE_NS);
		clock_sleep_ns(REPLACE_PAUSE_NS);
	}
	return 0;
}

static int lock(const struct region_file *f, bool replace)
{
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return failed("lock", f->path);
	return replace ? lock_replacing(f) : in_use(f);
}

/* ---- open ------------------------------------------------------------------------- */

static int superblock_check(const struct region_file *f)
{
	struct superblock sb = {0};
	struct stat st;
	char why[300];

	if (pread(f->fd, &sb, sizeof(sb), 0) < 0 || fstat(f->fd, &st) < 0)
		return failed("read", f->path);
	if (superblock_verify(&sb)) {
		snprintf(why, sizeof(why), "%s", err_detail());
		return err_set(FARKV_EFORMAT,
			       "memory-file: %s is left as it is: %s", f->path, why);
	}
	if ((uint64_t)st.st_size < sb.meta_bytes)
		return err_set(FARKV_EFORMAT,
			       "memory-file: %s is left as it is: it has %llu bytes, and its "
			       "metadata %llu: it was cut",
			       f->path, (unsigned long long)st.st_size,
			       (unsigned long long)sb.meta_bytes);
	return 0;
}

/* Its queue pairs and mappings end with the process, which is later than its lock. */
static int await_server(const struct region_file *f)
{
	struct region_state st = state_of(f->fd);

	return proc_await_end((pid_t)st.pid, st.start_time, END_MS) ? 0 :
								      still_runs(f, END_MS * NS_PER_MS);
}

/* Open, lock, and look whether the name still means this file. 1: try again. */
static int open_locked(struct region_file *f, const char *name, int flags, bool replace)
{
	int err;

	f->fd = open(name, flags | O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (f->fd < 0)
		return errno == ENOENT && !(flags & O_CREAT) ? 1 : failed("open", name);
	err = kind_check(name, f->fd);
	if (!err)
		err = lock(f, replace);
	if (!err && !is_still(name, f->fd))
		err = 1;
	if (err)
		close(f->fd);
	return err;
}

/* Its region would be made beside the link, where the caller does not want it. */
static bool leads_nowhere(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0 && S_ISLNK(st.st_mode) && stat(name, &st) && errno == ENOENT;
}

/* 1: try again; another server was faster. */
static int open_either(struct region_file *f, bool replace)
{
	char fresh[PATH_MAX + 16];
	int err = open_locked(f, f->path, 0, replace);

	f->found = true;
	if (err <= 0)
		return err;
	if (access(f->path, F_OK) == 0)
		return 1;
	if (leads_nowhere(f->path))
		return err_set(FARKV_EINVAL,
			       "memory-file: %s is a symbolic link to a file that is not there: give "
			       "that file's own path, or remove the link", f->path);
	err = open_locked(f, beside(f, ".new", fresh), O_CREAT, replace);
	f->found = false;
	if (err)
		return err;
	/* A server that has just finished renamed another PATH.new. */
	if (access(f->path, F_OK) == 0) {
		unlink(fresh);
		close(f->fd);
		return 1;
	}
	return 0;
}

int region_file_open(const char *path, bool replace, struct region_file *f_out)
{
	struct region_file f = {.fd = -1};
	int err;

	if (strlen(path) >= sizeof(f.path) - 16)
		return err_set(FARKV_EINVAL, "memory-file: the path is too long");
	strcpy(f.path, path);
	while ((err = open_either(&f, replace)) == 1)
		;
	if (err)
		return err;
	if (f.found)
		err = superblock_check(&f);
	if (!err && f.found)
		err = await_server(&f);
	if (!err && fchmod(f.fd, 0600))
		err = failed("change the mode of", f.path);
	if (err) {
		region_file_close(&f);
		return err;
	}
	*f_out = f;
	return 0;
}

/* The meta area is put there last: without it there is no region. */
#define META_NAME "farkv-meta"
#define DATA_NAME "farkv-data"

static void stored_drop(const char *name, int fd)
{
	if (fd < 0)
		return;
	fdstore_drop(name);
	close(fd);
}

int region_file_of_store(struct region_file *f_out)
{
	struct region_file f = {.path = "(descriptor store)", .stored = true};
	int err = 0;

	f.fd = fdstore_take(META_NAME);
	f.data_fd = fdstore_take(DATA_NAME);
	f.found = f.fd >= 0 && f.data_fd >= 0;
	if (!f.found) {
		stored_drop(META_NAME, f.fd);
		stored_drop(DATA_NAME, f.data_fd);
		f.data_fd = -1;
		f.fd = memfd_create(META_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
		fdstore_drop_rest();
	}
	if (f.fd < 0 || fchmod(f.fd, 0600))
		err = failed("make", "metadata");
	if (!err && f.found)
		err = superblock_check(&f);
	if (!err && f.found)
		err = await_server(&f);
	if (err) {
		region_file_close(&f);
		return err;
	}
	*f_out = f;
	return 0;
}

void region_file_close(struct region_file *f)
{
	char name[PATH_MAX + 16];

	if (f->fd < 0)
		return;
	/* PATH.new goes last: until then no other server begins. */
	if (f->data_made)
		(void)!truncate(beside(f, ".data", name), 0);
	if (!f->found && !f->stored)
		unlink(beside(f, ".new", name));
	close(f->fd);
	f->fd = -1;
}

/* ---- the other files -------------------------------------------------------------- */

/* Make the file empty and then `bytes` long, unless somebody has another region in it. */
static int data_make(struct region_file *f, const char *name, int fd, uint64_t bytes)
{
	struct stat st;
	uint64_t unit;

	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return err_set(FARKV_EREFUSED,
			       "memory-file: %s is in use, by a server or clients of a region that "
			       "lost its %s: end them, or remove %s",
			       name, f->path, name);
	f->data_made = true;
	if (ftruncate(fd, 0) || fstat(fd, &st))
		return failed("empty", name);
	unit = (uint64_t)st.st_blksize; /* pages of a hugetlbfs are whole */
	if (ftruncate(fd, (off_t)((bytes + unit - 1) / unit * unit)))
		return failed("enlarge", name);
	return 0;
}

static int data_check(const struct region_file *f, const char *name, int fd, uint64_t bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return failed("read", name);
	if ((uint64_t)st.st_size >= bytes)
		return 0;
	return err_set(FARKV_EFORMAT,
		       "memory-file: %s has %llu bytes, and the region of %s needs %llu: it was cut, "
		       "or belongs to another region",
		       name, (unsigned long long)st.st_size, f->path, (unsigned long long)bytes);
}

static int stored_data(struct region_file *f, uint64_t bytes, int *fd_out)
{
	int err = data_check(f, DATA_NAME, f->data_fd, bytes);

	if (err)
		close(f->data_fd);
	else
		*fd_out = f->data_fd;
	return err;
}

int region_file_data(struct region_file *f, uint64_t bytes, int *fd_out)
{
	int err, fd, flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (f->found ? 0 : O_CREAT);
	char name[PATH_MAX + 16];

	if (f->stored)
		return stored_data(f, bytes, fd_out);
	fd = open(beside(f, ".data", name), flags, 0600);
	if (fd < 0)
		return failed("open", name);
	err = kind_check(name, fd);
	if (!err)
		err = f->found ? data_check(f, name, fd, bytes) : data_make(f, name, fd, bytes);
	if (!err && (fchmod(fd, 0600) || flock(fd, LOCK_SH | LOCK_NB)))
		err = failed("take", name);
	if (err) {
		close(fd);
		return err;
	}
	*fd_out = fd;
	return 0;
}

int region_file_sessions(const struct region_file *f, int *fd_out)
{
	char name[PATH_MAX + 16];
	int err, fd;

	*fd_out = -1;
	if (f->stored)
		return 0;
	if (mkdir(beside(f, ".sessions", name), 0700) && errno != EEXIST)
		return failed("make the folder", name);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return failed("open the folder", name);
	err = kind_check(name, fd);
	if (err) {
		close(fd);
		return err;
	}
	*fd_out = fd;
	return 0;
}

static int store_finish(struct region_file *f)
{
	errno = f->found ? 0 : fdstore_put(DATA_NAME, f->data_fd);
	if (!f->found && !errno)
		errno = fdstore_put(META_NAME, f->fd);
	if (errno)
		return failed("send the region to", "the descriptor store");
	f->found = true;
	return 0;
}

int region_file_finish(struct region_file *f)
{
	char fresh[PATH_MAX + 16];

	if (f->stored)
		return store_finish(f);
	if (!f->found && rename(beside(f, ".new", fresh), f->path))
		return failed("rename to its place", fresh);
	f->found = true;
	f->data_made = false;
	return 0;
}
