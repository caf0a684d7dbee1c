/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "evict.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/region/block.h"

#include "rounds.h"

struct evict {
	const struct region *r;
	uint64_t first, pages;
	struct rounds **books; /* by page of the data area; NULL: none */
	struct rounds spare;   /* of a subtable without books */
	struct rounds_key key[SUBTABLE_SLOTS];
	uint64_t random;
	bool counted; /* the heat of the subtable that is rebuilt */
};

struct evict *evict_new(const struct region *r)
{
	struct evict *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->r = r;
	e->first = r->sb.meta_bytes / PAGE_BYTES;
	e->pages = heap_total(r->heap);
	e->random = r->sb.hash_seed;
	e->books = calloc(e->pages, sizeof(*e->books));
	if (!e->books) {
		free(e);
		return NULL;
	}
	return e;
}

void evict_free(struct evict *e)
{
	if (!e)
		return;
	for (uint64_t p = 0; p < e->pages; p++)
		free(e->books[p]);
	free(e->books);
	free(e);
}

/* ---- books ------------------------------------------------------------------------ */

static struct rounds **books(struct evict *e, uint64_t page)
{
	return &e->books[page - e->first];
}

static uint8_t *heat_of(const struct evict *e, uint64_t page, unsigned s)
{
	return &e->r->heat[heat_at(page * PAGE_BYTES + s * SLOT_BYTES, e->r->sb.heat_bytes)];
}

void evict_page_taken(struct evict *e, uint64_t page, uint64_t from)
{
	struct rounds *to = calloc(1, sizeof(*to)), *old = *books(e, from);

	if (to && old) {
		memcpy(to->ghost, old->ghost, sizeof(to->ghost));
		to->ghosts = old->ghosts;
	}
	*books(e, page) = to;
	memset(heat_of(e, page, 0), 0, SUBTABLE_SLOTS);
}

void evict_moved(struct evict *e, uint64_t from, unsigned s, uint64_t page, unsigned t)
{
	struct rounds *to = *books(e, page), *old = *books(e, from);

	if (to && old)
		to->state[t] = old->state[s];
	if (!e->counted && atom_load_relaxed(heat_of(e, from, s)))
		atom_store_relaxed(heat_of(e, page, t), 1);
}

void evict_page_retired(struct evict *e, uint64_t page)
{
	free(*books(e, page));
	*books(e, page) = NULL;
}

/* ---- the choice ------------------------------------------------------------------- */

/* The word is frozen, and led to a block of its key: its header is whole. */
static bool expired(const struct evict *e, uint64_t w, uint64_t clock_ms)
{
	struct block_header h;

	memcpy(&h, region_at(e->r, slot_off(w)), sizeof(h));
	return block_expired(h.expiry, h.inc_flags, clock_ms);
}

/* The keys with a value; returns their number. */
static unsigned gather(struct evict *e, const struct evict_view *v)
{
	uint64_t clock_ms = region_clock(e->r);
	unsigned n = 0;

	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = v->word[s];

		if (slot_is_null(w) || (w & SLOT_DEAD) || !v->known[s])
			continue;
		e->key[n++] = (struct rounds_key){
			.bytes = class_bytes(slot_class(w)),
			.slot = (uint16_t)s,
			.print = rounds_print(v->hash[s]),
			.expired = expired(e, w, clock_ms),
			.hot = atom_load_relaxed(heat_of(e, v->page, s)) != 0,
		};
	}
	return n;
}

/* Xorshift (G. Marsaglia, "Xorshift RNGs", J. Stat. Soft. 8(14), 2003). */
static uint32_t random32(struct evict *e)
{
	e->random |= !e->random;
	e->random ^= e->random << 13;
	e->random ^= e->random >> 7;
	e->random ^= e->random << 17;
	return (uint32_t)(e->random >> 32);
}

void evict_choose(struct evict *e, const struct evict_view *v, uint64_t want,
		  bool drop[SUBTABLE_SLOTS])
{
	struct rounds *r = *books(e, v->page);
	unsigned n;

	memset(drop, 0, SUBTABLE_SLOTS * sizeof(*drop));
	e->counted = want > 0;
	if (!want)
		return;
	n = gather(e, v);
	if (!r) {
		r = &e->spare;
		memset(r, 0, sizeof(*r));
	}
	rounds_visit(r, e->key, n, want, random32(e));
	for (unsigned i = 0; i < n; i++)
		drop[e->key[i].slot] = e->key[i].drop;
}
