/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * grow.h - when the index is rebuilt: which subtables are split or compacted.
 *
 * A client that finds a window full waits for its subtable, before all others;
 * one that finds it nearly full leaves a hint, which is seen to when there is
 * time. When memory is short the whole index is searched for tombstones.
 */
#ifndef SERVER_GROW_H
#define SERVER_GROW_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct session;
struct msg;
struct grow;

/** Since the start; times in ns. */
struct grow_stats {
	uint64_t splits, compactions, doublings;
	uint64_t damaged;      /* keys dropped: their block was not theirs */
	uint64_t ns_total;     /* of all migrations */
	uint64_t ns_max;
	uint64_t frozen_ns_max; /* the longest that writers had to wait for one */
};

/** After the ports were opened: on which lane slots change is known then. */
bool grow_init(struct control *c);
void grow_fini(struct control *c);

/** Handle HINT; false: the session is gone. */
bool grow_on_hint(struct session *s, const struct msg *m);

/** Which subtables a search compacts, by their tombstones. */
enum grow_need {
	GROW_LATER, /* many: others are counted only, see slab_note_dead() */
	GROW_SOON,  /* the average: what is kept to lend is going */
	GROW_ANY,
};

/**
 * Memory is short since `since_ns` (clock_now_ns()): compact what holds tombstones.
 * True if that is going on, and blocks or pages may come of it (T later, or after a
 * barrier). False when a search that began later has found none: 100 ms at most,
 * and the time of a search. Ask again every few ms until then.
 */
bool grow_reclaim(struct control *c, uint64_t since_ns, enum grow_need need);

/** A search goes on, and is not held up by a client that does not answer. */
bool grow_searching(const struct control *c);
/** Searches that have come to their end. */
uint64_t grow_searches(const struct control *c);

/** Pages have become free: go on with what waited for them. */
void grow_resume(struct control *c);

/** The server's lane works again, after it broke. */
void grow_lane_back(struct control *c);

/** Pages of subtables that are being built. */
uint64_t grow_pages(const struct control *c);

const struct grow_stats *grow_stats(const struct control *c);

#endif
