/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * location.h - a client's cache of where keys are: the slot, the word last seen there, and the
 * version of the block that the word names.
 *
 * An entry may be of any age (I5): the slot is its key's for good (I1), or lies in a subtable whose
 * words are all FROZEN. A barrier ends that guarantee, so a session empties the cache before it
 * answers one.
 *
 * A write that trusts an entry changes a slot without reading the key there. So entries are
 * identified by two hashes of the key with different seeds, 128 bits together: in a store with 2^64
 * keys two of them collide with probability 1/2.
 *
 * Memory is allocated once, in sets of LOCATION_WAYS entries. A full set evicts an entry that was
 * not used recently: uses are counted, and an insertion counts them down, as CLOCK does (Corbato
 * 1968), but always from the set's first entry on. One thread.
 */
#ifndef COMMON_INDEX_LOCATION_H
#define COMMON_INDEX_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCATION_WAYS 4u
#define LOCATION_SLOT_MASK ((UINT64_C(1) << 48) - 1)
/*
 * GETs skip an entry whose misses exceed its hits by this many: a wrong location costs as
 * much as a search.
 */
#define LOCATION_STALE_MAX 3u

struct location {
	uint64_t hash, check; /* of the key; see above */
	uint64_t word;        /* LIVE or DEAD, never FROZEN */
	uint64_t version;     /* of its block; 0: unknown */
	uint64_t slot : 48;   /* offset in the region; 0: no entry */
	uint64_t used : 2;    /* CLOCK's count */
	uint64_t stale : 2;   /* misses minus hits, 0..LOCATION_STALE_MAX */
	uint64_t dated : 1;   /* its value expires, or may */
	uint64_t marked : 1;  /* the key was marked as used since the slot became known */
	uint64_t epoch : 10;  /* of the cache when it was stored */
};

struct location_cache;

/** Totals since the cache was created. */
struct location_counters {
	uint64_t hits;     /* the location was right */
	uint64_t stale;    /* another client had written since */
	uint64_t misses;   /* no entry, or it was skipped */
	uint64_t values;     /* hits whose value came from the value cache (index/value_cache.h) */
};

/** A cache of at least `entries`, in a power of two of sets. NULL if out of memory. */
struct location_cache *location_cache_new(size_t entries);
/** NULL is allowed. */
void location_cache_free(struct location_cache *lc);

/** Its size in bytes. */
size_t location_cache_bytes(const struct location_cache *lc);

/** The second hash of a key. */
uint64_t location_check(const void *key, size_t len, uint64_t hash);

/**
 * The key's entry, or NULL. Valid until the next location_store() or location_drop(). Its only
 * effect is to count the use.
 */
struct location *location_find(struct location_cache *lc, uint64_t hash,
			       const void *key, size_t len);

/**
 * An entry with the first hash, or NULL, for callers that compare the key itself before they trust
 * the entry. Without the second hash this takes half as long.
 */
struct location *location_guess(struct location_cache *lc, uint64_t hash);

/** Store an entry. An existing one keeps its `stale` count, minus one if its word agrees. */
void location_store(struct location_cache *lc, const struct location *what);

/** Remove one entry. */
void location_forget(struct location *l);

/** Remove all, at a barrier. */
void location_drop(struct location_cache *lc);

/** Count that the location was right, or that it was wrong. */
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
