/* SPDX-License-Identifier: BSD-3-Clause */
/* A later server's view: page map and slot words give the books of the slab. */
#include "config.h"

#include "common/base/clock.h"
#include "server/memory/evacuate.h"
#include "server/memory/region.h"
#include "server/memory/slab_marks.h"
#include "server/memory/slab_priv.h"
#include "tests/rig/cases.h"

#define MEMORY (64u << 20)
#define PAGES (MEMORY / PAGE_BYTES)
#define BLOCKS 900u
#define GRACE 1000u

static struct region r;
static struct slab *slab;
static uint64_t first;
static uint32_t n_words;

static void setup(void)
{
	struct region_config cfg = {.memory = MEMORY,
				    .index_slots = 2 * SUBTABLE_SLOTS,
				    .max_value = 1u << 20,
				    .max_key = 100,
				    .grace_ns = GRACE,
				    .sessions = 10};

	ck_assert_int_eq(region_create(&cfg, &r), 0);
	first = r.sb.meta_bytes / PAGE_BYTES;
	slab = slab_new(r.heap, first, PAGES, GRACE);
	ck_assert_ptr_nonnull(slab);
	n_words = 0;
}

static void teardown(void)
{
	slab_free(slab);
	region_destroy(&r);
}

/* The n-th slot of the index. */
static uint64_t *slot(uint32_t n)
{
	return &region_slots(&r, region_dir(&r)[n % 2])[n / 2];
}

/* Grant blocks of different classes, and name every one by a slot. */
static void fill(uint32_t n)
{
	static const uint64_t sizes[] = {60, 100, 700, 5000, 40000, 66000, 200000, 600000};
	struct block_ref ref;

	for (; n_words < n; n_words++) {
		uint8_t cls = (uint8_t)class_for(sizes[(n_words * 7 + n_words / 9) %
						       (n_words < 120 ? 8 : 4)]);

		ck_assert_uint_eq(slab_grant(slab, cls, 1, clock_now_ns(), &ref), 1);
		ref.inc = (uint16_t)(ref.inc + n_words % 3);
		*slot(n_words) = slot_pack(ref, 1, 0);
	}
}

/* Empty the slots from `from` on, but one of `keep`; their blocks come back. */
static void clear(uint32_t from, uint32_t keep)
{
	for (uint32_t n = from; n < n_words; n++)
		if (n % keep && !slot_is_null(*slot(n))) {
			ck_assert(slab_return(slab, slot_block(*slot(n)), RETURN_FREE, 0));
			*slot(n) = slot_empty(1);
		}
}

/* ---- what a later server makes of it: `books` comes from map and words alone -------------- */

struct books {
	uint64_t page[PAGES];
	uint32_t pages[PAGES], blocks[PAGES];
	uint8_t cls[PAGES];
	uint32_t n_segments, n_subtables, n_free;
	uint16_t *inc[PAGES]; /* per block: incarnation + 1 of its word, or 0 */
};

static void read_map(struct books *b, const uint32_t *map)
{
	for (uint64_t p = 0; p < PAGES; p++) {
		uint32_t s = b->n_segments, n = page_count(map[p]);

		b->n_free += page_kind(map[p]) == PAGE_IS_FREE;
		b->n_subtables += page_kind(map[p]) == PAGE_IS_SUBTABLE;
		ck_assert_int_ne(page_kind(map[p]), PAGE_IS_LATER); /* skipped below */
		if (page_kind(map[p]) != PAGE_IS_SEGMENT)
			continue;
		b->page[s] = first + p;
		b->pages[s] = n;
		b->cls[s] = page_class(map[p]);
		b->blocks[s] = (uint32_t)((uint64_t)n * PAGE_BYTES / class_bytes(b->cls[s]));
		b->inc[s] = calloc(b->blocks[s], sizeof(uint16_t));
		b->n_segments++;
		for (; n > 1; n--)
			ck_assert_uint_eq(map[++p], page_pack(PAGE_IS_LATER, 0, b->cls[s]));
	}
}

static void read_words(struct books *b)
{
	for (uint32_t n = 0; n < n_words; n++) {
		struct block_ref ref = slot_block(*slot(n));
		uint32_t s = 0;

		if (slot_is_null(*slot(n)))
			continue;
		while (s < b->n_segments &&
		       ref.off / PAGE_BYTES - b->page[s] >= b->pages[s])
			s++;
		ck_assert_uint_lt(s, b->n_segments);
		ck_assert_uint_eq(b->cls[s], ref.cls);
		ref.off -= b->page[s] * PAGE_BYTES;
		ck_assert_uint_eq(ref.off % class_bytes(ref.cls), 0);
		ck_assert_uint_lt(ref.off / class_bytes(ref.cls), b->blocks[s]);
		b->inc[s][ref.off / class_bytes(ref.cls)] = ref.inc + 1;
	}
}

/* The slab's segment at that page has the same length, class and blocks out. */
static void compare(const struct books *b, uint32_t s)
{
	const struct segment *g = &slab->segments[slab->segment_at[b->page[s] - first]];

	ck_assert_ptr_nonnull(g->state);
	ck_assert_uint_eq(g->page, b->page[s]);
	ck_assert_uint_eq(g->pages, b->pages[s]);
	ck_assert_uint_eq(g->blocks, b->blocks[s]);
	ck_assert_uint_eq(g->cls, b->cls[s]);
	for (uint32_t i = 0; i < g->blocks; i++) {
		ck_assert_int_eq(slab_state(g, i) == BLOCK_OUT, b->inc[s][i] != 0);
		if (b->inc[s][i])
			ck_assert_uint_le(slab_inc(g, i), b->inc[s][i] - 1u);
	}
}

/* Returns the number of segments. `retired`: pages that keep their kind. */
static uint32_t check_books(uint64_t retired)
{
	static struct books b;
	uint32_t segments = 0;

	memset(&b, 0, sizeof(b));
	read_map(&b, region_page_map(&r));
	ck_assert_uint_eq(heap_retired(r.heap), retired);
	ck_assert_uint_eq(b.n_subtables, 2);
	ck_assert_uint_eq(PAGES - b.n_free, heap_used(r.heap));
	if (!retired) {
		read_words(&b);
		for (uint32_t at = 1; at < slab->n_segments; at++)
			segments += slab->segments[at].state != NULL;
		ck_assert_uint_eq(b.n_segments, segments);
		for (uint32_t s = 0; s < b.n_segments; s++)
			compare(&b, s);
	}
	for (uint32_t s = 0; s < b.n_segments; s++)
		free(b.inc[s]);
	return b.n_segments;
}

TEST(page_map_and_words_give_the_books_of_the_slab)
{
	uint32_t before;
	uint64_t pages;

	setup();
	ck_assert_uint_eq(check_books(0), 0);
	fill(BLOCKS);
	before = check_books(0);
	ck_assert_uint_gt(before, 20);
	clear(0, 5); /* blocks that are free, in segments that are not */
	ck_assert_uint_eq(check_books(0), before);
	clear(100, UINT32_MAX);
	pages = slab_shrink(slab, false);
	ck_assert_uint_gt(pages, 10);
	/* Until the barrier has passed a retired page keeps its kind. */
	ck_assert_uint_eq(check_books(pages), before);
	ck_assert(heap_barrier_begin(r.heap));
	heap_barrier_passed(r.heap);
	ck_assert_uint_lt(check_books(0), before);
	fill(BLOCKS + 200);
	(void)check_books(0);
	ck_assert(slab_audit(slab));
	ck_assert(heap_audit(r.heap));
	teardown();
}

/* Pages that a segment was refused for, or that no client has seen, are free in the map. */
TEST(pages_given_back_unseen_are_free)
{
	uint64_t page;

	setup();
	page = heap_take_index(r.heap);
	ck_assert_uint_eq(region_page_map(&r)[page - first], page_pack(PAGE_IS_SUBTABLE, 0, 0));
	heap_give(r.heap, page, 1);
	ck_assert_uint_eq(region_page_map(&r)[page - first], 0);
	teardown();
}

/* Of values of 2^n bytes from 64 KiB to 32 MiB, with keys of 100 bytes. */
TEST_LOOP(power_of_two_values_waste_at_most_four_percent_of_their_segments, 16, 26)
{
	uint64_t value = UINT64_C(1) << _i, pages = (value >> 15) * 2 + 200;
	struct heap *heap = heap_new(64, pages);
	uint8_t cls = (uint8_t)class_for(block_room(100, value));
	struct slab *s = slab_new(heap, 64, pages, GRACE);
	const struct segment *g;
	struct block_ref ref;

	ck_assert_uint_eq(slab_grant(s, cls, 1, 0, &ref), 1);
	g = &s->segments[1];
	ck_assert_uint_ge(g->blocks * value * 100, g->pages * (uint64_t)PAGE_BYTES * 96);
	slab_free(s);
	heap_free(heap);
}

/* Short of long runs, a segment takes what there is. */
TEST_LOOP(segment_of_large_blocks_is_shorter_where_no_long_run_is_free, 0, 5)
{
	static const uint64_t runs[] = {33, 16, 8, 3, 2};
	static const uint32_t blocks[] = {16, 7, 3, 1, 0};
	struct heap *heap = heap_new(64, 200);
	struct slab *s = slab_new(heap, 64, 200, GRACE);
	uint8_t cls = CLASS_LARGE;
	struct block_ref ref;
	uint64_t page;

	/* One run of free pages in a heap that is used otherwise; some are kept. */
	while ((page = heap_take(heap, 1)))
		;
	ck_assert_uint_eq(slab_grant(s, cls, 1, 0, &ref), 0);
	heap_give(heap, 64, runs[_i]);
	heap_give(heap, 64 + 40, 1);
	for (page = 64 + 42; page < 64 + 120; page += 2) /* small_pages' share, scattered */
		heap_give(heap, page, 1);
	ck_assert_uint_eq(slab_grant(s, cls, 1, 0, &ref), blocks[_i] > 0);
	if (blocks[_i])
		ck_assert_uint_eq(s->segments[1].blocks, blocks[_i]);
	slab_free(s);
	heap_free(heap);
}

TEST_SUITE("page map")
