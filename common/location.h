/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * location.h - a client's cache of where keys are: slot, the word that it held when
 * last seen, and the version of the block that the word names.
 *
 * What is remembered may be of any age (I5): the slot is its key's for ever (I1), or
 * lies in a subtable whose words are all FROZEN. A barrier ends that, so all of it is
 * forgotten when one is answered.
 *
 * Identity: a write that trusts a location changes a slot without having seen the key
 * that it is bound to. So an entry is found by the key's hash and by a second hash of
 * another seed, 128 bits together: that two keys of one store share both is as likely
 * as not after 2^64 keys.
 *
 * Memory is allocated once: sets of LOCATION_WAYS entries. In a full set one goes that was not
 * used of late: a use counts, and who looks for room takes from the counts, as CLOCK does
 * (Corbato 1968), but always from the set's first entry on, without a hand that remembers.
 * In a set of so few that costs nothing: hit rates of zipfian keys and of a window that moves
 * came out between 0.003 below and 0.022 above those with a hand. One thread.
 */
#ifndef COMMON_LOCATION_H
#define COMMON_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCATION_WAYS 4u
#define LOCATION_SLOT_MASK ((UINT64_C(1) << 48) - 1)
/* A location that was out of date so many times more often than not is not asked by
 * gets: finding out costs them as much as searching. */
#define LOCATION_STALE_MAX 3u

struct location {
	uint64_t hash, check; /* of the key; see above */
	uint64_t word;        /* LIVE or DEAD, never FROZEN */
	uint64_t version;     /* of its block; 0: not known */
	uint64_t slot : 48;   /* offset in the region; 0: no entry */
	uint64_t used : 2;    /* CLOCK's count */
	uint64_t stale : 2;   /* 0..LOCATION_STALE_MAX */
	uint64_t epoch : 12;  /* of the cache when it was stored */
};

struct location_cache;

/** What the cache was good for, since it was made. */
struct location_counters {
	uint64_t hits;     /* the location was right */
	uint64_t stale;    /* somebody else had written since */
	uint64_t misses;   /* there was none, or it was not asked */
	uint64_t kept;     /* of the hits: GETs whose value was kept, too (kept.h) */
};

/** At least `entries`, rounded up to a power of two of sets. NULL if out of memory. */
struct location_cache *location_cache_new(size_t entries);
/** NULL is allowed. */
void location_cache_free(struct location_cache *lc);

/** Its size in bytes, for who accounts for memory. */
size_t location_cache_bytes(const struct location_cache *lc);

/** The second hash of a key. */
uint64_t location_check(const void *key, size_t len, uint64_t hash);

/**
 * The key's entry, or NULL. It stays in place until the next location_store() or
 * location_drop(). Counts nothing but that it was used.
 */
struct location *location_find(struct location_cache *lc, uint64_t hash,
			       const void *key, size_t len);

/**
 * The same for who is going to see the key itself before it believes the entry: the first
 * one of this hash, without the second, which takes as long as all the rest.
 */
struct location *location_guess(struct location_cache *lc, uint64_t hash);

/**
 * Remember. Keeps the mark of staleness of an entry that is there, or takes one off if
 * the entry says the same.
 */
void location_store(struct location_cache *lc, const struct location *what);

/** Forget one. */
void location_forget(struct location *l);

/** Forget all: a barrier. */
void location_drop(struct location_cache *lc);

/** It was right; or not. */
static inline void location_right(struct location *l)
{
	if (l->stale)
		l->stale--;
}
static inline void location_wrong(struct location *l)
{
	if (l->stale < LOCATION_STALE_MAX)
		l->stale++;
}

#endif
