/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices (common/notice.h): who says that it puts a key, and what others conclude. */
#include "config.h"

#include <string.h>

#include "common/atomic.h"

/* What is stored for others to read, in this order. */
static const uint64_t *stored[4];
static unsigned n_stored;

static void store(uint64_t *word, uint64_t value)
{
	stored[n_stored++ % 4] = word;
	atom_store_publish(word, value);
}

#undef atom_store_publish
#define atom_store_publish store
#include "loads_rig.h"

static struct notice_line *lines;
static uint64_t *hints;

static void make_board(void)
{
	uint64_t e = fake_region_subtable(&region, 0);

	(void)fake_region_subtable(&region, 0); /* behind it */
	hints = fake_region_slots(&region, e);
	memset(hints, 0, PAGE_BYTES);
	lines = (struct notice_line *)(void *)(hints + BOARD_HINTS);
	*(uint64_t *)(void *)(region.base + REGION_BOARD_OFF) = entry_page(e);
	notice_open(&me.ix->notice, region.base, &region.sb);
	notice_open(&other.ix->notice, region.base, &region.sb);
}

static uint64_t off_of(struct index_key key)
{
	return (uint64_t)((uint8_t *)slots_of(key) - region.base);
}

/* It does not watch, but knows of rivals. */
#define PUT_ALONE(c, key, value)                                 \
	do {                                                     \
		struct contend *of_ = &(c)->ix->contend;         \
								 \
		if (of_->mood == CONTEND_HOT)                    \
			of_->mood = CONTEND_CALM;                \
		of_->met = true;                                 \
		PUT(c, key, value);                              \
	} while (0)

/* So that it says so. */
static void puts_on(struct fake_client *c, struct index_key key, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		PUT_ALONE(c, key, "said");
	}
}

static void nothing(void)
{
}

/* `other` says that it puts the key; `me` knows the slot, and its next put watches. */
static void setup_heard(void)
{
	setup(false);
	make_board();
	k = key_of("k");
	fake_region_grant(&region, me.alloc, 0, 30);
	fake_region_grant(&region, other.alloc, 0, 60);
	puts_on(&other, k, CONTEND_SAY + 2);
	PUT(&me, k, "mine");
	me.ix->contend.mood = CONTEND_HOT;
	rival_sets(-1, NULL, INDEX_PUT, k, "theirs");
	at_spin = rival_op;
	PUT(&me, k, "mine");
	check_value(&me, k, "theirs");
	puts_on(&other, k, CONTEND_SAY + 2);
	ck_assert_ptr_nonnull(other.ix->notice.own);
	me.ix->contend.mood = CONTEND_HOT;
	me.ix->contend.stood = 0;
}

static void theirs_once(void)
{
	puts_on(&other, k, 1);
}

static void theirs_twice(void)
{
	puts_on(&other, k, 2);
}

static bool looked; /* at a block, before it heard */

static void theirs_twice_after_looks(void)
{
	looked = !at_copy;
	at_copy = NULL;
	theirs_twice();
}

/* What the put of `me` needed. */
static uint64_t swaps_of_put(void (*act)(void))
{
	uint64_t cas = me.lane->counters.cas;

	at_spin = act;
	PUT(&me, k, "mine");
	return me.lane->counters.cas - cas;
}

START_TEST(put_that_hears_of_two_more_stands_before_the_last)
{
	uint64_t writes, retries, reads, bytes;
	uint32_t blocks;

	setup_heard();
	writes = me.lane->counters.writes;
	reads = me.lane->counters.reads;
	bytes = me.lane->counters.read_bytes;
	retries = index_retries(me.ix);
	blocks = alloc_count(me.alloc, 0);
	/* It looks at the count alone: the slot's word is nothing that it knows. */
	*slots_of(k) ^= SLOT_DEAD;
	at_copy = nothing;
	ck_assert_uint_eq(swaps_of_put(theirs_twice_after_looks), 0);
	ck_assert(!looked);
	ck_assert(me.op.rivals);
	ck_assert_uint_eq(me.ix->contend.stood, 1);
	ck_assert_uint_eq(me.op.version, (uint64_t)me.ix->versions.prefix << 32 |
						 me.ix->versions.counter);
	/* As a card would have: window and head. */
	ck_assert_uint_eq(me.lane->counters.reads, reads + 2);
	ck_assert_uint_eq(me.lane->counters.read_bytes, bytes + WINDOW_BYTES + 64);
	ck_assert_uint_eq(me.lane->counters.writes, writes);
	ck_assert_uint_eq(index_retries(me.ix), retries + 1);
	ck_assert_uint_eq(alloc_count(me.alloc, 0), blocks);
	ck_assert_uint_eq(me.op.cls, 0);
	check_value(&me, k, "said");
	teardown();
}
END_TEST

/* Its swap may have been before this put: the count comes behind it. */
START_TEST(put_that_hears_of_one_more_does_not_stand_before_it)
{
	setup_heard();
	ck_assert_uint_eq(swaps_of_put(theirs_once), 1);
	check_value(&other, k, "mine");
	ck_assert_uint_eq(me.ix->contend.stood, 0);
	ck_assert_uint_eq(me.ix->contend.vain, 1);
	teardown();
}
END_TEST

static struct index_key another;

static void theirs_of_another(void)
{
	puts_on(&other, another, CONTEND_SAY + 6);
}

START_TEST(puts_of_another_key_are_not_stood_before)
{
	setup_heard();
	another = key_of("another");
	fake_region_grant(&region, other.alloc, 0, CONTEND_SAY + 8);
	ck_assert_uint_eq(swaps_of_put(theirs_of_another), 1);
	check_value(&other, k, "mine");
	ck_assert_uint_eq(other.ix->notice.own->slot, off_of(another));
	/* Nor is it listened to any more, whatever it says: the slot is looked at. */
	puts_on(&other, another, 2);
	me.ix->contend.mood = CONTEND_HOT;
	ck_assert_uint_eq(swaps_of_put(theirs_twice), 0);
	ck_assert_uint_eq(other.ix->notice.own->slot, off_of(another));
	teardown();
}
END_TEST

static void theirs_unsaid(void)
{
	other.ix->contend.run = 0;
	PUT_ALONE(&other, k, "unsaid");
}

/* Who said so may have gone, and another puts it that does not. */
START_TEST(who_says_nothing_more_is_listened_to_once)
{
	uint64_t count;

	setup_heard();
	count = other.ix->notice.own->count;
	at_spin = NULL;
	ck_assert_uint_eq(swaps_of_put(NULL), 1);
	me.ix->contend.mood = CONTEND_HOT;
	ck_assert_uint_eq(swaps_of_put(theirs_unsaid), 0); /* seen in the slot */
	check_value(&me, k, "unsaid");
	ck_assert_uint_eq(other.ix->notice.own->count, count);
	/* Until it says something again. */
	puts_on(&other, k, CONTEND_SAY + 1);
	ck_assert_uint_gt(other.ix->notice.own->count, count);
	me.ix->contend.mood = CONTEND_HOT;
	ck_assert_uint_eq(swaps_of_put(theirs_unsaid), 1);
	teardown();
}
END_TEST

START_TEST(own_notice_is_not_listened_to)
{
	setup_heard();
	puts_on(&me, k, CONTEND_SAY + 1);
	ck_assert_ptr_nonnull(me.ix->notice.own);
	ck_assert_uint_eq(hints[board_hint(off_of(k))], me.ix->notice.name);
	me.ix->contend.mood = CONTEND_HOT;
	ck_assert_uint_eq(swaps_of_put(theirs_unsaid), 0); /* seen in the slot */
	teardown();
}
END_TEST

static void counts_back(void)
{
	other.ix->notice.own->count -= 1000;
}

/* It would have grown by nearly all that there is. */
START_TEST(count_that_goes_back_is_not_heard)
{
	setup_heard();
	ck_assert_uint_eq(swaps_of_put(counts_back), 1);
	check_value(&other, k, "mine");
	teardown();
}
END_TEST

/* What stands in a region may be anything. */
START_TEST(hints_that_lead_nowhere_do_no_harm)
{
	setup_heard();
	for (unsigned i = 0; i < 3; i++) {
		hints[board_hint(off_of(k))] =
			i == 0 ? 0 : i == 1 ? BOARD_NOTICES + 1 : UINT64_MAX;
		lines[BOARD_NOTICES].slot = lines[-2].slot = off_of(k);
		lines[BOARD_NOTICES].count = lines[-2].count = 1;
		me.ix->contend.mood = CONTEND_HOT;
		ck_assert_uint_eq(swaps_of_put(theirs_unsaid), 0);
	}
	hints[board_hint(off_of(k))] = BOARD_NOTICES; /* the last */
	lines[BOARD_NOTICES - 1].slot = off_of(k);
	lines[BOARD_NOTICES - 1].count = 1;
	me.ix->contend.mood = CONTEND_HOT;
	ck_assert_uint_eq(swaps_of_put(theirs_unsaid), 1);
	teardown();
}
END_TEST

static uint64_t count_at_swap;

static void note_count(void)
{
	count_at_swap = other.ix->notice.own->count;
}

static void me_first(void)
{
	note_count();
	PUT_ALONE(&me, k, "first");
}

/* Each swap that changed the slot, and none before it has. */
START_TEST(who_puts_a_key_again_and_again_counts_its_swaps)
{
	uint64_t count;

	setup_heard();
	count = other.ix->notice.own->count;
	ck_assert_uint_eq(other.ix->notice.own->slot, off_of(k));
	at_swap = note_count;
	puts_on(&other, k, 1);
	ck_assert_uint_eq(count_at_swap, count);
	ck_assert_uint_eq(other.ix->notice.own->count, count + 1);
	at_swap = me_first;
	puts_on(&other, k, 1);
	ck_assert_uint_eq(count_at_swap, count + 1);
	ck_assert_uint_eq(other.ix->notice.own->count, count + 1); /* it has lost */
	/* From then on it has not put the key so often in a row. */
	puts_on(&other, k, CONTEND_SAY - 1);
	ck_assert_uint_eq(other.ix->notice.own->count, count + 1);
	puts_on(&other, k, 1);
	ck_assert_uint_eq(other.ix->notice.own->count, count + 2);
	teardown();
}
END_TEST

START_TEST(who_puts_many_keys_says_nothing)
{
	setup(false);
	make_board();
	fake_region_grant(&region, me.alloc, 0, 100);
	for (unsigned i = 0; i < 8 * CONTEND_SAY; i++)
		puts_on(&me, key_of(i % 2 ? "a" : "b"), 1);
	ck_assert_ptr_null(me.ix->notice.own);
	ck_assert_uint_eq(hints[board_hint(off_of(key_of("a")))], 0);
	teardown();
}
END_TEST

/* Nobody watches what nobody else puts. */
START_TEST(who_has_met_no_rival_says_nothing)
{
	setup(false);
	make_board();
	k = key_of("k");
	fake_region_grant(&region, me.alloc, 0, 100);
	PUT(&other, k, "theirs");
	for (unsigned i = 0; i < 4 * CONTEND_SAY; i++)
		PUT(&me, k, "mine");
	ck_assert_ptr_null(me.ix->notice.own);
	PUT(&other, k, "theirs");
	for (unsigned i = 0; i < 4 * CONTEND_SAY; i++)
		PUT(&me, k, "mine");
	ck_assert_ptr_nonnull(me.ix->notice.own);
	/* Of another key it knows nothing. */
	for (unsigned i = 0; i < 4 * CONTEND_SAY; i++)
		PUT(&me, key_of("another"), "mine");
	ck_assert_uint_eq(me.ix->notice.own->slot, off_of(k));
	teardown();
}
END_TEST

START_TEST(hint_is_set_anew_now_and_then)
{
	uint64_t *hint;

	setup_heard();
	hint = &hints[board_hint(off_of(k))];
	*hint = 0;
	puts_on(&other, k, NOTICE_HINT / 4);
	for (unsigned i = 0; i < NOTICE_HINT && *hint == 0; i++) {
		fake_region_grant(&region, other.alloc, 0, 1);
		puts_on(&other, k, 1);
	}
	ck_assert_uint_eq(*hint, other.ix->notice.name);
	/* And whenever it begins. */
	*hint = 0;
	other.ix->contend.run = 0;
	fake_region_grant(&region, other.alloc, 0, CONTEND_SAY);
	puts_on(&other, k, CONTEND_SAY - 1);
	ck_assert_uint_eq(*hint, 0);
	puts_on(&other, k, 1);
	ck_assert_uint_eq(*hint, other.ix->notice.name);
	teardown();
}
END_TEST

START_TEST(notice_is_the_next_that_is_nobodys_and_its_count_goes_on)
{
	struct notice n = {.owner = 3};

	setup(false);
	ck_assert(!notice_claim(&n, 4096)); /* there is no board */
	make_board();
	n = (struct notice){0};
	notice_open(&n, region.base, &region.sb);
	ck_assert(!notice_claim(&n, 4096)); /* it does not know who it is */
	n.owner = BOARD_NOTICES - 1;
	lines[BOARD_NOTICES - 1].owner = 77;
	lines[0].owner = 78;
	lines[1].count = 41;
	notice_say(&n, 4096, true);
	ck_assert_ptr_eq(n.own, &lines[1]);
	ck_assert_uint_eq(lines[1].owner, BOARD_NOTICES - 1);
	/* That swap was before it was its own. */
	ck_assert_uint_eq(lines[1].count, 41);
	ck_assert_uint_eq(lines[1].slot, 0);
	ck_assert_uint_eq(hints[board_hint(4096)], 0);
	notice_say(&n, 4096, true);
	ck_assert_uint_eq(lines[1].count, 42);
	ck_assert_uint_eq(lines[1].slot, 4096);
	ck_assert_uint_eq(hints[board_hint(4096)], 2);
	/* A hint that another has taken is taken back. */
	hints[board_hint(4096)] = 9;
	notice_say(&n, 4096, false);
	ck_assert_uint_eq(hints[board_hint(4096)], 9);
	lines[1].count = 0; /* what it says is its own */
	notice_say(&n, 4096, true);
	ck_assert_uint_eq(hints[board_hint(4096)], 2);
	ck_assert_uint_eq(lines[1].count, 44);
	n_stored = 0;
	notice_say(&n, 8192, true);
	ck_assert_uint_eq(n_stored, 2);
	ck_assert_ptr_eq(stored[0], &lines[1].slot);
	ck_assert_ptr_eq(stored[1], &lines[1].count);
	ck_assert_uint_eq(lines[1].slot, 8192);
	ck_assert_uint_eq(hints[board_hint(8192)], 2);
	teardown();
}
END_TEST

START_TEST(who_finds_no_notice_says_nothing)
{
	struct notice n = {.owner = 3};

	setup(false);
	make_board();
	notice_open(&n, region.base, &region.sb);
	for (unsigned i = 0; i < BOARD_NOTICES; i++)
		lines[i].owner = 1;
	notice_say(&n, 4096, false);
	ck_assert_ptr_null(n.own);
	ck_assert_uint_eq(hints[board_hint(4096)], 0);
	lines[5].owner = 0; /* it does not look again */
	notice_say(&n, 4096, false);
	ck_assert_ptr_null(n.own);
	notice_say(&n, 8192, true); /* ... until it is another key */
	ck_assert_ptr_eq(n.own, &lines[5]);
	teardown();
}
END_TEST

/* The page's number is the server's, but it is not believed blindly. */
START_TEST(board_that_is_no_page_of_the_region_is_none)
{
	uint64_t *word;
	struct notice n = {.owner = 3};

	setup(false);
	word = (uint64_t *)(void *)(region.base + REGION_BOARD_OFF);
	*word = region.sb.meta_bytes / PAGE_BYTES - 1;
	notice_open(&n, region.base, &region.sb);
	ck_assert_ptr_null(n.hints);
	*word = region.sb.region_bytes / PAGE_BYTES;
	notice_open(&n, region.base, &region.sb);
	ck_assert_ptr_null(n.hints);
	*word = region.sb.region_bytes / PAGE_BYTES - 1;
	notice_open(&n, region.base, &region.sb);
	ck_assert_ptr_nonnull(n.hints);
	ck_assert_ptr_eq(n.lines + BOARD_NOTICES, region.base + region.sb.region_bytes);
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index, notices");
	TCase *t = tcase_create("notice");

	tcase_add_test(t, put_that_hears_of_two_more_stands_before_the_last);
	tcase_add_test(t, put_that_hears_of_one_more_does_not_stand_before_it);
	tcase_add_test(t, puts_of_another_key_are_not_stood_before);
	tcase_add_test(t, who_says_nothing_more_is_listened_to_once);
	tcase_add_test(t, own_notice_is_not_listened_to);
	tcase_add_test(t, count_that_goes_back_is_not_heard);
	tcase_add_test(t, hints_that_lead_nowhere_do_no_harm);
	tcase_add_test(t, who_puts_a_key_again_and_again_counts_its_swaps);
	tcase_add_test(t, who_puts_many_keys_says_nothing);
	tcase_add_test(t, who_has_met_no_rival_says_nothing);
	tcase_add_test(t, hint_is_set_anew_now_and_then);
	tcase_add_test(t, notice_is_the_next_that_is_nobodys_and_its_count_goes_on);
	tcase_add_test(t, who_finds_no_notice_says_nothing);
	tcase_add_test(t, board_that_is_no_page_of_the_region_is_none);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
