/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "location.h"

#include <stdlib.h>
#include <string.h>

#include "common/region/hash.h"

#define EPOCHS (1u << 10)
#define USED_MAX 3u
/* Salts the seed of the second hash, which is the first hash. */
#define CHECK_SALT UINT64_C(0x9FB21C651E98DF25)

struct location_cache {
	struct location *entries; /* sets side by side */
	size_t sets;              /* a power of two */
	uint16_t epoch;
};

struct location_cache *location_cache_new(size_t entries)
{
	struct location_cache *lc = calloc(1, sizeof(*lc));

	if (!lc)
		return NULL;
	lc->sets = 1;
	while (lc->sets * LOCATION_WAYS < entries)
		lc->sets *= 2;
	lc->entries = calloc(lc->sets * LOCATION_WAYS, sizeof(*lc->entries));
	if (!lc->entries) {
		free(lc);
		return NULL;
	}
	return lc;
}

void location_cache_free(struct location_cache *lc)
{
	if (!lc)
		return;
	free(lc->entries);
	free(lc);
}

size_t location_cache_bytes(const struct location_cache *lc)
{
	return lc->sets * LOCATION_WAYS * sizeof(*lc->entries);
}

uint64_t location_check(const void *key, size_t len, uint64_t hash)
{
	return XXH3_64bits_withSeed(key, len, hash ^ CHECK_SALT);
}

/* Uses other bits of the hash than directory index, home line and fingerprint do. */
static struct location *set_of(const struct location_cache *lc, uint64_t hash)
{
	size_t set = (size_t)(hash * UINT64_C(0xD6E8FEB86659FD93) >> 24) &
		     (lc->sets - 1);

	return &lc->entries[set * LOCATION_WAYS];
}

static bool is_current(const struct location_cache *lc, const struct location *l)
{
	return l->slot && l->epoch == lc->epoch;
}

static struct location *used(struct location *l)
{
	if (l->used < USED_MAX)
		l->used++;
	return l;
}

struct location *location_find(struct location_cache *lc, uint64_t hash,
			       const void *key, size_t len)
{
	struct location *set = set_of(lc, hash);

	for (unsigned i = 0; i < LOCATION_WAYS; i++)
		if (set[i].hash == hash && is_current(lc, &set[i]) &&
		    set[i].check == location_check(key, len, hash))
			return used(&set[i]);
	return NULL;
}

struct location *location_guess(struct location_cache *lc, uint64_t hash)
{
	struct location *set = set_of(lc, hash);

	for (unsigned i = 0; i < LOCATION_WAYS; i++)
		if (set[i].hash == hash && is_current(lc, &set[i]))
			return used(&set[i]);
	return NULL;
}

/* The key's own entry, an empty one, or the first one whose use count drops to 0. */
static struct location *place_for(struct location_cache *lc,
				  const struct location *what)
{
	struct location *set = set_of(lc, what->hash), *empty = NULL;

	for (unsigned i = 0; i < LOCATION_WAYS; i++) {
		struct location *l = &set[i];

		if (!is_current(lc, l))
			empty = empty ? empty : l;
		else if (l->hash == what->hash && l->check == what->check)
			return l;
	}
	if (empty) {
		empty->stale = 0;
		return empty;
	}
	for (unsigned i = 0;; i = (i + 1) % LOCATION_WAYS) {
		if (set[i].used == 0) {
			set[i].stale = 0;
			return &set[i];
		}
		set[i].used--;
	}
}

void location_store(struct location_cache *lc, const struct location *what)
{
	struct location *l = place_for(lc, what);
	unsigned stale = l->stale;

	/* A search found the same word, so the location was right. */
	if (stale && l->word == what->word)
		stale--;
	*l = *what;
	l->stale = stale & LOCATION_STALE_MAX;
	l->used = 1;
	l->epoch = lc->epoch & (EPOCHS - 1);
}

void location_forget(struct location *l)
{
	l->slot = 0;
}

void location_drop(struct location_cache *lc)
{
	lc->epoch = (lc->epoch + 1) % EPOCHS;
	/* The epoch wraps around: no old entry may look current. */
	if (lc->epoch == 0)
		memset(lc->entries, 0, location_cache_bytes(lc));
}
