/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * router.h - a handle of several servers: the cluster's map and an ordinary handle for each server.
 *
 * The handle itself has no connection. The fast path of each call tests for one anyway, so clusters
 * cost a single server's handle no test, and the slow path finds the router (HANDLE_CLUSTER). A
 * call for one key is then the same call on the handle of the key's server. Members are
 * independent: each breaks, waits and reconnects as a single server's handle does.
 *
 * Values of one call lie in several members' memory. Each member releases its own when its next
 * call ends, so they are valid as long as farkv.h promises, or longer.
 *
 * The handle's `busy` is set while a call runs on several members; its `queued` while members may
 * have requests in flight.
 */
#ifndef CLIENT_ROUTER_H
#define CLIENT_ROUTER_H

#include <stddef.h>
#include <stdint.h>

#include "common/proto/clustermap.h"

#include "fanout.h"
#include "handle.h"

/* Memory for the running call (except `scanned`), kept for the next one. */
struct router_scratch {
	void *mem;
	size_t bytes;
};

struct router {
	struct farkv *member[CLUSTERMAP_SERVERS_MAX];
	struct router_scratch items, bytes, bits, order;
	struct router_scratch scanned; /* items of a scan: the caller's until the next one */
	struct farkv_options options; /* of members to come; keys and key are in `uri` of the handle */
	bool leased; /* the map changes: router_map.h */
	uint64_t asked_ns; /* for a newer map, the last time */
	uint32_t next; /* the member whose completions are taken first */
	uint64_t lost; /* servers that have lost keys since the last wait for followers; a bit for each */
	struct clustermap map;
	/* The partitions whose server has not announced the map by which it got them, their number,
	 * and the epoch that each server has to announce. */
	bool unannounced[CLUSTERMAP_PARTITIONS];
	uint32_t n_unannounced;
	uint64_t required[CLUSTERMAP_SERVERS_MAX];
	/*
	 * For each server: number of its next completions that no lease covered; they do not count.
	 */
	size_t uncovered[CLUSTERMAP_SERVERS_MAX];
	int away; /* error of a request whose server did not answer: look for a newer map; or 0 */
	struct fanout fanout;
};
static_assert(CLUSTERMAP_SERVERS_MAX <= FANOUT_PARTS_MAX, "a server is a part");

/** The handle of the key's server; any member for an invalid key. */
static inline struct farkv *router_member(const struct router *r, const void *key, size_t len)
{
	return r->member[key && len ? clustermap_owner(&r->map, key, len) : 0];
}

/** True for a server that has lost its partitions: it has no keys, and may never come back. */
static inline bool router_skips(const struct router *r, uint32_t server)
{
	return r->leased && r->map.server[server].partitions == 0;
}

/** True if the member has a connection that is not known to be broken. */
static inline bool router_is_connected(const struct farkv *member)
{
	return member->conn.session && !(qsbr_pending(member->qsbr) & PENDING_BROKEN);
}

/** The servers that router_skips() does not leave out, a bit for each. */
uint64_t router_all_servers(const struct router *r);

/** The member with that number (struct opened), or NULL. */
struct farkv *router_numbered(const struct farkv *kv, uint64_t number);

/**
 * True if operations that have ended at the member count: its lease covers this moment
 * (router_map.h).
 */
bool router_lease_covers_now(const struct farkv *kv, const struct farkv *member);

/** Complete the requests in flight; their completions stay. */
void router_settle(struct farkv *kv);

/** Begin a call on several members: other calls are refused, requests in flight are completed. */
int router_begin(struct farkv *kv);
/** End such a call; returns `err`. */
int router_end(struct farkv *kv, int err);

/**
 * Call step(arg, server) for each of `servers`, as fanout_run(). `waiting`: those expected to wait;
 * all of them wait at the same time, as far as fanout.h has threads.
 */
void router_fan_out(struct router *r, uint64_t servers, uint64_t waiting, fanout_step *step, void *arg);

/** At least `bytes` of scratch memory; its previous contents are lost. NULL: out of memory. */
void *router_scratch(struct router_scratch *s, size_t bytes);

#endif
