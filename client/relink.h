/* SPDX-License-Identifier: BSD-3-Clause */
/** relink.h - a handle's connection: the first one, and a new one after a break. */
#ifndef CLIENT_RELINK_H
#define CLIENT_RELINK_H

#include "handle.h"

/**
 * Make the first connection; 0 or the errors of farkv_open(). Unless `map_out` is NULL:
 * CONNECT_MAP, and *map_out, if the server belongs to a cluster.
 */
int relink_up(struct farkv *kv, uint64_t deadline_ns, struct clustermap **map_out);
/** Close the connection and release the operations' buffers. Allowed without a connection. */
void relink_down(struct farkv *kv);

/**
 * Stop attempts, because the handle is being closed. Waits for a running one, at most until
 * `until_ns`. True: that made a connection, which is the handle's.
 */
bool relink_stop(struct farkv *kv, uint64_t until_ns);

/**
 * Begin a call on a handle without a working connection: reconnect; temporary errors are retried
 * until the call's deadline. 0: there is a connection, and what the caller knows of the store still
 * holds. FARKV_EDISCONNECTED once if it does not (the server was restarted), and while no server
 * answers.
 */
int relink(struct farkv *kv);
/**
 * relink() without waiting. After 0 from relink_begin(), and when dial_is_over(kv->dial), call
 * relink_end(), which returns what relink() would. There is no connection in between.
 */
int relink_begin(struct farkv *kv, uint64_t until_ns);
int relink_end(struct farkv *kv);

/** True if the lane or the session broke under these operations. */
bool relink_needed(const struct farkv *kv, struct index_op *const *ops,
		   size_t n);

/**
 * In the middle of a call, inside the critical section: reconnect and let the interrupted
 * operations continue. False if that is impossible; then their results are final, and there
 * may be no connection.
 */
bool relink_ops(struct farkv *kv, struct index_op *const *ops, size_t n);
/**
 * relink_ops() without waiting. relink_ops_begin() leaves no connection and no critical section.
 * True: a connection is being made; when dial_is_over(kv->dial), relink_ops_end() continues the
 * operations (some may have ended in between) inside the new critical section. False: none will be
 * made, and relink_ops_end() ends the operations. In between results are FARKV_EDISCONNECTED if
 * nothing was changed, or FARKV_EMAYBE.
 */
bool relink_ops_begin(struct farkv *kv, struct index_op *const *ops, size_t n,
		      uint64_t until_ns);
bool relink_ops_end(struct farkv *kv, struct index_op *const *ops, size_t n, bool dialled);

#endif
