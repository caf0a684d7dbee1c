/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * queue.h - the submitted requests of a handle, from farkv_submit() until
 * farkv_poll() or farkv_wait() has handed their completions over.
 *
 *   fresh    to be begun, or begun again
 *   flying   in the strand: its chains are under way
 *   torn     the lane broke under it; resumed on a new link, all together
 *   waiting  for a block, a migration or growth; holds nothing
 *   done     final; the caller has not taken it
 *   lent     taken, but its value is in memory of the request's
 *
 * The gate stays entered between calls as long as anything is in the strand: what a
 * barrier or a sweep asks is answered when all of that is over. So once an alert is
 * up, nothing is begun until the strand rests; then the gate is left, the alert seen
 * to, and the gate entered again. Who does not poll holds such answers up, as a
 * process that was stopped does.
 *
 * On lanes whose chains are done when they are posted, requests are begun by the next
 * poll, not by the submission: nothing could happen in between, and what is begun
 * together shares its misses. Elsewhere a submission posts.
 *
 * All functions belong to the handle's thread.
 */
#ifndef CLIENT_QUEUE_H
#define CLIENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

struct farkv;
struct queue;

#define QUEUE_DEPTH_DEFAULT 128u
#define QUEUE_DEPTH_MAX 4096u

/** As farkv_submit(), arguments other than the requests' checked. */
int queue_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n);

/** As farkv_poll(). */
int queue_poll(struct farkv *kv, struct farkv_completion *out, size_t max);

/** As farkv_wait(). */
int queue_wait(struct farkv *kv, struct farkv_completion *out, size_t max,
	       uint32_t timeout_ms);

/** Does `p` point into a value that the last poll has lent? */
bool queue_lent(const struct farkv *kv, const void *p);

/** Requests submitted and not taken. */
size_t queue_in_flight(const struct farkv *kv);

/** As farkv_event_fd(), for the handle's own process. */
int queue_event_fd(struct farkv *kv);
/** A handle that has that descriptor: there is a new link, or it is about to go. */
void queue_event_attach(struct farkv *kv);
void queue_event_detach(struct farkv *kv);

/**
 * Drive all requests until they are final; their completions stay. Before any other
 * call on the handle, outside of the gate: it is outside again at the return. Bounded
 * by the requests' deadlines.
 */
void queue_settle(struct farkv *kv);

/**
 * The link goes, with the operations' buffers; the strand rests. Values that nobody has
 * taken are saved in memory of the process: a get is over when it is done. Its result
 * becomes FARKV_ENOMEM if there is none.
 */
void queue_detach(struct farkv *kv);

/** Begin nothing any more, carry what is in flight to its end, leave the gate. */
void queue_finish(struct farkv *kv);

/** After queue_detach(), or in a child of fork(). NULL is allowed. */
void queue_free(struct queue *q);

#endif
