/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_long.h - XXH3 by vectors of 32 bytes, for a CPU that has AVX2: xxHash's own code, whose
 * vectors have 16 where a program is built for any x86-64. What is shorter than 241 bytes
 * comes to the same either way.
 *
 * 289 bytes that are at rest (a value of 256 with its key) take 20 ns in place of 31, 1064 take
 * 37 in place of 83 (AMD EPYC, Zen 5); on a processor that QEMU emulates 0.4 us in place of
 * 0.85, and 1.3 in place of 2.8. What was stored a moment ago, 16 bytes at a time, may have
 * to be waited for: still, by turns, a GET of 256 bytes takes 0.87 and 0.90 of the time and one
 * of 1000 takes 0.77 and 0.78. PUTs differ less than runs of one build do.
 */
#ifndef COMMON_HASH_LONG_H
#define COMMON_HASH_LONG_H

#include <stddef.h>
#include <stdint.h>

/** Up to so many bytes XXH3 has no use for vectors of its own. */
#define HASH_LONG_ABOVE 240u

struct hash_piece;

/** XXH3_64bits(), of any length and alignment. Only if cpu_has_avx2(). */
uint64_t hash_long(const void *data, size_t len);

/** The same of pieces (hash_pieces()). */
uint64_t hash_long_pieces(const struct hash_piece *piece, unsigned n);

#endif
