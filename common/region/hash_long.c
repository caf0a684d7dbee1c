/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AVX2 is enabled by a pragma and not by attributes, because the functions are xxHash's. The
 * headers that xxHash includes come first: they are for any CPU, and clang rejects their intrinsics
 * otherwise.
 */
#include "config.h"

#include "hash_long.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/cpu.h"

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
