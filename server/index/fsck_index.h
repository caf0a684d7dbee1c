/* SPDX-License-Identifier: BSD-3-Clause */
/** fsck_index.h - the checks of one subtable and of the directory, for fsck.c. */
#ifndef SERVER_INDEX_FSCK_INDEX_H
#define SERVER_INDEX_FSCK_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/region/layout.h"
#include "server/memory/region.h"
#include "server/memory/slab.h"

/* Problems found; see struct farkv_fsck. */
struct fsck_found {
	uint64_t items, dead, live_bytes, dead_bytes;
	uint64_t bad_directory, bad_empty, bad_words, damaged, shared;
	uint64_t misplaced, behind_empty, duplicates, bad_sums;
	uint64_t expired; /* of the items */
	uint64_t page, slot; /* the first problem in a slot; page 0: none */
};

/* A subtable in the course of its check. */
struct fsck_subtable {
	uint64_t entry, hash; /* of the directory, first of its range */
	unsigned at;          /* the next slot */
	int last_empty;       /* the last slot found EMPTY, or -1 */
	bool empty[SUBTABLE_SLOTS];
	uint64_t key[SUBTABLE_SLOTS]; /* hashes; 0 where unknown */
	struct fsck_found found;
};

/** Begin with the subtable that `entry` names. */
void fsck_subtable_begin(struct fsck_subtable *t, uint64_t entry, uint64_t hash);

/** Continue until `until_ns`; false after the last slot. */
bool fsck_subtable_step(struct fsck_subtable *t, const struct region *r,
			const struct slab *slab, uint64_t until_ns);

/** True if this entry can be followed. */
bool fsck_entry_ok(const struct region *r, uint64_t entry);

/** Check superblock, D, all entries, and what the page map says of their subtables. */
void fsck_directory(const struct region *r, struct fsck_found *f);

#endif
