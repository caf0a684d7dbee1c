/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages change their use: the places that are chosen, and what becomes of them. */
#include "config.h"

#include <stdlib.h>

#include "common/base/err.h"
#include "server/memory/evacuate.h"
#include "server/memory/heap.h"
#include "server/memory/slab_marks.h"
#include "tests/rig/cases.h"

#define FIRST 64u
#define PAGES 64u
#define LOTS 4096
#define SMALL 18u  /* 2 KiB: 16 blocks a page, which is a segment */
#define BLOCKS 16u
#define MIDDLE 22u /* 4 KiB: 8 blocks a page */
#define MIDDLE_BLOCKS 8u
#define LARGE 35u  /* 40 KiB: 4 blocks in 5 pages */
#define LONG 38u   /* 66 KiB, never moved: of 128 pages 3 blocks in 7 */

static struct heap *heap;
static uint32_t *map;
static struct slab *slab;
static struct block_ref refs[LOTS];
static size_t n_refs;

/* All pages are full of small blocks, but the reserve of the index. */
static void fill(uint64_t pages)
{
	size_t got;

	heap = heap_new(FIRST, pages);
	map = calloc(pages, sizeof(*map));
	heap_set_map(heap, map);
	slab = slab_new(heap, FIRST, pages, 1000);
	slab_keep_no_reserve(slab);
	ck_assert_uint_ne(heap_take_index(heap), 0);
	n_refs = 0;
	while ((got = slab_grant(slab, SMALL, 100, 0, refs + n_refs)))
		n_refs += got;
	ck_assert_uint_gt(n_refs, (size_t)(pages - 8) * BLOCKS);
}

static void setup(void)
{
	fill(PAGES);
}

static void setup_larger(void)
{
	fill(2 * PAGES);
}

static void teardown(void)
{
	ck_assert_msg(slab_audit(slab), "%s", err_detail());
	slab_free(slab);
	ck_assert(heap_audit(heap));
	heap_free(heap);
	free(map);
}

static uint64_t page_of(struct block_ref ref)
{
	return ref.off / PAGE_BYTES;
}

/* Give back the first `n` blocks of each page in from..to. */
static void give_back(uint64_t from, uint64_t to, unsigned n)
{
	for (size_t i = 0; i < n_refs; i++)
		if (page_of(refs[i]) >= from && page_of(refs[i]) < to && slab_is_out(slab, refs[i]) &&
		    refs[i].off % PAGE_BYTES < n * class_bytes(SMALL))
			ck_assert(slab_return(slab, refs[i], RETURN_FREE, 0));
}

/* Blocks that are out and have to leave are given back. */
static void move_away(void)
{
	for (size_t i = 0; i < n_refs; i++)
		if (evacuate_leaves(slab, refs[i].off) && slab_is_out(slab, refs[i]))
			ck_assert(slab_return(slab, refs[i], RETURN_FREE, 0));
}

/* Begin an evacuation for a request for blocks of a class, or without one (-1). */
static uint64_t evacuate(uint64_t run, uint64_t pages, int cls)
{
	return evacuate_begin(slab, &(struct evacuation){.run = run,
							 .pages = pages,
							 .force = cls >= 0,
							 .cls = cls < 0 ? CLASS_COUNT : (uint8_t)cls});
}

static void barrier(void)
{
	(void)heap_barrier_begin(heap);
	heap_barrier_passed(heap);
}

/* Pages that are chosen. */
static uint64_t leaving(uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t p = from; p < to; p++)
		n += evacuate_leaves(slab, p * PAGE_BYTES);
	return n;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(single_pages_full_of_blocks_that_fit_elsewhere_the_emptiest_are_chosen)
{
	struct block_ref ref;

	give_back(FIRST, FIRST + 40, 1);
	give_back(FIRST + 10, FIRST + 14, 12);
	/* 40 - 4 + 48 are free: 42 stay, and each place takes up 4 + 6. */
	ck_assert_uint_eq(evacuate(1, PAGES, LARGE), 4);
	ck_assert_uint_eq(leaving(FIRST + 10, FIRST + 14), 4);
	ck_assert(!evacuate_forced(slab));
	/* Nothing is granted from them, though they have free blocks. */
	while (slab_grant(slab, SMALL, 1, 0, &ref))
		ck_assert(!evacuate_leaves(slab, ref.off));
	move_away();
	ck_assert_uint_eq(evacuate_end(slab), 4);
	barrier();
	ck_assert_uint_ge(slab_grant(slab, SMALL, 1, 0, &ref), 1);
}

TEST(single_pages_none_fits_elsewhere_a_quarter_is_chosen_by_force)
{
	give_back(FIRST + 7, FIRST + 8, 1);
	ck_assert_uint_eq(evacuate(1, 8, -1), 0);
	ck_assert_uint_eq(evacuate(1, 8, LARGE), 2);
	ck_assert(evacuate_forced(slab));
	ck_assert_uint_eq(leaving(FIRST, FIRST + PAGES), 2);
	ck_assert_uint_eq(leaving(FIRST + 7, FIRST + 8), 1);
	(void)evacuate_end(slab);
}

TEST(evacuation_ends_a_segment_with_a_block_that_stayed_is_granted_from_again)
{
	struct block_ref ref;

	give_back(FIRST + 3, FIRST + 4, 15);
	ck_assert_uint_eq(evacuate(1, 1, LARGE), 1);
	ck_assert_uint_eq(slab_grant(slab, SMALL, 1, 0, &ref), 0);
	ck_assert_uint_eq(evacuate_end(slab), 0);
	ck_assert_uint_eq(slab_grant(slab, SMALL, 1, 0, &ref), 1);
	ck_assert_uint_eq(page_of(ref), FIRST + 3);
}

TEST(a_request_its_own_class_is_not_emptied)
{
	give_back(FIRST + 3, FIRST + 4, 15);
	ck_assert_uint_eq(evacuate(1, 8, SMALL), 0);
	ck_assert_uint_gt(evacuate(1, 8, LARGE), 0);
	(void)evacuate_end(slab);
}

/* Visits free blocks of its own: no page of others is emptied by force. */
TEST(a_request_its_class_has_a_share_of_the_memory_others_keep_their_pages)
{
	const uint64_t share = PAGES / 16;

	ck_assert_uint_gt(evacuate(1, 8, MIDDLE), 0);
	(void)evacuate_end(slab);
	give_back(FIRST + 32, FIRST + 32 + share, BLOCKS);
	ck_assert_uint_eq(slab_shrink(slab, false), share);
	barrier();
	n_refs = slab_grant(slab, MIDDLE, share * MIDDLE_BLOCKS, 0, refs);
	ck_assert_uint_eq(n_refs, share * MIDDLE_BLOCKS);
	ck_assert_uint_eq(evacuate(1, 8, MIDDLE), 0);
}

/* Clients hold what stays: another choice empties other segments, until a block comes back. */
TEST(a_segment_that_was_not_emptied_is_not_chosen_again_until_a_block_comes_back)
{
	give_back(FIRST + 3, FIRST + 4, 15);
	ck_assert_uint_eq(evacuate(1, 1, LARGE), 1);
	ck_assert_uint_eq(leaving(FIRST + 3, FIRST + 4), 1);
	ck_assert(!evacuate_stuck(slab));
	ck_assert_uint_eq(evacuate_end(slab), 0);
	ck_assert(evacuate_stuck(slab));
	ck_assert_uint_eq(slab_count(slab).bytes_stuck, 15 * class_bytes(SMALL));

	ck_assert_uint_eq(evacuate(1, 1, LARGE), 1);
	ck_assert_uint_eq(leaving(FIRST + 3, FIRST + 4), 0);
	move_away();
	ck_assert_uint_eq(evacuate_end(slab), 1);

	give_back(FIRST + 3, FIRST + 4, 16);
	ck_assert(!evacuate_stuck(slab));
	ck_assert_uint_eq(slab_count(slab).bytes_stuck, 0);
	ck_assert_uint_eq(slab_shrink(slab, false), 1);
}

TEST(all_segments_are_stuck_the_next_choice_but_one_is_among_all)
{
	uint64_t n = 0, more;

	while ((more = evacuate(1, 64, LARGE))) {
		n += more;
		ck_assert_uint_eq(evacuate_end(slab), 0);
	}
	ck_assert_uint_eq(n, n_refs / BLOCKS);
	ck_assert(!evacuate_stuck(slab));
	ck_assert_uint_gt(evacuate(1, 64, LARGE), 0);
	(void)evacuate_end(slab);
}

TEST_GROUP(.setup = setup_larger, .teardown = teardown);

TEST(long_blocks_are_left_out_by_force_though_others_of_their_size_are_free)
{
	uint32_t run = slab_run(slab, LONG);
	struct block_ref ref[6];

	ck_assert_uint_gt(class_bytes(LONG), (uint64_t)EVACUATE_MOVE_BYTES);
	give_back(FIRST, FIRST + 4 * run, BLOCKS);
	ck_assert_uint_eq(slab_shrink(slab, false), 4 * run);
	barrier();
	/* Two segments of three; a block of each is out. */
	ck_assert_uint_eq(slab_grant(slab, LONG, 6, 0, ref), 6);
	for (unsigned i = 0; i < 6; i++)
		if (i % 3)
			ck_assert(slab_return(slab, ref[i], RETURN_FREE, 0));
	ck_assert_uint_ne(page_of(ref[0]) / run, page_of(ref[3]) / run);

	(void)evacuate(1, 8, -1);
	ck_assert(!evacuate_leaves(slab, ref[0].off) && !evacuate_leaves(slab, ref[3].off));
	(void)evacuate_end(slab);
	/* Nor for a request of their own size, which needs single pages first. */
	(void)evacuate(1, 8, LONG);
	ck_assert(!evacuate_leaves(slab, ref[0].off) && !evacuate_leaves(slab, ref[3].off));
	(void)evacuate_end(slab);
	ck_assert_uint_eq(evacuate(1, 4, SMALL), run);
	ck_assert(evacuate_forced(slab));
	ck_assert(evacuate_leaves(slab, ref[0].off) != evacuate_leaves(slab, ref[3].off));
	(void)evacuate_end(slab);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(a_run_is_emptied_and_held_until_a_longer_segment_takes_it)
{
	uint32_t run = slab_run(slab, LARGE);
	struct block_ref ref;
	uint64_t page, from = 0;

	/* Those above the segments are the index's. */
	while (heap_left(heap) > 0)
		ck_assert_uint_ne(heap_take_index(heap), 0);
	/* Enough pages are free, but not adjacent ones. */
	for (uint64_t p = FIRST + 30; p < FIRST + 30 + 4 * run; p += 2)
		give_back(p, p + 1, BLOCKS);
	ck_assert_uint_eq(slab_shrink(slab, false), 2 * run);
	barrier();
	ck_assert_uint_ge(slab_room(slab), run);
	ck_assert_uint_eq(slab_grant(slab, LARGE, 1, 0, &ref), 0);
	give_back(FIRST + 2 * run, FIRST + 3 * run, 14);
	ck_assert_uint_eq(evacuate(run, 1, LARGE), run);
	ck_assert_uint_eq(leaving(FIRST + 2 * run, FIRST + 3 * run), run);
	move_away();
	ck_assert_uint_eq(evacuate_end(slab), run);
	barrier();
	/* Pages that are held are handed out to nobody. */
	ck_assert_uint_eq(slab_grant(slab, LARGE, 1, 0, &ref), 0);
	page = heap_take_index(heap);
	ck_assert(page < FIRST + 2 * run || page >= FIRST + 3 * run);
	heap_release(heap);
	ck_assert_uint_eq(slab_grant(slab, LARGE, 1, 0, &ref), 1);
	from = page_of(ref);
	ck_assert(from >= FIRST + 2 * run && from < FIRST + 3 * run);
}

TEST(a_store_that_evicts_makes_no_short_segment)
{
	uint32_t run = slab_run(slab, LARGE);
	struct block_ref ref;

	/* All but one page of a run are free: enough for a block, but not without waste. */
	give_back(FIRST, FIRST + run - 1, BLOCKS);
	ck_assert_uint_gt(slab_shrink(slab, false), 0);
	barrier();
	ck_assert_uint_gt((run - 1) * (uint64_t)PAGE_BYTES, class_bytes(LARGE));
	ck_assert_uint_eq(slab_grant(slab, LARGE, 1, 0, &ref), 0);
	give_back(FIRST + run - 1, FIRST + run, BLOCKS);
	ck_assert_uint_gt(slab_shrink(slab, false), 0);
	barrier();
	ck_assert_uint_eq(slab_grant(slab, LARGE, 1, 0, &ref), 1);
}

TEST_SUITE("evacuate")
