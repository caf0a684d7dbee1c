/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inventory.h - all blocks that a session owns and no operation holds: the allocator's, those to be
 * returned to the server, and the journal of blocks held since a sweep began. Sessions that may
 * write have one.
 *
 * Two threads use it, and the handle's thread takes no lock for it on the fast path:
 *
 *   the handle's thread inside the critical section (qsbr.h), without the lock;
 *   the handle's thread outside of it, with the lock;
 *   the control thread, with the lock, after it set PENDING_SWEEP or PENDING_RECLAIM and found the
 *   counter even, and only if the flag is still set.
 *
 * qsbr.h shows why that is enough. An operation that waits has left the critical section and holds
 * no block, so a block that is not here is published or held by a running operation.
 *
 * The lock is held for work of bounded length, never while waiting for the server. Order of locks:
 * inventory, session, journal.
 */
#ifndef CLIENT_INVENTORY_H
#define CLIENT_INVENTORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/index/alloc.h"
#include "common/index/journal.h"

/* Blocks in one RETURN. */
#define INVENTORY_RETURN_MAX 256u

struct inventory {
	pthread_mutex_t lock;
	struct alloc *alloc;
	struct journal *journal; /* has its own lock */
	/* Blocks to be returned that the socket had no room for yet. */
	struct block_ref ret[INVENTORY_RETURN_MAX];
	size_t n_ret;
	enum return_kind ret_state;
	uint32_t returns; /* RETURNs sent */
};

/** NULL if out of memory. */
struct inventory *inventory_new(uint64_t grace_ns, uint64_t region_bytes);
/** NULL is allowed; also in a child of fork(). */
void inventory_free(struct inventory *inv);

static inline void inventory_lock(struct inventory *inv)
{
	pthread_mutex_lock(&inv->lock);
}

static inline void inventory_unlock(struct inventory *inv)
{
	pthread_mutex_unlock(&inv->lock);
}

/** Add all blocks to the journal, and from now on every block that arrives. */
void inventory_record(struct inventory *inv);

/**
 * Fill ret[], unless it is filled already, with blocks to return: `all`, or surplus ones. The
 * caller sends them and calls inventory_sent(). False if there are none.
 */
bool inventory_pick(struct inventory *inv, bool all);

/** ret[] has been sent. */
void inventory_sent(struct inventory *inv);

#endif
