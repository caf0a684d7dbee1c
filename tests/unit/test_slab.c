/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's allocator: blocks, segments, marks. */
#include "config.h"

#include "common/base/err.h"
#include "common/base/util.h"
#include "server/memory/evacuate.h"
#include "server/memory/heap.h"
#include "server/memory/slab_marks.h"
#include "server/memory/slab_priv.h"
#include "tests/rig/cases.h"

#define FIRST 64
#define GRACE 1000
#define LOTS 4096

/* ---- slab
 * ------------------------------------------------------------------------ */

static struct heap *heap;
static uint32_t *map; /* the region's page map: slab_audit() compares it */
static struct slab *slab;
static struct block_ref refs[LOTS];

static void setup(uint64_t pages)
{
	heap = heap_new(FIRST, pages + 1);
	map = calloc(pages + 1, sizeof(*map));
	heap_set_map(heap, map);
	slab = slab_new(heap, FIRST, pages + 1, GRACE);
	ck_assert_ptr_nonnull(slab);
	/* the index's first */
	ck_assert_uint_ne(heap_take_index(heap), 0);
}

/* Retired ones too. */
static uint64_t pages_of_values(void)
{
	return heap_used(heap) - 1;
}

static void teardown(void)
{
	slab_free(slab);
	ck_assert(heap_audit(heap));
	heap_free(heap);
	free(map);
}

static size_t grant_all(uint8_t cls, uint64_t now)
{
	size_t n = 0, got;

	do {
		got = slab_grant(slab, cls, UTIL_MIN(100, LOTS - n), now,
				 refs + n);
		n += got;
	} while (got && n < LOTS);
	return n;
}

TEST_LOOP(slab_grant_blocks_lie_apart_inside_the_heap, 0, 9)
{
	static const uint8_t classes[] = {0, 1, 2, 9, 20, 34, 35, 36, 40};
	uint8_t cls = classes[_i];
	uint64_t bytes = class_bytes(cls);
	unsigned near = test_rounds(300);
	size_t n;

	setup(64);
	n = grant_all(cls, 0);
	/* Less than a fifth is unusable, including the tombstones' share. */
	ck_assert_uint_ge(UTIL_MIN(n, LOTS) * bytes,
			  n == LOTS ? 0 : 64ull * PAGE_BYTES * 4 / 5);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(refs[i].cls, cls);
		ck_assert_uint_eq(refs[i].inc, 0);
		ck_assert_uint_eq(refs[i].off % PTR_UNIT, 0);
		ck_assert_uint_ge(refs[i].off, FIRST * PAGE_BYTES);
		ck_assert_uint_le(refs[i].off + bytes,
				  (FIRST + 64) * PAGE_BYTES);
		for (size_t j = i > near ? i - near : 0; j < i; j++)
			ck_assert(refs[i].off >= refs[j].off + bytes ||
				  refs[j].off >= refs[i].off + bytes);
	}
	ck_assert_uint_eq(slab_count(slab).out, n);
	teardown();
}

/* Subtables of less than 3/5 of their slots do not overflow as keys come and go. */
TEST(slab_leaves_the_index_pages_for_the_keys_of_all_blocks)
{
	uint64_t n = 0, got, pages = 1;

	setup(96);
	while ((got = slab_grant(slab, 0, 100, 0, refs)) > 0)
		n += got;
	while (pages * 2 <= 1 + heap_left(heap))
		pages *= 2;
	ck_assert_uint_gt(n, 96 * PAGE_BYTES / class_bytes(0) / 2);
	ck_assert_uint_le(n, pages * SUBTABLE_SLOTS * 3 / 5 + PAGE_BYTES / class_bytes(0));
	teardown();
}

TEST(slab_return_free_is_granted_again_with_its_incarnation)
{
	struct block_ref b, again[LOTS];
	size_t n;

	setup(4);
	n = grant_all(30, 0);
	ck_assert_uint_gt(n, 3);
	b = refs[2];
	b.inc = 17;
	ck_assert(slab_return(slab, b, RETURN_FREE, 0));
	ck_assert_uint_eq(slab_count(slab).out, n - 1);
	ck_assert_uint_eq(slab_grant(slab, 30, 5, 0, again), 1);
	ck_assert_uint_eq(again[0].off, b.off);
	ck_assert_uint_eq(again[0].inc, 17);
	teardown();
}

TEST(slab_return_deferred_waits_for_the_grace_period)
{
	struct block_ref again[4];
	size_t n;

	setup(4);
	n = grant_all(30, 0);
	refs[0].inc = 1;
	ck_assert(slab_return(slab, refs[0], RETURN_DEFERRED, 500));
	ck_assert_uint_eq(slab_count(slab).deferred, 1);
	ck_assert_uint_eq(slab_count_class(slab, 30).deferred, 1);
	ck_assert_uint_eq(slab_count_class(slab, 29).deferred, 0);
	ck_assert_uint_eq(slab_grant(slab, 30, 4, 500 + GRACE - 1, again), 0);
	ck_assert_uint_eq(slab_grant(slab, 30, 4, 500 + GRACE, again), 1);
	ck_assert_uint_eq(again[0].off, refs[0].off);
	ck_assert_uint_eq(again[0].inc, 1);
	ck_assert_uint_eq(slab_count(slab).deferred, 0);
	ck_assert_uint_eq(slab_count(slab).out, n);
	teardown();
}

TEST(slab_return_exhausted_waits_for_a_barrier_that_began_after_it)
{
	struct block_ref again[4];

	setup(4);
	grant_all(30, 0);
	refs[0].inc = refs[1].inc = INC_COUNT - 1;
	ck_assert(slab_return(slab, refs[0], RETURN_EXHAUSTED, 0));
	ck_assert(slab_barrier_begin(slab));
	ck_assert(slab_return(slab, refs[1], RETURN_EXHAUSTED, 0));
	ck_assert_uint_eq(slab_grant(slab, 30, 4, 1 << 30, again), 0);
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_grant(slab, 30, 4, 1 << 30, again), 1);
	ck_assert_uint_eq(again[0].off, refs[0].off);
	ck_assert_uint_eq(again[0].inc, 0);
	ck_assert_uint_eq(slab_count(slab).exhausted, 1);
	ck_assert(slab_barrier_begin(slab));
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_grant(slab, 30, 4, 1 << 30, again), 1);
	ck_assert_uint_eq(again[0].off, refs[1].off);
	teardown();
}

TEST(slab_resets_name_new_segments_and_exhausted_blocks_after_their_barrier)
{
	struct resets *r;
	uint64_t n;

	setup(8);
	r = slab_resets(slab);
	ck_assert_uint_eq(slab_grant(slab, 30, 1, 0, refs), 1);
	ck_assert_uint_eq(r->next, 0); /* nobody asked yet */
	ck_assert(!resets_reach(r, 0));
	ck_assert(resets_begin(r));
	ck_assert(resets_reach(r, 0));
	n = slab_grant(slab, 0, 1, 0, refs + 1); /* another class: another segment */
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(r->next, 1);
	ck_assert_uint_eq(resets_at(r, 0).page, refs[1].off / PAGE_BYTES);
	ck_assert_uint_eq(resets_at(r, 0).pages, 1);
	refs[0].inc = INC_COUNT - 1;
	ck_assert(slab_return(slab, refs[0], RETURN_EXHAUSTED, 0));
	ck_assert(slab_barrier_begin(slab));
	ck_assert_uint_eq(r->next, 1);
	slab_barrier_passed(slab);
	ck_assert_uint_eq(r->next, 2);
	ck_assert_uint_eq(resets_at(r, 1).page, refs[0].off / PAGE_BYTES);
	teardown();
}

TEST(resets_reach_back_as_far_as_they_are_kept)
{
	struct resets r = {0};

	ck_assert(resets_begin(&r));
	for (uint64_t i = 0; i < RESETS_KEPT + 5; i++)
		resets_add(&r, i, 2);
	ck_assert(!resets_reach(&r, 4));
	ck_assert(resets_reach(&r, 5));
	ck_assert_uint_eq(resets_at(&r, 5).page, 5);
	ck_assert_uint_eq(resets_at(&r, RESETS_KEPT + 4).page, RESETS_KEPT + 4);
	ck_assert(resets_reach(&r, r.next));
	ck_assert(!resets_reach(&r, r.next + 1));
	resets_end(&r);
}

TEST(slab_return_of_a_block_not_granted_is_refused)
{
	struct block_ref b;
	struct slab_counts before;

	setup(8);
	ck_assert_uint_eq(slab_grant(slab, 3, 2, 0, refs), 2);
	before = slab_count(slab);
#define REFUSED(change)                                                        \
	do {                                                                   \
		b = refs[0];                                                   \
		change;                                                        \
		ck_assert(!slab_return(slab, b, RETURN_FREE, 0));               \
	} while (0)
	REFUSED(b.off += 32);
	REFUSED(b.off += 160 * 5);
	REFUSED(b.off = 0);
	REFUSED(b.off = (FIRST - 1) * PAGE_BYTES);
	REFUSED(b.off = (FIRST + 7) * PAGE_BYTES);
	REFUSED(b.off = (FIRST + 8) * PAGE_BYTES);
	REFUSED(b.off = UINT64_MAX / 64 * 32);
	REFUSED(b.cls = 4);
	REFUSED(b.inc = INC_COUNT);
	ck_assert_uint_eq(slab_count(slab).out, before.out);
	refs[0].inc = 5;
	ck_assert(slab_return(slab, refs[0], RETURN_FREE, 0));
	ck_assert(!slab_return(slab, refs[0], RETURN_FREE, 0));
	ck_assert(!slab_return(slab, refs[0], RETURN_DEFERRED, 0));
	/* Granted again with 5, so an older incarnation is a lie. */
	ck_assert_uint_eq(slab_grant(slab, 3, 1, 0, refs), 1);
	ck_assert_uint_eq(refs[0].inc, 5);
	REFUSED(b.inc = 4);
	ck_assert(slab_return(slab, refs[0], RETURN_FREE, 0));
	teardown();
}

TEST(slab_empty_and_too_small_heaps_grant_nothing)
{
	setup(2 + HEAP_RESERVE);
	ck_assert_uint_eq(slab_grant(slab, 60, 1, 0, refs), 0);
	ck_assert_uint_eq(slab_grant(slab, CLASS_COUNT - 1, 1, 0, refs), 0);
	ck_assert_uint_gt(slab_grant(slab, 0, 1, 0, refs), 0);
	teardown();
}

static uint64_t word_of(struct block_ref b, uint64_t flags)
{
	return slot_pack(b, 7, flags);
}

/* ---- the reserve ----------------------------------------------------------- */

/* All blocks of a class that can be granted before any came back: `kept` blocks stay. */
static size_t fill(uint8_t cls, uint64_t *kept_out)
{
	size_t n;

	setup(20);
	n = grant_all(cls, 0);
	ck_assert_uint_lt(n, LOTS);
	*kept_out = slab_count_class(slab, cls).free;
	ck_assert_uint_gt(*kept_out, 1);
	ck_assert_uint_le(*kept_out, n / 16);
	ck_assert_uint_eq(slab_grant(slab, cls, 1, 0, refs + n), 0);
	return n;
}

#define FULL_CLS class_for(1000)

TEST_LOOP(slab_grant_uses_the_reserve_for_returned_blocks, 0, 3)
{
	static const enum return_kind states[] = {RETURN_FREE, RETURN_DEFERRED,
						  RETURN_EXHAUSTED};
	uint64_t kept;
	size_t n = fill(FULL_CLS, &kept), got;

	/* Neither T nor a barrier has passed. */
	ck_assert(slab_return(slab, refs[--n], states[_i], 0));
	got = slab_grant(slab, FULL_CLS, 100, 0, refs + n);
	ck_assert_uint_ge(got, 2);
	ck_assert_uint_lt(got, kept); /* the rest is for the next ones */
	/* Nothing has come back since. */
	ck_assert_uint_eq(slab_grant(slab, FULL_CLS, 100, 0, refs + n + got), 0);
	n += got;
	for (unsigned i = 0; i < 10 * kept; i++) {
		ck_assert(slab_return(slab, refs[0], states[_i], 0));
		if (slab_grant(slab, FULL_CLS, 1, 0, refs) == 0)
			break;
	}
	/* All of the reserve was granted. */
	ck_assert(states[_i] == RETURN_FREE ||
		  slab_count_class(slab, FULL_CLS).free == 0);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST(slab_grant_uses_the_reserve_for_counted_tombstones)
{
	uint64_t dead[CLASS_COUNT] = {0}, kept;
	size_t n = fill(FULL_CLS, &kept);

	dead[FULL_CLS + 1] = 7;
	slab_note_dead(slab, dead);
	ck_assert_uint_eq(slab_grant(slab, FULL_CLS, 9, 0, refs + n), 0);
	dead[FULL_CLS] = 1;
	slab_note_dead(slab, dead);
	ck_assert_uint_ge(slab_grant(slab, FULL_CLS, 1, 0, refs + n), 1);
	/* No more than before. */
	slab_note_dead(slab, dead);
	while (slab_grant(slab, FULL_CLS, 1, 0, refs + n))
		;
	slab_note_dead(slab, dead);
	ck_assert_uint_eq(slab_grant(slab, FULL_CLS, 1, 0, refs + n), 0);
	teardown();
}

/* No client remembers anything older: see I5. */
TEST(slab_barrier_frees_blocks_deferred_before_it)
{
	uint64_t kept;
	size_t n = fill(FULL_CLS, &kept);

	ck_assert(slab_return(slab, refs[n - 1], RETURN_DEFERRED, 0));
	ck_assert(slab_return(slab, refs[n - 2], RETURN_DEFERRED, 0));
	ck_assert(slab_barrier_begin(slab));
	ck_assert(slab_return(slab, refs[n - 3], RETURN_DEFERRED, 0));
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_count_class(slab, FULL_CLS).deferred, 1);
	ck_assert_uint_eq(slab_count_class(slab, FULL_CLS).free, kept + 2);
	/* One that becomes free by time before the barrier. */
	ck_assert(slab_barrier_begin(slab));
	slab_settle(slab, GRACE);
	ck_assert_uint_eq(slab_count_class(slab, FULL_CLS).deferred, 0);
	ck_assert(slab_return(slab, refs[n - 4], RETURN_DEFERRED, GRACE));
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_count_class(slab, FULL_CLS).deferred, 1);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST(slab_drop_tombstone_is_free_after_the_grace_period)
{
	struct block_ref b, again[2];

	setup(4);
	grant_all(30, 0);
	b = refs[1];
	b.inc = 8;
	ck_assert(slab_drop(slab, word_of(b, SLOT_DEAD | SLOT_FROZEN), 500));
	ck_assert(!slab_drop(slab, word_of(b, SLOT_DEAD | SLOT_FROZEN), 500));
	ck_assert_uint_eq(slab_count(slab).deferred, 1);
	ck_assert(slab_audit(slab));
	ck_assert_uint_eq(slab_grant(slab, 30, 2, 500 + GRACE - 1, again), 0);
	ck_assert_uint_eq(slab_grant(slab, 30, 2, 500 + GRACE, again), 1);
	ck_assert_uint_eq(again[0].off, b.off);
	ck_assert_uint_eq(again[0].inc, 9);
	/* A word older than its grant is not its word. */
	ck_assert(!slab_drop(slab, word_of(b, SLOT_DEAD), 500));
	b.off += 32;
	ck_assert(!slab_drop(slab, word_of(b, SLOT_DEAD), 500));
	ck_assert(!slab_drop(slab, slot_empty(3), 500));
	ck_assert_uint_eq(slab_count(slab).deferred, 0);
	teardown();
}

TEST(slab_drop_with_the_last_incarnation_waits_for_a_barrier)
{
	struct block_ref b, again[2];

	setup(4);
	grant_all(30, 0);
	b = refs[1];
	b.inc = INC_COUNT - 1;
	ck_assert(slab_drop(slab, word_of(b, SLOT_DEAD), 0));
	ck_assert_uint_eq(slab_count(slab).exhausted, 1);
	ck_assert_uint_eq(slab_grant(slab, 30, 2, 1 << 30, again), 0);
	ck_assert(slab_barrier_begin(slab));
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_grant(slab, 30, 2, 1 << 30, again), 1);
	ck_assert_uint_eq(again[0].inc, 0);
	ck_assert(slab_audit(slab));
	teardown();
}

static void return_all(size_t n, uint16_t inc)
{
	for (size_t i = 0; i < n; i++) {
		refs[i].inc = inc;
		ck_assert(slab_return(slab, refs[i], RETURN_FREE, 0));
	}
}

static void barrier(void)
{
	bool blocks = slab_barrier_begin(slab);
	bool pages = heap_barrier_begin(heap);

	if (blocks)
		slab_barrier_passed(slab);
	if (pages)
		heap_barrier_passed(heap);
}

TEST(slab_shrink_frees_empty_segments_for_other_classes)
{
	struct block_ref b;
	size_t n;

	setup(16);
	n = slab_grant(slab, 20, LOTS, 0, refs);
	ck_assert_uint_gt(n, 20);
	ck_assert_uint_eq(slab_grant(slab, 30, 1, 0, &b), 0);
	return_all(n, 5);
	ck_assert_uint_eq(slab_empty(slab), pages_of_values());
	ck_assert_uint_eq(slab_shrink(slab, false), pages_of_values());
	ck_assert_uint_eq(slab_empty(slab), 0);
	ck_assert(slab_audit(slab));
	ck_assert_uint_eq(slab_count(slab).pages, 0);
	ck_assert_uint_eq(slab_count(slab).bytes_slack, 0);
	/* Not before the barrier; retired blocks belong to nobody. */
	ck_assert_uint_eq(slab_grant(slab, 30, 1, 0, &b), 0);
	ck_assert(!slab_return(slab, refs[0], RETURN_FREE, 0));
	ck_assert_int_eq(slab_mark(slab, refs[0]), SLAB_SEEN_BAD);
	barrier();
	ck_assert_uint_gt(slab_grant(slab, 30, LOTS, 0, refs), 3);
	ck_assert_uint_eq(refs[0].inc, 0);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST(slab_shrink_keeps_used_segments_and_one_per_class)
{
	uint64_t pages;
	size_t n;

	setup(32);
	/* A page of class 20 holds some 20 blocks. */
	n = slab_grant(slab, 20, PAGE_BYTES / class_bytes(20) * 3, 0, refs);
	pages = slab_count(slab).pages;
	ck_assert_uint_eq(pages, 3);
	ck_assert_uint_eq(slab_shrink(slab, false), 0);
	for (size_t i = 1; i < n; i++)
		ck_assert(slab_return(slab, refs[i], RETURN_FREE, 0));
	/* Free blocks are left in the first: no need of an empty segment. */
	ck_assert_uint_eq(slab_shrink(slab, true), 2);
	ck_assert(slab_return(slab, refs[0], RETURN_DEFERRED, 0));
	ck_assert_uint_eq(slab_shrink(slab, false), 0);
	ck_assert_uint_eq(slab_grant(slab, 20, 1, GRACE, refs), 1);
	ck_assert(slab_return(slab, refs[0], RETURN_FREE, 0));
	ck_assert_uint_eq(slab_shrink(slab, true), 0);
	ck_assert_uint_eq(slab_shrink(slab, false), 1);
	barrier();
	ck_assert_uint_eq(pages_of_values(), 0);
	/* Long segments are not kept. */
	ck_assert_uint_eq(
		slab_grant(slab, class_for(9 * PAGE_BYTES), 1, 0, refs), 1);
	ck_assert(slab_return(slab, refs[0], RETURN_FREE, 0));
	ck_assert_uint_gt(slab_shrink(slab, true), 8);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST(slab_grant_from_the_fullest_segments_first)
{
	size_t per = PAGE_BYTES / class_bytes(20), n;
	struct block_ref b;

	setup(32);
	n = slab_grant(slab, 20, 3 * per, 0, refs);
	ck_assert_uint_eq(n, 3 * per);
	/* The second has one free block, the others are nearly empty. */
	for (size_t i = 0; i < n; i++)
		if (i % per && (i / per != 1 || i % per == 3))
			ck_assert(slab_return(slab, refs[i], RETURN_FREE, 0));
	ck_assert_uint_eq(slab_grant(slab, 20, 1, 0, &b), 1);
	ck_assert_uint_eq(b.off, refs[per + 3].off);
	ck_assert(slab_audit(slab));
	teardown();
}

/* ---- marks
 * ----------------------------------------------------------------------- */

static size_t unmarked(struct block_ref *out, unsigned segments, size_t cap)
{
	uint64_t cursor = 0;
	size_t n = 0;
	bool more;

	do {
		struct slab_list found = {.refs = out + n, .cap = cap};

		more = slab_unmarked(slab, &cursor, segments, &found);
		ck_assert_uint_le(found.n, cap);
		n += found.n;
		ck_assert_uint_le(n, LOTS);
	} while (more);
	return n;
}

TEST_LOOP(slab_unmarked_finds_each_block_that_nobody_named_once, 0, 3)
{
	struct block_ref found[2 * LOTS];
	size_t n, left, at = 0;

	setup(8);
	n = slab_grant(slab, 0, 1200, 0, refs);
	/* All that a page of them holds: none is free. */
	n += slab_grant(slab, 20, PAGE_BYTES / class_bytes(20), 0, refs + n);
	ck_assert_uint_eq(n, 1200 + PAGE_BYTES / class_bytes(20));
	for (size_t i = 0; i < n; i += 3) {
		ck_assert_int_eq(slab_mark(slab, refs[i]), SLAB_SEEN_FIRST);
		ck_assert_int_eq(slab_mark(slab, refs[i]), SLAB_SEEN_AGAIN);
	}
	ck_assert(slab_audit(slab));
	left = unmarked(found, _i + 1, 64);
	ck_assert_uint_eq(left, n - (n + 2) / 3);
	for (size_t i = 0; i < n; i++)
		if (i % 3) {
			ck_assert_uint_eq(found[at].off, refs[i].off);
			ck_assert_uint_eq(found[at].cls, refs[i].cls);
			at++;
		}
	for (size_t i = 0; i < n; i++)
		if (i != n - 2)
			slab_mark(slab, refs[i]);
	ck_assert_uint_eq(unmarked(found, _i + 1, 64), 1);
	ck_assert_uint_eq(found[0].off, refs[n - 2].off);
	for (uint64_t cursor = 0; slab_unmark(slab, &cursor, 1);)
		;
	ck_assert(slab_audit(slab));
	ck_assert_uint_eq(unmarked(found, 100, LOTS), n);
	teardown();
}

TEST(slab_mark_of_a_block_not_granted_is_bad)
{
	struct block_ref b, found[4];

	setup(8);
	ck_assert_uint_eq(slab_grant(slab, 20, 2, 0, refs), 2);
	b = refs[0];
	b.off += 32;
	ck_assert_int_eq(slab_mark(slab, b), SLAB_SEEN_BAD);
	b = refs[0];
	b.cls = 19;
	ck_assert_int_eq(slab_mark(slab, b), SLAB_SEEN_BAD);
	b = refs[0];
	b.inc = 9;
	ck_assert_int_eq(slab_mark(slab, b), SLAB_SEEN_FIRST);
	/* It is returned and granted again, without its mark. */
	ck_assert(slab_return(slab, b, RETURN_FREE, 0));
	ck_assert_int_eq(slab_mark(slab, b), SLAB_SEEN_BAD);
	ck_assert_uint_eq(slab_grant(slab, 20, 1, 0, &b), 1);
	ck_assert_uint_eq(unmarked(found, 9, 4), 2);
	b.inc = 8;
	ck_assert_int_eq(slab_mark(slab, b), SLAB_SEEN_BAD);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST(slab_condemn_spares_marked_blocks_and_waits_for_a_barrier)
{
	struct block_ref b;

	setup(8);
	ck_assert_uint_eq(slab_grant(slab, 20, 2, 0, refs), 2);
	ck_assert_int_eq(slab_mark(slab, refs[0]), SLAB_SEEN_FIRST);
	ck_assert(!slab_condemn(slab, refs[0]));
	ck_assert(slab_condemn(slab, refs[1]));
	ck_assert(!slab_condemn(slab, refs[1]));
	ck_assert_uint_eq(slab_count(slab).exhausted, 1);
	ck_assert_uint_eq(slab_count(slab).bytes_exhausted, class_bytes(20));
	ck_assert_uint_eq(slab_count(slab).bytes_out, class_bytes(20));
	ck_assert_uint_eq(slab_grant(slab, 20, 1, 1 << 30, &b), 1);
	ck_assert_uint_ne(b.off, refs[1].off);
	barrier();
	ck_assert_uint_eq(slab_count(slab).exhausted, 0);
	ck_assert(slab_audit(slab));
	teardown();
}

/* Each account is wrong in turn. */
TEST(slab_audit_finds_each_wrong_account)
{
	struct segment *g;
	uint32_t *list;

	setup(16);
	ck_assert_uint_eq(slab_grant(slab, 20, 3, 0, refs), 3);
	ck_assert_uint_eq(slab_grant(slab, 0, 3, 0, refs + 3), 3);
	ck_assert(slab_return(slab, refs[2], RETURN_DEFERRED, 0));
	ck_assert(slab_return(slab, refs[3], RETURN_EXHAUSTED, 0));
	g = &slab->segments[1];
	list = &slab->class[20].list[g->fill];
	ck_assert_uint_eq(*list, 1);
#define FOUND(change, undo)                                                    \
	do {                                                                   \
		ck_assert(slab_audit(slab));                                   \
		err_clear();                                                   \
		change;                                                        \
		ck_assert(!slab_audit(slab));                                  \
		ck_assert_str_ne(err_detail(), "");                            \
		undo;                                                          \
	} while (0)
	FOUND(g->state[0] ^= BLOCK_OUT << BLOCK_STATE_SHIFT,
	      g->state[0] ^= BLOCK_OUT << BLOCK_STATE_SHIFT);
	FOUND(g->state[0] |= BLOCK_MARK, g->state[0] ^= BLOCK_MARK);
	FOUND((g->state[2] |= BLOCK_MARK, g->n_marked++),
	      (g->state[2] ^= BLOCK_MARK, g->n_marked--));
	FOUND(g->n_free--, g->n_free++);
	FOUND(g->hint = g->blocks, g->hint = 3);
	FOUND(g->fill++, g->fill--);
	FOUND(*list = 0, *list = 1);
	FOUND(slab->segment_at[g->page - FIRST] = 2,
	      slab->segment_at[g->page - FIRST] = 1);
	FOUND(slab->segment_at[15] = 2, slab->segment_at[15] = 0);
	FOUND(slab->class[20].blocks[BLOCK_OUT]++,
	      slab->class[20].blocks[BLOCK_OUT]--);
	FOUND(slab->pages++, slab->pages--);
	FOUND(slab->bytes_slack++, slab->bytes_slack--);
	FOUND(slab->small_pages++, slab->small_pages--);
	FOUND(slab->empty_pages++, slab->empty_pages--);
	FOUND(slab->n_deferred--, slab->n_deferred++);
	FOUND(slab->n_exhausted--, slab->n_exhausted++);
	ck_assert(slab_audit(slab));
	teardown();
}

TEST_LOOP(slab_audit_adds_up_to_the_pages_in_use, 0, 4)
{
	uint32_t seed = 12345 + (uint32_t)_i;
	uint64_t now = 0;
	struct slab_counts c;
	unsigned steps = test_rounds(4000);
	size_t n = 0;

	setup(96);
	for (unsigned step = 0; step < steps; step++) {
		uint32_t r = (seed = seed * 1664525 + 1013904223) >> 8;
		struct block_ref *b = n ? &refs[r / 64 % n] : NULL;

		now += r % 64;
		if (r % 8 < 3 && n + 8 <= LOTS) {
			n += slab_grant(slab, r / 8 % 50, r / 512 % 8, now,
					refs + n);
		} else if (b && r % 8 == 3) {
			slab_mark(slab, *b);
		} else if (b && r % 8 < 7) {
			b->inc += b->inc < INC_COUNT - 2 ? r % 2 : 0;
			ck_assert(slab_return(slab, *b, r / 8 % 3, now));
			*b = refs[--n];
		} else if (r % 32 == 7) {
			barrier();
		} else if (r % 32 == 15) {
			slab_shrink(slab, r / 32 % 2);
		}
		c = slab_count(slab);
		ck_assert_uint_eq(c.out, n);
		ck_assert_uint_eq(c.bytes_out + c.bytes_free + c.bytes_deferred +
					  c.bytes_exhausted + c.bytes_slack,
				  c.pages * PAGE_BYTES);
		ck_assert_uint_eq(c.pages + heap_retired(heap),
				  pages_of_values());
		if (step % 100 == 0)
			ck_assert_msg(slab_audit(slab), "%s", err_detail());
	}
	for (size_t i = 0; i < n; i++)
		ck_assert(slab_return(slab, refs[i], RETURN_EXHAUSTED, now));
	barrier();
	slab_grant(slab, 0, 0, now + GRACE, refs);
	slab_shrink(slab, false);
	ck_assert_msg(slab_audit(slab), "%s", err_detail());
	barrier();
	ck_assert_uint_eq(pages_of_values(), 0);
	teardown();
}

TEST_SUITE("slab")
