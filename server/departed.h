/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * departed.h - when a process of this host is through with a session.
 *
 * The end of a socket proves nothing about the mapping of the region (I6), and a
 * barrier has to know. So each session gets a file of its own with WELCOME, its
 * tether: a memfd without a byte, sealed so that it stays empty. The client maps it
 * before it says READY, and unmaps it when no operation of the session can follow.
 * The kernel unmaps it when the process ends or calls exec(2), in whatever PID
 * namespace that is, and before it closes the socket.
 *
 * A memfd that somebody has mapped cannot be sealed against writing, any other can:
 * that is how the server asks (memfd_create(2), F_SEAL_WRITE). A client that has
 * tampered with the seals is not waited for: it can hurt itself only, or is a writer,
 * who can damage everything anyway.
 *
 * The control thread's.
 */
#ifndef SERVER_DEPARTED_H
#define SERVER_DEPARTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tether {
	struct tether *next; /* in struct departed */
	int fd;              /* -1 before tether_make() */
	uint32_t id;         /* of the session; once in struct departed */
	pid_t pid;           /* of its process; 0: in another PID namespace */
};

/**
 * Memory for one, at a connection's beginning: at a session's end there may be none.
 * NULL if there is none now.
 */
struct tether *tether_new(void);

/** Make the file that goes with WELCOME. 0 or an errno. */
int tether_make(struct tether *t);

/**
 * True if nobody has the file mapped: no operation of the session is under way, or will
 * be. Only of a session that said READY. A system call of 0.2 us.
 */
bool tether_is_loose(const struct tether *t);

/** NULL is allowed. */
void tether_free(struct tether *t);

/** Sessions that ended without goodbye and whose tether is mapped. */
struct departed {
	struct tether *first;
	uint32_t n;
};

/** Session `id` of `pid` ended; takes `t`. */
void departed_add(struct departed *d, struct tether *t, uint32_t id, pid_t pid);

/** The latest of them, or NULL. */
const struct tether *departed_first(const struct departed *d);

/** True if there are none; forgets those whose tether is loose. */
bool departed_gone(struct departed *d);

void departed_fini(struct departed *d);

#endif
