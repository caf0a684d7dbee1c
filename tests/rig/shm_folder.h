/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * shm_folder.h - a folder for files of regions, in memory where there is a tmpfs.
 *
 * Add both functions as an unchecked fixture: they run in the parent of the cases, so that the
 * folder goes even if a case fails, whose own fixture does not end.
 */
#ifndef TESTS_RIG_SHM_FOLDER_H
#define TESTS_RIG_SHM_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <check.h>

static char shm_folder[48];

static void shm_folder_make(void)
{
	snprintf(shm_folder, sizeof(shm_folder), "%s/farkv-test-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	ck_assert_ptr_nonnull(mkdtemp(shm_folder));
}

static void shm_folder_remove(void)
{
	char cmd[80];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", shm_folder);
	ck_assert_int_eq(system(cmd), 0);
}

#endif
