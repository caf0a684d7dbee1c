/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * closer.h - sockets whose close(2) takes as long as a client likes, closed by a
 * thread of their own.
 *
 * A packet may carry descriptors. Who drops the last reference to one runs what its
 * kind does at its end: a TCP socket with SO_LINGER sleeps for as long as its owner
 * chose, a file of a user's own file system asks that user. A packet that is still
 * in a socket's queue is dropped by whoever closes the socket, and nothing takes it
 * out of the queue without dropping it: so the whole socket is put here.
 */
#ifndef SERVER_CLOSER_H
#define SERVER_CLOSER_H

#include <stdint.h>

struct closer;

/** The first member of what the socket belongs to, which was malloc()ed. */
struct closer_item {
	struct closer_item *next; /* the closer's */
	int fd;
};

/** NULL if out of memory. The thread begins with the first item. */
struct closer *closer_new(void);

/** Close item->fd and free() the item, some time. Never waits, cannot fail. */
void closer_take(struct closer *c, struct closer_item *item);

/** How many have been taken and are not closed yet. */
uint32_t closer_pending(const struct closer *c);

/** What is pending is left to the end of the process, which does not wait. */
void closer_free(struct closer *c);

#endif
