/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * privileges.h - a program that root starts and that runs as another user (kvserver --user).
 *
 * It is that user from privileges_begin() on, so that files are read and made as that user does it,
 * and root only between privileges_raise() and privileges_lower(), until privileges_drop(). Without
 * privileges_find() all others do nothing. One user for the process; the id of all threads changes.
 */
#ifndef COMMON_BASE_PRIVILEGES_H
#define COMMON_BASE_PRIVILEGES_H

/** Look the user up. FARKV_EINVAL with a detail if there is none of that name. */
int privileges_find(const char *user);

/** Become that user, with its groups. FARKV_EPERM with a detail unless this is root. */
int privileges_begin(void);

void privileges_raise(void);
void privileges_lower(void);

/** Make the file at `path` that user's; for files that were made by root. */
void privileges_give(const char *path);

/** Never be root again. FARKV_ESYS with a detail. */
int privileges_drop(void);

#endif
