/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * modulo.h - remainders by a fixed number, by two products instead of a division, which the
 * CPU cannot overlap.
 *
 * For n <= 2^63 and 2 <= d, with l the least number for which d <= 2^l, and m =
 * ceil(2^(63+l) / d): floor(n / d) is floor(n * m / 2^(63+l)), because m is too large by
 * less than 1, so n * m by less than 2^63 <= 2^(63+l) / d. (T. Granlund, P. Montgomery,
 * "Division by invariant integers using multiplication", PLDI 1994, theorem 4.2; one bit
 * less here, so m fits into 64 bits for every d.)
 */
#ifndef BENCH_GEN_MODULO_H
#define BENCH_GEN_MODULO_H

#include <stdint.h>

struct modulo {
	uint64_t by;
	uint64_t factor; /* m */
	unsigned shift;  /* l - 1 */
};

/** `by` is 1..2^63. */
static inline void modulo_init(struct modulo *m, uint64_t by)
{
	unsigned __int128 one = 1;

	m->by = by;
	m->shift = by > 2 ? 63 - (unsigned)__builtin_clzll(by - 1) : 0;
	m->factor = by > 1 ? (uint64_t)(((one << (64 + m->shift)) + by - 1) / by)
			   : 0;
}

/** n % by, for n up to 2^63. */
static inline uint64_t modulo_of(const struct modulo *m, uint64_t n)
{
	uint64_t high = (uint64_t)(((unsigned __int128)n * m->factor) >> 64);

	return __builtin_expect(m->by > 1, 1) ? n - (high >> m->shift) * m->by
					      : 0;
}

#endif
