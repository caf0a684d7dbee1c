/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"

static int open_error(const struct outfile *o)
{
	return err_set_errno(FARKV_ESYS, errno, "cannot create %s", o->name);
}

/* Set the file's own path, with symbolic links resolved, and its temporary name. */
static int set_names(struct outfile *o, const char *suffix)
{
	o->path = realpath(o->name, NULL);
	if (!o->path)
		o->path = strdup(o->name);
	if (o->path && asprintf(&o->temp, "%s%s", o->path, suffix) >= 0)
		return 0;
	o->temp = NULL;
	return err_set(FARKV_ENOMEM, "out of memory");
}

/* The temporary file belongs to another writer, which removes it. */
static int open_failed(struct outfile *o, int err)
{
	free(o->temp);
	o->temp = NULL;
	return err;
}

static int open_temp(struct outfile *o)
{
	int err = set_names(o, ".XXXXXX");

	if (err)
		return err;
	o->fd = mkostemp(o->temp, O_CLOEXEC);
	return o->fd < 0 ? open_failed(o, open_error(o)) : 0;
}

static bool is_still(const char *name, int fd)
{
	struct stat a, b;

	return lstat(name, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/*
 * The writer holds a lock on its file, so that a file left by a killed writer can be told from one
 * in use.
 */
static int open_locked(struct outfile *o)
{
	int err = set_names(o, ".new");

	while (!err) {
		o->fd = open(o->temp, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (o->fd < 0)
			return open_failed(o, open_error(o));
		if (flock(o->fd, LOCK_EX | LOCK_NB))
			return open_failed(o, err_set(FARKV_EREFUSED,
						      "cannot create %s: another process writes "
						      "%s.new", o->name, o->name));
		/* Another writer may have renamed it in the meantime. */
		if (is_still(o->temp, o->fd))
			return ftruncate(o->fd, 0) || fchmod(o->fd, 0600) ? open_error(o) : 0;
		close(o->fd);
		o->fd = -1;
	}
	return err;
}

int outfile_open(struct outfile *o, const char *path)
{
	struct stat st;
	int err = 0;

	*o = (struct outfile){.fd = -1, .name = path};
	if (strcmp(path, "-") == 0) {
		o->name = "stdout";
		o->fd = STDOUT_FILENO;
	} else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->fd = open(path, O_WRONLY | O_CLOEXEC);
		err = o->fd < 0 ? open_error(o) : 0;
	} else {
		err = open_temp(o);
	}
	if (err)
		outfile_abort(o);
	return err;
}

int outfile_open_series(struct outfile *o, const char *path)
{
	struct stat st;
	int err;

	*o = (struct outfile){.fd = -1, .name = path, .series = true};
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(FARKV_EINVAL, "cannot create %s: it exists and is no file", path);
	err = open_locked(o);
	if (err)
		outfile_abort(o);
	return err;
}

void outfile_flush(const struct outfile *o)
{
	if (o->temp) /* a hint: outfile_commit() reports errors */
		(void)sync_file_range(o->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* A file's name is on the disk once its folder is. */
static int sync_folder(const char *path)
{
	char *folder = strdup(path), *slash;
	int fd, err = -1;

	if (!folder)
		return -1;
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		/* Some file systems cannot sync a folder. */
		err = fsync(fd) && errno != EINVAL ? -1 : 0;
		close(fd);
	}
	free(folder);
	return err;
}

/* Also link the previous file as NAME.1, so that at no moment NAME is missing. */
static int keep_previous(const struct outfile *o)
{
	char *kept = NULL, *link_name = NULL;
	int err = -1;

	if (asprintf(&kept, "%s.1", o->path) < 0)
		return -1;
	if (asprintf(&link_name, "%s.1.new", o->path) >= 0) {
		(void)unlink(link_name);
		if (link(o->path, link_name) == 0)
			err = rename(link_name, kept);
		else
			err = errno == ENOENT ? 0 : -1;
	}
	free(link_name);
	free(kept);
	return err;
}

int outfile_commit(struct outfile *o)
{
	int err = 0;

	if (o->temp && (fsync(o->fd) || (o->series && keep_previous(o)) ||
			rename(o->temp, o->path)))
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot write %s, and a file of that name is as it was",
				    o->name);
	if (o->temp && !err) {
		free(o->temp);
		o->temp = NULL;
		if (sync_folder(o->path))
			err = err_set_errno(FARKV_ESYS, errno,
					    "%s is written, but may be gone after a power cut: "
					    "cannot sync its folder",
					    o->name);
	}
	outfile_abort(o);
	return err;
}

void outfile_abort(struct outfile *o)
{
	if (o->temp)
		(void)unlink(o->temp);
	if (o->fd > STDERR_FILENO)
		(void)close(o->fd);
	free(o->temp);
	free(o->path);
	*o = (struct outfile){.fd = -1, .name = o->name};
}
