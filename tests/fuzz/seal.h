/* SPDX-License-Identifier: BSD-3-Clause */
/** seal.h - corrects checksums, so that inputs reach the code after them. */
#ifndef TESTS_FUZZ_SEAL_H
#define TESTS_FUZZ_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/region/block.h"

/** Make the first bytes of a message of `len` >= MSG_HEADER_BYTES a header of this
 * type that its body fits. The request number stays. */
void seal_message(uint8_t *buf, size_t len, uint8_t type);

/** A message of this type whose body is `body`, at `buf`; returns its length. */
size_t seal_body(uint8_t *buf, size_t cap, uint8_t type, uint32_t req,
		 const void *body, size_t len);

/**
 * Correct both checksums of a block, whatever its header says, as far as they lie within
 * `have` bytes.
 */
void seal_block(uint8_t *block, size_t have, struct block_ref ref,
		uint64_t seed);

#endif
