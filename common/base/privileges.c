/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <farkv.h>

#include "err.h"

static struct {
	char *name; /* NULL: the user does not change */
	uid_t uid;
	gid_t gid;
	bool begun; /* privileges_begin() was called, privileges_drop() was not */
} user;

int privileges_find(const char *name)
{
	struct passwd pw, *found;
	char room[8192];
	int errnum = getpwnam_r(name, &pw, room, sizeof(room), &found);

	if (errnum && errnum != ENOENT)
		return err_set_errno(FARKV_ESYS, errnum, "user: cannot look up '%s'", name);
	if (!found)
		return err_set(FARKV_EINVAL, "user: there is no user '%s'", name);
	free(user.name);
	user.name = strdup(name);
	if (!user.name)
		return err_set(FARKV_ENOMEM, "user: out of memory");
	user.uid = pw.pw_uid;
	user.gid = pw.pw_gid;
	return 0;
}

static int failed(void)
{
	return err_set_errno(FARKV_ESYS, errno, "user: cannot become %s", user.name);
}

int privileges_begin(void)
{
	if (!user.name)
		return 0;
	if (geteuid() != 0)
		return err_set(FARKV_EPERM, "user: only root can run it as %s; start it as that "
					    "user, without --user", user.name);
	if (initgroups(user.name, user.gid) || setegid(user.gid) || seteuid(user.uid))
		return failed();
	user.begun = true;
	return 0;
}

void privileges_raise(void)
{
	if (user.begun && (seteuid(0) || setegid(0)))
		abort();
}

void privileges_lower(void)
{
	if (user.begun && (setegid(user.gid) || seteuid(user.uid)))
		abort();
}

void privileges_give(const char *path)
{
	if (user.begun)
		(void)!lchown(path, user.uid, user.gid);
}

int privileges_drop(void)
{
	if (!user.begun)
		return 0;
	privileges_raise();
	if (setresgid(user.gid, user.gid, user.gid) || setresuid(user.uid, user.uid, user.uid))
		return failed();
	user.begun = false;
	/* Let the process read /proc/self: after a change of user its files belong to root. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	if (user.uid != 0 && setuid(0) == 0)
		return err_set(FARKV_ESYS, "user: still root after becoming %s", user.name);
	return 0;
}
