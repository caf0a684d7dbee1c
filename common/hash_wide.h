/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_wide.h - the first 128 bytes of hash_mid(), by vectors of 32 bytes: what a CPU with
 * AVX2 does in place of hash_mid.h's eight products.
 *
 * A product of 64 bits has four of 32 in it, and a vector takes four of these at once: 61
 * instructions in place of 77 that wait for the data (with the copy; GCC 12), and all of them
 * where vectors wait. A GET of 100 bytes from a million takes 0.80 to 0.90 of the time (AMD
 * EPYC, Zen 5, by turns on a busy host). Vectors of 64 bytes, on CPUs that have them, made it
 * 5 % faster on one day and 10 % slower on another.
 */
#ifndef COMMON_HASH_WIDE_H
#define COMMON_HASH_WIDE_H

#include <stdint.h>

/** So many bytes have sixteen words of the secret for them. */
#define HASH_WIDE_BYTES 128u

/**
 * The sum of the eight folded products of the first HASH_WIDE_BYTES. Any alignment. Only if
 * cpu_has_avx2().
 */
uint64_t hash_wide_head(const uint8_t *data);

/**
 * The same of what was copied to `to`, whoever else writes to `from`: each byte is loaded
 * once. They do not overlap.
 */
uint64_t hash_wide_head_copy(uint8_t *to, const uint8_t *from);

#endif
