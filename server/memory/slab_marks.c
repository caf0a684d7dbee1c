/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks are accounted for, and the audit of the allocator's figures. */
#include "config.h"

#include "slab_marks.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/fetch.h"

#include "slab_priv.h"

/* Position in a visit of all blocks: the segment's record, and a block in it. */
#define CURSOR_SHIFT 32

bool slab_is_out(const struct slab *s, struct block_ref ref)
{
	uint32_t seg, i;

	return slab_locate_out(s, ref, &seg, &i);
}

void slab_fetch_record(const struct slab *s, uint64_t off)
{
	uint64_t page = off / PAGE_BYTES;

	if (page >= s->first && page - s->first < heap_total(s->heap))
		fetch_line(&s->segments[s->segment_at[page - s->first]]);
}

void slab_fetch_state(const struct slab *s, uint64_t off)
{
	uint32_t seg, i;

	if (slab_locate(s, off, &seg, &i))
		fetch_line(&s->segments[seg].state[i]);
}

enum slab_seen slab_mark(struct slab *s, struct block_ref ref)
{
	struct segment *g;
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i))
		return SLAB_SEEN_BAD;
	g = &s->segments[seg];
	if (g->state[i] & BLOCK_MARK)
		return SLAB_SEEN_AGAIN;
	g->state[i] |= BLOCK_MARK;
	g->n_marked++;
	return SLAB_SEEN_FIRST;
}

/* From block i on. Returns the first one not visited because there was no room. */
static uint32_t unmarked_of(const struct segment *g, uint32_t i, struct slab_list *out)
{
	if (!g->state || g->n_free + g->n_marked == g->blocks)
		return g->blocks;
	for (; i < g->blocks && out->n < out->cap; i++)
		if (slab_state(g, i) == BLOCK_OUT &&
		    !(g->state[i] & BLOCK_MARK))
			out->refs[out->n++] = slab_ref(g, i);
	return i;
}

bool slab_unmarked(struct slab *s, uint64_t *cursor, unsigned segments,
		   struct slab_list *out)
{
	uint64_t seg = *cursor >> CURSOR_SHIFT;
	uint32_t i = (uint32_t)*cursor;

	if (seg == 0)
		seg = 1;
	for (; seg < s->n_segments && out->n < out->cap && segments; segments--) {
		const struct segment *g = &s->segments[seg];

		i = unmarked_of(g, i, out);
		if (i < g->blocks)
			break;
		seg++;
		i = 0;
	}
	*cursor = seg << CURSOR_SHIFT | i;
	return seg < s->n_segments;
}

bool slab_unmark(struct slab *s, uint64_t *cursor, unsigned segments)
{
	uint64_t seg = *cursor ? *cursor : 1;

	for (; seg < s->n_segments && segments; seg++, segments--) {
		struct segment *g = &s->segments[seg];

		for (uint32_t i = 0; i < g->blocks && g->n_marked; i++)
			if (g->state[i] & BLOCK_MARK) {
				g->state[i] &= (uint16_t)~BLOCK_MARK;
				g->n_marked--;
			}
	}
	*cursor = seg;
	return seg < s->n_segments;
}

/* ---- audit --------------------------------------------------------------- */

struct audit {
	uint64_t blocks[CLASS_COUNT][BLOCK_STATES];
	uint64_t segments[CLASS_COUNT][FILL_LISTS];
	uint64_t deferred, exhausted, pages, small_pages, empty_pages, slack, stuck, stuck_bytes;
};

static bool wrong(const char *what, uint64_t where, uint64_t counted,
		  uint64_t booked)
{
	err_set(FARKV_EPROTOCOL,
		"allocator: %s (%" PRIu64 "): counted %" PRIu64
		", booked %" PRIu64,
		what, where, counted, booked);
	return false;
}

/* Block states by the bits above the incarnation: state and mark. */
#define KINDS 16u

static void count_kinds(const uint16_t *state, uint32_t n,
			uint32_t kinds[KINDS])
{
	uint32_t odd[KINDS] = {0}, i;

	/* Two arrays alternately, so that a count need not wait for the previous store. */
	for (i = 0; i + 1 < n; i += 2) {
		kinds[state[i] >> BLOCK_STATE_SHIFT]++;
		odd[state[i + 1] >> BLOCK_STATE_SHIFT]++;
	}
	if (i < n)
		kinds[state[i] >> BLOCK_STATE_SHIFT]++;
	for (i = 0; i < KINDS; i++)
		kinds[i] += odd[i];
}

/* The segment's pages: their owner, and what the page map says. */
static bool audit_pages(const struct slab *s, uint32_t at)
{
	const struct segment *g = &s->segments[at];
	uint64_t first = g->page - s->first;

	for (uint32_t i = 0; i < g->pages; i++) {
		uint32_t entry = i ? page_pack(PAGE_IS_LATER, 0, g->cls) :
				     page_pack(PAGE_IS_SEGMENT, g->pages, g->cls);

		if (s->segment_at[first + i] != at)
			return wrong("owner of page", g->page + i, at,
				     s->segment_at[first + i]);
		if (!heap_map_is(s->heap, g->page + i, entry))
			return wrong("page map, page", g->page + i, 0, entry);
	}
	return true;
}

static bool audit_segment(const struct slab *s, uint32_t at, struct audit *a)
{
	const struct segment *g = &s->segments[at];
	uint32_t kinds[KINDS] = {0}, hint = UTIL_MIN(g->hint, g->blocks);
	uint64_t n[BLOCK_STATES] = {0}, marked = 0;

	count_kinds(g->state, hint, kinds);
	if (kinds[BLOCK_FREE])
		return wrong("free below the hint of segment", at,
			     kinds[BLOCK_FREE], 0);
	count_kinds(g->state + hint, g->blocks - hint, kinds);
	for (unsigned k = 0; k < KINDS; k++) {
		n[k & BLOCK_STATE_MASK] += kinds[k];
		if (k >> 2 && (k & BLOCK_STATE_MASK) != BLOCK_OUT && kinds[k])
			return wrong("marks on blocks not out, segment", at,
				     kinds[k], 0);
		marked += k >> 2 ? kinds[k] : 0;
	}
	if (n[BLOCK_FREE] != g->n_free)
		return wrong("free blocks of segment", at, n[BLOCK_FREE],
			     g->n_free);
	if (marked != g->n_marked)
		return wrong("marks of segment", at, marked, g->n_marked);
	if (g->fill != slab_fill(g))
		return wrong("list of segment", at, slab_fill(g), g->fill);
	if (!audit_pages(s, at))
		return false;
	for (int i = 0; i < BLOCK_STATES; i++)
		a->blocks[g->cls][i] += n[i];
	if (g->fill == FILL_EMPTY)
		a->empty_pages += g->pages;
	if (g->fill != FILL_FULL)
		a->segments[g->cls][g->fill]++;
	a->deferred += n[BLOCK_DEFERRED];
	a->exhausted += n[BLOCK_EXHAUSTED];
	a->pages += g->pages;
	if (slab_is_small(g->cls))
		a->small_pages += g->pages;
	a->slack += slab_slack(g);
	a->stuck += g->stuck;
	a->stuck_bytes += g->stuck ? g->n_free * class_bytes(g->cls) : 0;
	return true;
}

static bool audit_class(const struct slab *s, uint32_t cls,
			const struct audit *a)
{
	const struct slab_class *k = &s->class[cls];

	for (int i = 0; i < BLOCK_STATES; i++)
		if (a->blocks[cls][i] != k->blocks[i])
			return wrong("blocks of class", cls, a->blocks[cls][i],
				     k->blocks[i]);
	for (int f = 0; f < FILL_LISTS; f++) {
		uint64_t n = 0;

		for (uint32_t at = k->list[f]; at && n < s->n_segments;
		     at = s->segments[at].next)
			n++;
		if (n != a->segments[cls][f])
			return wrong("listed segments of class", cls, n,
				     a->segments[cls][f]);
	}
	return true;
}

bool slab_audit(const struct slab *s)
{
	static struct audit a;
	uint64_t owned = 0;

	memset(&a, 0, sizeof(a));
	for (uint32_t at = 1; at < s->n_segments; at++)
		if (s->segments[at].state && !audit_segment(s, at, &a))
			return false;
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		if (!audit_class(s, cls, &a))
			return false;
	for (uint64_t p = 0; p < heap_total(s->heap); p++)
		owned += s->segment_at[p] != 0;
	if (owned != a.pages || owned != s->pages)
		return wrong("pages", a.pages, owned, s->pages);
	if (a.small_pages != s->small_pages)
		return wrong("small blocks' pages", 0, a.small_pages,
			     s->small_pages);
	if (a.empty_pages != s->empty_pages)
		return wrong("empty pages", 0, a.empty_pages, s->empty_pages);
	if (a.stuck != s->stuck)
		return wrong("stuck segments", 0, a.stuck, s->stuck);
	if (a.stuck_bytes != s->stuck_bytes)
		return wrong("bytes in stuck segments", 0, a.stuck_bytes, s->stuck_bytes);
	if (a.slack != s->bytes_slack)
		return wrong("slack", 0, a.slack, s->bytes_slack);
	if (a.deferred != s->n_deferred)
		return wrong("blocks in the grace list", 0, a.deferred, s->n_deferred);
	if (a.exhausted != s->n_exhausted)
		return wrong("exhausted blocks", 0, a.exhausted, s->n_exhausted);
	return true;
}

bool slab_condemn(struct slab *s, struct block_ref ref)
{
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i) ||
	    s->segments[seg].state[i] & BLOCK_MARK)
		return false;
	(void)slab_return(s, ref, RETURN_EXHAUSTED, 0);
	return slab_state(&s->segments[seg], i) == BLOCK_EXHAUSTED;
}
