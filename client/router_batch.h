/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router_batch.h - batches on a handle of several servers: the items of each server are a batch of
 * their own, in their order. If servers are not connected, or have many of the items and are
 * reached by RDMA, the batches run at the same time, in helper threads and the caller's (fanout.h);
 * otherwise the caller's thread runs them one after another, so that round trips and waits add up.
 *
 * A failure ends the batch of its server only; the result is that of the first item that failed.
 * Arguments are checked, except that another call may be running. Keys are copied, because a key
 * may lie in memory that an earlier call returned: the batch on that memory's server releases it
 * while others run.
 */
#ifndef CLIENT_ROUTER_BATCH_H
#define CLIENT_ROUTER_BATCH_H

#include "handle.h"

/** As the functions of farkv.h. */
int router_mget(struct farkv *kv, struct farkv_get_item *items, size_t n);
int router_mget_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n);
int router_mput(struct farkv *kv, struct farkv_put_item *items, size_t n);

/** As farkv_mexists(); `bitmap` is NULL, or all 0. */
int router_mexists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		   size_t *prefix_out);

#endif
