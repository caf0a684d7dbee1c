/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * queue.h - the submitted requests of a handle, from farkv_submit() until farkv_poll() or
 * farkv_wait() has returned their completions.
 *
 *   fresh        to be begun, or begun again
 *   (no list)    in the op queue: its chains are in flight
 *   interrupted  the lane broke; resumed on a new connection, all together
 *   waiting      for a block, a migration or growth; holds nothing
 *   done         final; the caller has not taken it
 *   taken        handed out: its value is in the request's memory
 *
 * The handle stays inside its critical section (client/qsbr.h) between calls while the op queue is
 * not empty: barriers and sweeps are answered when all its operations have ended. So while a flag
 * is pending no request begins until the op queue is empty; then the handle leaves the critical
 * section, handles the flag and enters again. A program that does not poll delays such answers, as
 * a stopped process does.
 *
 * On lanes whose chains are done when posted, requests begin at the next poll, not at the
 * submission: nothing could happen in between, and requests that begin together share their cache
 * misses. On other lanes a submission posts.
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

#define QUEUE_DEPTH_MAX 4096u

/** Check a request's form as farkv_submit() does: FARKV_EINVAL with a line. */
int queue_check_request(const struct farkv_request *req);
/** FARKV_EAGAIN with the line of a full queue of `depth` requests. */
int queue_full(size_t depth);

/** As farkv_submit(); arguments are checked, except the requests. Here and below: HANDLE_CLUSTER.
 */
int queue_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n);

/** As farkv_poll(). */
int queue_poll(struct farkv *kv, struct farkv_completion *out, size_t max);

/** As farkv_wait(). */
int queue_wait(struct farkv *kv, struct farkv_completion *out, size_t max,
	       uint32_t timeout_ms);

/**
 * A call ends or a poll begins: the program may no longer use what earlier calls returned. Release
 * it, unless it is small. Sets kv->polled and kv->batched to false.
 */
void queue_release(struct farkv *kv);

/** Requests submitted and not taken. */
size_t queue_in_flight(const struct farkv *kv);

/** As farkv_event_fd(), for the handle's own process. */
int queue_event_fd(struct farkv *kv);

/**
 * Drive all requests until they are final; their completions stay. Called before any other call
 * on the handle, outside of the critical section, and returns outside. Bounded by the requests'
 * deadlines.
 */
void queue_settle(struct farkv *kv);

/** Begin no more requests, finish those in flight, leave the critical section. */
void queue_finish(struct farkv *kv);

#endif
