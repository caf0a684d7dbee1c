/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router_queue.h - requests on a handle of several servers: each member has a queue as deep as the
 * handle's, so that no member's is full before the handle's.
 */
#ifndef CLIENT_ROUTER_QUEUE_H
#define CLIENT_ROUTER_QUEUE_H

#include "handle.h"

/** As the functions of farkv.h. */
int router_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n);
int router_poll(struct farkv *kv, struct farkv_completion *completions, size_t max);
int router_wait(struct farkv *kv, struct farkv_completion *completions, size_t max,
		uint32_t timeout_ms);
int router_event_fd(struct farkv *kv);
size_t router_in_flight(const struct farkv *kv);

#endif
