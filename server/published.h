/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * published.h - does the index name a block? Checked for returned blocks.
 *
 * The allocator knows which blocks are out, but not which session has them, for clients take
 * over the blocks that they unlink. So a client could return a block of another session, and
 * it would be granted to a third while a slot still names it. The block's own key leads to
 * the slot, if there is one.
 */
#ifndef SERVER_PUBLISHED_H
#define SERVER_PUBLISHED_H

#include <stdbool.h>

#include "common/layout.h"
#include "region.h"

/**
 * True if a slot in its key's window names the block of class ref.cls at ref.off with its
 * present content; false also if the block is not intact. It must lie in the data area. Cost:
 * two or three cache misses and the hash of its key; adds the bytes read to *read.
 */
bool published(const struct region *r, struct block_ref ref, size_t *read);

#endif
