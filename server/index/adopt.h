/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * adopt.h - the books of a region that another server made: page map, directory and slots give
 * the heap, the slab and the number of subtables (doc/restart.md).
 *
 * Clients of that server may go on reading and writing slots and blocks meanwhile.
 */
#ifndef SERVER_INDEX_ADOPT_H
#define SERVER_INDEX_ADOPT_H

#include <stdbool.h>

#include "server/memory/region.h"
#include "server/memory/slab.h"

/**
 * Fill r->heap, r->subtables and `slab`, which are empty; finish a publication that was
 * interrupted. Every block is out; pages of subtables that the directory does not name are retired:
 * a sweep and a barrier are due. With `verify` every block is read, too, and verified.
 *
 * 0; FARKV_EFORMAT if page map, directory and slots do not fit together, or a block is damaged, and
 * FARKV_ENOMEM, each with a detail. Time: some ns per slot.
 */
int adopt_region(struct region *r, struct slab *slab, bool verify);

/** True if a slot of the subtable that `entry` names is FROZEN: its migration was interrupted. */
bool adopt_is_frozen(const struct region *r, uint64_t entry);

#endif
