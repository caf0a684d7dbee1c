/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "slab.h"

#include <stdlib.h>
#include <string.h>

#define STATE_SHIFT SLOT_INC_BITS
#define INC_PART SLOT_INC_MASK

enum block_state { BLOCK_FREE, BLOCK_OUT, BLOCK_LIMBO, BLOCK_WORN };

/* Blocks of up to this size share single pages. */
#define ONE_PAGE_CLASS_BYTES (PAGE_BYTES / 8)
/* No segment of several blocks is longer than this many pages. */
#define SEGMENT_PAGES_MAX 8u
/*
 * One page in so many is kept for blocks of up to TOMBSTONE_BYTES: a DELETE in a
 * full store needs a small block to give the value's back.
 */
#define TOMBSTONE_SHARE 32u
#define TOMBSTONE_BYTES 128u

struct segment {
	uint64_t page;
	uint32_t pages;
	uint32_t blocks;
	uint32_t n_free;
	uint32_t hint;   /* no free block lies below this one */
	uint32_t next;   /* in the class's list of segments with free blocks */
	uint8_t cls;
	bool listed;
	uint16_t *state; /* per block: enum block_state, inc */
};

struct limbo_block {
	uint64_t off;
	uint64_t ready;
};

struct slab {
	struct heap *heap;
	uint64_t first, grace_ns;
	uint32_t *segment_at; /* per page: index into segments, 0 none */
	struct segment *segments; /* from 1 */
	uint32_t n_segments, segments_cap;
	uint32_t open[CLASS_COUNT]; /* segments with free blocks, 0 none */
	struct limbo_block *limbo; /* ring */
	size_t limbo_at, n_limbo, limbo_cap;
	uint32_t pending[CLASS_COUNT]; /* in limbo or worn */
	uint64_t *worn; /* offsets; the first n_aging await a barrier's end */
	size_t n_worn, n_aging, worn_cap;
	struct slab_counts counts;
};

struct slab *slab_new(struct heap *heap, uint64_t first, uint64_t count,
		      uint64_t grace_ns)
{
	struct slab *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->heap = heap;
	s->first = first;
	s->grace_ns = grace_ns;
	s->segment_at = calloc(count, sizeof(*s->segment_at));
	s->n_segments = 1;
	if (!s->segment_at) {
		free(s);
		return NULL;
	}
	return s;
}

void slab_free(struct slab *s)
{
	if (!s)
		return;
	for (uint32_t i = 1; i < s->n_segments; i++)
		free(s->segments[i].state);
	free(s->segments);
	free(s->segment_at);
	free(s->limbo);
	free(s->worn);
	free(s);
}

/* Pages of one segment: the fewest that waste at most an eighth. */
static uint32_t segment_pages(uint64_t bytes)
{
	uint64_t fit = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;

	if (bytes <= ONE_PAGE_CLASS_BYTES)
		return 1;
	for (uint64_t n = fit; n < SEGMENT_PAGES_MAX; n++)
		if (n * PAGE_BYTES % bytes * 8 <= n * PAGE_BYTES)
			return (uint32_t)n;
	return (uint32_t)fit;
}

static void segment_list(struct slab *s, uint32_t at)
{
	struct segment *g = &s->segments[at];

	if (g->listed)
		return;
	g->listed = true;
	g->next = s->open[g->cls];
	s->open[g->cls] = at;
}

static bool segments_reserve(struct slab *s)
{
	uint32_t cap = s->segments_cap ? s->segments_cap * 2 : 64;
	void *p;

	if (s->n_segments < s->segments_cap)
		return true;
	p = realloc(s->segments, cap * sizeof(*s->segments));
	if (!p)
		return false;
	s->segments = p;
	s->segments_cap = cap;
	return true;
}

static uint64_t take_pages(struct slab *s, uint8_t cls, uint32_t n)
{
	uint64_t left = heap_total(s->heap) - heap_used(s->heap);
	uint64_t kept = class_bytes(cls) > TOMBSTONE_BYTES ?
				heap_total(s->heap) / TOMBSTONE_SHARE :
				0;

	return left < n + kept ? 0 : heap_take(s->heap, n);
}

static bool segment_new(struct slab *s, uint8_t cls)
{
	uint64_t bytes = class_bytes(cls);
	uint32_t pages = segment_pages(bytes);
	struct segment g = {.cls = cls, .pages = pages};

	if (!segments_reserve(s))
		return false;
	g.blocks = (uint32_t)((uint64_t)pages * PAGE_BYTES / bytes);
	g.n_free = g.blocks;
	g.state = calloc(g.blocks, sizeof(*g.state));
	if (!g.state)
		return false;
	g.page = take_pages(s, cls, pages);
	if (!g.page && g.blocks > 1) {
		/* No run of that length: one block at a time still fits. */
		g.pages = (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
		g.page = take_pages(s, cls, g.pages);
		g.blocks = (uint32_t)((uint64_t)g.pages * PAGE_BYTES / bytes);
		g.n_free = g.blocks;
	}
	if (!g.page) {
		free(g.state);
		return false;
	}
	for (uint32_t i = 0; i < g.pages; i++)
		s->segment_at[g.page - s->first + i] = s->n_segments;
	s->segments[s->n_segments] = g;
	s->counts.free += g.blocks;
	s->counts.pages += g.pages;
	segment_list(s, s->n_segments++);
	return true;
}

static struct block_ref segment_ref(const struct segment *g, uint32_t i)
{
	return (struct block_ref){
		.off = g->page * PAGE_BYTES + i * class_bytes(g->cls),
		.cls = g->cls,
		.inc = g->state[i] & INC_PART,
	};
}

static void state_set(struct segment *g, uint32_t i, enum block_state st)
{
	g->state[i] = (uint16_t)((g->state[i] & INC_PART) | st << STATE_SHIFT);
}

static enum block_state state_of(const struct segment *g, uint32_t i)
{
	return (enum block_state)(g->state[i] >> STATE_SHIFT);
}

/* The segment and index of the block that starts exactly at `off`, or false. */
static bool locate(const struct slab *s, uint64_t off, uint32_t *seg_out,
		   uint32_t *i_out)
{
	uint64_t page = off / PAGE_BYTES, at;
	const struct segment *g;

	if (page < s->first || page - s->first >= heap_total(s->heap))
		return false;
	*seg_out = s->segment_at[page - s->first];
	if (*seg_out == 0)
		return false;
	g = &s->segments[*seg_out];
	at = off - g->page * PAGE_BYTES;
	*i_out = (uint32_t)(at / class_bytes(g->cls));
	return at % class_bytes(g->cls) == 0 && *i_out < g->blocks;
}

static void block_release(struct slab *s, uint32_t seg, uint32_t i)
{
	struct segment *g = &s->segments[seg];

	state_set(g, i, BLOCK_FREE);
	g->n_free++;
	if (i < g->hint)
		g->hint = i;
	s->counts.free++;
	segment_list(s, seg);
}

static void pending_release(struct slab *s, uint32_t seg, uint32_t i)
{
	s->pending[s->segments[seg].cls]--;
	block_release(s, seg, i);
}

static void limbo_settle(struct slab *s, uint64_t now)
{
	while (s->n_limbo && s->limbo[s->limbo_at].ready <= now) {
		uint32_t seg, i;

		if (locate(s, s->limbo[s->limbo_at].off, &seg, &i))
			pending_release(s, seg, i);
		s->limbo_at = (s->limbo_at + 1) & (s->limbo_cap - 1);
		s->n_limbo--;
		s->counts.limbo--;
	}
}

size_t slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
		  struct block_ref *refs_out)
{
	size_t n = 0;

	limbo_settle(s, now);
	while (n < want) {
		struct segment *g;

		if (!s->open[cls] && !segment_new(s, cls))
			break;
		g = &s->segments[s->open[cls]];
		while (n < want && g->n_free) {
			while (state_of(g, g->hint) != BLOCK_FREE)
				g->hint++;
			state_set(g, g->hint, BLOCK_OUT);
			refs_out[n++] = segment_ref(g, g->hint++);
			g->n_free--;
			s->counts.free--;
			s->counts.out++;
		}
		if (g->n_free == 0) {
			s->open[cls] = g->next;
			g->listed = false;
		}
	}
	return n;
}

static bool limbo_push(struct slab *s, uint64_t off, uint64_t ready)
{
	if (s->n_limbo == s->limbo_cap) {
		size_t cap = s->limbo_cap ? s->limbo_cap * 2 : 256;
		struct limbo_block *p = malloc(cap * sizeof(*p));

		if (!p)
			return false;
		for (size_t i = 0; i < s->n_limbo; i++)
			p[i] = s->limbo[(s->limbo_at + i) & (s->limbo_cap - 1)];
		free(s->limbo);
		s->limbo = p;
		s->limbo_cap = cap;
		s->limbo_at = 0;
	}
	s->limbo[(s->limbo_at + s->n_limbo++) & (s->limbo_cap - 1)] =
		(struct limbo_block){.off = off, .ready = ready};
	return true;
}

static bool worn_push(struct slab *s, uint64_t off)
{
	if (s->n_worn == s->worn_cap) {
		size_t cap = s->worn_cap ? s->worn_cap * 2 : 64;
		void *p = realloc(s->worn, cap * sizeof(*s->worn));

		if (!p)
			return false;
		s->worn = p;
		s->worn_cap = cap;
	}
	s->worn[s->n_worn++] = off;
	return true;
}

bool slab_return(struct slab *s, struct block_ref ref, enum alloc_state state,
		 uint64_t now)
{
	struct segment *g;
	uint32_t seg, i;

	if (!locate(s, ref.off, &seg, &i))
		return false;
	g = &s->segments[seg];
	/* It was granted with an incarnation that can only have grown. */
	if (g->cls != ref.cls || state_of(g, i) != BLOCK_OUT ||
	    ref.inc > INC_PART || ref.inc < (g->state[i] & INC_PART))
		return false;
	if (state == ALLOC_LIMBO && !limbo_push(s, ref.off, now + s->grace_ns))
		return false;
	if (state == ALLOC_WORN && !worn_push(s, ref.off))
		return false;
	g->state[i] = (uint16_t)(BLOCK_OUT << STATE_SHIFT | ref.inc);
	s->counts.out--;
	if (state != ALLOC_FREE)
		s->pending[g->cls]++;
	if (state == ALLOC_FREE) {
		block_release(s, seg, i);
	} else if (state == ALLOC_LIMBO) {
		state_set(g, i, BLOCK_LIMBO);
		s->counts.limbo++;
	} else {
		state_set(g, i, BLOCK_WORN);
		s->counts.worn++;
	}
	return true;
}

bool slab_barrier_begin(struct slab *s)
{
	s->n_aging = s->n_worn;
	return s->n_aging > 0;
}

void slab_barrier_passed(struct slab *s)
{
	for (size_t w = 0; w < s->n_aging; w++) {
		uint32_t seg, i;

		if (!locate(s, s->worn[w], &seg, &i))
			continue;
		s->segments[seg].state[i] = 0;
		s->counts.worn--;
		pending_release(s, seg, i);
	}
	s->n_worn -= s->n_aging;
	if (s->n_worn)
		memmove(s->worn, s->worn + s->n_aging,
			s->n_worn * sizeof(*s->worn));
	s->n_aging = 0;
}

bool slab_pending(const struct slab *s, uint8_t cls)
{
	return s->pending[cls] > 0;
}

struct slab_counts slab_count(const struct slab *s)
{
	return s->counts;
}
