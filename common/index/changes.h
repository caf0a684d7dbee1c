/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/changes.h - the keys whose slot words differ from those of the pass before, in the order of
 * hashes. doc/cluster.md, "Followers and moves: the rules", has the rule.
 *
 * A pass remembers the words of each subtable, 8 bytes a slot. In the same subtable a slot stays its
 * key's (I1), and an unchanged word names an unchanged content, unless the incarnations of its block
 * restarted at 0 meanwhile: the caller names the pages of such blocks. A subtable without remembered
 * words is listed whole: the first pass, a split, a compaction.
 */
#ifndef COMMON_INDEX_CHANGES_H
#define COMMON_INDEX_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index;
struct index_changes;

/** Some 500 KiB; from the first pass on also 8 bytes for each slot of the index. NULL: no memory. */
struct index_changes *index_changes_new(void);
/** NULL is allowed. */
void index_changes_free(struct index_changes *c);

/** Begin a pass, compared with the one before. */
void index_changes_begin(struct index_changes *c);

/**
 * In the pass that has just begun treat all words as changed that name a block in these pages of the
 * region. 0, or FARKV_ENOMEM.
 */
int index_changes_invalidate(struct index_changes *c, const struct index *ix, uint64_t page,
			     uint64_t pages);
/** In the pass that has just begun treat all words as changed. */
void index_changes_invalidate_all(struct index_changes *c);

struct index_change {
	const void *key;
	uint16_t key_len;
	bool same;          /* of a whole part: its word was among the remembered ones */
	uint32_t value_len; /* when it was looked at */
};

struct index_changes_part {
	uint64_t first, last; /* hashes that it covers */
	bool whole; /* lists all keys with a value; else those that have changed, with or without one */
	const struct index_change *change; /* in the order of hashes */
	size_t n;
};

/**
 * The next part of the pass; valid until the next call. FARKV_ENOTFOUND: there are no more. Keys whose
 * blocks cannot be read are left out, and looked at again in the next pass. Other errors, cost and
 * the critical section as index_scan(); after an error the same part is next. What a caller then reads
 * of a listed key is as new as the words that are remembered, or newer.
 */
int index_changes_next(struct index *ix, struct index_changes *c, uint64_t deadline_ns,
		       struct index_changes_part *out);

#endif
