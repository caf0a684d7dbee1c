/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "inherit.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "server/memory/fdstore.h"
#include "server/memory/step.h"

#include "barrier.h"
#include "core.h"
#include "roster.h"
#include "sweep.h"
#include "welcome.h"

/* Clients look for a new server every 20 ms (client/session_state.c), if they run. */
#define EXPECT_NS (3 * NS_PER_SEC)
/* The previous server's saver ends with it, a moment later. */
#define SAVER_NS NS_PER_SEC
#define SAVER_PAUSE_NS (10 * NS_PER_MS)

static int inherit_one(struct control *c, struct session_entry *e)
{
	struct tether *t = tether_new();
	int errnum;

	if (!t)
		return err_set(FARKV_ENOMEM, "out of memory");
	welcome_note_ended(c, e->prefix);
	t->id = e->prefix;
	t->pid = (pid_t)e->pid;
	t->entry = e;
	t->dir_fd = c->region->sessions_fd;
	t->stored = t->dir_fd < 0;
	errnum = tether_open(t);
	if (!errnum) {
		lingering_add(&c->lingering, t);
		return 0;
	}
	tether_free(t);
	/* Without knowing that the session has ended its blocks must not be used again (I6). */
	if (errnum != ENOENT)
		return err_set_errno(FARKV_ESYS, errnum,
				     "memory-file: cannot open the tether of session %" PRIu32
				     " (.sessions/%" PRIu32 "; ulimit -n)", e->prefix, e->prefix);
	/* A session over RDMA has none: its queue pair ended with the server. */
	roster_clear(e);
	return 0;
}

static bool is_entered(const struct control *c, const char *name)
{
	const struct session_entry *table = region_sessions(c->region);
	unsigned long id = strtoul(name, NULL, 10);

	for (uint32_t i = 0; i < c->region->sb.session_count; i++)
		if (table[i].prefix && table[i].prefix == id)
			return true;
	return false;
}

/* Remove the tethers of sessions that have ended. */
static void remove_others(const struct control *c)
{
	int fd = dup(c->region->sessions_fd);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (c->region->sessions_fd < 0)
		fdstore_drop_rest();
	while (d && (e = readdir(d)))
		if (!is_entered(c, e->d_name))
			(void)unlinkat(c->region->sessions_fd, e->d_name, 0);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

/*
 * A compare-and-swap of a card and that of a CPU are not atomic to each other, and clients of a
 * previous server without RDMA may go on writing by CPU. Wait a moment for them, then refuse.
 */
static int check_writers(struct control *c)
{
	uint64_t until = clock_now_ns() + SAVER_NS;

	if (!c->verbs || region_state(c->region)->writers == REGION_WRITERS_CARD)
		return 0;
	while (!lingering_gone(&c->lingering)) {
		if (clock_now_ns() >= until)
			return err_set(FARKV_EREFUSED,
				       "memory-file: %" PRIu32 " clients of this host may still write, "
				       "one of them pid %ld, and undo what is written by RDMA "
				       "meanwhile: end them, or start with --transport shm",
				       c->lingering.n, (long)lingering_first(&c->lingering)->pid);
		clock_sleep_ns(SAVER_PAUSE_NS);
	}
	return 0;
}

int inherit_sessions(struct control *c)
{
	struct session_entry *table = region_sessions(c->region);
	int err;

	for (uint32_t i = 0; i < c->region->sb.session_count; i++) {
		if (!table[i].prefix)
			continue;
		err = inherit_one(c, &table[i]);
		if (err)
			return err;
		step_reached(STEP_INHERIT);
	}
	remove_others(c);
	err = check_writers(c);
	if (err)
		return err;
	c->inherit_until_ns = clock_now_ns() + EXPECT_NS;
	sweep_lost(c);
	barrier_want(c);
	log_info("memory file: the region is adopted; %u clients of the previous server still use it",
		 c->lingering.n);
	step_reached(STEP_INHERITED);
	return 0;
}
