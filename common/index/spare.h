/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * spare.h - free buffers of lane memory for the next operations: windows, and block buffers in
 * powers of two up to 64 KiB. Allocating memory for each value of a batch would take several times
 * as long as reading it.
 *
 * They are linked through their first bytes, and stay until spare_drop(), SPARE_KEEP bytes at most.
 * One thread.
 */
#ifndef COMMON_INDEX_SPARE_H
#define COMMON_INDEX_SPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/region/layout.h"
#include "common/xport/xport.h"

/** Bytes of an operation's window: two images, then scratch words. */
#define SPARE_WINDOW ((size_t)2 * WINDOW_BYTES + LINE_BYTES)
/** Bytes of the smallest block buffer. */
#define SPARE_MIN ((size_t)512)
/** Number of sizes. */
#define SPARE_SIZES 9u
/** Most bytes that are kept in all. */
#define SPARE_KEEP ((size_t)4 << 20)

struct spare_entry {
	struct spare_entry *next;
};

/** Zeroed is empty. */
struct spare {
	struct spare_entry *first[SPARE_SIZES];
	size_t bytes;
};

/** A buffer of exactly `bytes`; NULL if there is none. */
void *spare_take(struct spare *s, size_t bytes);

/** Keep `mem`. False: SPARE_KEEP would be exceeded, or there is no such size. */
bool spare_put(struct spare *s, void *mem, size_t bytes);

/** Free all buffers to `lane`, from which they were allocated. */
void spare_drop(struct spare *s, struct xport_lane *lane);

#endif
