/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All of hash.h, and so of xxHash, once more for AVX2. That is asked for by pragma and not
 * function by function, as in hash_wide.c, since the functions are xxHash's. What they
 * include comes first: it is for any CPU, and clang would take its intrinsics amiss.
 */
#include "config.h"

#include "hash_long.h"

#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR XXH_AVX2
#endif

#include "hash.h"

uint64_t hash_long(const void *data, size_t len)
{
	return cpu_without_uppers(XXH3_64bits(data, len));
}

uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n)
{
	return cpu_without_uppers(hash_pieces_narrow(piece, n));
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
