/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * migrate.h - one migration: a subtable is frozen, built anew, and published.
 *
 *   survey   hash the keys of its slots, while clients go on: a slot keeps its
 *            key (I1), so the hash will do later
 *   freeze   set FROZEN in every slot by CAS, EMPTY ones too: nothing changes
 *            any more, and whoever comes looks at the directory again
 *   build    one fresh subtable (compaction) or two (split) from the LIVE slots,
 *            in the order of the old ones; DEAD ones are dropped
 *   publish  double the directory if it must be, store the entries: at the store
 *            of a key's entry the new slot becomes the key's
 *   retire   the old page awaits a barrier, dropped tombstones wait for T
 *
 * Taken in old order each key lands at or before its old place: the slots from
 * its home to there were bound to keys of which no more have come along. So a
 * build cannot overflow a window, and leaves no EMPTY in front of a key.
 *
 * Readers go on all the time; writers of this one subtable wait from the freeze
 * to the publication. If the server dies in between, each key has exactly one
 * entry, which leads to frozen words that are current or to a whole new subtable:
 * migration_begin() on such a subtable goes on where the other one stopped, with
 * the kind that this one had chosen if it had begun to publish.
 *
 * One at a time, in the control thread.
 */
#ifndef SERVER_MIGRATE_H
#define SERVER_MIGRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/xport.h"

#include "region.h"
#include "slab.h"

enum migrate_kind { MIGRATE_COMPACT, MIGRATE_SPLIT };

enum migrate_begin {
	MIGRATE_BEGUN,
	MIGRATE_NO_PAGE,  /* no memory for fresh subtables */
	MIGRATE_DIR_FULL, /* the directory has reached its largest size */
};

enum migrate_state {
	MIGRATE_MORE, /* call again */
	MIGRATE_DONE,
	MIGRATE_LOST, /* the lane broke: call again when it works again */
};

/** What a migration found and did. */
struct migrate_result {
	enum migrate_kind kind;
	uint64_t hash;    /* first of the range */
	uint64_t page[2]; /* the fresh subtables; [1] is 0 after a compaction */
	uint64_t page_hash[2];
	uint32_t live, dead;
	uint32_t damaged; /* slots dropped: their block is not what they name; and
			     those that could not be frozen */
	bool doubled;
	uint64_t frozen_ns; /* from the first CAS to the publication */
	uint64_t total_ns;
};

struct migration;

/** All stay the caller's. NULL if out of memory. */
struct migration *migration_new(struct region *r, struct slab *slab,
				struct xport_lane *lane);
/** An unfinished migration leaves its subtable frozen and its pages taken. */
void migration_free(struct migration *m);

/** Count the slots of the subtable of `hash`: LIVE and DEAD ones. */
void migration_count(const struct region *r, uint64_t hash, uint32_t *live_out,
		     uint32_t *dead_out);

/** Add its DEAD slots to `dead`, by the class of the block that each names. */
void migration_note_dead(const struct region *r, uint64_t hash,
			 uint64_t dead[CLASS_COUNT]);

/** Begin with the subtable of `hash`. Nothing has changed unless BEGUN. */
enum migrate_begin migration_begin(struct migration *m, uint64_t hash,
				   enum migrate_kind kind);

/**
 * Go on until `until_ns` (clock_now_ns()); does not stop between freeze and
 * publication but to await the lane, and where slots change too fast to be frozen.
 * After 0.2 s of that it goes on without them: no client that keeps the rules wins
 * so often. 0: the smallest step that there is.
 */
enum migrate_state migration_step(struct migration *m, uint64_t until_ns);

/** Pages that it has taken and not published yet. */
uint64_t migration_pages(const struct migration *m);

/** After MIGRATE_DONE. */
const struct migrate_result *migration_result(const struct migration *m);

#endif
