/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router_all.h - calls on a handle of several servers that concern all of them. Requests go to all
 * servers at the same time (fanout.h). An error names its server; if several fail, it is the first
 * one's in the map's order.
 */
#ifndef CLIENT_ROUTER_ALL_H
#define CLIENT_ROUTER_ALL_H

#include "handle.h"

/**
 * As farkv_scan(), one server after another. A cursor is the server's index in the map, 6 bits, and
 * the first 58 bits of a position in its store; a call ends at such a position.
 */
int router_scan(struct farkv *kv, uint64_t *cursor, size_t max,
		const struct farkv_scan_item **items_out, size_t *n_out);
/** As farkv_clear(), on all servers, even if one fails; returns the first error. */
int router_clear(struct farkv *kv, uint64_t *deleted_out);

/** As farkv_ping(); the longest time. */
int router_ping(struct farkv *kv, uint64_t *rtt_ns_out);
/** As farkv_stats(), farkv_fsck(): sums, or the largest value where a sum is meaningless. */
int router_stats(struct farkv *kv, struct farkv_stats *sum);
int router_fsck(struct farkv *kv, struct farkv_fsck *sum);
/** As farkv_class_next(): sums over the servers. */
int router_class_next(struct farkv *kv, struct farkv_class *c);
void router_counters(const struct farkv *kv, struct farkv_counters *sum);

/** Register memory with all members; all or none. */
int router_register(struct farkv *kv, void *ptr, size_t len);
/** No effect on members that have no range which begins there. */
void router_unregister(struct farkv *kv, void *ptr);

#endif
