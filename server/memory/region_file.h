/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * region_file.h - the files of a region that outlives its server (kvserver --memory-file PATH):
 *
 *   PATH            the meta area; locked by flock(2) while a server lives
 *   PATH.data       the data area, or a link to it
 *   PATH.sessions/  a tether for each session (server/loop/lingering.h)
 *   PATH.new        a meta area that is being made, until it is renamed to PATH
 *
 * All of mode 0600: a client of another user has the descriptors that it was given, and no others.
 * None of the files can be sealed, so a client that may write can truncate the data area, which
 * ends the server.
 */
#ifndef SERVER_MEMORY_REGION_FILE_H
#define SERVER_MEMORY_REGION_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct region_file {
	char path[PATH_MAX];
	int fd;         /* of the meta area, locked */
	bool found;     /* it holds an earlier server's region */
	bool data_made; /* PATH.data was emptied for a region that is not finished */
	/* Both areas are memfds in the descriptor store (fdstore.h); path is for messages. */
	bool stored;
	int data_fd; /* of those; -1: not made yet. region.h closes it */
};

/**
 * Open and lock the meta area at `path`, or an empty one at PATH.new if there is none. With
 * `replace` ask a server that has it to end (SIGTERM), and wait, unless a blocked SIGINT or SIGTERM
 * is pending; a server that takes it over meanwhile is asked as well, so of several with `replace`
 * one is left. Then wait for the end of that process (I6). Nothing is changed. 0, FARKV_EREFUSED
 * (in use), FARKV_EABORTED (a signal), FARKV_EFORMAT (not a farkv region, or of another version),
 * FARKV_EINVAL (the path), FARKV_EPERM (another user's file), FARKV_ESYS, each with a detail.
 */
int region_file_open(const char *path, bool replace, struct region_file *f_out);
/**
 * The same in the descriptor store. A server alone has what came from there, so there is no lock.
 * 0, FARKV_EFORMAT, FARKV_EREFUSED (its process does not end), FARKV_ESYS.
 */
int region_file_of_store(struct region_file *f_out);
/** Close, and remove an unfinished one with its data. */
void region_file_close(struct region_file *f);

/**
 * Open the data area: made, or made empty, unless the region was found. A lock (flock(2), shared)
 * stays with the descriptor and with the mappings of it, so that no other region is made in the
 * file while one of them is left. One in the descriptor store must have been made already. 0, or
 * FARKV_EREFUSED (in use), FARKV_EFORMAT (too short), FARKV_EINVAL (not a regular file),
 * FARKV_EPERM, FARKV_ESYS.
 */
int region_file_data(struct region_file *f, uint64_t bytes, int *fd_out);
/**
 * Open the directory of the tethers, and make it if necessary; -1 for the descriptor store, which
 * has them, too. 0, FARKV_EPERM or FARKV_ESYS.
 */
int region_file_sessions(const struct region_file *f, int *fd_out);

/** The region is made: let later servers find it. 0 or FARKV_ESYS. */
int region_file_finish(struct region_file *f);

#endif
