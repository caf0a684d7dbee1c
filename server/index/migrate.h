/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * migrate.h - one migration: a subtable is frozen, rebuilt, and published.
 *
 *   survey   hash the keys of its slots while clients go on: a slot keeps its
 *            key (I1), so the hash stays valid
 *   freeze   set FROZEN in every slot by CAS, EMPTY ones too: nothing changes
 *            any more, and clients that come read the directory again
 *   build    one fresh subtable (compaction) or two (split) from the LIVE slots,
 *            in the order of the old ones; DEAD ones are dropped, and keys that are evicted
 *   publish  double the directory if needed, store the entries: the store of a
 *            key's entry makes the new slot the key's
 *   retire   the old page waits for a barrier, dropped tombstones wait for T
 *
 * In old order each key lands at or before its old place, for the slots from its home to
 * there were bound to keys, of which at most the same number come along. So a build cannot
 * overflow a window, and leaves no EMPTY slot before a key.
 *
 * Readers never wait; writers of this one subtable wait from freeze to publication. If the
 * server dies in between, each key still has exactly one entry, which leads to frozen words
 * that are current or to a complete new subtable: migration_begin() on such a subtable
 * continues the old migration, of the same kind if that had begun to publish.
 *
 * One at a time, in the event loop's thread.
 */
#ifndef SERVER_INDEX_MIGRATE_H
#define SERVER_INDEX_MIGRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/xport/xport.h"
#include "server/memory/region.h"
#include "server/memory/slab.h"

enum migrate_kind { MIGRATE_COMPACT, MIGRATE_SPLIT };

enum migrate_begin {
	MIGRATE_BEGUN,
	MIGRATE_NO_PAGE,  /* no memory for fresh subtables */
	MIGRATE_DIR_FULL, /* the directory has reached its largest size */
};

enum migrate_state {
	MIGRATE_MORE, /* call again */
	MIGRATE_DONE,
	MIGRATE_LOST, /* the lane broke: call again when the lane works again */
};

/** The results of a migration. */
struct migrate_result {
	enum migrate_kind kind;
	uint64_t hash;    /* first of the range */
	uint64_t page[2]; /* the fresh subtables; [1] is 0 after a compaction */
	uint64_t page_hash[2];
	uint32_t live, dead;
	uint32_t evicted; /* keys */
	uint32_t moved;   /* keys whose block was copied to another segment */
	bool evicting;
	uint32_t damaged; /* slots dropped: their block was not what they name, or
					 they could not be frozen */
	bool doubled;
	uint64_t frozen_ns; /* from the first CAS to the publication */
	uint64_t total_ns;
};

struct evict;
struct migration;

/** The arguments stay the caller's. `evict` may be NULL. NULL if out of memory. */
struct migration *migration_new(struct region *r, struct slab *slab,
				struct xport_lane *lane, struct evict *evict);
/** An unfinished migration leaves its subtable frozen and its pages taken. */
void migration_free(struct migration *m);

/** Count the LIVE and DEAD slots of the subtable of `hash`. */
void migration_count(const struct region *r, uint64_t hash, uint32_t *live_out,
		     uint32_t *dead_out);

/** Add its DEAD slots to `dead`, by the class of the block that each names. */
void migration_note_dead(const struct region *r, uint64_t hash,
			 uint64_t dead[CLASS_COUNT]);

/** Begin with the subtable of `hash`. Nothing has changed unless it returns BEGUN. */
enum migrate_begin migration_begin(struct migration *m, uint64_t hash,
				   enum migrate_kind kind);

/**
 * Begin a compaction that moves blocks out of the places that are emptied (evacuate.h);
 * `evicting`: it leaves out an eighth of the bytes of the subtable's values, and one key at
 * least (evict.h).
 */
enum migrate_begin migration_begin_visit(struct migration *m, uint64_t hash, bool evicting);

/**
 * Continue until `until_ns` (clock_now_ns()); 0: one smallest step. Between freeze and
 * publication it stops only to wait for the lane, and where slots change too fast to be
 * frozen. After 0.2 s of that it drops those slots: no client that keeps the rules wins so
 * often.
 */
enum migrate_state migration_step(struct migration *m, uint64_t until_ns);

/** Pages taken and not published yet. */
uint64_t migration_pages(const struct migration *m);

/** After MIGRATE_DONE. */
const struct migrate_result *migration_result(const struct migration *m);

#endif
