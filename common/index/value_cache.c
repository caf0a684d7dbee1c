/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "value_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Memory per place of the table, and places per set. */
#define BYTES_PER_PLACE 256u
#define WAYS 4u
/* Blocks begin at multiples of this, so that their words are aligned. */
#define ALIGN 8u

struct place {
	uint64_t slot, word; /* slot 0: none */
	uint64_t at;         /* value of `written` when it was stored */
	uint32_t offset, bytes; /* in the ring */
};

struct value_cache {
	struct place *places; /* sets side by side */
	size_t sets;          /* a power of two */
	uint8_t *ring;
	size_t ring_bytes;
	size_t next;      /* where the next block goes if it fits */
	uint64_t written; /* bytes written in all rounds, with those skipped at ends */
	uint64_t floor;   /* entries stored before it are invalid */
};

struct value_cache *value_cache_new(size_t bytes)
{
	struct value_cache *k;
	size_t table;

	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->sets = 1;
	while (k->sets * 2 <= bytes / (BYTES_PER_PLACE * WAYS))
		k->sets *= 2;
	table = k->sets * WAYS * sizeof(*k->places);
	k->ring_bytes = (bytes - table) & ~(size_t)(ALIGN - 1);
	k->places = calloc(1, table);
	k->ring = calloc(1, k->ring_bytes);
	if (!k->places || !k->ring) {
		value_cache_free(k);
		return NULL;
	}
	return k;
}

void value_cache_free(struct value_cache *k)
{
	if (!k)
		return;
	free(k->places);
	free(k->ring);
	free(k);
}

static struct place *set_of(const struct value_cache *k, uint64_t slot)
{
	size_t set = (size_t)(slot * UINT64_C(0x9E3779B97F4A7C15) >> 40) &
		     (k->sets - 1);

	return &k->places[set * WAYS];
}

/* True if its bytes in the ring were not overwritten. */
static bool is_intact(const struct value_cache *k, const struct place *p)
{
	return p->at >= k->floor && k->written - p->at <= k->ring_bytes;
}

const uint8_t *value_cache_find(const struct value_cache *k, uint64_t slot, uint64_t word,
			 size_t *bytes_out)
{
	const struct place *p = set_of(k, slot);

	for (unsigned i = 0; i < WAYS; i++, p++)
		if (p->slot == slot && p->word == word && is_intact(k, p)) {
			*bytes_out = p->bytes;
			return &k->ring[p->offset];
		}
	return NULL;
}

static size_t room_of(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* The slot's own place, or the one whose block will be overwritten next. */
static struct place *place_for(const struct value_cache *k, uint64_t slot)
{
	struct place *set = set_of(k, slot), *oldest = set;

	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].slot == slot)
			return &set[i];
		if (set[i].at < oldest->at)
			oldest = &set[i];
	}
	return oldest;
}

void value_cache_store(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes)
{
	struct place *p = place_for(k, slot);
	size_t room = room_of(bytes);

	if (p->slot == slot && is_intact(k, p) && room_of(p->bytes) == room) {
		memcpy(&k->ring[p->offset], block, bytes);
		p->word = word;
		p->bytes = (uint32_t)bytes;
		return;
	}
	if (room > k->ring_bytes / 8)
		return;
	if (room > k->ring_bytes - k->next) {
		k->written += k->ring_bytes - k->next;
		k->next = 0;
	}
	memcpy(&k->ring[k->next], block, bytes);
	*p = (struct place){
		.slot = slot, .word = word, .at = k->written,
		.offset = (uint32_t)k->next, .bytes = (uint32_t)bytes};
	k->next += room;
	k->written += room;
}

void value_cache_renew(struct value_cache *k, uint64_t slot, uint64_t word, const uint8_t *block,
		size_t bytes)
{
	const struct place *p = place_for(k, slot);

	if (p->slot == slot && is_intact(k, p))
		value_cache_store(k, slot, word, block, bytes);
}

void value_cache_drop(struct value_cache *k)
{
	k->floor = k->written;
}
