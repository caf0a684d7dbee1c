/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * closer.h - a thread for sockets whose close(2) may take as long as a client likes.
 *
 * A packet may carry descriptors, and dropping the last reference to one runs the close of
 * its kind: a TCP socket with SO_LINGER sleeps as long as its owner chose, a FUSE file asks
 * its user. Closing a socket drops the packets in its queue, and a packet cannot be taken
 * out of the queue without dropping it. So such a socket is closed here as a whole.
 */
#ifndef SERVER_LOOP_CLOSER_H
#define SERVER_LOOP_CLOSER_H

#include <stdint.h>

struct closer;

/** First member of the object that owns the socket, which was malloc()ed. */
struct closer_item {
	struct closer_item *next; /* the closer's */
	int fd;
};

/** NULL if out of memory. The thread starts with the first item. */
struct closer *closer_new(void);

/** Close item->fd and free() the item at some later time. Never waits, cannot fail. */
void closer_take(struct closer *c, struct closer_item *item);

/** Items taken and not closed yet. */
uint32_t closer_pending(const struct closer *c);

/** Does not wait: pending items are left to the end of the process. */
void closer_free(struct closer *c);

#endif
