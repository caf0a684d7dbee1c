/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A check of the region seen from inside the server: what no client can damage, an
 * index of two subtables, and who else asks meanwhile. What clients can damage is
 * test_fsck.c's.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/block.h"
#include "common/hash.h"
#include "control_rig.h"
#include "server/fsck_priv.h"
#include "server/slab_priv.h"
#include "server/waiters.h"

/* ---- clients that ask for checks, and answer sweeps ----------------------------- */

static struct mind {
	uint64_t begun;  /* SWEEP_BEGIN to be acknowledged, or 0 */
	uint64_t number; /* of the sweep */
	uint32_t asked;  /* SWEEP_QUERY to be answered, or 0 */
	unsigned told;   /* FSCKs that have come */
	struct msg fsck; /* ... the last one */
} minds[2];
static uint64_t *spoilt; /* becomes 0 with the next FSCK; or NULL */

static struct mind *mind_of(const struct peer *p)
{
	return &minds[p == &bob];
}

static void heard(struct peer *p, const struct msg *m)
{
	struct mind *i = mind_of(p);

	if (m->type == MSG_SWEEP_BEGIN)
		i->begun = i->number = m->epoch.number;
	if (m->type == MSG_SWEEP_QUERY)
		i->asked = m->req;
	if (m->type != MSG_FSCK)
		return;
	i->told++;
	i->fsck = *m;
	ck_assert_uint_eq(m->req, p->req);
	if (spoilt)
		*spoilt = 0;
	spoilt = NULL;
}

static void answer_sweep(struct peer *p)
{
	struct mind *i = mind_of(p);
	struct msg ack = {.type = MSG_SWEEP_ACK, .epoch = {i->begun}};
	struct msg claim = {.type = MSG_SWEEP_CLAIM, .req = i->asked,
			    .blocks = {.number = i->number}};

	if (p->session && i->begun)
		ck_assert(say(p, &ack, NULL));
	if (p->session && i->asked)
		ck_assert(say(p, &claim, NULL));
	i->begun = i->asked = 0;
}

static bool request(struct peer *p)
{
	struct msg m = {.type = MSG_FSCK_REQ, .req = ++p->req};

	return say(p, &m, NULL);
}

static bool told(const struct peer *p, unsigned n)
{
	answer_sweep(&alice);
	answer_sweep(&bob);
	return mind_of(p)->told >= n;
}

static uint64_t said(const struct peer *p, enum msg_fsck id)
{
	const struct msg *m = &mind_of(p)->fsck;

	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	ck_abort_msg("fsck says no %d", id);
}

/* A check of alice's. */
static void check(void)
{
	unsigned n = mind_of(&alice)->told + 1;

	ck_assert(request(&alice));
	WAIT_FOR(told(&alice, n));
}

static void check_problems(enum msg_fsck id, uint64_t n)
{
	for (int i = MSG_FSCK_BAD_DIRECTORY; i <= MSG_FSCK_BAD_SUMS; i++)
		ck_assert_msg(said(&alice, i) == (i == (int)id ? n : 0),
			      "problem %d: %llu", i,
			      (unsigned long long)said(&alice, i));
}
#define CLEAN check_problems(MSG_FSCK_BAD_SUMS, 0)

/* ---- an index of two subtables -------------------------------------------------- */

static void setup(void)
{
	rig_begin(2 * SUBTABLE_SLOTS);
	ck_assert_uint_eq(region.subtables, 2);
	memset(minds, 0, sizeof(minds));
	alice.heard = heard;
}

static uint64_t *slots_in(unsigned subtable)
{
	return region_slots(&region, region_dir(&region)[subtable]);
}

/* A block with a key of this subtable, and the word for it. */
struct item {
	uint64_t word;
	unsigned home; /* slot */
};

static struct item item_new(unsigned subtable)
{
	static unsigned n;
	struct block_ref ref;
	struct item item;
	char key[16];
	uint64_t hash;

	do {
		snprintf(key, sizeof(key), "key%u", n++);
		hash = hash_key(region.sb.hash_seed, key, strlen(key));
	} while (hash >> 63 != subtable || hash_home_line(hash) == 0);
	ck_assert_uint_eq(slab_grant(c->slab, 0, 1, clock_now_ns(), &ref), 1);
	block_encode(region_at(&region, ref.off), ref, 1, key,
		     (uint16_t)strlen(key), hash, "", 0, 0);
	item.word = slot_pack(ref, hash_fp(hash), 0);
	item.home = hash_home_line(hash) * LINE_SLOTS;
	return item;
}

START_TEST(items_of_two_subtables_are_counted)
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
END_TEST

enum place { OTHER_SUBTABLE, BEFORE_ITS_HOME, LAST_OF_WINDOW, BEHIND_WINDOW };

START_TEST(item_out_of_its_place_is_misplaced)
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
	/* Its home is EMPTY: that is all that is wrong at the window's end. */
	check_problems(_i == LAST_OF_WINDOW ? MSG_FSCK_BEHIND_EMPTY :
					      MSG_FSCK_MISPLACED,
		       1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_FIRST_SLOT), at);
}
END_TEST

START_TEST(first_of_two_problems_is_named)
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
END_TEST

/* ---- what is the server's alone ------------------------------------------------- */

/* Words of the meta area, and what is found if they change. */
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
	HALF_ALIKE,  /* one subtable, but its second entry is another's */
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

START_TEST(broken_directory_is_found)
{
	uint64_t *dir = region_dir(&region), *word = dir, before, after;
	struct fsck_found f = {0};
	/* Half of a subtable is no subtable: their number is wrong, too. */
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
END_TEST

/* A subtable with several entries, of which one is another's. */
START_TEST(entries_of_one_subtable_are_equal)
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
END_TEST

START_TEST(what_an_entry_that_is_wrong_leads_to_is_not_looked_at)
{
	region_dir(&region)[1] &= ~ENTRY_VALID;
	slots_in(1)[5] = 0; /* not EMPTY */
	check();
	check_problems(MSG_FSCK_BAD_DIRECTORY, 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 1);
}
END_TEST

/* Each of the books with its neighbours as they were; undone after the check. */
enum book { SEGMENTS, BLOCKS, PAGES, REGION, BOOKS };

START_TEST(books_that_do_not_agree_are_found)
{
	static const char *const says[] = {"slab", "bytes of all blocks",
					   "pages in use",
					   "bytes of the region"};
	struct slab *slab = c->slab;
	uint64_t page = 0, directory = 0;

	(void)item_new(0); /* a segment */
	if (_i == SEGMENTS)
		slab->segments[1].n_free++;
	if (_i == BLOCKS)
		slab->bytes_slack += 64;
	if (_i == PAGES)
		page = heap_take(region.heap, 1);
	if (_i == REGION) {
		region.sb.region_bytes += PAGE_BYTES;
		directory = 1; /* the superblock says something else */
	}
	check();
	/* slab_audit() sees what is wrong with the slack, too. */
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
	check();
	CLEAN;
}
END_TEST

/* ---- the course ----------------------------------------------------------------- */

/* Both are answered, bob by a check of its own: the first had begun before. */
START_TEST(who_comes_too_late_for_a_check_gets_the_next)
{
	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	ck_assert(request(&alice));
	ck_assert(request(&bob));
	spoilt = &slots_in(0)[5]; /* with alice's answer */
	WAIT_FOR(told(&bob, 1));
	ck_assert_uint_eq(mind_of(&alice)->told, 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_EMPTY), 0);
	ck_assert_uint_eq(said(&bob, MSG_FSCK_BAD_EMPTY), 1);
	/* Each counts for itself. */
	check();
	ck_assert_uint_eq(said(&alice, MSG_FSCK_BAD_EMPTY), 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 2);
}
END_TEST

/* Of the check that is on, or of the next. */
START_TEST(who_leaves_is_not_answered)
{
	struct peer *stays = &alice, *leaves = &bob;

	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	ck_assert(request(_i ? stays : leaves));
	ck_assert(request(_i ? leaves : stays));
	leaves->session->left = true;
	control_end_session(leaves->session);
	WAIT_FOR(told(stays, 1));
	turns(5);
	ck_assert_uint_eq(mind_of(leaves)->told, 0);
	ck_assert_uint_eq(mind_of(stays)->told, 1);
}
END_TEST

START_TEST(who_asks_for_too_many_checks_at_once_is_refused)
{
	/* The first is on; so many may wait for the next. */
	for (unsigned i = 0; i < 1 + WAITERS_MAX; i++)
		ck_assert(request(&alice));
	ck_assert(!request(&alice));
	ck_assert_ptr_null(alice.session);
}
END_TEST

/* As a migration would, with nothing to copy. */
static uint64_t *move_subtable(unsigned i)
{
	uint64_t *entry = &region_dir(&region)[i], before = *entry, *slots;
	uint32_t gen = region_next_gen(&region);

	*entry = entry_pack(heap_take_reserved(region.heap), gen, 1);
	heap_retire(region.heap, entry_page(before), 1);
	slots = slots_in(i);
	for (unsigned k = 0; k < SUBTABLE_SLOTS; k++)
		slots[k] = slot_empty(gen);
	return slots;
}

/* Between two slices: what was counted is old, and what is to come is nobody's. */
START_TEST(subtable_that_moved_meanwhile_is_begun_again)
{
	struct item item = item_new(0), gone = item_new(0);
	uint64_t *before = slots_in(0);
	struct work *work;

	before[gone.home] = gone.word;
	ck_assert(request(&alice));
	work = TAILQ_FIRST(&c->work.list);
	ck_assert_ptr_nonnull(work);
	for (unsigned at = 0; at <= gone.home; at += 32)
		ck_assert(work->step(work->arg, 0));
	move_subtable(0)[item.home] = item.word;
	memset(before, 0, PAGE_BYTES); /* not EMPTY */
	WAIT_FOR(told(&alice, 1));
	CLEAN;
	ck_assert_uint_eq(said(&alice, MSG_FSCK_ITEMS), 1);
	ck_assert_uint_eq(said(&alice, MSG_FSCK_SUBTABLES), 2);
}
END_TEST

/* Clients are served between two slices. */
START_TEST(slice_is_a_few_slots_or_the_bytes_of_their_blocks)
{
	static struct fsck_subtable t;
	uint64_t entry = region_dir(&region)[0];
	unsigned at = 0, slices = 0;

	fsck_subtable_begin(&t, entry, 0);
	while (fsck_subtable_step(&t, &region, c->slab, 0)) {
		ck_assert_uint_gt(t.at, at);
		ck_assert_uint_le(t.at - at, 32);
		at = t.at;
		slices++;
	}
	ck_assert_uint_eq(t.at, SUBTABLE_SLOTS);
	ck_assert_uint_ge(slices, SUBTABLE_SLOTS / 32 - 1);
	/* Without a limit of time all are looked at. */
	fsck_subtable_begin(&t, entry, 0);
	ck_assert(!fsck_subtable_step(&t, &region, c->slab, UINT64_MAX));
	ck_assert_uint_eq(t.at, SUBTABLE_SLOTS);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fsck, inside");
	TCase *t = tcase_create("inside");

	tcase_add_checked_fixture(t, setup, rig_end);
	tcase_add_test(t, items_of_two_subtables_are_counted);
	tcase_add_loop_test(t, item_out_of_its_place_is_misplaced, 0,
			    BEHIND_WINDOW + 1);
	tcase_add_test(t, first_of_two_problems_is_named);
	tcase_add_loop_test(t, broken_directory_is_found, 0, BROKEN);
	tcase_add_test(t, entries_of_one_subtable_are_equal);
	tcase_add_test(t,
		       what_an_entry_that_is_wrong_leads_to_is_not_looked_at);
	tcase_add_loop_test(t, books_that_do_not_agree_are_found, 0, BOOKS);
	tcase_add_test(t, who_comes_too_late_for_a_check_gets_the_next);
	tcase_add_loop_test(t, who_leaves_is_not_answered, 0, 2);
	tcase_add_test(t, who_asks_for_too_many_checks_at_once_is_refused);
	tcase_add_test(t, subtable_that_moved_meanwhile_is_begun_again);
	tcase_add_test(t, slice_is_a_few_slots_or_the_bytes_of_their_blocks);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
