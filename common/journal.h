/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * journal.h - the blocks that a session held at any moment since a sweep began.
 *
 * A set that only grows, from journal_begin() to journal_end(); in between it may
 * grow on one thread while another looks something up. A set that would become too
 * large, or finds no memory, holds every block from then on: nothing that is in use
 * is ever denied, and what leaked is found by a later sweep.
 *
 * Memory: 16 to 32 bytes a block, 64 MiB at most, nothing while it is off.
 * Growing never moves what is there: no addition takes long.
 */
#ifndef COMMON_JOURNAL_H
#define COMMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/** Blocks that are remembered one by one. */
#define JOURNAL_MAX ((UINT32_C(4) << 20) - 2048)

struct journal;

/** Off. NULL if out of memory. */
struct journal *journal_new(void);
void journal_free(struct journal *j);

/** Begin to remember, for the sweep `number`; what was known is forgotten. */
void journal_begin(struct journal *j, uint64_t number);
/** Forget everything, remember no more. */
void journal_end(struct journal *j);

/** Remember a block; its incarnation does not matter. False if the journal is off. */
bool journal_add(struct journal *j, struct block_ref ref);

/**
 * Of refs[0..n-1] keep those in the set of the sweep `number`, in order; returns how
 * many. All if the set is too large, none if another sweep is on, or none.
 */
size_t journal_filter(struct journal *j, uint64_t number,
		      struct block_ref *refs, size_t n);

/** The sweep that is on; false if there is none. */
bool journal_sweep(struct journal *j, uint64_t *number_out);

/** True if the set is on and holds more than it can name. */
bool journal_overflown(struct journal *j);

/**
 * The set of the sweep `number` piece by piece: up to `cap` blocks, incarnation 0,
 * from *cursor on, which starts at 0. Returns 0 at the end, and when that sweep is
 * over. Some may come twice.
 */
size_t journal_next(struct journal *j, uint64_t number, uint64_t *cursor,
		    struct block_ref *refs, size_t cap);

#endif
