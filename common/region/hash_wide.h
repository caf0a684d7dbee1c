/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hash_wide.h - the first 128 bytes of hash_copy() by AVX2.
 *
 * Eight 64-bit products wait for the block in the CPU's integer queue and keep the next
 * operation's loads out of it; vectors wait in a queue of their own. kvbench limit, GET:
 * doc/performance.md has the ratio.
 */
#ifndef COMMON_REGION_HASH_WIDE_H
#define COMMON_REGION_HASH_WIDE_H

#include <stdint.h>

/** Bytes that hash_wide_copy() copies and mixes. */
#define HASH_WIDE_BYTES 128u

/**
 * Copy HASH_WIDE_BYTES, each loaded once, and return the sum of XXH3_mix16B() of each 16 of
 * them with the default secret. Any alignment, no overlap. Needs cpu_has_avx2().
 */
uint64_t hash_wide_copy(uint8_t *to, const uint8_t *from);

#endif
