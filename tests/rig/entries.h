/* SPDX-License-Identifier: BSD-3-Clause */
/** entries.h - resources of a process: the entries of a folder of /proc. */
#ifndef TESTS_RIG_ENTRIES_H
#define TESTS_RIG_ENTRIES_H

#include <dirent.h>

#include "marks.h"

/** Counts "." and ".." too; in /proc/self/fd also the descriptor that reads it. */
static inline unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#define ENTRIES_FDS "/proc/self/fd"

#endif
