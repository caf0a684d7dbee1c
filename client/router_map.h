/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router_map.h - a cluster whose map changes: newer maps, and leases. doc/cluster.md has the rules,
 * tests/model/lease.pml, cluster.pml and follow.pml check them.
 *
 * A server's memory can be read and written while the server is stopped or cut off, when others may
 * have its keys already. So what a call found at a member counts only if the server's lease covers
 * a later moment: the session asks for the lease (session_keep_lease()), and each call reads the
 * clock when it is done. A call that no lease covers waits for one, or for a newer map.
 *
 * A newer map comes from a server, through its session, or, when a member fails, from any other
 * server that is asked: it sends the map in place of WELCOME. Calls take maps before they begin. A
 * running call stays at its server, and a session acknowledges a map only when no call by an older
 * one is running.
 *
 * A partition is blocked while it is fenced, and until its new server has announced the map by
 * which it got the partition: until then copies may still be written there, or old ones deleted.
 * Calls wait.
 */
#ifndef CLIENT_ROUTER_MAP_H
#define CLIENT_ROUTER_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "router.h"

/** A call for one key. */
struct router_call {
	struct farkv *kv; /* of the cluster */
	const void *key;
	size_t key_len;
	bool writes;
	struct farkv *member; /* out */
	uint64_t until_ns; /* 0 at first: end of its wait for the partition */
};

/**
 * Begin a call: c->member is the handle of the key's server, all requests in flight are complete,
 * and the partition is not blocked; or, if another call runs on `kv`, it is `kv` itself, which will
 * refuse. 0, or FARKV_ETIMEDOUT: it was blocked too long. router_again() ends it.
 */
int router_enter(struct router_call *c);

/**
 * End a call that has ended at its member: *err becomes the call's result: the member's, or, if no
 * lease covers the call, FARKV_EDISCONNECTED (FARKV_EMAYBE for a write). True: the map has changed,
 * repeat the call. Waits for a lease, at most op_timeout_ms.
 */
bool router_again(struct router_call *c, int *err);

/**
 * Begin calls with these servers, a bit for each; router_leave_all() ends them. False: nothing has
 * begun; take a newer map first.
 */
bool router_enter_all(struct farkv *kv, uint64_t servers);
/**
 * router_enter_all() for calls on all their keys, after waiting until no partition is blocked.
 * FARKV_ETIMEDOUT.
 */
int router_enter_unblocked(struct farkv *kv, uint64_t servers);
void router_leave_all(struct farkv *kv, uint64_t servers);

/** True if there is a newer map to take. */
bool router_map_waits(const struct farkv *kv);

/** Install the newest map that a server has sent, if there is one. True: the map has changed. */
bool router_take_maps(struct farkv *kv);

/** True if no call for a key of this partition may begin. */
static inline bool router_blocks(const struct router *r, uint32_t partition)
{
	return r->map.fenced[partition] || r->unannounced[partition];
}

/** True if any partition is blocked. */
static inline bool router_blocks_any(const struct router *r)
{
	return (r->n_unannounced | r->map.n_fenced) != 0;
}

/** Wait a moment for a newer map or announcement. False: `until_ns` has passed; with an error line.
 */
bool router_wait_for_map(struct farkv *kv, uint64_t until_ns);

/**
 * A call had ended at this member at `at_ns`: 0 if a lease covers that moment, so that the call
 * counts, otherwise FARKV_EDISCONNECTED. Waits for a lease, at most until op_timeout_ms after
 * `at_ns`.
 */
int router_await_lease(struct farkv *kv, const struct farkv *member, uint64_t at_ns);

/** A member has failed with `err`: look for a newer map, unless that was done a moment ago. */
void router_renew(struct farkv *kv, int err);

/** As farkv_wait_followers(). */
int router_wait_followers(struct farkv *kv, uint32_t timeout_ms);

#endif
