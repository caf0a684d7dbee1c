/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * gate.h - how the control thread learns that a handle's operations are over
 * (I5) without costing those operations a fence, a lock or a system call.
 *
 * The handle's thread adds 1 to `seq` when an operation begins and when it ends
 * or starts to wait: odd means that it may hold references to the region. The
 * control thread raises an alert, then makes every thread of the process pass a
 * full barrier (membarrier(2)), then reads `seq`:
 *   even: the next operation begins after the barrier, so it sees the alert
 *         before it uses anything it remembered;
 *   odd:  the operation may have missed the alert; wait until `seq` changes.
 * Where membarrier(2) is missing, `fence` makes every begin pay for one.
 *
 * A stopped handle. GATE_SWEEP and GATE_RECLAIM ask for work on what the handle's
 * thread uses inside the gate without a lock (inventory.h). Either thread may do it,
 * whichever comes first: the handle's, at its next begin, or the control thread, if
 * it reads an even `seq` after alert and barrier, at once or at any later time. Both
 * hold the inventory's lock, do nothing if the alert is down already, and take it
 * down when the work is done, before they unlock. So:
 *   - who begins after the barrier either sees the alert, and then takes the lock
 *     before it goes on inside the gate, or sees that it was taken down, and with
 *     that, by acquire and release, all that was done before;
 *   - an even `seq` that the control thread read may be old by the time it has the
 *     lock; but who has begun since must have seen the alert, and either waits for
 *     the lock or has done the work itself: the alert is down;
 *   - what a running operation does comes before its gate_leave(), which the
 *     control thread has seen.
 * Whoever gets false from gate_enter() must therefore see to these alerts before
 * it touches the inventory, inside the gate or out.
 *
 * Writers: `seq` the handle's thread; `alert` the control thread sets bits, who has
 * seen to them clears them; `fence` is constant.
 */
#ifndef CLIENT_GATE_H
#define CLIENT_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/atomic.h"

enum gate_alert {
	GATE_MAIL = 1u << 0,    /* blocks or a version prefix have arrived */
	GATE_DROP = 1u << 1,    /* a barrier: forget cached references */
	GATE_RECLAIM = 1u << 2, /* the server asks for surplus blocks */
	GATE_BROKEN = 1u << 3,  /* the session is over; stays set */
	GATE_FORKED = 1u << 4,  /* this is a child of the opener; stays set */
	GATE_TIDY = 1u << 5,    /* the handle's own: a batch left large buffers */
	GATE_SWEEP = 1u << 6,   /* a sweep began: record what is held */
};

struct gate {
	uint64_t seq;
	uint32_t alert; /* enum gate_alert */
	uint32_t fence; /* begin with a full fence */
};

/**
 * Begin an operation, or go on after a wait. False if alerts are up: then leave
 * again, see to them, and retry. Costs one store and one load.
 */
static inline bool gate_enter(struct gate *g)
{
	uint64_t seq = atom_load_relaxed(&g->seq) + 1;

	if (__builtin_expect(g->fence != 0, 0)) {
		(void)atom_exchange(&g->seq, seq);
	} else {
		atom_store_relaxed(&g->seq, seq);
		atom_compiler_barrier();
	}
	return __builtin_expect(atom_load_follow(&g->alert) == 0, 1);
}

/** The operation is over, or waits and holds no reference any more. */
static inline void gate_leave(struct gate *g)
{
	atom_store_publish(&g->seq, atom_load_relaxed(&g->seq) + 1);
}

/** Raise an alert. Any thread. */
static inline void gate_raise(struct gate *g, uint32_t bits)
{
	atom_set_bits(&g->alert, bits);
}

/** Take alerts down: before seeing to them; GATE_SWEEP and GATE_RECLAIM after it. */
static inline void gate_lower(struct gate *g, uint32_t bits)
{
	atom_clear_bits(&g->alert, bits);
}

static inline uint32_t gate_alerts(const struct gate *g)
{
	return atom_load_follow(&g->alert);
}

/** False if the handle's thread is outside of the gate. For the control thread. */
static inline bool gate_occupied(const struct gate *g)
{
	return atom_load_follow(&g->seq) % 2 != 0;
}

/** The count to compare with gate_passed() later. After the heavy barrier. */
static inline uint64_t gate_mark(const struct gate *g)
{
	return atom_load_follow(&g->seq);
}

/** True once every operation that was running at `mark` is over. */
static inline bool gate_passed(const struct gate *g, uint64_t mark)
{
	return mark % 2 == 0 || atom_load_follow(&g->seq) != mark;
}

#endif
