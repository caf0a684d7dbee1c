/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * evict.h - eviction within a migration: which keys of the subtable are left out.
 *
 * Between freeze and build a migration has every word of the subtable for itself. This file
 * keeps the policy's books (rounds.h) of all subtables, 8 KiB each, and reads the heat bytes
 * that clients set. A key that is left out is absent from the moment its entry is stored, and
 * its block is free T after that, as a dropped tombstone's is (doc/protocol.md, FROZEN).
 */
#ifndef SERVER_INDEX_EVICT_H
#define SERVER_INDEX_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include <farkv.h>

#include "server/memory/region.h"

struct evict;

/** Of a region with a heat area, which stays the caller's. NULL if out of memory. */
struct evict *evict_new(const struct region *r);
void evict_free(struct evict *e);

/** The frozen subtable that a migration is about to rebuild. */
struct evict_view {
	uint64_t page;
	const uint64_t *word; /* by slot, without the frozen mark */
	const uint64_t *hash; /* of the slot's key, ... */
	const bool *known;    /* ... where known; others are not chosen */
};

/**
 * Choose keys whose blocks have `want` bytes or more, of those that there are: what has expired,
 * and then the coldest. Sets drop[s] of each slot. With 0 the subtable is rebuilt for another
 * reason: nothing is chosen, and keys do not age.
 */
void evict_choose(struct evict *e, const struct evict_view *v, uint64_t want,
		  bool drop[SUBTABLE_SLOTS]);

/** After evict_choose(): the key in slot `s` of that subtable leaves, and its block. */
void evict_left(struct evict *e, unsigned s, uint64_t word);

/** Evictions by class_octave(); their sum in the last one. */
struct evict_count {
	uint64_t evictions, bytes;
	uint64_t victim_age_ms; /* of the last key: time since an earlier visit that found it
				   here, not used since then; 0: none did */
};
#define EVICT_SUM FARKV_SIZES
const struct evict_count *evict_counts(const struct evict *e);

/** `page` becomes a subtable built from the one at `from`. Out of memory: its keys count as new. */
void evict_page_taken(struct evict *e, uint64_t page, uint64_t from);
/** The key in slot `s` of `from` is now in slot `t` of `page`. */
void evict_moved(struct evict *e, uint64_t from, unsigned s, uint64_t page, unsigned t);
/** The subtable at `page` was retired. */
void evict_page_retired(struct evict *e, uint64_t page);

#endif
