/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

/* All that follows is for CPUs that have it. */
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
	return XXH3_64bits(data, len);
}

uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n)
{
	return hash_pieces_narrow(piece, n);
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
