/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport.h - the transport contract: lanes that READ, WRITE and CAS a region.
 *
 * A lane is one ordered channel from one thread to one region. Requests are
 * posted in chains; a post (one doorbell) carries any number of chains, and any
 * number of posts may be under way. Posting never waits: what a lane cannot take
 * at once it keeps, and goes on with when it is polled. So who has posted polls
 * until the last chain is done, and nothing else is needed to get a post of any
 * length through.
 *
 * Ordering: the requests of a lane execute at the region in posting order,
 * except that a WRITE or CAS may overtake an earlier READ's or CAS's result
 * unless it carries XPORT_FENCE. Bytes of one READ or WRITE move in no order.
 * A CAS acts on 8 aligned bytes, atomically with regard to all CAS of the
 * region's atomic domain (I3).
 *
 * Completion: chains complete in posting order. A chain is done when its last
 * request is; xport_post() may complete chains before it returns.
 *
 * Failure: a lane that broke stays broken. Every chain outstanding is then done
 * with status FARKV_EDISCONNECTED; its requests before n_done are known to have
 * happened, the outcome of a WRITE or CAS from n_done on is unknown.
 *
 * A transport knows nothing of index or layout. Lanes are single-threaded.
 */
#ifndef COMMON_XPORT_H
#define COMMON_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "atomic.h"

/** Requests in one chain: enough for [WRITE, READ, READ] and a probe of 4. */
#define XPORT_CHAIN_MAX 6

enum xport_opcode { XPORT_READ, XPORT_WRITE, XPORT_CAS };

enum xport_wr_flags {
	XPORT_FENCE = 1u << 0, /* wait for earlier READ and CAS results first */
};

struct xport_wr {
	uint8_t opcode; /* enum xport_opcode */
	uint8_t flags;  /* enum xport_wr_flags */
	uint32_t len;   /* bytes; 8 for CAS */
	uint64_t off;   /* bytes from the region start; CAS: multiple of 8 */
	/*
	 * READ: where the bytes go; until the chain is done that memory may hold
	 * anything, so no other request under way may bring bytes there, nor may an
	 * earlier one take them from there. WRITE: where they come from; if that is
	 * the target itself (a DIRECT lane's base + off) the WRITE is counted, not
	 * copied. CAS: unused. Lane memory, unless the lane has XPORT_ANY_MEM.
	 */
	void *laddr;
	uint64_t expect; /* CAS */
	uint64_t swap;   /* CAS */
	uint64_t found;  /* out, CAS: the word before; swapped if == expect */
	/*
	 * On lanes with XPORT_PARTS: `part_len` bytes of a READ or WRITE, from its
	 * byte part_at on, stand at `part`, and those behind them at laddr + part_at.
	 * What is said of laddr holds for `part`, which may also be memory that
	 * xport_mem_add() took. A READ has 8 bytes or more behind its part: by its
	 * last bytes a lane may see that all have come. 0: there is no part.
	 */
	void *part;
	uint32_t part_at, part_len;
};

struct xport_chain {
	struct xport_wr wr[XPORT_CHAIN_MAX];
	uint8_t n;      /* requests in wr[] */
	uint8_t n_done; /* out: requests known to have happened */
	bool done;      /* out; cleared by xport_post() */
	int status;     /* out: 0, FARKV_EDISCONNECTED, or FARKV_EPERM if the
			   device refused a request for want of rights */
	uint64_t begun_ns; /* out, if the lane could not carry it out at once: when it
			      began (clock_now_ns()); in: 0 */
	struct xport_chain *next; /* in: next chain of the same post; from the
				     post on the lane's, until it is done */
};

enum xport_caps {
	XPORT_DIRECT = 1u << 0,       /* base + off may be loaded from; chains are
					 done when they are posted */
	XPORT_DIRECT_STORE = 1u << 1, /* ... and own unpublished blocks stored to */
	XPORT_READ8_ATOMIC = 1u << 2, /* aligned 8-byte words never tear in a READ */
	XPORT_ANY_MEM = 1u << 3,      /* laddr may be any memory */
	XPORT_READONLY = 1u << 4,     /* WRITE and CAS are refused */
	XPORT_PARTS = 1u << 5,        /* requests may have a part elsewhere */
	XPORT_AT_ONCE = 1u << 6,      /* with DIRECT_STORE: a copy to base + off is a
					 WRITE, and a CAS there a CAS; what they would
					 count is the caller's to count */
};

/** What a card would have seen. Plain fields: the lane's thread alone writes. */
struct xport_counters {
	uint64_t reads, writes, cas;
	uint64_t read_bytes, write_bytes;
	uint64_t doorbells;
	uint64_t round_trips; /* counted by who waits (index) */
	uint64_t registrations; /* of memory with the device */
};

struct xport_lane;

struct xport_ops {
	const char *name;
	int (*post)(struct xport_lane *lane, struct xport_chain *first);
	void (*poll)(struct xport_lane *lane);
	/* NULL both: only polls tell. */
	int (*wait_fd)(const struct xport_lane *lane);
	void (*arm)(struct xport_lane *lane, bool on);
	void *(*mem_alloc)(struct xport_lane *lane, size_t bytes);
	void (*mem_free)(struct xport_lane *lane, void *mem, size_t bytes);
	/* NULL all: requests may name any memory, or none but the lane's. */
	int (*mem_add)(struct xport_lane *lane, void *mem, size_t bytes);
	void (*mem_remove)(struct xport_lane *lane, void *mem);
	bool (*mem_known)(const struct xport_lane *lane, const void *mem,
			  size_t bytes);
	void (*close)(struct xport_lane *lane);
};

/** The part of a lane that every transport shares; embedded first in its own. */
struct xport_lane {
	const struct xport_ops *ops;
	uint32_t caps;          /* enum xport_caps */
	int broken;             /* 0, or the error that broke the lane; any thread
				   may set it by xport_break() */
	uint64_t region_bytes;  /* requests must end within */
	uint8_t *base;          /* XPORT_DIRECT: where offset 0 is mapped */
	struct xport_counters counters;
};

/**
 * Post the chains linked from `first` with one doorbell. Each chain must stay in place
 * until it is done. A request that does not lie within the region, is misaligned, READs
 * into memory of another of its chain, has a part that is not of its bytes or on a lane
 * without XPORT_PARTS, or writes on a read-only lane is the caller's bug or the region's
 * corruption: nothing is posted and FARKV_EINVAL (FARKV_EPERM) is returned. On a broken
 * lane the chains are done at once with its status; returns 0.
 */
static inline int xport_post(struct xport_lane *lane, struct xport_chain *first)
{
	return lane->ops->post(lane, first);
}

/** Reap completions without waiting: sets done and status of ended chains, on a broken lane
 * of all. */
static inline void xport_poll(struct xport_lane *lane)
{
	lane->ops->poll(lane);
}

/**
 * A descriptor that becomes readable when chains complete, once xport_arm() has asked
 * for it; the lane's own, for poll(2) only, until the lane is closed. -1: the lane has
 * none, and who waits must poll it.
 */
static inline int xport_wait_fd(const struct xport_lane *lane)
{
	return lane->ops->wait_fd ? lane->ops->wait_fd(lane) : -1;
}

/**
 * `on`: the next completion makes xport_wait_fd() readable. One that was there before
 * may not: so poll once more behind this, and sleep only if no chain was done. Without
 * `on`: what has made it readable is taken back, nothing is asked for. A lane that
 * cannot be armed breaks. Costs a request to the device, no more than one for each
 * completion that was waited for; nothing on lanes without the descriptor.
 */
static inline void xport_arm(struct xport_lane *lane, bool on)
{
	if (lane->ops->arm)
		lane->ops->arm(lane, on);
}

/** Memory that requests may name as laddr. 64-byte aligned; NULL if none. */
static inline void *xport_mem_alloc(struct xport_lane *lane, size_t bytes)
{
	return lane->ops->mem_alloc(lane, bytes);
}
static inline void xport_mem_free(struct xport_lane *lane, void *mem,
				  size_t bytes)
{
	if (mem)
		lane->ops->mem_free(lane, mem, bytes);
}

/**
 * Let the parts of requests lie in memory of the caller's: `bytes` from `mem` on,
 * whole pages, until xport_mem_remove() with the same address, or the lane's end;
 * no request may name it then. The pages must stay mapped as long as the lane knows
 * them. Registers them with the device: slow, so not on the way of an operation.
 * Returns 0, FARKV_ENOTSUP (the lane has no parts), FARKV_ENOMEM (locked memory),
 * FARKV_ESYS.
 */
int xport_mem_add(struct xport_lane *lane, void *mem, size_t bytes);
void xport_mem_remove(struct xport_lane *lane, void *mem);

/** May the part of a request be these bytes? Cheap enough for each request. */
static inline bool xport_mem_known(const struct xport_lane *lane,
				   const void *mem, size_t bytes)
{
	if (!(lane->caps & XPORT_PARTS))
		return false;
	return lane->caps & XPORT_ANY_MEM ||
	       (lane->ops->mem_known && lane->ops->mem_known(lane, mem, bytes));
}

/**
 * What a request's bytes are in one piece: for lanes that carry them otherwise.
 * `to` and `from` have wr->len bytes.
 */
void xport_gather(const struct xport_wr *wr, void *to);
void xport_scatter(const struct xport_wr *wr, const void *from);

/** Close the lane; chains outstanding are abandoned. NULL is allowed. */
static inline void xport_close(struct xport_lane *lane)
{
	if (lane)
		lane->ops->close(lane);
}

/**
 * Break the lane from any thread: from now on every post ends with `err`, and the next
 * poll ends all chains outstanding; behind it the lane knows none of them any more.
 */
static inline void xport_break(struct xport_lane *lane, int err)
{
	atom_store_relaxed(&lane->broken, err);
}
static inline int xport_broken(const struct xport_lane *lane)
{
	return atom_load_relaxed(&lane->broken);
}

/**
 * Check what is posted against the contract (bounds without overflow, alignment,
 * rights, memory of a READ's own). Shared by the transports; returns 0,
 * FARKV_EINVAL or FARKV_EPERM.
 */
int xport_check(const struct xport_lane *lane, const struct xport_chain *first);

/** Of xport_check(): is the request's part of its bytes, and does the lane take it? */
bool xport_part_ok(const struct xport_lane *lane, const struct xport_wr *wr);
/** Have the two of a chain, no compare-and-swaps, memory in common? */
bool xport_overlap(const struct xport_wr *a, const struct xport_wr *b);

/** Of xport_check(): does the READ at `i` bring bytes to memory of an earlier request? */
static inline bool xport_reads_over(const struct xport_chain *c, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (c->wr[k].opcode != XPORT_CAS &&
		    xport_overlap(&c->wr[i], &c->wr[k]))
			return true;
	return false;
}

/** All of xport_check() but the bounds, of the request at `i`. */
static inline int xport_check_form(const struct xport_lane *lane,
				   const struct xport_chain *c, unsigned i)
{
	const struct xport_wr *wr = &c->wr[i];

	if (wr->part_len && !xport_part_ok(lane, wr))
		return FARKV_EINVAL;
	if (wr->opcode == XPORT_READ)
		return xport_reads_over(c, i) ? FARKV_EINVAL : 0;
	if (wr->opcode == XPORT_CAS && (wr->len != 8 || wr->off % 8 != 0))
		return FARKV_EINVAL;
	return lane->caps & XPORT_READONLY ? FARKV_EPERM : 0;
}

/**
 * A lane over memory mapped at `base` (region_bytes long), for the shared-memory
 * transport and for tests over plain memory. Does not own the mapping.
 * NULL if out of memory.
 */
struct xport_lane *xport_shm_open(void *base, uint64_t region_bytes,
				  bool readonly);

/* ---- fault injection ------------------------------------------------------ */

/**
 * Called before and after request `i` of `chain` executes on the inner lane:
 * the place where a test plays the rival. Returning non-zero breaks the lane
 * there (before: the request did not happen; after: it did, but nobody knows).
 */
typedef int (*xport_fault_hook)(void *arg, const struct xport_chain *chain,
				unsigned i, bool after);

struct xport_fault_config {
	uint64_t seed;
	uint32_t tear_ppm;     /* READs whose bytes are taken at two moments */
	uint32_t delay_ppm;    /* chains that complete only at a later poll; none where
				  the mapping is handed out */
	uint32_t delay_polls;  /* ... how many polls later, at most */
	uint64_t break_at;     /* break before request number N (from 1); 0 never */
	bool lose_completion;  /* break_at: the request happens, its completion is lost */
	bool hide_direct;      /* mask XPORT_DIRECT and all that goes with it */
	bool at_once;          /* leave XPORT_AT_ONCE: what is done so is not seen here */
	bool byte_tear;        /* mask XPORT_READ8_ATOMIC and tear inside words */
	void (*tear_gap)(void *arg); /* runs between the two halves of a torn READ */
	xport_fault_hook hook;
	void *arg;
};

/** Wrap `inner`, which the new lane owns. NULL if out of memory. */
struct xport_lane *xport_fault_open(struct xport_lane *inner,
				    const struct xport_fault_config *cfg);

#endif
