/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * privileges.h - a program that root starts and that runs as another user (kvserver --user).
 *
 * From privileges_begin() on the process has that user's identity, so files are read and made with
 * that user's rights. It is root between privileges_raise() and privileges_lower() only, until
 * privileges_drop(). Without privileges_find() all other calls do nothing. There is one user per
 * process; a call changes the identity of all threads.
 */
#ifndef COMMON_BASE_PRIVILEGES_H
#define COMMON_BASE_PRIVILEGES_H

/** Look the user up. FARKV_EINVAL with a detail if there is none of that name. */
int privileges_find(const char *user);

/** Become that user, with its groups. FARKV_EPERM with a detail unless this is root. */
int privileges_begin(void);

void privileges_raise(void);
void privileges_lower(void);

/** Give the file at `path`, made by root, to that user. */
void privileges_give(const char *path);

/** Give up root for good. FARKV_ESYS with a detail. */
int privileges_drop(void);

#endif
