/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * evictor.h - when to evict: in a store that was started with --when-full=evict the server
 * frees memory before clients ask for it.
 *
 * Rule 1. Subtables are visited in turn while less than 1/80 of the memory is free, or less than
 * a request waits for, or while the sizes in use lack more blocks than the free pages hold: of each
 * as many should be free as clients take in a grace period. A visit is a migration that leaves out
 * the coldest keys (index/evict.h).
 *
 * Rule 2. While less than 1/64 of the pages are free, or a request waits for more adjacent ones
 * than there are, places are chosen (memory/evacuate.h), and the next round of visits moves their
 * blocks elsewhere. So memory follows the sizes that are written. A round for a request moves
 * blocks though no key has to leave; if no place can be emptied it evicts.
 *
 * Rule 3. A request waits until it gets some, or until a whole round of visits has evicted nothing.
 *
 * Event loop only.
 */
#ifndef SERVER_LOOP_EVICTOR_H
#define SERVER_LOOP_EVICTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control;
struct evict;
struct loop_module;
struct session;

/** Its tick asks sessions for what they hold and do not use, if that pins segments (RECLAIM). */
extern const struct loop_module evictor_module;

/** For migrations; NULL in a store that refuses. */
struct evict *evictor_books(const struct control *c);

/** A request for blocks of this class waits for memory: free what it needs. */
void evictor_note_waiting(struct control *c, uint8_t cls);

/**
 * After evictor_note_waiting() and grow_evict(): true if an evacuation has just ended, so that the
 * request should try again before another one begins.
 */
bool evictor_just_ended(const struct control *c);

/** A waiting request got blocks, or none waits any more. */
void evictor_note_served(struct control *c);

/** True while visits are needed. */
bool evictor_needs_visits(struct control *c);

/** True while visits, or the barriers after them, may free memory for a waiting request: until a
 * whole round has evicted nothing. */
bool evictor_may_free(struct control *c);

/**
 * A hash of the subtable to visit next, and whether keys leave; false: no visit is needed. It is
 * the same until evictor_begun(); the visit is over before the next call.
 */
bool evictor_next(struct control *c, uint64_t *hash_out, bool *evicting_out);

/** Its visit has begun. */
void evictor_begun(struct control *c);

/** A visit found no page, and none comes: hold none back. */
void evictor_give_up(struct control *c);

/** A session gets `n` blocks of this class. */
void evictor_granted(struct session *s, uint8_t cls, size_t n);

/** The most blocks of a class that one request of the session gets, so that clients do not hold a
 * large part of a small store: when pages are few, no more than it was granted in DEMAND_NS, or a
 * few. At a steady rate these are what it takes in half of that time (demand.h). */
uint32_t evictor_grant_max(const struct session *s, uint8_t cls);

#endif
