/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * worker.h - a thread with an event loop, a handle on the store, and connections.
 *
 * It reads what has arrived, executes all complete requests of it one after the other, and sends
 * their answers together: so a pipeline costs two system calls. Calls of the store are
 * synchronous. Over shared memory one takes 0.1 to 0.3 us, less than a thousandth of what a
 * descriptor would need to tell of its end; over RDMA connections of one thread wait for each
 * other's round trips, and more --threads are the remedy.
 *
 * It uses plain events of libevent instead of bufferevents, which need three more system calls for
 * each batch (FIONREAD, and epoll_ctl(2) before and after each write), and a buffer for every idle
 * connection: here a connection has one only while a request is incomplete or an answer is unsent.
 */
#ifndef GATE_WORKER_H
#define GATE_WORKER_H

#include "client.h"

struct worker;

/**
 * Start a thread; `kv` and `counts` are its own from then on. 0, or FARKV_ENOMEM or FARKV_ESYS
 * with a detail; `kv` is then still the caller's.
 */
int worker_start(struct gate *g, struct farkv *kv, struct gate_counts *counts,
		 struct worker **out);

/** Give it a connection. False if it cannot take it; `fd` is then still the caller's. Any thread.
 */
bool worker_give(struct worker *w, int fd, enum client_speaks speaks);

/** Tell it to end, once its present requests are executed. Any thread. */
void worker_stop(struct worker *w);

/** Wait for its end; closes its connections and the handle. NULL is allowed. */
void worker_join(struct worker *w);

#endif
