/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_long.h - xxHash's own code compiled for AVX2. A program built for any x86-64 has vectors of
 * 16 bytes only. Images of up to HASH_COPY_MAX bytes use no vectors.
 *
 * A GET of a value of 1000 bytes over shared memory takes 1400 instructions, instead of 2100.
 */
#ifndef COMMON_REGION_HASH_LONG_H
#define COMMON_REGION_HASH_LONG_H

#include <stddef.h>
#include <stdint.h>

struct hash_piece;

/** XXH3_64bits(), of any length and alignment. Only if cpu_has_avx2(). */
uint64_t hash_long(const void *data, size_t len);

/** The same for pieces (hash_pieces()). */
uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n);

#endif
