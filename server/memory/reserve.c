/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "memlimit.h"

/* After a failure the kernel is not asked for this long. */
#define AGAIN_NS (100 * NS_PER_MS)
/* Share of what is left that may be taken before the limits are read again. */
#define TRUST_SHARE 8u
#define TRUST_MAX (UINT64_C(64) << 20)

/*
 * Bytes that were admitted and are just being taken. The usage of a limit shows an unknown part of
 * them, so all of them count on top of it.
 */
static uint64_t being_taken;

struct reserve {
	int fd;
	bool bounded, failing, logs;
	uint64_t trusted;  /* bytes that may be taken before limits are read again */
	uint64_t again_ns; /* refuse until then */
	uint64_t refused;
};

struct reserve *reserve_new(int fd, bool bounded)
{
	struct reserve *r = calloc(1, sizeof(*r));

	if (r) {
		r->fd = fd;
		r->bounded = bounded;
	}
	return r;
}

void reserve_log(struct reserve *r)
{
	r->logs = true;
}

void reserve_free(struct reserve *r)
{
	free(r);
}

/* True if all of it is allocated already, for example by the prefault thread (prefault.h). */
static bool is_there(const struct reserve *r, uint64_t off, uint64_t bytes)
{
	off_t hole = lseek(r->fd, (off_t)off, SEEK_HOLE);

	return hole >= 0 && (uint64_t)hole >= off + bytes;
}

static uint64_t room_left(void)
{
	struct room room;

	memlimit_read("", &room);
	return room.left;
}

bool limits_admit(uint64_t bytes, uint64_t spare)
{
	uint64_t others = atom_count(&being_taken, bytes);

	if (room_left() >= others + bytes + spare)
		return true;
	limits_taken(bytes);
	return false;
}

void limits_taken(uint64_t bytes)
{
	atom_count(&being_taken, -bytes);
}

/* 0, or an errno if a limit does not allow `bytes` more. */
static int look_at_limits(struct reserve *r, uint64_t bytes)
{
	uint64_t room, others;

	if (bytes <= r->trusted)
		return 0;
	room = room_left();
	others = atom_load_relaxed(&being_taken);
	room -= UTIL_MIN(room, others);
	if (room < bytes)
		return ENOMEM;
	r->trusted = UTIL_MAX(UTIL_MIN(room / TRUST_SHARE, TRUST_MAX), bytes);
	return 0;
}

static int fallocate_run(const struct reserve *r, uint64_t off, uint64_t bytes)
{
	int err;

	do
		err = fallocate(r->fd, 0, (off_t)off, (off_t)bytes) ? errno : 0;
	while (err == EINTR);
	return err;
}

/* 0 or an errno. */
static int take(struct reserve *r, uint64_t off, uint64_t bytes)
{
	int err;

	if (!r->bounded)
		return fallocate_run(r, off, bytes);
	if (is_there(r, off, bytes))
		return 0;
	err = look_at_limits(r, bytes);
	if (err)
		return err;
	err = fallocate_run(r, off, bytes);
	if (!err)
		r->trusted -= bytes;
	return err;
}

static uint64_t refuse(struct reserve *r, int errnum)
{
	r->refused++;
	r->again_ns = clock_now_ns() + AGAIN_NS;
	err_set(FARKV_ENOMEM,
		"no memory for more pages of the region (%s): this machine, the limit of a "
		"cgroup, or the file system of --memory-file has no more; free some, or start "
		"kvserver with a smaller --memory",
		strerror(errnum));
	if (!r->failing && r->logs)
		log_warn("%s", err_detail());
	r->failing = true;
	return 0;
}

uint64_t reserve_bytes(struct reserve *r, uint64_t off, uint64_t bytes, uint64_t more)
{
	int err;

	if (r->failing && clock_now_ns() < r->again_ns)
		return 0;
	if (more && take(r, off, bytes + more) == 0) {
		bytes += more;
	} else {
		err = take(r, off, bytes);
		if (err)
			return refuse(r, err);
	}
	if (r->failing)
		log_info("there is memory for pages of the region again");
	r->failing = false;
	return bytes;
}

uint64_t reserve_refused(const struct reserve *r)
{
	return r ? r->refused : 0;
}

bool reserve_failing(const struct reserve *r)
{
	return r && r->failing;
}
