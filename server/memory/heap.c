/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "heap.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/region/layout.h"

#include "step.h"

struct run {
	uint64_t page, n;
};

/*
 * States in taken[]. Retired pages are listed in `retired`; those that the list had no memory
 * for are found by their state. HELD is a flag beside the state: a page that is not 0 is not
 * handed out.
 */
enum { PAGE_FREE, PAGE_TAKEN, PAGE_UNLISTED, PAGE_UNLISTED_AGING, PAGE_HELD = 4 };

#define RUN_ALIGN_MAX 16u
/* An aligned run is looked for this many pages above the lowest run: low addresses are
 * preferred, and a search of a large region stays short. */
#define ALIGNED_WITHIN 4096u
#define NO_RUN UINT64_MAX
/* Share of the pages in use that is backed in advance, and the most pages. */
#define BACK_SHARE 8u
#define BACK_MOST 32u

struct heap {
	uint64_t first, count, used;
	uint64_t lowest; /* no free page lies below this one */
	uint64_t end;    /* ... nor from this one on upwards */
	uint64_t low, high; /* once taken: from the first page up, from the last page down */
	void (*spread)(void *arg, uint64_t low, uint64_t high); /* NULL: none */
	void *spread_arg;
	heap_back *back; /* NULL: none */
	void *back_arg;
	uint64_t backed_low, backed_high; /* like low and high, for pages that `back` has taken */
	bool align;      /* heap_align() */
	uint64_t no_run; /* no run of this many pages is free; 0 unknown */
	uint8_t *taken;  /* state per page; calloc touches none of it */
	uint32_t *map;   /* the region's page map; NULL: none */
	struct run *retired; /* the first n_aging wait for the running barrier */
	size_t n_retired, n_aging, retired_cap;
	uint64_t retired_pages;
	uint64_t held_from, held_to; /* the pages that are HELD lie between these */
	uint64_t n_held; /* free ones */
	uint64_t unlisted; /* of those: pages in state UNLISTED or UNLISTED_AGING */
};

struct heap *heap_new(uint64_t first, uint64_t count)
{
	struct heap *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->first = first;
	h->count = count;
	h->end = count;
	h->taken = calloc(count, 1);
	if (!h->taken) {
		free(h);
		return NULL;
	}
	return h;
}

void heap_free(struct heap *h)
{
	if (!h)
		return;
	free(h->taken);
	free(h->retired);
	free(h);
}

void heap_set_map(struct heap *h, uint32_t *map)
{
	h->map = map;
}

void heap_map_segment(struct heap *h, uint64_t page, uint64_t n, uint8_t cls)
{
	uint64_t at = page - h->first;

	for (uint64_t i = 1; h->map && i < n; i++)
		h->map[at + i] = page_pack(PAGE_IS_LATER, 0, cls);
	step_reached(STEP_SEGMENT);
	if (h->map)
		atom_store_publish(&h->map[at], page_pack(PAGE_IS_SEGMENT, (uint32_t)n, cls));
}

/* The first entry goes first: later ones without it are free (heap_restore()). */
static void map_clear(struct heap *h, uint64_t at, uint64_t n)
{
	atom_store_publish(&h->map[at], 0);
	atom_compiler_barrier();
	step_reached(STEP_PAGES_FREE);
	memset(&h->map[at], 0, n * sizeof(h->map[0]));
}

bool heap_map_is(const struct heap *h, uint64_t page, uint32_t entry)
{
	return !h->map || h->map[page - h->first] == entry;
}

static unsigned state(const struct heap *h, uint64_t at)
{
	return h->taken[at] & ~PAGE_HELD;
}

static bool is_free(const struct heap *h, uint64_t at)
{
	return state(h, at) == PAGE_FREE;
}

static void set_state(struct heap *h, uint64_t at, unsigned to)
{
	h->taken[at] = (uint8_t)((h->taken[at] & PAGE_HELD) | to);
}

uint32_t heap_map_at(const struct heap *h, uint64_t page)
{
	return h->map[page - h->first];
}

/* ---- another server's page map -------------------------------------------------- */

static bool segment_entry_ok(uint32_t p, uint64_t left)
{
	uint64_t n = page_count(p);

	return n > 0 && n <= left && page_class(p) < CLASS_COUNT &&
	       class_bytes(page_class(p)) <= n * PAGE_BYTES;
}

/* Pages of the unit that begins at `i`; 0 with a detail if the entries cannot be. */
static uint64_t restore_unit(struct heap *h, uint64_t i)
{
	uint32_t p = h->map[i];
	uint64_t n = 1;

	switch (page_kind(p)) {
	case PAGE_IS_FREE:
		if (p == 0)
			return 1;
		break;
	case PAGE_IS_LATER: /* of a segment that was just being made or freed */
		h->map[i] = 0;
		return 1;
	case PAGE_IS_SUBTABLE:
		if (p != page_pack(PAGE_IS_SUBTABLE, 0, 0))
			break;
		memset(&h->taken[i], PAGE_TAKEN, 1);
		h->high = h->high ? h->high : h->count - i;
		return 1;
	case PAGE_IS_SEGMENT:
		if (!segment_entry_ok(p, h->count - i))
			break;
		while (n < page_count(p) &&
		       h->map[i + n] == page_pack(PAGE_IS_LATER, 0, page_class(p)))
			n++;
		if (n < page_count(p))
			break;
		memset(&h->taken[i], PAGE_TAKEN, n);
		h->low = i + n;
		return n;
	}
	err_set(FARKV_EFORMAT,
		"region: the page map is damaged: entry of page %" PRIu64 " is 0x%08" PRIx32,
		h->first + i, p);
	return 0;
}

int heap_restore(struct heap *h)
{
	for (uint64_t i = 0, n; i < h->count; i += n) {
		n = restore_unit(h, i);
		if (!n)
			return FARKV_EFORMAT;
		h->used += h->taken[i] ? n : 0;
	}
	h->backed_low = h->low;
	h->backed_high = h->high;
	return 0;
}

bool heap_audit(const struct heap *h)
{
	for (uint64_t i = 0; h->map && i < h->count; i++)
		if (is_free(h, i) != (h->map[i] == 0)) {
			err_set(FARKV_EPROTOCOL,
				"page map: page %" PRIu64 " is 0x%08" PRIx32 ", but %s",
				h->first + i, h->map[i],
				is_free(h, i) ? "free" : "in use");
			return false;
		}
	return true;
}

void heap_watch(struct heap *h, void (*spread)(void *arg, uint64_t low, uint64_t high),
		void *arg)
{
	h->spread = spread;
	h->spread_arg = arg;
	spread(arg, h->low, h->high);
}

static void spread_to(struct heap *h, uint64_t low, uint64_t high)
{
	if (low <= h->low && high <= h->high)
		return;
	h->low = low > h->low ? low : h->low;
	h->high = high > h->high ? high : h->high;
	if (h->spread)
		h->spread(h->spread_arg, h->low, h->high);
}

void heap_set_back(struct heap *h, heap_back *back, void *arg)
{
	h->back = back;
	h->back_arg = arg;
}

/* Back the pages up to `end`, except those that the upper end has backed. */
static bool back_low(struct heap *h, uint64_t end)
{
	uint64_t top = h->count - h->backed_high, from = h->backed_low, n;

	end = end < top ? end : top;
	if (!h->back || end <= from)
		return true;
	n = h->used / BACK_SHARE < BACK_MOST ? h->used / BACK_SHARE : BACK_MOST;
	n = n < top - end ? n : top - end;
	n = h->back(h->back_arg, from, end - from, n);
	h->backed_low += n;
	return n > 0;
}

static bool back_down_to(struct heap *h, uint64_t at)
{
	uint64_t top = h->count - h->backed_high;

	if (at < h->backed_low || at >= top)
		return true;
	if (!h->back(h->back_arg, at, top - at, 0))
		return false;
	h->backed_high += top - at;
	return true;
}

/*
 * Back the pages from `at` to the end: those between the two ends were never allocated. If
 * possible also HEAP_RESERVE pages for the index: without them a store on a machine without
 * free memory could not compact, and so not be emptied.
 */
static bool back_high(struct heap *h, uint64_t at)
{
	if (!h->back)
		return true;
	return (at >= HEAP_RESERVE && back_down_to(h, at - HEAP_RESERVE)) ||
	       back_down_to(h, at);
}

/*
 * The largest power of two that divides n, up to 16. Runs at multiples of it join with their
 * neighbours again when they become free.
 */
static uint64_t alignment(const struct heap *h, uint64_t n)
{
	uint64_t align = n & -n;

	if (h->align)
		return n;
	return align < RUN_ALIGN_MAX ? align : RUN_ALIGN_MAX;
}

void heap_align(struct heap *h)
{
	h->align = true;
}

/* The lowest run of n free pages, or an aligned one a little higher. */
static uint64_t find_run(const struct heap *h, uint64_t n)
{
	uint64_t run = 0, lowest = NO_RUN, align = alignment(h, n);

	for (uint64_t i = h->lowest; i < h->end; i++) {
		uint64_t at = i + 1 - n;

		if (lowest != NO_RUN && i - lowest >= ALIGNED_WITHIN)
			break;
		run = h->taken[i] ? 0 : run + 1;
		if (run < n)
			continue;
		if (at % align == 0)
			return at;
		if (lowest == NO_RUN)
			lowest = at;
	}
	return lowest;
}

static uint64_t take(struct heap *h, uint64_t n)
{
	uint64_t at;

	if (h->no_run && n >= h->no_run)
		return 0;
	while (h->lowest < h->end && h->taken[h->lowest])
		h->lowest++;
	at = find_run(h, n);
	if (at == NO_RUN) {
		h->no_run = n;
		return 0;
	}
	if (!back_low(h, at + n))
		return 0;
	memset(&h->taken[at], PAGE_TAKEN, n);
	h->used += n;
	spread_to(h, at + n, 0);
	return h->first + at;
}

static uint64_t take_highest(struct heap *h)
{
	while (h->end > 0 && h->taken[h->end - 1])
		h->end--;
	if (h->end == 0 || !back_high(h, h->end - 1))
		return 0;
	h->taken[--h->end] = PAGE_TAKEN;
	if (h->map)
		h->map[h->end] = page_pack(PAGE_IS_SUBTABLE, 0, 0);
	h->used++;
	spread_to(h, 0, h->count - h->end);
	return h->first + h->end;
}

uint64_t heap_left(const struct heap *h)
{
	uint64_t unused = h->count - h->used - h->n_held;

	return unused > HEAP_RESERVE ? unused - HEAP_RESERVE : 0;
}

uint64_t heap_take(struct heap *h, uint64_t n)
{
	return n == 0 || n > heap_left(h) ? 0 : take(h, n);
}

uint64_t heap_take_index(struct heap *h)
{
	return h->used == h->count ? 0 : take_highest(h);
}

void heap_give(struct heap *h, uint64_t page, uint64_t n)
{
	uint64_t at = page - h->first;

	assert(at < h->count && n <= h->count - at);
	for (uint64_t i = at; i < at + n; i++) {
		set_state(h, i, PAGE_FREE);
		h->n_held += h->taken[i] == PAGE_HELD;
	}
	if (h->map)
		map_clear(h, at, n);
	h->used -= n;
	h->no_run = 0;
	if (at < h->lowest)
		h->lowest = at;
	if (at + n > h->end)
		h->end = at + n;
}

void heap_hold(struct heap *h, uint64_t page, uint64_t n)
{
	uint64_t from = page - h->first;

	if (h->held_from == h->held_to)
		h->held_from = h->held_to = from;
	h->held_from = from < h->held_from ? from : h->held_from;
	h->held_to = from + n > h->held_to ? from + n : h->held_to;
	for (uint64_t i = from; i < from + n; i++) {
		h->n_held += h->taken[i] == PAGE_FREE;
		h->taken[i] |= PAGE_HELD;
	}
}

void heap_release(struct heap *h)
{
	if (h->held_from == h->held_to)
		return;
	for (uint64_t i = h->held_from; i < h->held_to; i++)
		h->taken[i] &= (uint8_t)~PAGE_HELD;
	h->lowest = h->held_from < h->lowest ? h->held_from : h->lowest;
	h->end = h->held_to > h->end ? h->held_to : h->end;
	h->held_from = h->held_to = h->n_held = 0;
	h->no_run = 0;
}

/* False if out of memory. */
static bool list_retired(struct heap *h, struct run run)
{
	if (h->n_retired == h->retired_cap) {
		size_t cap = h->retired_cap ? h->retired_cap * 2 : 64;
		void *p = realloc(h->retired, cap * sizeof(*h->retired));

		if (!p)
			return false;
		h->retired = p;
		h->retired_cap = cap;
	}
	h->retired[h->n_retired++] = run;
	return true;
}

void heap_retire(struct heap *h, uint64_t page, uint64_t n)
{
	h->retired_pages += n;
	if (list_retired(h, (struct run){.page = page, .n = n}))
		return;
	for (uint64_t i = page - h->first; i < page - h->first + n; i++)
		set_state(h, i, PAGE_UNLISTED);
	h->unlisted += n;
}

bool heap_barrier_begin(struct heap *h)
{
	for (uint64_t i = 0; h->unlisted && i < h->count; i++)
		if (state(h, i) == PAGE_UNLISTED)
			set_state(h, i, PAGE_UNLISTED_AGING);
	h->n_aging = h->n_retired;
	return h->retired_pages > 0;
}

static void unlisted_passed(struct heap *h)
{
	for (uint64_t i = 0; h->unlisted && i < h->count; i++)
		if (state(h, i) == PAGE_UNLISTED_AGING) {
			h->unlisted--;
			h->retired_pages--;
			heap_give(h, h->first + i, 1);
		}
}

void heap_barrier_passed(struct heap *h)
{
	unlisted_passed(h);
	for (size_t i = 0; i < h->n_aging; i++) {
		h->retired_pages -= h->retired[i].n;
		heap_give(h, h->retired[i].page, h->retired[i].n);
	}
	h->n_retired -= h->n_aging;
	if (h->n_retired)
		memmove(h->retired, h->retired + h->n_aging,
			h->n_retired * sizeof(*h->retired));
	h->n_aging = 0;
}

uint64_t heap_retired(const struct heap *h)
{
	return h->retired_pages;
}

uint64_t heap_total(const struct heap *h)
{
	return h->count;
}

uint64_t heap_used(const struct heap *h)
{
	return h->used;
}
