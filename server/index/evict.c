/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "evict.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/region/block.h"

#include "rounds.h"

/* More than rounds_age() returns. */
#define VISITS 16u

struct book {
	struct rounds rounds;
	uint64_t visit_ns[VISITS]; /* a ring */
	unsigned visits;
};

struct evict {
	const struct region *r;
	uint64_t first, pages;
	struct book **books; /* by page of the data area; NULL: none */
	struct book spare;   /* of a subtable without books */
	struct rounds_key key[SUBTABLE_SLOTS];
	uint8_t age[SUBTABLE_SLOTS]; /* in visits, of the subtable that is visited; ... */
	const struct book *visited;  /* ... its book */
	struct evict_count count[FARKV_SIZES + 1];
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

static struct book **books(struct evict *e, uint64_t page)
{
	return &e->books[page - e->first];
}

static uint8_t *heat_of(const struct evict *e, uint64_t page, unsigned s)
{
	return &e->r->heat[heat_at(page * PAGE_BYTES + s * SLOT_BYTES, e->r->sb.heat_bytes)];
}

/* NULL if out of memory. */
static struct book *book_after(const struct book *old)
{
	struct book *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	if (old) {
		memcpy(b->rounds.ghost, old->rounds.ghost, sizeof(b->rounds.ghost));
		b->rounds.ghosts = old->rounds.ghosts;
		memcpy(b->visit_ns, old->visit_ns, sizeof(b->visit_ns));
		b->visits = old->visits;
	}
	return b;
}

void evict_page_taken(struct evict *e, uint64_t page, uint64_t from)
{
	struct book *to = book_after(*books(e, from));

	if (to && e->counted)
		to->visit_ns[to->visits++ % VISITS] = clock_now_ns();
	*books(e, page) = to;
	memset(heat_of(e, page, 0), 0, SUBTABLE_SLOTS);
}

void evict_moved(struct evict *e, uint64_t from, unsigned s, uint64_t page, unsigned t)
{
	struct book *to = *books(e, page), *old = *books(e, from);

	if (to && old)
		to->rounds.state[t] = old->rounds.state[s];
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
	struct book *b = *books(e, v->page);
	unsigned n;

	memset(drop, 0, SUBTABLE_SLOTS * sizeof(*drop));
	if (!b) {
		b = &e->spare;
		memset(b, 0, sizeof(*b));
	}
	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
		e->age[s] = (uint8_t)rounds_age(&b->rounds, s);
	e->visited = b;
	e->counted = want > 0;
	if (!want)
		return;
	n = gather(e, v);
	rounds_visit(&b->rounds, e->key, n, want, random32(e));
	for (unsigned i = 0; i < n; i++)
		drop[e->key[i].slot] = e->key[i].drop;
}

/* ---- what has left ----------------------------------------------------------------- */

/* Time since the key's queue has had it, by the times of visits. */
static uint64_t age_ms(const struct book *b, unsigned visits)
{
	visits = UTIL_MIN(visits, b->visits);
	return visits ? (clock_now_ns() - b->visit_ns[(b->visits - visits) % VISITS]) / NS_PER_MS :
			0;
}

void evict_left(struct evict *e, unsigned s, uint64_t word)
{
	uint64_t age = age_ms(e->visited, e->age[s]);
	unsigned rows[] = {class_octave(slot_class(word)), EVICT_SUM};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct evict_count *n = &e->count[rows[i]];

		n->evictions++;
		n->bytes += class_bytes(slot_class(word));
		n->victim_age_ms = age;
	}
}

const struct evict_count *evict_counts(const struct evict *e)
{
	return e->count;
}
