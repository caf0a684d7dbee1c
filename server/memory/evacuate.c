/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "evacuate.h"

#include <stdlib.h>

#include "common/base/util.h"

#include "slab_priv.h"

/* Places found for each one that is chosen, and the most of them. */
#define PLACES_FOUND 16u
#define PLACES_MAX 4096u
/* Share of the pages that are emptied though their blocks fit nowhere else. */
#define FORCED_SHARE 4u
/* A class with this share of the memory gets blocks by visits: they take its coldest keys, too. By
 * force a page of another class would lose its keys however often they are used. */
#define SERVED_SHARE 16u

/* ---- empty segments -------------------------------------------------------------- */

/* Long segments are not kept: a single one can be most of the memory. */
static bool worth_keeping(const struct slab *s, uint8_t cls)
{
	uint32_t at = s->class[cls].list[FILL_EMPTY];

	for (int f = 0; f < FILL_QUARTERS; f++)
		if (s->class[cls].list[f])
			return false;
	return s->segments[at].pages <= SLAB_SEGMENT_PAGES_MAX;
}

uint64_t slab_shrink(struct slab *s, bool keep_one)
{
	uint64_t pages = 0;

	for (uint8_t cls = 0; cls < CLASS_COUNT; cls++) {
		const struct slab_class *k = &s->class[cls];
		uint32_t at = k->list[FILL_EMPTY];

		if (at && keep_one && worth_keeping(s, cls))
			at = s->segments[at].next;
		while (at) {
			uint32_t next = s->segments[at].next;
			uint32_t n = s->segments[at].pages;
			uint64_t blocks = s->segments[at].blocks;

			if (k->blocks[BLOCK_FREE] - blocks <
			    slab_reserve_missing(s, k, blocks))
				break;

			slab_segment_retire(s, at);
			pages += n;
			at = next;
		}
	}
	return pages;
}

uint64_t slab_empty(const struct slab *s)
{
	return s->empty_pages;
}

/* ---- places ---------------------------------------------------------------------- */

struct place {
	uint64_t cost; /* bytes to move, of a page */
	uint64_t page;
};

/* The next segment that has pages at or after *page, or 0; *page is then the page after it. */
static uint32_t next_segment(const struct slab *s, uint64_t *page, uint64_t end)
{
	for (; *page < end; (*page)++) {
		uint32_t at = s->segment_at[*page - s->first];

		if (at) {
			*page = s->segments[at].page + s->segments[at].pages;
			return at;
		}
	}
	return 0;
}

static uint64_t segment_cost(const struct segment *g)
{
	return (g->blocks - g->n_free) * class_bytes(g->cls);
}

/* False if it must not be emptied, or if there is nothing to empty. */
static bool place_at(const struct slab *s, const struct evacuation *e, uint64_t page,
		     struct place *p)
{
	uint64_t pages = 0, at = page, end = page + e->run, others = e->run;
	uint32_t seg;

	*p = (struct place){.page = page};
	while ((seg = next_segment(s, &at, end))) {
		const struct segment *g = &s->segments[seg];

		if (g->stuck || g->evacuating)
			return false;
		/* A segment of several pages is one place of one page, its first. */
		if (e->run == 1 && (g->page != page || g->cls == e->cls))
			return false;
		/* It is what the request needs, unless it lies across places. */
		if (g->cls == e->cls && g->page == page && g->pages == e->run)
			return false;
		p->cost += segment_cost(g);
		pages += g->pages;
		others -= UTIL_MIN(at, end) - UTIL_MAX(g->page, page);
	}
	p->cost /= UTIL_MAX(e->run == 1 ? pages : e->run, UINT64_C(1));
	/* Visits need pages elsewhere, also for the subtables that they move out of the place. */
	return pages > 0 && (e->run == 1 || others * 2 <= heap_left(s->heap));
}

static int by_cost(const void *a, const void *b)
{
	const struct place *p = a, *q = b;

	return p->cost < q->cost ? -1 : p->cost > q->cost;
}

/* The next `n` places or less, the cheapest first. Returns their number. */
static size_t look(struct slab *s, const struct evacuation *e, size_t n, struct place *place)
{
	uint64_t total = heap_total(s->heap);
	size_t found = 0;

	/* heap_align(): runs lie at multiples of their length. */
	s->place -= (s->place - s->first) % e->run;
	for (uint64_t i = 0; found < n && i < total / e->run; i++) {
		if (s->place < s->first || s->place + e->run > s->first + total)
			s->place = s->first;
		found += place_at(s, e, s->place, &place[found]);
		s->place += e->run;
	}
	qsort(place, found, sizeof(*place), by_cost);
	return found;
}

/* The segments that touch the place; returns their pages. */
static uint64_t leave(struct slab *s, uint64_t page, uint64_t run)
{
	uint64_t end = page + run, pages = 0;
	uint32_t at;

	while ((at = next_segment(s, &page, end))) {
		struct segment *g = &s->segments[at];

		g->evacuating = true;
		slab_relist(s, at);
		s->class[g->cls].shut += g->n_free;
		g->next = s->evacuating;
		s->evacuating = at;
		pages += g->pages;
	}
	return pages;
}

/* Blocks of each class that can move into the free ones of other segments; half of these stay for
 * grants. Long ones cannot move. */
static void room_count(const struct slab *s, int64_t room[CLASS_COUNT])
{
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		room[cls] = class_bytes(cls) > EVACUATE_MOVE_BYTES ?
				    0 :
				    (int64_t)(s->class[cls].blocks[BLOCK_FREE] -
					      s->class[cls].shut) / 2;
}

/* True if the blocks of the segment that starts at the page can move; they take up the room. */
static bool fits(const struct slab *s, uint64_t page, int64_t room[CLASS_COUNT])
{
	const struct segment *g = &s->segments[s->segment_at[page - s->first]];
	int64_t need = g->blocks - g->n_free + g->n_free / 2;

	if (need > room[g->cls])
		return false;
	room[g->cls] -= need;
	return true;
}

static bool is_served(const struct slab *s, uint8_t cls)
{
	uint64_t blocks = 0;

	if (cls == CLASS_COUNT)
		return false;
	for (unsigned state = 0; state < BLOCK_STATES; state++)
		blocks += s->class[cls].blocks[state];
	return blocks * class_bytes(cls) >= heap_total(s->heap) * PAGE_BYTES / SERVED_SHARE;
}

/* The values of the segment that starts at the page may be left out: the request's class gets no
 * blocks otherwise, or the segment is half empty, and its blocks never move. */
static bool may_be_forced(const struct slab *s, const struct evacuation *e, uint64_t page)
{
	const struct segment *g = &s->segments[s->segment_at[page - s->first]];

	return !is_served(s, e->cls) ||
	       (class_bytes(g->cls) > EVACUATE_MOVE_BYTES && g->n_free * 2 >= g->blocks);
}

/* Choose of the places, the cheapest first; `room` NULL: by force. */
static uint64_t choose(struct slab *s, const struct evacuation *e, uint64_t pages,
		       const struct place *place, int64_t *room)
{
	uint64_t chosen = 0;
	struct place p;

	for (; place->page && (chosen == 0 || chosen + e->run <= pages); place++) {
		/* It may touch a segment of one that was chosen. */
		if (!place_at(s, e, place->page, &p) ||
		    (e->run == 1 &&
		     !(room ? fits(s, p.page, room) : may_be_forced(s, e, p.page))))
			continue;
		chosen += leave(s, p.page, e->run);
		if (e->run > 1)
			heap_hold(s->heap, p.page, e->run);
	}
	return chosen;
}

/* Look at all places again the next time. */
static void unstick(struct slab *s)
{
	for (uint32_t at = 1; s->stuck && at < s->n_segments; at++)
		slab_unstick(s, at);
}

uint64_t evacuate_begin(struct slab *s, const struct evacuation *e)
{
	size_t n = (size_t)UTIL_MIN(UTIL_MAX(e->pages / e->run, UINT64_C(1)) * PLACES_FOUND,
				    (uint64_t)PLACES_MAX);
	struct place *place = malloc((n + 1) * sizeof(*place));
	int64_t room[CLASS_COUNT];
	uint64_t chosen = 0;

	if (!place)
		return 0;
	n = look(s, e, n, place);
	place[n].page = 0;
	room_count(s, room);
	if (e->run == 1)
		chosen = choose(s, e, e->pages, place, room);
	s->forced = chosen == 0 && e->force;
	if (s->forced)
		chosen = choose(s, e, e->run == 1 ? e->pages / FORCED_SHARE : e->pages, place,
				NULL);
	if (s->forced && chosen == 0)
		unstick(s);
	free(place);
	return chosen;
}

bool evacuate_leaves(const struct slab *s, uint64_t off)
{
	uint32_t at = s->segment_at[off / PAGE_BYTES - s->first];

	return at && s->segments[at].evacuating;
}

bool evacuate_forced(const struct slab *s)
{
	return s->forced;
}

uint64_t evacuate_end(struct slab *s)
{
	uint64_t pages = 0;

	while (s->evacuating) {
		uint32_t at = s->evacuating;
		struct segment *g = &s->segments[at];

		s->evacuating = g->next;
		s->class[g->cls].shut -= g->n_free;
		g->evacuating = false;
		if (g->n_free == g->blocks) {
			pages += g->pages;
			slab_segment_retire(s, at);
		} else {
			g->stuck = true;
			s->stuck++;
			s->stuck_bytes += g->n_free * class_bytes(g->cls);
			slab_relist(s, at);
		}
	}
	return pages;
}

bool evacuate_stuck(const struct slab *s)
{
	return s->stuck > 0;
}
