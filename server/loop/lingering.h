/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * lingering.h - whether a process of this host still maps the region: lingering processes.
 *
 * The end of a socket does not prove that the region is unmapped (I6), and a barrier has to
 * know. So each session gets a file of its own with WELCOME, its tether: a memfd of
 * one page, sealed so that it keeps this size. The client maps it before READY, and unmaps it when
 * no operation of the session can follow. The kernel unmaps it when the process ends or calls
 * exec(2), in whatever PID namespace, and before it closes the socket. Its page holds what the
 * session counts (common/proto/hits.h).
 *
 * A region that outlives its server has its tethers in files, named by the session's number, so
 * that the next server can ask. There the server locks (flock(2)) the open file that it sends, and
 * closes its own descriptor of it. The client's mapping keeps that open file, and with it the lock,
 * until the last mapping and descriptor are gone: then another lock succeeds.
 *
 * In the descriptor store of systemd they are memfds that are put there.
 *
 * A memfd can be sealed against writing unless it is mapped: so the server asks by sealing
 * it (memfd_create(2), F_SEAL_WRITE). A client that has tampered with the seals is not
 * waited for: a reader harms only itself, and a writer could damage everything anyway.
 *
 * Event loop only.
 */
#ifndef SERVER_LOOP_LINGERING_H
#define SERVER_LOOP_LINGERING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/proto/hits.h"

struct session_entry;

struct tether {
	struct tether *next; /* in struct lingering */
	int fd;              /* -1 until tether_make() */
	int client_fd;       /* to be sent with WELCOME, then tether_sent(); may be `fd` */
	int dir_fd;          /* folder of the file, which outlives the server; -1: a memfd */
	bool stored;         /* in the descriptor store (server/memory/fdstore.h), without a folder */
	uint32_t id;         /* of the session */
	pid_t pid;           /* of its process; 0: in another PID namespace */
	struct session_entry *entry; /* in the session table; may be NULL */
	struct hits counted; /* what tether_is_loose() has taken out of the file */
};

/**
 * Memory for a tether, taken when a connection begins, because there may be none when it ends.
 * NULL if out of memory.
 */
struct tether *tether_new(void);

/** Make the file that is sent with WELCOME; `id` and `dir_fd` are set. 0 or an errno. */
int tether_make(struct tether *t);
/** Open the file that another server made for session `id` in `dir_fd`. 0, ENOENT, or another
 * errno. */
int tether_open(struct tether *t);
/** WELCOME has been sent, or will not be. */
void tether_sent(struct tether *t);

/** What the session has counted, by its own account. One system call, 0.3 us. */
struct hits tether_hits(const struct tether *t);

/**
 * True if no process has the file mapped: no operation of the session runs or will run. Only
 * for sessions that sent READY. Three system calls, 1 us.
 */
bool tether_is_loose(struct tether *t);

/** Close it; a later server can open it again. NULL is allowed. */
void tether_free(struct tether *t);
/** The same, for a session that can do nothing any more: remove the file, too. */
void tether_remove(struct tether *t);

/** Lingering sessions: they ended without BYE, and their tether is still mapped. */
struct lingering {
	struct tether *first;
	uint32_t n;
};

/** A session ended; takes `t`, of which the caller has set id, pid and entry. */
void lingering_add(struct lingering *d, struct tether *t);

/** The latest one, or NULL. */
const struct tether *lingering_first(const struct lingering *d);

/** Forget those whose tether is loose, and clear their entries. True if none is left. */
bool lingering_gone(struct lingering *d);

void lingering_fini(struct lingering *d);

#endif
