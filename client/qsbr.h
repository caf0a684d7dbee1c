/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * qsbr.h - quiescence counter (QSBR): shows the control thread when a handle's operations have
 * ended (I5), without a fence, a lock or a system call in those operations.
 *
 * The handle's thread adds 1 to `seq` when an operation begins and when it ends or starts to wait:
 * odd means that it is inside its critical section and may hold references to the region. The
 * control thread sets a pending flag, makes every thread of the process execute a full barrier
 * (membarrier(2)), then reads `seq`:
 *
 *   even: the next operation begins after the barrier, so it sees the flag before it
 *         uses anything it remembered;
 *   odd:  the operation may have missed the flag; wait until `seq` changes.
 *
 * Where membarrier(2) is missing, `fence` makes every begin execute a fence.
 *
 * A stopped handle. PENDING_SWEEP and PENDING_RECLAIM ask for work on data that the handle's thread
 * uses without a lock inside the critical section (inventory.h). Either thread may do it: the
 * handle's at its next begin, or the control thread if it reads an even `seq` after flag and
 * barrier, at once or later. Both hold the inventory's lock, do nothing if the flag is clear
 * already, and clear it when the work is done, before they unlock. So:
 *
 *   - an operation that begins after the barrier either sees the flag, and takes the lock
 *     before it continues, or sees it cleared, and with that, by acquire and release, all the
 *     work that was done before;
 *   - an even `seq` that the control thread read may be old when it has the lock; but an
 *     operation that has begun since must have seen the flag, and either waits for the lock
 *     or has done the work itself and cleared the flag;
 *   - the effects of a running operation precede its qsbr_leave(), which the control
 *     thread has seen.
 *
 * So a caller that gets false from qsbr_enter() must handle these flags before it uses the
 * inventory, inside or outside of the critical section.
 *
 * Writers: the handle's thread writes `seq`. The control thread writes `hits` before it unmaps the
 * tether: a running operation can use the page until qsbr_passed(), and one that begins later
 * counts elsewhere. The control thread sets `pending`, and the thread that did the work clears it;
 * `fence` is constant.
 */
#ifndef CLIENT_QSBR_H
#define CLIENT_QSBR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/atomic.h"
#include "common/proto/hits.h"

enum qsbr_pending_flag {
	PENDING_GRANTS = 1u << 0,    /* blocks or a version prefix have arrived */
	PENDING_DROP = 1u << 1,    /* a barrier: drop cached references */
	PENDING_RECLAIM = 1u << 2, /* the server asks for surplus blocks */
	PENDING_BROKEN = 1u << 3,  /* the session is over; stays set */
	PENDING_FORKED = 1u << 4,  /* this is a child of the opener; stays set */
	PENDING_SWEEP = 1u << 5,   /* a sweep began: record what is held */
};

struct qsbr {
	uint64_t seq;
	uint32_t pending; /* pending flags: enum qsbr_pending_flag */
	uint32_t fence; /* qsbr_enter() needs a full fence */
	/*
	 * Where the handle counts its gets and sets, inside the critical section only: the tether's
	 * page, or memory of the session or the handle. Never NULL.
	 */
	struct hits *hits;
};

/**
 * Begin an operation, or continue after a wait. False if flags are pending: then leave again,
 * handle them, and retry. Costs one store and one load.
 */
static inline bool qsbr_enter(struct qsbr *g)
{
	uint64_t seq = atom_load_relaxed(&g->seq) + 1;

	if (__builtin_expect(g->fence != 0, 0)) {
		(void)atom_exchange(&g->seq, seq);
	} else {
		atom_store_relaxed(&g->seq, seq);
		atom_compiler_barrier();
	}
	return __builtin_expect(atom_load_follow(&g->pending) == 0, 1);
}

/** The operation has ended, or waits and holds no reference. */
static inline void qsbr_leave(struct qsbr *g)
{
	atom_store_publish(&g->seq, atom_load_relaxed(&g->seq) + 1);
}

/** Where to count; inside the critical section. */
static inline struct hits *qsbr_hits(const struct qsbr *g)
{
	return atom_load_relaxed(&g->hits);
}

/** Set pending flags. Any thread. */
static inline void qsbr_set_pending(struct qsbr *g, uint32_t bits)
{
	atom_set_bits(&g->pending, bits);
}

/** Clear flags: before the work; for PENDING_SWEEP and PENDING_RECLAIM after it. */
static inline void qsbr_clear_pending(struct qsbr *g, uint32_t bits)
{
	atom_clear_bits(&g->pending, bits);
}

static inline uint32_t qsbr_pending(const struct qsbr *g)
{
	return atom_load_follow(&g->pending);
}

/** False if the handle's thread is quiescent. For the control thread. */
static inline bool qsbr_active(const struct qsbr *g)
{
	return atom_load_follow(&g->seq) % 2 != 0;
}

/** The count for a later qsbr_passed(). After the heavy barrier. */
static inline uint64_t qsbr_snapshot(const struct qsbr *g)
{
	return atom_load_follow(&g->seq);
}

/** True once every operation that ran at `mark` has ended. */
static inline bool qsbr_passed(const struct qsbr *g, uint64_t mark)
{
	return mark % 2 == 0 || atom_load_follow(&g->seq) != mark;
}

#endif
