/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * published.h - does the index name a block? Asked of blocks that come back.
 *
 * The allocator knows which blocks are out, not who has them: clients take over what
 * they unlink. So a client could return another's block, and it would be granted to a
 * third while a key's slot still names it. A block says whose it is: by its key its
 * slot is found, if it has one.
 */
#ifndef SERVER_PUBLISHED_H
#define SERVER_PUBLISHED_H

#include <stdbool.h>

#include "common/layout.h"
#include "region.h"

/**
 * True if a slot of its key's window names the block that starts at ref.off, of class
 * ref.cls, with the content that it has now; false also if it has none that is intact.
 * The block must lie in the data area. Cost: two or three cache misses, and a look at
 * its key; how many bytes of the block were read is added to *read.
 */
bool published(const struct region *r, struct block_ref ref, size_t *read);

#endif
