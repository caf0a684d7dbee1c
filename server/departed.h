/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * departed.h - processes whose session ended without goodbye and that may still
 * be at work in the region. A barrier waits for their end (I6): on shared memory
 * a socket's end proves nothing about the mapping.
 */
#ifndef SERVER_DEPARTED_H
#define SERVER_DEPARTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct departed_process;

struct departed {
	struct departed_process *first;
	uint32_t n; /* processes, each with a descriptor */
	struct departed_process *spare; /* one for each session under way */
	uint32_t blind; /* sessions whose process is out of sight */
};

/**
 * Room for what is to be remembered of a session, made at its beginning: at its
 * end there may be no memory. False if there is none now.
 */
bool departed_reserve(struct departed *d);

/** That room is not needed: the session ended well, or never was one. */
void departed_release(struct departed *d);

/** With room reserved: session `id` of `pid` (0: in a namespace out of sight) ended. */
void departed_add(struct departed *d, uint32_t id, pid_t pid);

/** The same process says HELLO in the place of `id`: it is through with it. */
void departed_replaced(struct departed *d, uint32_t id, pid_t pid);

/**
 * Has process `pid` ended, though its socket is open? A child that was made without
 * atfork handlers, or is between vfork() and exec(), holds a copy.
 */
bool departed_is_dead(pid_t pid);

/**
 * The first of them that is not gone: its last session, its number (0: out of
 * sight), and a descriptor, departed.h's, that becomes readable when it ends; -1 if
 * it cannot be watched.
 */
int departed_first(const struct departed *d, uint32_t *id_out, pid_t *pid_out);

/** True if all of them are gone; forgets those that are. */
bool departed_gone(struct departed *d);

void departed_fini(struct departed *d);

#endif
