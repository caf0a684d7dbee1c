/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "slab_priv.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"

/* Blocks of up to this size share single pages. */
#define ONE_PAGE_CLASS_BYTES (PAGE_BYTES / 8)
/* No segment of several blocks of 64 KiB and more is longer than this many pages. */
#define LARGE_SEGMENT_PAGES_MAX 33u
/* A store that evicts makes none of several blocks longer than this share of the memory. */
#define RUN_SHARE 16u
/*
 * This share of the pages is kept for blocks of up to SLAB_SMALL_BYTES, including the pages
 * they have: a DELETE in a full store needs a small block before it can return the value's.
 */
#define TOMBSTONE_SHARE 32u
/*
 * Random keys overflow no window of a subtable that has fewer. Of 2000 that were simulated
 * 1 % had overflowed by 0.64 of the slots, half of them by 0.76.
 */
#define SUBTABLE_KEYS_SAFE (SUBTABLE_SLOTS * 60 / 100)
/*
 * When no pages are left this share of the blocks of each class is a reserve, for requests
 * that come while freed blocks wait for their grace period: without it each block would be
 * waited for. Blocks on their way back count towards it. If blocks have come back since the
 * last grant a share of the reserve is granted on credit, so that the next request need not
 * wait either.
 */
#define RESERVE_SHARE 32u
#define RESERVE_SHARE_LARGE                                                    \
	128u /* a DELETE leaves a small block, no large one, to a tombstone */
#define LEND_SHARE 2u
/* A store that evicts leaves this share of its pages to the index: each visit takes one, and the
 * page of the subtable before is free after a barrier. */
#define VISITS_SHARE 128u

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
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		s->class[cls].share = class_bytes(cls) < 256
					      ? RESERVE_SHARE
					      : RESERVE_SHARE_LARGE;
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
	free(s->deferred);
	free(s->exhausted);
	resets_end(&s->resets);
	free(s);
}

/* ---- lists of segments --------------------------------------------------- */

enum segment_fill slab_fill(const struct segment *g)
{
	if (g->n_free == 0 || g->evacuating)
		return FILL_FULL;
	if (g->n_free == g->blocks)
		return FILL_EMPTY;
	return (enum segment_fill)(g->n_free * (uint64_t)FILL_QUARTERS /
				   g->blocks);
}

static void list_remove(struct slab *s, uint32_t at)
{
	struct segment *g = &s->segments[at];
	uint32_t *list = s->class[g->cls].list;

	if (g->fill == FILL_FULL)
		return;
	if (g->fill == FILL_EMPTY)
		s->empty_pages -= g->pages;
	if (g->prev)
		s->segments[g->prev].next = g->next;
	else
		list[g->fill] = g->next;
	if (g->next)
		s->segments[g->next].prev = g->prev;
	g->fill = FILL_FULL;
}

static void list_insert(struct slab *s, uint32_t at, enum segment_fill fill)
{
	struct segment *g = &s->segments[at];
	uint32_t *list = s->class[g->cls].list;

	g->fill = (uint8_t)fill;
	if (fill == FILL_FULL)
		return;
	if (fill == FILL_EMPTY)
		s->empty_pages += g->pages;
	g->prev = 0;
	g->next = list[fill];
	list[fill] = at;
	if (g->next)
		s->segments[g->next].prev = at;
}

void slab_relist(struct slab *s, uint32_t at)
{
	enum segment_fill fill = slab_fill(&s->segments[at]);

	if (s->segments[at].fill == fill)
		return;
	list_remove(s, at);
	list_insert(s, at, fill);
}

/* ---- segments ------------------------------------------------------------ */

/* Pages of one block. */
static uint32_t block_pages(uint64_t bytes)
{
	return (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

/*
 * Pages of one segment of a class with CLASS_EXTRA: the number that wastes least. Such blocks end
 * a little after a page's start; 33 pages hold exactly 16 of 66 KiB.
 */
static uint32_t large_segment_pages(uint64_t bytes, uint64_t most)
{
	uint64_t best = block_pages(bytes);

	/* n * PAGE_BYTES % bytes is the waste of n pages. */
	for (uint64_t n = best + 1; n <= most; n++)
		if (n * PAGE_BYTES % bytes * best < best * PAGE_BYTES % bytes * n)
			best = n;
	return (uint32_t)best;
}

/* Pages of one segment: the fewest that waste at most an eighth. */
static uint32_t segment_pages(const struct slab *s, uint64_t bytes)
{
	uint64_t most = LARGE_SEGMENT_PAGES_MAX;
	uint32_t fit = block_pages(bytes);

	if (s->no_reserve)
		most = UTIL_MIN(most, heap_total(s->heap) / RUN_SHARE);

	if (bytes <= ONE_PAGE_CLASS_BYTES)
		return 1;
	if (bytes >= CLASS_BYTES(CLASS_LARGE))
		return large_segment_pages(bytes, most);
	for (uint32_t n = fit; n < SLAB_SEGMENT_PAGES_MAX; n++)
		if ((uint64_t)n * PAGE_BYTES % bytes * 8 <= (uint64_t)n * PAGE_BYTES)
			return n;
	return fit;
}

/* A record for a segment; 0 if out of memory. */
static uint32_t record_new(struct slab *s)
{
	uint32_t at = s->unused;

	if (at) {
		s->unused = s->segments[at].next;
		return at;
	}
	if (s->n_segments >= s->segments_cap) {
		uint32_t cap = s->segments_cap ? s->segments_cap * 2 : 64;
		void *p = realloc(s->segments, cap * sizeof(*s->segments));

		if (!p)
			return 0;
		s->segments = p;
		s->segments_cap = cap;
	}
	return s->n_segments++;
}

static void record_drop(struct slab *s, uint32_t at)
{
	s->segments[at] = (struct segment){.next = s->unused};
	s->unused = at;
}

/* ---- the reserve of a class ----------------------------------------------- */

static uint64_t class_total(const struct slab_class *k)
{
	return k->blocks[BLOCK_FREE] + k->blocks[BLOCK_OUT] +
	       k->blocks[BLOCK_DEFERRED] + k->blocks[BLOCK_EXHAUSTED];
}

uint64_t slab_reserve_missing(const struct slab *s, const struct slab_class *k, uint64_t gone)
{
	uint64_t reserve = s->no_reserve ? 0 : (class_total(k) - gone) / k->share;
	uint64_t coming =
		k->blocks[BLOCK_DEFERRED] + k->blocks[BLOCK_EXHAUSTED] + k->dead;

	return reserve > coming ? reserve - coming : 0;
}

bool slab_tight(const struct slab *s, uint8_t cls)
{
	const struct slab_class *k = &s->class[cls];

	return k->full &&
	       k->blocks[BLOCK_FREE] - k->shut <= class_total(k) / k->share / 2;
}

void slab_note_dead(struct slab *s, const uint64_t dead[CLASS_COUNT])
{
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++) {
		struct slab_class *k = &s->class[cls];

		if (dead[cls] > k->dead)
			slab_came_back(k, dead[cls] - k->dead);
		k->dead = dead[cls];
	}
}

/* Free blocks that may be granted while there are pages. */
static uint64_t grantable(const struct slab *s, const struct slab_class *k)
{
	uint64_t kept = slab_reserve_missing(s, k, 0);
	uint64_t n = k->blocks[BLOCK_FREE] - k->shut;

	return n > kept ? n - kept : 0;
}

/*
 * Blocks that may be granted when pages are out: as many as have come back, and a share of the
 * reserve on credit. `fresh`: its value before this call.
 */
static uint64_t lendable(const struct slab_class *k, bool fresh)
{
	int64_t free = (int64_t)(k->blocks[BLOCK_FREE] - k->shut), n = k->back;

	if (fresh)
		n = UTIL_MAX(n + free / (int64_t)LEND_SHARE, 1);
	return (uint64_t)UTIL_MAX(UTIL_MIN(n, free), 0);
}

void slab_write_off(struct slab *s, uint8_t cls)
{
	s->class[cls].back = 0;
}

/*
 * Pages that values leave to the index: as many as it takes until no subtable has more keys
 * than are safe. In a full store keys come and go, and a window overflows that was not full.
 */
static uint64_t index_pages(const struct slab *s)
{
	uint64_t has = heap_used(s->heap) - heap_retired(s->heap) - s->pages;
	uint64_t keys = 0, wants = 1;

	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		keys += s->class[cls].blocks[BLOCK_OUT];
	while (wants * SUBTABLE_KEYS_SAFE < keys)
		wants *= 2;
	return wants > has ? wants - has : 0;
}

/* Pages that a segment of this class must leave: for the index and for small blocks. */
static uint64_t reserved_pages(const struct slab *s, uint8_t cls)
{
	uint64_t share = heap_total(s->heap) / TOMBSTONE_SHARE;
	uint64_t small = share > s->small_pages ? share - s->small_pages : 0;

	if (s->no_reserve)
		return UTIL_MAX(heap_total(s->heap) / VISITS_SHARE, UINT64_C(2));
	return index_pages(s) + (slab_is_small(cls) ? 0 : small);
}

uint64_t slab_room(const struct slab *s)
{
	uint64_t left = heap_left(s->heap), kept = reserved_pages(s, CLASS_COUNT - 1);

	return left > kept ? left - kept : 0;
}

static uint64_t take_pages(struct slab *s, uint8_t cls, uint32_t n)
{
	return heap_left(s->heap) < n + reserved_pages(s, cls)
		       ? 0
		       : heap_take(s->heap, n);
}

/*
 * Take pages for a segment of the class; sets g->page, pages and blocks. If there is no run of the
 * best length, a shorter one, which wastes more; a store that evicts empties such a run instead.
 */
static bool segment_take(struct slab *s, struct segment *g)
{
	uint64_t bytes = class_bytes(g->cls);
	uint32_t least = s->no_reserve ? UINT32_MAX : block_pages(bytes);

	g->pages = segment_pages(s, bytes);
	while (!(g->page = take_pages(s, g->cls, g->pages)) && g->pages > least)
		g->pages = UTIL_MAX(g->pages / 2, least);
	g->blocks = (uint32_t)((uint64_t)g->pages * PAGE_BYTES / bytes);
	g->n_free = g->blocks;
	return g->page != 0;
}

/* Enter a segment that has its record, pages and states. */
static void segment_enter(struct slab *s, uint32_t at, const struct segment *g)
{
	s->segments[at] = *g;
	for (uint32_t i = 0; i < g->pages; i++)
		s->segment_at[g->page - s->first + i] = at;
	s->pages += g->pages;
	if (slab_is_small(g->cls))
		s->small_pages += g->pages;
	s->bytes_slack += slab_slack(g);
}

/* Make an empty segment, listed; 0 if out of memory. */
static uint32_t segment_new(struct slab *s, uint8_t cls)
{
	struct segment g = {.cls = cls, .fill = FILL_FULL};
	uint32_t at = record_new(s);

	if (!at)
		return 0;
	s->segments[at] = g;
	if (!segment_take(s, &g))
		goto err_record;
	g.state = calloc(g.blocks, sizeof(*g.state));
	if (!g.state)
		goto err_pages;
	heap_map_segment(s->heap, g.page, g.pages, cls);
	segment_enter(s, at, &g);
	resets_add(&s->resets, g.page, g.pages);
	s->class[cls].blocks[BLOCK_FREE] += g.blocks;
	s->class[cls].back = 0; /* credit is for a full store: this one is not */
	list_insert(s, at, FILL_EMPTY);
	return at;

err_pages:
	heap_give(s->heap, g.page, g.pages);
err_record:
	record_drop(s, at);
	return 0;
}

/* A segment of an earlier server: nobody knows yet who has its blocks. */
static bool segment_restore(struct slab *s, uint64_t page, uint32_t entry)
{
	struct segment g = {.page = page, .pages = page_count(entry),
			    .cls = page_class(entry), .fill = FILL_FULL};
	uint32_t at = record_new(s);

	if (!at)
		return false;
	g.blocks = (uint32_t)((uint64_t)g.pages * PAGE_BYTES / class_bytes(g.cls));
	g.state = malloc(g.blocks * sizeof(*g.state));
	if (!g.state) {
		record_drop(s, at);
		return false;
	}
	for (uint32_t i = 0; i < g.blocks; i++)
		g.state[i] = BLOCK_OUT << BLOCK_STATE_SHIFT;
	segment_enter(s, at, &g);
	s->class[g.cls].blocks[BLOCK_OUT] += g.blocks;
	return true;
}

int slab_restore(struct slab *s)
{
	uint64_t end = s->first + heap_total(s->heap);

	for (uint64_t page = s->first; page < end; page++) {
		uint32_t entry = heap_map_at(s->heap, page);

		if (page_kind(entry) == PAGE_IS_SEGMENT && !segment_restore(s, page, entry))
			return err_set(FARKV_ENOMEM, "no memory for the books of the region");
	}
	return 0;
}

void slab_segment_retire(struct slab *s, uint32_t at)
{
	struct segment *g = &s->segments[at];

	slab_unstick(s, at);
	heap_retire(s->heap, g->page, g->pages);
	list_remove(s, at);
	for (uint32_t i = 0; i < g->pages; i++)
		s->segment_at[g->page - s->first + i] = 0;
	s->class[g->cls].blocks[BLOCK_FREE] -= g->blocks;
	s->pages -= g->pages;
	if (slab_is_small(g->cls))
		s->small_pages -= g->pages;
	s->bytes_slack -= slab_slack(g);
	free(g->state);
	record_drop(s, at);
}

void slab_keep_no_reserve(struct slab *s)
{
	s->no_reserve = true;
	s->place = s->first;
	heap_align(s->heap);
}

uint32_t slab_run(const struct slab *s, uint8_t cls)
{
	return segment_pages(s, class_bytes(cls));
}

/* ---- blocks -------------------------------------------------------------- */

bool slab_locate(const struct slab *s, uint64_t off, uint32_t *seg_out,
		 uint32_t *i_out)
{
	uint64_t page = off / PAGE_BYTES, at;
	const struct segment *g;
	uint32_t seg;

	if (page < s->first || page - s->first >= heap_total(s->heap))
		return false;
	seg = s->segment_at[page - s->first];
	if (seg == 0)
		return false;
	g = &s->segments[seg];
	at = off - g->page * PAGE_BYTES;
	if (at % class_bytes(g->cls) || at / class_bytes(g->cls) >= g->blocks)
		return false;
	*seg_out = seg;
	*i_out = (uint32_t)(at / class_bytes(g->cls));
	return true;
}

bool slab_locate_out(const struct slab *s, struct block_ref ref,
		     uint32_t *seg_out, uint32_t *i_out)
{
	uint32_t seg, i;
	const struct segment *g;

	if (!slab_locate(s, ref.off, &seg, &i))
		return false;
	g = &s->segments[seg];
	if (g->cls != ref.cls || slab_state(g, i) != BLOCK_OUT ||
	    ref.inc > SLOT_INC_MASK || ref.inc < slab_inc(g, i))
		return false;
	*seg_out = seg;
	*i_out = i;
	return true;
}

void slab_unstick(struct slab *s, uint32_t seg)
{
	struct segment *g = &s->segments[seg];

	if (!g->stuck)
		return;
	g->stuck = false;
	s->stuck--;
	s->stuck_bytes -= g->n_free * class_bytes(g->cls);
}

void slab_set(struct slab *s, uint32_t seg, uint32_t i, enum block_state state,
	      uint16_t inc)
{
	struct segment *g = &s->segments[seg];
	uint64_t *blocks = s->class[g->cls].blocks;
	enum block_state before = slab_state(g, i);

	if (g->state[i] & BLOCK_MARK)
		g->n_marked--;
	g->state[i] = (uint16_t)((unsigned)state << BLOCK_STATE_SHIFT | inc);
	blocks[before]--;
	blocks[state]++;
	if (state == BLOCK_FREE)
		slab_unstick(s, seg);
	if (before == BLOCK_FREE) {
		g->n_free--;
		s->stuck_bytes -= g->stuck ? class_bytes(g->cls) : 0;
	}
	if (state == BLOCK_FREE) {
		g->n_free++;
		s->class[g->cls].shut += g->evacuating;
		if (i < g->hint)
			g->hint = i;
	}
	slab_relist(s, seg);
}

static uint32_t segment_pick(const struct slab *s, uint8_t cls)
{
	for (int f = 0; f < FILL_LISTS; f++)
		if (s->class[cls].list[f])
			return s->class[cls].list[f];
	return 0;
}

/* Take `n` of the free blocks. */
static void take_free(struct slab *s, uint8_t cls, uint64_t n,
		      struct block_ref *refs_out)
{
	struct slab_class *k = &s->class[cls];

	k->fresh = false;
	while (n > 0) {
		uint32_t at = segment_pick(s, cls);
		struct segment *g = &s->segments[at];

		for (; n > 0 && g->n_free; n--) {
			while (slab_state(g, g->hint) != BLOCK_FREE)
				g->hint++;
			*refs_out++ = slab_ref(g, g->hint);
			slab_set(s, at, g->hint, BLOCK_OUT,
				 slab_inc(g, g->hint));
		}
	}
}

size_t slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
		  struct block_ref *refs_out)
{
	struct slab_class *k = &s->class[cls];
	bool fresh = k->fresh;
	size_t n = 0;

	slab_settle(s, now);
	while (n < want) {
		uint64_t more = UTIL_MIN(grantable(s, k), (uint64_t)(want - n));

		if (more) {
			k->back = UTIL_MAX(k->back - (int64_t)more,
					   UTIL_MIN(k->back, 0));
		} else if (segment_new(s, cls)) {
			k->full = false;
			continue;
		} else {
			k->full = true;
			more = UTIL_MIN(lendable(k, fresh),
					(uint64_t)(want - n));
			k->back -= (int64_t)more;
			fresh = false;
		}
		if (!more)
			break;
		take_free(s, cls, more, refs_out + n);
		n += more;
	}
	return n;
}

static void count_class(const struct slab *s, uint32_t cls,
			struct slab_counts *n)
{
	const uint64_t *blocks = s->class[cls].blocks;
	uint64_t bytes = class_bytes(cls);

	n->free += blocks[BLOCK_FREE];
	n->out += blocks[BLOCK_OUT];
	n->deferred += blocks[BLOCK_DEFERRED];
	n->exhausted += blocks[BLOCK_EXHAUSTED];
	n->bytes_free += blocks[BLOCK_FREE] * bytes;
	n->bytes_out += blocks[BLOCK_OUT] * bytes;
	n->bytes_deferred += blocks[BLOCK_DEFERRED] * bytes;
	n->bytes_exhausted += blocks[BLOCK_EXHAUSTED] * bytes;
}

struct slab_counts slab_count_class(const struct slab *s, uint8_t cls)
{
	struct slab_counts n = {0};

	count_class(s, cls, &n);
	return n;
}

struct slab_counts slab_count(const struct slab *s)
{
	struct slab_counts n = {
		.pages = s->pages,
		.bytes_slack = s->bytes_slack,
		.bytes_stuck = s->stuck_bytes,
	};

	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		count_class(s, cls, &n);
	return n;
}

/* ---- what comes back, and when it may be granted again: at once, T later (I4), or
 * after a barrier (I5) ---- */

/* Free the oldest block of the grace list. */
static void deferred_pop(struct slab *s)
{
	uint32_t seg, i;

	if (slab_locate(s, s->deferred[s->deferred_at].off, &seg, &i))
		slab_set(s, seg, i, BLOCK_FREE, slab_inc(&s->segments[seg], i));
	s->deferred_at = (s->deferred_at + 1) & (s->deferred_cap - 1);
	s->n_deferred--;
	if (s->deferred_aging)
		s->deferred_aging--;
}

void slab_settle(struct slab *s, uint64_t now)
{
	while (s->n_deferred && s->deferred[s->deferred_at].ready <= now)
		deferred_pop(s);
}

static bool deferred_push(struct slab *s, uint64_t off, uint64_t ready)
{
	if (s->n_deferred == s->deferred_cap) {
		size_t cap = s->deferred_cap ? s->deferred_cap * 2 : 256;
		struct deferred_block *p = malloc(cap * sizeof(*p));

		if (!p)
			return false;
		for (size_t i = 0; i < s->n_deferred; i++)
			p[i] = s->deferred[(s->deferred_at + i) & (s->deferred_cap - 1)];
		free(s->deferred);
		s->deferred = p;
		s->deferred_cap = cap;
		s->deferred_at = 0;
	}
	s->deferred[(s->deferred_at + s->n_deferred++) & (s->deferred_cap - 1)] =
		(struct deferred_block){.off = off, .ready = ready};
	return true;
}

static bool exhausted_push(struct slab *s, uint64_t off)
{
	if (s->n_exhausted == s->exhausted_cap) {
		size_t cap = s->exhausted_cap ? s->exhausted_cap * 2 : 64;
		void *p = realloc(s->exhausted, cap * sizeof(*s->exhausted));

		if (!p)
			return false;
		s->exhausted = p;
		s->exhausted_cap = cap;
	}
	s->exhausted[s->n_exhausted++] = off;
	return true;
}

static bool take_back(struct slab *s, struct block_ref ref, enum return_kind state,
		      uint64_t now)
{
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i))
		return false;
	if (state == RETURN_FREE)
		slab_set(s, seg, i, BLOCK_FREE, ref.inc);
	else if (state == RETURN_DEFERRED &&
		 deferred_push(s, ref.off, now + s->grace_ns))
		slab_set(s, seg, i, BLOCK_DEFERRED, ref.inc);
	else if (state == RETURN_EXHAUSTED && exhausted_push(s, ref.off))
		slab_set(s, seg, i, BLOCK_EXHAUSTED, ref.inc);
	else
		s->forgotten++;
	return true;
}

bool slab_return(struct slab *s, struct block_ref ref, enum return_kind state,
		 uint64_t now)
{
	if (!take_back(s, ref, state, now))
		return false;
	slab_came_back(&s->class[ref.cls], 1);
	return true;
}

struct resets *slab_resets(struct slab *s)
{
	return &s->resets;
}

uint64_t slab_forgotten(const struct slab *s)
{
	return s->forgotten;
}

bool slab_drop(struct slab *s, uint64_t word, uint64_t now)
{
	struct block_ref ref = slot_block(word);
	enum return_kind state = RETURN_DEFERRED;
	struct slab_class *k;
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i))
		return false;
	k = &s->class[ref.cls];
	if (ref.inc == SLOT_INC_MASK) {
		state = RETURN_EXHAUSTED;
	} else {
		ref.inc++;
	}
	if (!take_back(s, ref, state, now))
		return false;
	/* The last search may have counted it already. */
	if (k->dead)
		k->dead--;
	else
		slab_came_back(k, 1);
	return true;
}

bool slab_barrier_begin(struct slab *s)
{
	s->n_aging = s->n_exhausted;
	s->deferred_aging = s->n_deferred;
	return s->n_aging > 0 || s->deferred_aging > 0;
}

void slab_barrier_passed(struct slab *s)
{
	for (size_t w = 0; w < s->n_aging; w++) {
		uint32_t seg, i;

		if (!slab_locate(s, s->exhausted[w], &seg, &i))
			continue;
		slab_set(s, seg, i, BLOCK_FREE, 0);
		resets_add(&s->resets, s->exhausted[w] / PAGE_BYTES, 1);
	}
	s->n_exhausted -= s->n_aging;
	if (s->n_exhausted)
		memmove(s->exhausted, s->exhausted + s->n_aging,
			s->n_exhausted * sizeof(*s->exhausted));
	s->n_aging = 0;
	while (s->deferred_aging)
		deferred_pop(s);
}
