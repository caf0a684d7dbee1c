/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport.h - the transport contract: lanes that READ, WRITE and CAS a region.
 *
 * A lane is one ordered channel from one thread to one region; only that thread uses it.
 * Requests are posted in chains. One post (one doorbell) carries any number of chains, and
 * any number of posts may be in flight. Posting never waits: the lane queues the requests
 * that do not fit and submits them when it is polled, so a caller must poll until its last
 * chain is done.
 *
 * Ordering: the requests of a lane execute at the region in posting order, except that a
 * WRITE or CAS may execute before an earlier READ or CAS has returned its result, unless it
 * carries XPORT_FENCE. The bytes of one READ or WRITE move in no particular order. A CAS
 * acts on 8 aligned bytes, atomically with every other CAS of the region's atomic domain
 * (I3).
 *
 * Completion: chains complete in posting order. A chain is done when its last request is;
 * xport_post() may complete chains before it returns.
 *
 * Failure: a broken lane stays broken. Every outstanding chain is then done with status
 * FARKV_EDISCONNECTED. Its requests before n_done were executed; the result of a WRITE or
 * CAS from n_done on is unknown.
 *
 * A transport knows nothing of index or layout.
 */
#ifndef COMMON_XPORT_XPORT_H
#define COMMON_XPORT_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/base/atomic.h"

/** Most requests in one chain: enough for [WRITE, READ, READ] or a probe of 4. */
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
	 * READ: destination. Its bytes are undefined until the chain is done, so no other
	 * request in flight may read into this memory, and no earlier one may write from
	 * it. WRITE: source; if it is the target itself (base + off of a DIRECT lane) the
	 * WRITE is counted, not copied. CAS: unused. Must be lane memory unless the lane
	 * has XPORT_ANY_MEM.
	 */
	void *laddr;
	uint64_t expect; /* CAS */
	uint64_t swap;   /* CAS */
	uint64_t found;  /* out, CAS: the previous value; swapped if == expect */
	/*
	 * Optional segment (SGE), on lanes with XPORT_SEGMENTS: bytes seg_at to seg_at +
	 * seg_len of a READ or WRITE are at `seg`; the bytes after them are at laddr +
	 * seg_at. The rules of laddr apply to `seg`, which may also be memory given to
	 * xport_mem_add(). A READ must have at least 8 bytes after its segment: a lane may
	 * use its last bytes to see that all have arrived. seg_len 0: no segment.
	 */
	void *seg;
	uint32_t seg_at, seg_len;
};

struct xport_chain {
	struct xport_wr wr[XPORT_CHAIN_MAX];
	uint8_t n;      /* requests in wr[] */
	uint8_t n_done; /* out: requests known to be executed */
	bool done;      /* out; cleared by xport_post() */
	int status;     /* out: 0, FARKV_EDISCONNECTED, or FARKV_EPERM if the device
			   denied access */
	uint64_t begun_ns; /* in: 0; out: clock_now_ns() when a chain that had to wait
			      was submitted */
	struct xport_chain *next; /* in: next chain of the same post; then the lane's
				     until the chain is done */
};

enum xport_caps {
	XPORT_DIRECT = 1u << 0,       /* base + off can be loaded from; post completes
					 the chains; lane memory is malloc(3)'s: it may
					 outlive the lane, and free(3) frees it */
	XPORT_DIRECT_STORE = 1u << 1, /* ... own unpublished blocks can be stored to */
	XPORT_READ8_ATOMIC = 1u << 2, /* aligned 8-byte words never tear in a READ */
	XPORT_ANY_MEM = 1u << 3,      /* laddr may be any memory */
	XPORT_READONLY = 1u << 4,     /* WRITE and CAS are refused */
	XPORT_SEGMENTS = 1u << 5,        /* requests may have a segment */
	XPORT_AT_ONCE = 1u << 6,      /* with DIRECT_STORE: the caller may replace a
					 WRITE by a copy to base + off and a CAS by one
					 there; the lane does not count those */
};

/** Requests as a network card counts them. Written by the lane's thread only. */
struct xport_counters {
	uint64_t reads, writes, cas;
	uint64_t read_bytes, write_bytes;
	uint64_t doorbells;
	uint64_t round_trips; /* counted by the caller that waits (index) */
	uint64_t registrations; /* memory registrations with the device */
};

struct xport_lane;

struct xport_ops {
	const char *name;
	int (*post)(struct xport_lane *lane, struct xport_chain *first);
	void (*poll)(struct xport_lane *lane);
	/* Both NULL: completions are seen only by polling. */
	int (*wait_fd)(const struct xport_lane *lane);
	void (*arm)(struct xport_lane *lane, bool on);
	void *(*mem_alloc)(struct xport_lane *lane, size_t bytes);
	void (*mem_free)(struct xport_lane *lane, void *mem, size_t bytes);
	/* All NULL: requests may use any memory, or only the lane's own. */
	int (*mem_add)(struct xport_lane *lane, void *mem, size_t bytes);
	void (*mem_remove)(struct xport_lane *lane, void *mem);
	bool (*mem_known)(const struct xport_lane *lane, const void *mem,
			  size_t bytes, enum xport_opcode use);
	void (*close)(struct xport_lane *lane);
};

/** The common part of every lane; the first member of each transport's own struct. */
struct xport_lane {
	const struct xport_ops *ops;
	uint32_t caps;          /* enum xport_caps */
	int broken;             /* 0, or the error that broke the lane; see
				   xport_break() */
	uint64_t region_bytes;  /* bound of every request */
	uint8_t *base;          /* XPORT_DIRECT: address of offset 0 */
	struct xport_counters counters;
};

/**
 * Post the chains linked from `first` with one doorbell. Each chain must stay in place
 * until it is done. Returns FARKV_EINVAL, or FARKV_EPERM for a write on a read-only lane,
 * and posts nothing, if a request is outside the region, misaligned, READs into memory of
 * another request of its chain, or has an invalid segment: a bug of the caller or a corrupt
 * region. On a broken lane returns 0 and the chains are done at once with the lane's
 * status.
 */
static inline int xport_post(struct xport_lane *lane, struct xport_chain *first)
{
	return lane->ops->post(lane, first);
}

/** Reap completions without waiting; on a broken lane every chain ends. */
static inline void xport_poll(struct xport_lane *lane)
{
	lane->ops->poll(lane);
}

/**
 * A descriptor that becomes readable when a chain completes after xport_arm(). It belongs
 * to the lane; use it with poll(2) only. -1: the lane has none and must be polled.
 */
static inline int xport_wait_fd(const struct xport_lane *lane)
{
	return lane->ops->wait_fd ? lane->ops->wait_fd(lane) : -1;
}

/**
 * `on`: the next completion makes xport_wait_fd() readable. An earlier completion may not,
 * so poll once more after arming and sleep only if no chain was done. Not `on`: clear the
 * descriptor without arming. A lane that cannot be armed breaks. Costs at most one device
 * request per completion waited for; nothing on lanes without the descriptor.
 */
static inline void xport_arm(struct xport_lane *lane, bool on)
{
	if (lane->ops->arm)
		lane->ops->arm(lane, on);
}

/** Memory for laddr, 64-byte aligned; NULL if there is none. */
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
 * Allow the segments of requests to lie in the caller's memory: `bytes` from `mem`, until
 * xport_mem_remove() with the same address or the lane's end. The pages must stay mapped until
 * then, and no request in flight may use them at removal. Memory that may only be read can be
 * the source of WRITEs. Registers the memory with the device, which is slow: not for the path
 * of an operation. Returns 0, FARKV_ENOTSUP (the lane has no segments), FARKV_ENOMEM (locked
 * memory), FARKV_ESYS.
 */
int xport_mem_add(struct xport_lane *lane, void *mem, size_t bytes);
void xport_mem_remove(struct xport_lane *lane, void *mem);

/**
 * True if these bytes may be the segment of a READ (they are written) or a WRITE (they are read).
 * Cheap enough for every request.
 */
static inline bool xport_mem_known(const struct xport_lane *lane, const void *mem,
				   size_t bytes, enum xport_opcode use)
{
	if (!(lane->caps & XPORT_SEGMENTS))
		return false;
	return lane->caps & XPORT_ANY_MEM ||
	       (lane->ops->mem_known && lane->ops->mem_known(lane, mem, bytes, use));
}

/**
 * Copy a request's bytes to or from one contiguous buffer of wr->len bytes, for transports
 * that need them in one piece.
 */
void xport_gather(const struct xport_wr *wr, void *to);
void xport_scatter(const struct xport_wr *wr, const void *from);

/** Close the lane and abandon outstanding chains. NULL is allowed. */
static inline void xport_close(struct xport_lane *lane)
{
	if (lane)
		lane->ops->close(lane);
}

/**
 * Break the lane; any thread. From now on every post ends with `err`. The next poll ends
 * all outstanding chains; after it the lane refers to none of them.
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
 * Check a post against the contract: bounds without overflow, alignment, rights, distinct
 * READ memory. Shared by the transports; returns 0, FARKV_EINVAL or FARKV_EPERM.
 */
int xport_check(const struct xport_lane *lane, const struct xport_chain *first);

/** For xport_check(): the segment lies within the request and the lane supports it. */
bool xport_segment_ok(const struct xport_lane *lane, const struct xport_wr *wr);
/** True if two READs or WRITEs use common local memory. */
bool xport_overlap(const struct xport_wr *a, const struct xport_wr *b);

/** For xport_check(): the READ at `i` reads into memory of an earlier request. */
static inline bool xport_reads_over(const struct xport_chain *c, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (c->wr[k].opcode != XPORT_CAS &&
		    xport_overlap(&c->wr[i], &c->wr[k]))
			return true;
	return false;
}

/** xport_check() of the request at `i`, without the bounds. */
static inline int xport_check_form(const struct xport_lane *lane,
				   const struct xport_chain *c, unsigned i)
{
	const struct xport_wr *wr = &c->wr[i];

	if (wr->seg_len && !xport_segment_ok(lane, wr))
		return FARKV_EINVAL;
	if (wr->opcode == XPORT_READ)
		return xport_reads_over(c, i) ? FARKV_EINVAL : 0;
	if (wr->opcode == XPORT_CAS && (wr->len != 8 || wr->off % 8 != 0))
		return FARKV_EINVAL;
	return lane->caps & XPORT_READONLY ? FARKV_EPERM : 0;
}

/**
 * Open a lane over memory mapped at `base` (region_bytes long), which the lane does not
 * own: the shared-memory transport, and tests over plain memory. NULL if out of memory.
 */
struct xport_lane *xport_shm_open(void *base, uint64_t region_bytes,
				  bool readonly);

/* ---- fault injection -------------------------------------------------------------- */

/**
 * Called before and after request `i` of `chain` executes on the inner lane, so that a test
 * can act as a concurrent client. A non-zero result breaks the lane there (before: the
 * request did not happen; after: it did, but the client does not learn it).
 */
typedef int (*xport_fault_hook)(void *arg, const struct xport_chain *chain,
				unsigned i, bool after);

struct xport_fault_config {
	uint64_t seed;
	uint32_t tear_ppm;     /* READs whose bytes are taken at two times */
	uint32_t delay_ppm;    /* chains that complete at a later poll; none on DIRECT
				  lanes */
	uint32_t delay_polls;  /* most polls such a chain is late */
	uint64_t break_at;     /* break before request number N (from 1); 0: never */
	bool lose_completion;  /* at break_at the request happens but its completion is
				  lost */
	bool hide_direct;      /* mask XPORT_DIRECT and what depends on it */
	bool at_once;          /* keep XPORT_AT_ONCE: such accesses bypass this lane */
	bool byte_tear;        /* mask XPORT_READ8_ATOMIC and tear inside words */
	void (*tear_gap)(void *arg); /* runs between the two halves of a torn READ */
	xport_fault_hook hook;
	void *arg;
};

/** Wrap `inner`, which the new lane owns. NULL if out of memory. */
struct xport_lane *xport_fault_open(struct xport_lane *inner,
				    const struct xport_fault_config *cfg);

#endif
