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
 * Writers: `seq` the handle's thread; `alert` the control thread sets bits, the
 * handle's thread clears those it has seen to; `fence` is constant.
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
	return __builtin_expect(atom_load_relaxed(&g->alert) == 0, 1);
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

/** Take alerts down before seeing to them. The handle's thread. */
static inline void gate_lower(struct gate *g, uint32_t bits)
{
	atom_clear_bits(&g->alert, bits);
}

static inline uint32_t gate_alerts(const struct gate *g)
{
	return atom_load_relaxed(&g->alert);
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
