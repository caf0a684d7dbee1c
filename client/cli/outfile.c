/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"

static int open_error(const struct outfile *o)
{
	return err_set_errno(FARKV_ESYS, errno, "cannot create %s", o->name);
}

/* Of the file's own path, where a symbolic link leads. */
static int open_temp(struct outfile *o)
{
	o->path = realpath(o->name, NULL);
	if (!o->path)
		o->path = strdup(o->name);
	if (!o->path || asprintf(&o->temp, "%s.XXXXXX", o->path) < 0) {
		o->temp = NULL;
		return err_set(FARKV_ENOMEM, "out of memory");
	}
	o->fd = mkostemp(o->temp, O_CLOEXEC);
	if (o->fd >= 0)
		return 0;
	free(o->temp); /* there is none to remove */
	o->temp = NULL;
	return open_error(o);
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

void outfile_flush(const struct outfile *o)
{
	if (o->temp) /* a hint: outfile_commit() reports errors */
		(void)sync_file_range(o->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* A name is on the disk when its folder is. */
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
		/* Some file systems have no such call. */
		err = fsync(fd) && errno != EINVAL ? -1 : 0;
		close(fd);
	}
	free(folder);
	return err;
}

int outfile_commit(struct outfile *o)
{
	int err = 0;

	if (o->temp && (fsync(o->fd) || rename(o->temp, o->path)))
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
