/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * outfile.h - an output file that appears whole or not at all.
 *
 * A regular file is written under a temporary name in its folder, and gets its name when all of it
 * is on the disk; until then a previous file of that name stays as it is. stdout, pipes and devices
 * are written directly.
 */
#ifndef COMMON_SNAPSHOT_OUTFILE_H
#define COMMON_SNAPSHOT_OUTFILE_H

#include <stdbool.h>

struct outfile {
	int fd;           /* to write to */
	const char *name; /* for messages */
	char *path;       /* symbolic links resolved; NULL: no regular file */
	char *temp;       /* name until outfile_commit(); NULL: no regular file */
	bool series;      /* of outfile_open_series() */
};

/**
 * Open `path`, "-" is stdout, for a file of mode 0600. The temporary name is NAME.XXXXXX. 0,
 * FARKV_ESYS or FARKV_ENOMEM with a detail. `path` must stay valid. End with outfile_commit() or
 * outfile_abort().
 */
int outfile_open(struct outfile *o, const char *path);

/**
 * outfile_open() for one of a series of files of one name: the temporary name is NAME.new, so that
 * a killed writer leaves at most one file, and outfile_commit() keeps the previous file as NAME.1.
 * FARKV_EREFUSED if another process writes NAME.new, FARKV_EINVAL if `path` is no regular file.
 */
int outfile_open_series(struct outfile *o, const char *path);

/** Start writeback of what was written, so that outfile_commit() takes little time. */
void outfile_flush(const struct outfile *o);

/** Wait until the file is on the disk and give it its name. After an error as outfile_abort(). */
int outfile_commit(struct outfile *o);

/** Close, and remove the temporary file. */
void outfile_abort(struct outfile *o);

#endif
