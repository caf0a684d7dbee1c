/* SPDX-License-Identifier: BSD-3-Clause */
/** relink.h - links that break: a handle makes itself a new one. */
#ifndef CLIENT_RELINK_H
#define CLIENT_RELINK_H

#include "handle.h"

/** Make the first link, or another; 0 or the errors of farkv_open(). */
int relink_up(struct farkv *kv, uint64_t deadline_ns);
/** Let the link go; operations' buffers go with it. Fine without a link. */
void relink_down(struct farkv *kv);

/** A handle that is closed: nobody tries any more. Waits until `until_ns` at most for an attempt
 * under way. True: that brought a link, which is the handle's. */
bool relink_stop(struct farkv *kv, uint64_t until_ns);

/**
 * Begin a call on a handle whose link broke or is gone: connect anew, until the
 * call's deadline if what is in the way may pass. 0: there is a link, and what
 * the caller knows of the store still holds. FARKV_EDISCONNECTED once if it does
 * not (the server was restarted), and as long as nobody answers.
 */
int relink(struct farkv *kv);
/**
 * The same without waiting. 0 from relink_begin(): when dial_is_over(kv->dial), call
 * relink_end(), which returns what relink() would. Until then there is no link.
 */
int relink_begin(struct farkv *kv, uint64_t until_ns);
int relink_end(struct farkv *kv);

/** Has the lane or the session broken under these operations? */
bool relink_needed(const struct farkv *kv, struct index_op *const *ops,
		   size_t n);

/**
 * In the middle of a call, inside the gate: connect anew and make the operations
 * that the break touched go on. False if that cannot be; their results are
 * final then, and there may be no link.
 */
bool relink_ops(struct farkv *kv, struct index_op *const *ops, size_t n);
/**
 * The same without waiting. The first leaves no link, nor a gate to be inside of. True: a
 * link is being made; when dial_is_over(kv->dial) relink_ops_end() goes on with the
 * operations (fewer, if some have ended meanwhile), inside the new gate. False: none
 * will be, and relink_ops_end() ends them. A result is FARKV_EDISCONNECTED in between, if
 * nothing was changed, or FARKV_EMAYBE.
 */
bool relink_ops_begin(struct farkv *kv, struct index_op *const *ops, size_t n,
		      uint64_t until_ns);
bool relink_ops_end(struct farkv *kv, struct index_op *const *ops, size_t n, bool dialled);

#endif
