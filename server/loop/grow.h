/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * grow.h - index growth: which subtables are split or compacted, and when.
 *
 * A client that finds a full window sends a hint and waits; its subtable comes before all
 * others. A client that finds a window nearly full sends a hint that is handled when there
 * is time. When memory is short the whole index is searched for tombstones.
 */
#ifndef SERVER_LOOP_GROW_H
#define SERVER_LOOP_GROW_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct loop_module;
struct session;
struct msg;
struct xport_lane;

/** Totals since the start; times in ns. */
struct grow_stats {
	uint64_t splits, compactions, doublings;
	uint64_t moves;        /* blocks copied out of evacuated segments */
	uint64_t damaged;      /* keys dropped: the slot named a block of another key */
	uint64_t ns_total;     /* of all migrations */
	uint64_t ns_max;
	uint64_t frozen_ns_max; /* longest time that writers waited for one */
};

/** To be made after the connections, which decide on the lane that changes slots. */
extern const struct loop_module grow_module;

/** Handle HINT; false: the session is gone. */
bool grow_on_hint(struct session *s, const struct msg *m);

/** Which subtables a search compacts, by their number of tombstones. */
enum grow_need {
	GROW_LATER, /* many; it counts the others, see slab_note_dead() */
	GROW_SOON,  /* at least the average: the class is short of blocks */
	GROW_ANY,
};

/**
 * Memory has been short since `since_ns` (clock_now_ns()): compact subtables with tombstones.
 * True while that runs and may free blocks or pages (T later, or after a barrier). False when
 * a search that began later has found none, which takes at most 100 ms and the time of a
 * search. Call again every few ms until then.
 */
bool grow_reclaim(struct control *c, uint64_t since_ns, enum grow_need need);

/**
 * Visit subtables while memory is short of the demand, in a store that evicts (evictor.h).
 * True while that may free memory.
 */
bool grow_evict(struct control *c);

/** True if a search runs and is not held up by a client that does not answer. */
bool grow_searching(const struct control *c);
/** Searches that have ended. */
uint64_t grow_searches(const struct control *c);

/**
 * Compact a subtable when there is time, unless it has been replaced: `hash` is the first of its
 * range.
 */
void grow_compact(struct control *c, uint64_t entry, uint64_t hash);

/** True if the subtable of this page is being rebuilt. */
bool grow_rebuilds(const struct control *c, uint64_t page);

/** The lane that changes slots, and whether it is broken and not yet replaced. */
struct xport_lane *grow_lane(const struct control *c);
bool grow_lane_is_lost(const struct control *c);
/** It broke: no work until it is replaced. */
void grow_lane_broke(struct control *c);
/** The server's broken lane works again. */
void grow_lane_back(struct control *c);

/** Pages taken for subtables in construction. */
uint64_t grow_pages(const struct control *c);

const struct grow_stats *grow_stats(const struct control *c);

#endif
