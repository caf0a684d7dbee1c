/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inventory.h - all blocks that a session owns and that lie in no operation's hands:
 * the allocator's, those on their way back to the server, and the journal of what
 * was here since a sweep began. Sessions that may write have one.
 *
 * Two threads touch it, and the handle's takes no lock for it on the fast path:
 *
 *   the handle's thread, inside the gate, without the lock;
 *   the handle's thread outside of the gate, with the lock;
 *   the control thread, with the lock, after it raised GATE_SWEEP or GATE_RECLAIM
 *   and found the gate even, and only if the alert is still up.
 *
 * gate.h argues why that is enough. An operation that waits has left the gate and
 * holds no block, so what is not here is published or in a running operation.
 *
 * The lock is held for work of bounded length only, never while waiting for the
 * server. Order of locks: inventory, session, journal.
 */
#ifndef CLIENT_INVENTORY_H
#define CLIENT_INVENTORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/alloc.h"
#include "common/journal.h"

/* Blocks in one RETURN. */
#define INVENTORY_RETURN_MAX 256u

struct inventory {
	pthread_mutex_t lock;
	struct alloc *alloc;
	struct journal *journal; /* has a lock of its own */
	/* Blocks on their way back that the socket had no room for yet. */
	struct block_ref ret[INVENTORY_RETURN_MAX];
	size_t n_ret;
	enum alloc_state ret_state;
	uint32_t returns; /* RETURNs that were sent */
};

/** An empty one. NULL if out of memory. */
struct inventory *inventory_new(uint64_t grace_ns, uint64_t region_bytes);
/** NULL is allowed; fine in a child of fork(). */
void inventory_free(struct inventory *inv);

static inline void inventory_lock(struct inventory *inv)
{
	pthread_mutex_lock(&inv->lock);
}

static inline void inventory_unlock(struct inventory *inv)
{
	pthread_mutex_unlock(&inv->lock);
}

/** Put everything that is here into the journal, and what comes from now on. */
void inventory_record(struct inventory *inv);

/**
 * See that ret[] names blocks to give back, if there are any: `all` that are here,
 * or surplus. The caller sends them and calls inventory_sent(). False if there are none.
 */
bool inventory_pick(struct inventory *inv, bool all);

/** ret[] has been sent. */
void inventory_sent(struct inventory *inv);

#endif
