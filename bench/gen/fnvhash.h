/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fnvhash.h - the hash by which YCSB spreads record numbers (Utils.fnvhash64):
 * FNV-1a over the eight octets, least significant first, then the absolute
 * value as a signed number. Worked example: 0 -> 6284781860667377211.
 */
#ifndef BENCH_GEN_FNVHASH_H
#define BENCH_GEN_FNVHASH_H

#include <stdint.h>

#include "common/base/util.h"

#define FNV64_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV64_PRIME UINT64_C(1099511628211)

#define FNV64_PRIME_2 (FNV64_PRIME * FNV64_PRIME)
#define FNV64_PRIME_4 (FNV64_PRIME_2 * FNV64_PRIME_2)

/*
 * The lowest `n` octets, a constant. Each step depends on the previous one, so their number
 * is the cost.
 */
IN_LINE uint64_t
fnv64_octets(uint64_t h, uint64_t octets, int n)
{
#pragma GCC unroll 8
	for (int i = 0; i < n; i++) {
		h ^= octets & 0xff;
		h *= FNV64_PRIME;
		octets >>= 8;
	}
	return h;
}

static inline uint64_t fnvhash64(uint64_t value)
{
	uint64_t h = fnv64_octets(FNV64_OFFSET, value, 4);

	/* Zero octets only multiply, so their steps are one product. */
	if (__builtin_expect(value <= UINT32_MAX, 1))
		h *= FNV64_PRIME_4;
	else
		h = fnv64_octets(h, value >> 32, 4);
	/* Java leaves -2^63 negative; here it becomes 2^63. Concerns one value in 2^64. */
	return (int64_t)h < 0 ? 0 - h : h;
}

#endif
