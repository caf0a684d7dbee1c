/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * spare.h - buffers that operations have given back, for those that need one next: of a
 * lane's memory, windows and blocks, these in powers of two of up to 64 KiB. To ask for
 * memory anew for each of a batch's values takes several times as long as to read them (doc/performance.md).
 *
 * They are linked by their own first bytes. One thread. They stay until spare_drop(), SPARE_KEEP at most.
 */
#ifndef COMMON_INDEX_SPARE_H
#define COMMON_INDEX_SPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/region/layout.h"
#include "common/xport/xport.h"

/** An operation's window: two images, and scratch words behind. */
#define SPARE_WINDOW ((size_t)2 * WINDOW_BYTES + LINE_BYTES)
/** The smallest of the others. */
#define SPARE_MIN ((size_t)512)
/** How many sizes there are, ... */
#define SPARE_SIZES 9u
/** ... and how much all that are kept may take. */
#define SPARE_KEEP ((size_t)4 << 20)

struct spare_entry {
	struct spare_entry *next;
};

/** Zeroed is empty. */
struct spare {
	struct spare_entry *first[SPARE_SIZES];
	size_t bytes;
};

/** One of just so many bytes; NULL if there is none. */
void *spare_take(struct spare *s, size_t bytes);

/** Keep it; false: that would be too much, or it is of no such size. */
bool spare_put(struct spare *s, void *mem, size_t bytes);

/** Give all of them back to the lane that they are of. */
void spare_drop(struct spare *s, struct xport_lane *lane);

#endif
