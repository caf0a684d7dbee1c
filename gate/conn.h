/* SPDX-License-Identifier: BSD-3-Clause */
/** conn.h - the input and output of one connection. One thread, that of its loop. */
#ifndef GATE_CONN_H
#define GATE_CONN_H

#include "client.h"

/** What the connections of a thread share. */
struct conn_home {
	void (*wake)(void *home); /* any thread: make the own one call conn_wake() */
	struct gate *gate;
	struct gate_counts *counts;
	struct farkv *kv;
	struct event_base *base;
	struct event *flush;     /* as in struct client */
	struct buf out, scratch; /* replies of a batch; one command's */
	char *in;                /* of CONN_READ_BYTES */
	struct conn *first;
};

/** Bytes that are read at once. */
#define CONN_READ_BYTES ((size_t)64 << 10)

struct conn;

/** Serve a socket, which is closed in any case. False: out of memory. */
bool conn_open(struct conn_home *h, int fd, enum client_speaks speaks);

/** Answer those whose WAIT is done. */
void conn_wake(struct conn_home *h);

/** Close all of the thread's connections. */
void conn_close_all(struct conn_home *h);

/** Close those that are not in WAIT and have neither completed a request nor taken bytes since
 * `seconds`. */
void conn_close_idle(struct conn_home *h, uint64_t seconds);

#endif
