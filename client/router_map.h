/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router_map.h - a cluster whose map changes: newer maps, and leases. doc/cluster.md, Leases.
 *
 * A server's memory can be read and written while the server stands still or is cut off, and others may
 * have its keys by then. So what a call found at a member counts only if the server's lease covers a
 * moment after it: the session asks for the lease (session_keep_lease()), and each call looks at the
 * clock when it is done. A call that no lease covers waits for one, or for a newer map.
 *
 * A newer map is asked for when a member fails: at any other server, which sends it in place of
 * WELCOME.
 */
#ifndef CLIENT_ROUTER_MAP_H
#define CLIENT_ROUTER_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "router.h"

/** A call for one key that has ended at a member. */
struct router_call {
	struct farkv *kv; /* of the cluster */
	struct farkv *member;
	const void *key;
	size_t key_len;
	bool writes;
};

/**
 * Give *err the call's result as it counts: the member's, or FARKV_EDISCONNECTED, or FARKV_EMAYBE
 * for a write that no lease covers. True: another server has the key by now, and the call is to be
 * made again. Waits for a lease, at most as long as a call may take.
 */
bool router_again(const struct router_call *c, int *err);

/**
 * For a call on many keys that has ended at a member: 0 if it counts, else FARKV_EDISCONNECTED. Waits.
 */
int router_counts(struct farkv *kv, const struct farkv *member);

/** The same for completions that were taken just now, without waiting. */
bool router_counts_now(const struct farkv *kv, const struct farkv *member);

/** A member has failed with `err`: look for a newer map, unless that was done just now. */
void router_renew(struct farkv *kv, int err);

#endif
