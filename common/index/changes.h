/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/changes.h - the keys whose slot words differ from those of the previous pass, in the order
 * of hashes. doc/cluster.md, "Followers and moves: the rules", has the rule.
 *
 * A pass remembers the words of each subtable, 8 bytes a slot. Within a subtable a slot stays its
 * key's (I1), and an unchanged word names an unchanged content, unless the incarnations of its
 * block restarted at 0 in the meantime: the caller names the pages of such blocks. A subtable
 * without remembered words is listed as a whole: in the first pass, and after a split or a
 * compaction.
 */
#ifndef COMMON_INDEX_CHANGES_H
#define COMMON_INDEX_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index;
struct index_changes;

/**
 * Takes some 500 KiB; from the first pass on also 8 bytes for each slot of the index. NULL: no
 * memory.
 */
struct index_changes *index_changes_new(void);
/** NULL is allowed. */
void index_changes_free(struct index_changes *c);

/** Begin a pass, to be compared with the previous one. */
void index_changes_begin(struct index_changes *c);

/**
 * In the pass that has just begun treat all words as changed that name a block in the `pages` pages
 * from `page` on. 0, or FARKV_ENOMEM.
 */
int index_changes_invalidate(struct index_changes *c, const struct index *ix, uint64_t page,
			     uint64_t pages);
/** In the pass that has just begun treat all words as changed. */
void index_changes_invalidate_all(struct index_changes *c);

struct index_change {
	const void *key;
	uint16_t key_len;
	bool same;          /* in a part that is `whole`: the previous pass had its word */
	uint32_t value_len; /* at the time of the look */
};

struct index_changes_part {
	uint64_t first, last; /* hashes that it covers */
	bool whole; /* lists all keys with a value; otherwise the changed keys, also deleted ones */
	const struct index_change *change; /* in the order of hashes */
	size_t n;
};

/**
 * The next part of the pass; valid until the next call. FARKV_ENOTFOUND: there are no more. Keys
 * whose blocks cannot be read are left out, and looked at again in the next pass. Other errors,
 * cost and the critical section as index_scan(); after an error the same part is next. If the
 * caller then reads a listed key, it gets the state that the remembered words show, or a newer one.
 */
int index_changes_next(struct index *ix, struct index_changes *c, uint64_t deadline_ns,
		       struct index_changes_part *out);

#endif
