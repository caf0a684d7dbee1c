/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * backoff.h - randomized exponential backoff of a writer that lost a compare-and-swap,
 * where the region is mapped.
 *
 * Each try at a slot that another CPU writes takes the slot's cache line from the winner,
 * and costs both. A loser therefore spins for a random time below a bound, and each loss
 * doubles the bound (T. E. Anderson, "The performance of spin lock alternatives for
 * shared-memory multiprocessors", IEEE TPDS 1(1), 1990). Writes that are not lost halve it
 * again. By RDMA nobody spins: a round trip is wait enough.
 *
 * A write that succeeds at once touches none of this: how many there were follows from the
 * count of versions, which each write draws anyway. Not thread-safe: one for each session.
 */
#ifndef COMMON_BACKOFF_H
#define COMMON_BACKOFF_H

#include <stdint.h>

#include "atomic.h"
#include "util.h"

/** Bounds in spins; PAUSE takes 3 to 50 ns, depending on the CPU. */
#define BACKOFF_MIN 16u
#define BACKOFF_MAX 512u
/** Writes since the last loss that halve the bound. */
#define BACKOFF_CALM 16u

/** Zeroed at first. */
struct backoff {
	uint64_t random; /* state of a xorshift generator */
	uint32_t bound;  /* of the next wait */
	uint32_t writes; /* their count at the last loss */
};

/** The bound of the next wait of a session that has done `writes` writes. */
static inline uint32_t backoff_bound(const struct backoff *b, uint32_t writes)
{
	uint32_t halvings = UTIL_MIN((writes - b->writes) / BACKOFF_CALM, 31u);

	return UTIL_MAX(b->bound >> halvings, BACKOFF_MIN);
}

/**
 * Spin after a lost compare-and-swap, for some microseconds at most. `writes`: the
 * session's count of writes, modulo 2^32; `seed` makes sessions differ.
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
