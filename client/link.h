/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * link.h - all that stands between a handle and one incarnation of its server:
 * session, mapping, lane, blocks and index. Built at once, torn down at once,
 * never repaired: a reconnect makes a new one (I6).
 */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include "common/alloc.h"
#include "common/index.h"

#include "connect.h"
#include "inventory.h"
#include "mapping.h"
#include "session.h"

struct link {
	struct session *session; /* NULL: there is no link */
	struct mapping *map; /* NULL by verbs */
	struct xport_lane *lane;
	struct inventory *inv; /* NULL if readonly */
	struct alloc *alloc;   /* the inventory's: see there who may touch it */
	struct index *index;
	struct superblock *sb_copy;  /* by verbs */
	const struct superblock *sb; /* lives in `map` or sb_copy */
	uint32_t id;                 /* of the session */
	bool readonly;
	bool swept; /* nothing can be told about the session before */
	char writers[MSG_TEXT_MAX + 1]; /* where writers connect, or empty */
	bool prefix_asked; /* a PREFIX_REQ is out */

	/* GRANT requests that it had no room for: blocks wanted, by class. */
	uint32_t unsent[CLASS_COUNT];
	/* Classes of which the server had no block; cleared when blocks are asked for again. */
	bool denied[CLASS_COUNT];
	/* Classes of which the server has too little: the last request got less than it
	   asked for; and those of which the request waits for that reason. */
	bool scarce[CLASS_COUNT], waits[CLASS_COUNT];
	uint32_t asked[CLASS_COUNT]; /* by the request under way */
	uint32_t asked_after[CLASS_COUNT]; /* ... which came after so many RETURNs */
	uint64_t other_bytes; /* free in other classes, as the server last said */
	bool no_pages;        /* ... and that its machine has no more */
	/* Whose request was under way when the call that waits began: its "no"
	   says nothing about now. */
	bool old_ask[CLASS_COUNT];
	/* Until then no DELETE waits for a tombstone: the server is slow. */
	uint64_t tombstone_pause_ns;
};

/**
 * For test programs, which link the library's modules: wraps each new lane, which
 * the one returned then owns; see xport_fault_open(). NULL returned: out of memory.
 * NULL in production; set it while no link is being opened.
 */
extern struct xport_lane *(*link_wrap_lane)(struct xport_lane *lane);

/**
 * Connect and build. On failure *out is untouched, and a session that had come about is
 * over, for the server too. Errors as farkv_open().
 */
int link_open(const struct connect_params *p, struct link *out);

/** Where a handle connects, as whom, and what its index is to remember. */
struct link_order {
	const struct uri *uri;
	const char *name;
	bool readonly;
	uint32_t last_id; /* the session that the new one follows, or 0, */
	uint64_t last_region[2]; /* ... and its region */
	size_t cache_entries, cache_bytes; /* of a link whose region is not mapped */
};

/** link_open() as ordered. */
int link_make(const struct link_order *o, uint64_t deadline_ns, struct link *out);

/**
 * Give every block back, also those that a late GRANT brings, and say BYE; ends
 * by `until_ns`. Without a BYE if something is left: then the server sweeps. No
 * operation may be running. link_close() must follow. As session_bye().
 */
bool link_farewell(struct link *l, uint64_t until_ns);

/** Tear down; *l becomes all zero. Operations' buffers must be gone. */
void link_close(struct link *l);

/**
 * See to GATE_MAIL (blocks go to the allocator, a prefix to the index, an empty
 * GRANT sets denied[]), GATE_SWEEP and GATE_RECLAIM. Takes the inventory's lock, so
 * inside the gate or out.
 */
void link_attend(struct link *l);

/**
 * Ask for blocks of `cls` if the allocator wants some at `now`, of which others of
 * the call will take `spoken_for`. Never waits. Inside the gate, or with the
 * inventory's lock.
 * 0 (asked, or nothing to ask), FARKV_ETIMEDOUT (socket full: call again),
 * FARKV_EDISCONNECTED.
 */
int link_ask_blocks(struct link *l, uint8_t cls, uint64_t now,
		    uint32_t spoken_for);

/**
 * Send blocks back that are too many or worn, one message of them (INVENTORY_RETURN_MAX):
 * who has more calls again after a while, and nobody's put waits for all. Nothing if the
 * socket is full. Inside the gate, or with the inventory's lock.
 */
void link_return_surplus(struct link *l);
/**
 * The server, which lacks blocks of `cls`, has those in limbo: it grants others for them
 * at once if it can, and need not wait for T if a barrier is faster. False if there are
 * none. Inside the gate, or with the inventory's lock.
 */
bool link_return_limbo(struct link *l, uint8_t cls);
/** The same with all blocks; false if there are none. With the inventory's lock. */
bool link_return_all(struct link *l);

/** Ask for a fresh version prefix if fewer than `low` are left; never waits. */
void link_ask_prefix(struct link *l, uint32_t low);

#endif
