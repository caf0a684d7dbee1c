/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage that no client can cause, and misplaced items, in an index of two subtables.
 * test_fsck.c has the damage that clients can cause.
 */
#include "config.h"

#include "common/region/block.h"
#include "tests/rig/cases.h"
#include "tests/rig/fsck_rig.h"
#include "server/memory/slab_marks.h"
#include "server/memory/slab_priv.h"

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(items_of_two_subtables_are_counted)
{
	for (unsigned i = 0; i < 2; i++) {
		struct item item = item_new(i);

		slots_in(i)[item.home] = item.word;
	}
	check();
	CLEAN;
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 2);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_ITEMS), 2);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_LIVE_BYTES), 2 * 64);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_FIRST_PAGE), 0);
}

/* A migration is about to copy it; no item has changed. */
TEST(frozen_subtable_is_checked)
{
	struct item item = item_new(0);

	slots_in(0)[item.home] = item.word;
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots_in(0)[i] |= SLOT_FROZEN;
	check();
	CLEAN;
	ck_assert_uint_eq(said(&alice, MSG_FSCK_ITEMS), 1);
}

enum place { OTHER_SUBTABLE, BEFORE_ITS_HOME, LAST_OF_WINDOW, BEHIND_WINDOW };

TEST_LOOP(item_out_of_its_place_is_misplaced, 0, BEHIND_WINDOW + 1)
{
	struct item item = item_new(0);
	unsigned at = item.home;

	if (_i == BEFORE_ITS_HOME)
		at--;
	if (_i == LAST_OF_WINDOW)
		at += WINDOW_SLOTS - 1;
	if (_i == BEHIND_WINDOW)
		at += WINDOW_SLOTS;
	slots_in(_i == OTHER_SUBTABLE)[at] = item.word;
	check();
	/* Its home slot is EMPTY, which is the only error at the window's end. */
	check_problems(_i == LAST_OF_WINDOW ? MSG_FSCK_BEHIND_EMPTY :
					      MSG_FSCK_MISPLACED,
		       1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_FIRST_SLOT), at);
}

/* An older or a future word; then its block is damaged as well. */
TEST(word_of_another_incarnation_is_told_from_a_damaged_block)
{
	struct item item = item_new(0);
	uint8_t *block = region_at(&region, slot_off(item.word));

	slots_in(0)[item.home] =
		item.word + (UINT64_C(1) << SLOT_INC_SHIFT);
	check();
	check_problems(MSG_FSCK_SHARED, 1);
	block[BLOCK_HEADER_BYTES] ^= 1; /* of the key */
	check();
	check_problems(MSG_FSCK_DAMAGED, 1);
	slots_in(0)[item.home] = item.word;
	check();
	check_problems(MSG_FSCK_DAMAGED, 1);
	block[BLOCK_HEADER_BYTES] ^= 1;
	check();
	CLEAN;
}

TEST(first_of_two_problems_is_named)
{
	uint64_t *slots[2] = {slots_in(0), slots_in(1)};
	unsigned at[2] = {30, 20};

	/* In the last subtable alone, or in both; two in each. */
	for (int t = 1; t >= 0; t--) {
		slots[t][at[t]] = slots[t][at[t] + 1] = 0;
		check();
		check_problems(MSG_FSCK_BAD_EMPTY, t ? 2 : 4);
		ck_assert_uint_eq(said(&alice, MSG_FSCK_FIRST_SLOT), at[t]);
		ck_assert_uint_eq(said(&alice, MSG_FSCK_FIRST_PAGE),
				  entry_page(region_dir(&region)[t]));
	}
}

/* ---- data that only the server writes --------------------------------------------- */

/* Words of the meta area, and the problem that a change of each causes. */
static uint64_t *meta_word(uint64_t off)
{
	return (uint64_t *)(void *)(region.meta + off);
}

enum broken {
	NOT_VALID,   /* the first entry */
	TOO_DEEP,
	NO_PAGE,
	ODD_BITS,
	SAME_PAGE,   /* two subtables */
	HALF_ALIKE,  /* one subtable whose second entry names another */
	NOT_ALIGNED, /* a subtable's entries begin in the middle */
	WRONG_DEPTH, /* in D */
	SUPERBLOCK,
	BROKEN
};

static uint64_t broken_entry(enum broken what, const uint64_t *dir)
{
	uint64_t page = entry_page(dir[0]);
	uint32_t gen = entry_gen(dir[0]);

	switch (what) {
	case NOT_VALID:
		return dir[0] & ~ENTRY_VALID;
	case TOO_DEEP:
		return entry_pack(page, gen, region.depth + 1);
	case NO_PAGE:
		return entry_pack(region.sb.region_bytes / PAGE_BYTES, gen, 1);
	case ODD_BITS: /* between the generation and the depth, or so */
		for (unsigned bit = 0; bit < 64; bit++) {
			uint64_t w = dir[0] ^ UINT64_C(1) << bit;

			if (entry_page(w) == page && entry_gen(w) == gen &&
			    entry_depth(w) == 1 && (w & ENTRY_VALID))
				return w;
		}
		return 0;
	case SAME_PAGE:
		return entry_pack(entry_page(dir[1]), gen, 1);
	default:
		return entry_pack(page, gen, 0);
	}
}

TEST_LOOP(broken_directory_is_found, 0, BROKEN)
{
	uint64_t *dir = region_dir(&region), *word = dir, before, after;
	struct fsck_found f = {0};
	/* Half of a subtable is not a subtable, so the count is wrong as well. */
	uint64_t want = _i == HALF_ALIKE ? 2 : 1;

	if (_i == NOT_ALIGNED)
		word = dir + 1;
	if (_i == WRONG_DEPTH)
		word = meta_word(REGION_D_OFF);
	if (_i == SUPERBLOCK)
		word = meta_word(offsetof(struct superblock, grace_ns));
	before = *word;
	after = _i < WRONG_DEPTH ? broken_entry(_i, dir) : before + 1;
	ck_assert_uint_ne(before, after);
	*word = after;
	fsck_directory(&region, &f);
	ck_assert_uint_eq(f.bad_directory, want);
	*word = before;
	f.bad_directory = 0;
	fsck_directory(&region, &f);
	ck_assert_uint_eq(f.bad_directory, 0);
}

/* A subtable with several entries, one of which names another subtable. */
TEST(entries_of_one_subtable_are_equal)
{
	uint64_t *dir = region_dir(&region);
	struct fsck_found f = {0};

	dir[0] = dir[1] = entry_pack(entry_page(dir[0]), entry_gen(dir[0]), 0);
	region.subtables = 1;
	fsck_directory(&region, &f);
	ck_assert_uint_eq(f.bad_directory, 0);
	region.subtables = 2;
	fsck_directory(&region, &f);
	ck_assert_uint_eq(f.bad_directory, 1);
}

TEST(target_of_a_wrong_entry_is_not_read)
{
	region_dir(&region)[1] &= ~ENTRY_VALID;
	slots_in(1)[5] = 0; /* not EMPTY */
	check();
	check_problems(MSG_FSCK_BAD_DIRECTORY, 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 1);
}

TEST(page_map_that_does_not_know_a_subtable_is_bad_directory)
{
	uint32_t *entry = &region_page_map(&region)[entry_page(region_dir(&region)[1]) -
						    region.sb.meta_bytes / PAGE_BYTES];

	ck_assert_uint_eq(*entry, page_pack(PAGE_IS_SUBTABLE, 0, 0));
	*entry = page_pack(PAGE_IS_SEGMENT, 1, 0);
	check();
	check_problems(MSG_FSCK_BAD_DIRECTORY, 1);
	*entry = page_pack(PAGE_IS_SUBTABLE, 0, 0);
	check();
	CLEAN;
}

/* Each account in turn; the change is undone after the check. */
enum book { SEGMENTS, BLOCKS, PAGES, REGION, MAP_SEGMENT, MAP_FREE, BOOKS };

TEST_LOOP(accounts_that_disagree_are_found, 0, BOOKS)
{
	static const char *const says[] = {"slab", "bytes of all blocks",
					   "pages in use",
					   "bytes of the region",
					   "page map, page", "page map: page"};
	struct slab *slab = c->slab;
	uint32_t *map = region_page_map(&region);
	uint64_t page = 0, directory = 0;

	(void)item_new(0); /* a segment, at the first page */
	if (_i == SEGMENTS)
		slab->segments[1].n_free++;
	if (_i == BLOCKS)
		slab->bytes_slack += 64;
	if (_i == PAGES)
		heap_map_segment(region.heap, page = heap_take(region.heap, 1), 1, 0);
	if (_i == MAP_SEGMENT)
		map[0]++;
	if (_i == MAP_FREE)
		map[9]++;
	if (_i == REGION) {
		region.sb.region_bytes += PAGE_BYTES;
		directory = 1; /* the superblock says something else */
	}
	check();
	/* slab_audit() finds errors of the slack as well. */
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_SUMS), 1 + (_i == BLOCKS));
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_DIRECTORY), directory);
	ck_assert_uint_eq(log_count("fsck: "), 1 + (_i == BLOCKS));
	if (_i != SEGMENTS)
		ck_assert_uint_eq(log_count(says[_i]), 1);
	if (_i == SEGMENTS)
		slab->segments[1].n_free--;
	if (_i == BLOCKS)
		slab->bytes_slack -= 64;
	if (_i == PAGES)
		heap_give(region.heap, page, 1);
	if (_i == REGION)
		region.sb.region_bytes -= PAGE_BYTES;
	if (_i == MAP_SEGMENT)
		map[0]--;
	if (_i == MAP_FREE)
		map[9]--;
	check();
	CLEAN;
}

TEST_SUITE("fsck, inside")
