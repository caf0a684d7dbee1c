/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * backoff.h - randomized exponential backoff of a writer that lost a compare-and-swap on
 * mapped memory.
 *
 * Each attempt on a slot that another CPU writes takes the slot's cache line from the
 * winner and slows both. A loser therefore spins for a random time below a bound, and each
 * loss doubles the bound (T. E. Anderson, "The performance of spin lock alternatives for
 * shared-memory multiprocessors", IEEE TPDS 1(1), 1990). Successful writes halve it again.
 * Over RDMA writers do not spin: a round trip is delay enough.
 *
 * A write that succeeds at once does not touch this state: the session's count of versions
 * tells how many there were. Not thread-safe; one per session.
 */
#ifndef COMMON_BASE_BACKOFF_H
#define COMMON_BASE_BACKOFF_H

#include <stdint.h>

#include "atomic.h"
#include "util.h"

/** Bounds in iterations of the spin loop; its PAUSE takes 3 to 50 ns, depending on the CPU. */
#define BACKOFF_MIN 16u
#define BACKOFF_MAX 512u
/** The bound halves after this many writes since the last loss. */
#define BACKOFF_CALM 16u

/** Initially zero. */
struct backoff {
	uint64_t random; /* state of a xorshift generator */
	uint32_t bound;  /* of the next wait, in spins */
	uint32_t writes; /* the session's writes at the last loss */
};

/** The bound of the next wait after `writes` writes of the session. */
static inline uint32_t backoff_bound(const struct backoff *b, uint32_t writes)
{
	uint32_t halvings = UTIL_MIN((writes - b->writes) / BACKOFF_CALM, 31u);

	return UTIL_MAX(b->bound >> halvings, BACKOFF_MIN);
}

/**
 * Spin after a lost compare-and-swap, at most some microseconds. `writes`: the session's
 * count of writes, modulo 2^32; `seed` differs between sessions.
 */
static inline void backoff_wait(struct backoff *b, uint32_t writes, uint64_t seed)
{
	uint32_t bound = backoff_bound(b, writes);

	if (!b->random)
		b->random = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	for (uint32_t n = (uint32_t)(b->random >> 32) % bound; n > 0; n--)
		atom_spin_hint();
	b->bound = UTIL_MIN(bound * 2, BACKOFF_MAX);
	b->writes = writes;
}

#endif
