/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rounds.h - which keys of a subtable leave when memory is needed: S3-FIFO by visits.
 *
 * S3-FIFO (J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023)
 * keeps new keys on probation, in a tenth of the memory, and moves those that were used
 * again to a main queue; it remembers fingerprints of what left probation (ghosts), and a
 * key that comes back soon enters main at once. Here a queue is not a list: the subtables
 * are visited in turn, and a key's place in its queue is the number of visits since it
 * entered. A subtable is a random sample of all keys, so each is ordered by itself.
 *
 * Clients set a slot's heat byte when they use its key; a visit reads it. Everything else
 * is the server's own memory. Pure: no region, no clock, no randomness of its own.
 */
#ifndef SERVER_INDEX_ROUNDS_H
#define SERVER_INDEX_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/region/layout.h"

#define ROUNDS_GHOSTS 2048u

/** The server's books of one subtable; zero for an empty one. */
struct rounds {
	/*
	 * By slot; 0 where a key is inserted. Bits 0..3 visits in its queue, 4..5 how often
	 * it was found used, 6 it is in main, 7 it has been visited.
	 */
	uint8_t state[SUBTABLE_SLOTS];
	uint16_t ghost[ROUNDS_GHOSTS]; /* rounds_print() of dropped keys, a ring */
	uint32_t ghosts;               /* ever added */
};

/** A key with a value, as a visit meets it. */
struct rounds_key {
	uint64_t bytes;   /* of its block */
	uint16_t slot;
	uint16_t print;   /* rounds_print() */
	bool hot;         /* its heat byte was set */
	bool expired;
	bool drop;        /* the verdict */
};

/** A ghost's fingerprint, from bits that neither slot nor directory use. */
static inline uint16_t rounds_print(uint64_t hash)
{
	return (uint16_t)(hash >> 30);
}

/** Visits that a key has been in its queue for, at most 15. */
static inline unsigned rounds_age(const struct rounds *r, unsigned slot)
{
	return r->state[slot] & 15u;
}

/**
 * Visit a subtable of `n` keys, at most SUBTABLE_SLOTS: decide which of them leave until
 * `want` bytes or more are free. Expired keys leave in any case, and first. Sets `drop` of
 * each key and the state of those that stay. `random` chooses among keys of equal rank: the
 * first of them is the first at or after keys[random % n].
 *
 * O(n). Clears no heat byte.
 */
void rounds_visit(struct rounds *r, struct rounds_key *keys, unsigned n, uint64_t want,
		  uint32_t random);

#endif
