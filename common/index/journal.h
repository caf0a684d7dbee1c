/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * journal.h - the blocks that a session held at any time since a sweep began.
 *
 * A set that only grows from journal_begin() to journal_end(); one thread may add while another
 * looks up. When the set gets too large or finds no memory, every block counts as a member: no
 * block in use is lost, and a later sweep finds the leaked ones.
 *
 * Memory: 16 to 32 bytes per block, at most 64 MiB, none while the journal is off. Entries never
 * move, so no addition takes long.
 */
#ifndef COMMON_INDEX_JOURNAL_H
#define COMMON_INDEX_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/layout.h"

/** Most blocks that are stored individually. */
#define JOURNAL_MAX ((UINT32_C(4) << 20) - 2048)

struct journal;

/** A journal that is off. NULL if out of memory. */
struct journal *journal_new(void);
void journal_free(struct journal *j);

/** Clear the set and start to record for the sweep `number`. */
void journal_begin(struct journal *j, uint64_t number);
/** Clear the set and stop recording. */
void journal_end(struct journal *j);

/** Add a block of any incarnation. False if the journal is off. */
bool journal_add(struct journal *j, struct block_ref ref);

/**
 * Keep those of refs[0..n-1] that are in the set of the sweep `number`, in order; returns how many.
 * Keeps all if the set overflowed, none if that sweep is not being recorded.
 */
size_t journal_filter(struct journal *j, uint64_t number,
		      struct block_ref *refs, size_t n);

/** The number of the sweep that is being recorded; false if there is none. */
bool journal_sweep(struct journal *j, uint64_t *number_out);

/** True if the journal is on and its set overflowed, so that every block is a member. */
bool journal_overflowed(struct journal *j);

/**
 * Read the set of the sweep `number` piece by piece: up to `cap` blocks, with incarnation 0, from
 * *cursor on (initially 0). Returns 0 at the end, and if that sweep is over. Some blocks come
 * twice.
 */
size_t journal_next(struct journal *j, uint64_t number, uint64_t *cursor,
		    struct block_ref *refs, size_t cap);

#endif
