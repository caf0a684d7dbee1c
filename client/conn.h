/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * conn.h - a handle's connection to one incarnation of its server: session, mapping, lane, blocks
 * and index. It is opened and closed as a whole and never repaired: reconnecting makes a new one
 * (I6).
 */
#ifndef CLIENT_CONN_H
#define CLIENT_CONN_H

#include "common/index/alloc.h"
#include "common/index/index.h"

#include "connect.h"
#include "inventory.h"
#include "mapping.h"
#include "session.h"

struct conn {
	struct session *session; /* NULL: no connection */
	struct mapping *map; /* NULL for RDMA */
	struct xport_lane *lane;
	struct inventory *inv; /* NULL if readonly */
	struct alloc *alloc;   /* the inventory's, with its locking rules */
	struct index *index;
	struct superblock *sb_copy;  /* for RDMA */
	const struct superblock *sb; /* in `map` or sb_copy */
	uint32_t id;                 /* of the session */
	uint64_t map_epoch; /* of the cluster's map that the server has, at least; 0: none */
	bool readonly;
	bool outlives; /* the region may outlive its server */
	bool swept; /* last writes of the replaced session cannot be resolved */
	char writers[MSG_TEXT_MAX + 1]; /* where writers connect, or empty */
	bool prefix_asked; /* a PREFIX_REQ is unanswered */

	/* GRANT requests that the socket had no room for: blocks wanted, by class. */
	uint32_t unsent[CLASS_COUNT];
	/* Classes of which the server had no block; cleared when blocks are requested again. */
	bool denied[CLASS_COUNT];
	/*
	 * Classes that the server is short of: the last request got less than it asked for; and
	 * those whose request waits for that reason.
	 */
	bool scarce[CLASS_COUNT], waits[CLASS_COUNT];
	uint32_t asked[CLASS_COUNT]; /* by the unanswered request */
	uint32_t asked_after[CLASS_COUNT]; /* RETURNs sent before that request */
	uint64_t other_bytes; /* free in other classes, by the server's last message */
	bool no_pages;        /* ... and whether its machine has no memory for more pages */
	/*
	 * The request was sent before the waiting call began: its denial does not count for this
	 * call.
	 */
	bool old_ask[CLASS_COUNT];
	/* The server is slow: until this time no DELETE waits for a small block. */
	uint64_t tombstone_pause_ns;
};

/**
 * For test programs, which link the library's modules: wraps each new lane, which the returned
 * lane then owns; see xport_fault_open(). May return NULL: out of memory. NULL in production;
 * to be set while no connection is being made.
 */
extern struct xport_lane *(*conn_wrap_lane)(struct xport_lane *lane);

/**
 * Connect and build. On failure *out is unchanged, and a session that was begun has ended, at the
 * server, too. Errors as farkv_open(); CONNECT_MAP.
 */
int conn_open(const struct connect_params *p, struct conn *out);

/** Where a handle connects, with which identity and cache. */
struct conn_order {
	const struct uri *uri;
	const char *name;
	bool readonly;
	uint32_t last_id; /* session that the new one replaces, or 0, ... */
	uint64_t last_region[2]; /* ... and its region */
	bool outlives; /* the region of the last one: a server may be about to adopt it */
	size_t cache_entries, cache_bytes; /* of a connection whose region is not mapped */
	uint64_t map;   /* id of the cluster's map, or 0, ... */
	uint64_t map_epoch; /* ... and its epoch */
	uint8_t server; /* ... and which of its servers this is */
	struct clustermap **map_out; /* as in struct connect_params */
};

/** conn_open() with the parameters of `o`. */
int conn_make(const struct conn_order *o, uint64_t deadline_ns, struct conn *out);

/**
 * Return every block, including those of late GRANTs, and say BYE; ends by `until_ns`. Without BYE
 * if blocks are left: then the server sweeps. No operation may be running. conn_close() must
 * follow. Result as session_bye().
 */
bool conn_farewell(struct conn *l, uint64_t until_ns);

/** Close; *l becomes all zero. Operations' buffers must have been released. */
void conn_close(struct conn *l);

/**
 * Handle PENDING_GRANTS (blocks go to the allocator, a prefix to the index, an empty GRANT sets
 * denied[]), PENDING_SWEEP and PENDING_RECLAIM. Takes the inventory's lock, so allowed inside and
 * outside of the critical section.
 */
void conn_handle_pending(struct conn *l);

/**
 * Ask for blocks of `cls` if the allocator wants some at `now`; other operations of the call
 * will take `needed` of them. Never waits. Inside the critical section, or with the
 * inventory's lock. 0 (asked, or no need), FARKV_ETIMEDOUT (socket full: call again),
 * FARKV_EDISCONNECTED.
 */
int conn_ask_blocks(struct conn *l, uint8_t cls, uint64_t now,
		    uint32_t needed);

/**
 * Return surplus and exhausted blocks in one message (INVENTORY_RETURN_MAX), so that no put has to
 * wait for many; call again later for more. No effect if the socket is full. Inside the critical
 * section, or with the inventory's lock.
 */
void conn_return_surplus(struct conn *l);
/**
 * Return the deferred blocks of `cls` to the server, which is short of this class: it can grant
 * other blocks for them at once, and a barrier may free them before T. False if there are none.
 * Inside the critical section, or with the inventory's lock.
 */
bool conn_return_deferred(struct conn *l, uint8_t cls);
/** Return all blocks; false if there are none. With the inventory's lock. */
bool conn_return_all(struct conn *l);

/** Ask for a fresh version prefix if fewer than `low` are left; never waits. */
void conn_ask_prefix(struct conn *l, uint32_t low);

#endif
