/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fnvhash.h - the hash by which YCSB spreads record numbers (Utils.fnvhash64):
 * FNV-1a over the eight octets, least significant first, then the absolute
 * value as a signed number. Worked example: 0 -> 6284781860667377211.
 */
#ifndef BENCH_FNVHASH_H
#define BENCH_FNVHASH_H

#include <stdint.h>

#define FNV64_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV64_PRIME UINT64_C(1099511628211)

static inline uint64_t fnvhash64(uint64_t value)
{
	uint64_t h = FNV64_OFFSET;

	for (int i = 0; i < 8; i++) {
		h ^= value & 0xff;
		h *= FNV64_PRIME;
		value >>= 8;
	}
	/* Java leaves -2^63 as it is; here it becomes +2^63. One value in
	 * 2^64 could show the difference. */
	return (int64_t)h < 0 ? 0 - h : h;
}

#endif
