/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control loop without sockets: answers to sessions that ask for memory when
 * none is free.
 */
#include "config.h"

#include <unistd.h>

#include "tests/rig/cases.h"
#include "tests/rig/control_rig.h"
#include "server/loop/grants.h"
#include "server/loop/grow.h"
#include "server/loop/sweep.h"
#include "server/memory/slab_marks.h"

/* Waits until no session was asked for memory recently. */
static void calm(void)
{
	turns(110);
}

static void setup(void)
{
	rig_begin(1);
}

static void setup_large_index(void)
{
	rig_begin(8 * SUBTABLE_SLOTS);
}

/* ---- pages change hands ---------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(empty_segments_serve_another_class_after_a_barrier)
{
	size_t small, large;

	small = rig_get_all(&alice, RIG_SMALL);
	ck_assert_uint_gt(small, 20000);
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	rig_give(&alice, small, RETURN_FREE);
	alice.silent = true;
	rig_hide_pages();
	rig_ask(&alice, RIG_LARGE, 64);
	WAIT_FOR(alice.barrier);
	turns(20);
	ck_assert(!alice.answered);
	alice.silent = false;
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 64);
	ck_assert_uint_eq(alice.got[0].inc, 0);
	rig_show_pages();
	large = rig_get_all(&alice, RIG_LARGE);
	/* All but the reserve, small blocks and the rest of the index. */
	large += rig_get_reserve(&alice, RIG_LARGE);
	ck_assert_uint_ge((large + 64) * 4096 * 100, 2 * MIB * 88);
}

TEST(deferred_blocks_of_another_class_are_waited_for)
{
	size_t small = rig_get_all(&alice, RIG_SMALL);
	uint64_t t = clock_now_ns();

	t = clock_now_ns();
	rig_give(&alice, small, RETURN_DEFERRED);
	rig_hide_pages();
	/* They are not deferred all at once, and are not freed all at once. */
	ck_assert_uint_gt(rig_get(&alice, RIG_LARGE, 64), 0);
	/* Not before T, unless a barrier has passed. */
	ck_assert(alice.answered_ns - t >= GRACE_NS || alice.barriers > 0);
	ck_assert_uint_lt(alice.answered_ns - t, NS_PER_SEC);
	rig_show_pages();
}

TEST(exhausted_blocks_of_another_class_are_waited_for)
{
	size_t small = rig_get_all(&alice, RIG_SMALL);

	rig_give(&alice, small, RETURN_EXHAUSTED);
	rig_hide_pages();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 64), 64);
	ck_assert_uint_eq(alice.got[0].inc, 0);
	rig_show_pages();
}

TEST(low_on_pages_gives_back_empty_segments_but_one)
{
	size_t large = rig_get_all(&alice, RIG_LARGE);

	rig_give(&alice, large, RETURN_FREE);
	WAIT_FOR(c->barrier->passed > 0);
	turns(0);
	/* Most is back in the heap before it is requested. */
	ck_assert_uint_gt(heap_left(region.heap), heap_total(region.heap) / 2);
	ck_assert_uint_gt(slab_count_class(c->slab, RIG_LARGE).free, 0);
	ck_assert_uint_eq(alice.reclaims, 0);
}

TEST(full_store_leaves_pages_for_the_index)
{
	uint64_t pages = region.subtables, n = 0;

	rig_get_all(&alice, RIG_LARGE);
	ck_assert_uint_eq(heap_left(region.heap), heap_total(region.heap) / 32);
	rig_give(&alice, alice.n_held, RETURN_FREE);
	rig_get_all(&alice, RIG_SMALL);
	while (heap_take_index(region.heap))
		n++;
	/* A power of two of subtables, each with less than 3/5 of its slots in use. */
	while (pages * 2 <= region.subtables + n - HEAP_RESERVE)
		pages *= 2;
	ck_assert_uint_le(alice.n_held, pages * SUBTABLE_SLOTS * 3 / 5 + PAGE_BYTES / 64);
	ck_assert_uint_gt(alice.n_held, pages * SUBTABLE_SLOTS / 5);
	region.subtables += n; /* for the sum in rig_end() */
}

/* ---- no memory ------------------------------------------------------------------- */

TEST(request_without_prospect_is_refused_at_once)
{
	uint64_t t;

	rig_get_all(&alice, RIG_SMALL);
	t = clock_now_ns();
	for (int i = 0; i < 50; i++)
		ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	/* No T was waited for. */
	ck_assert_uint_lt(clock_now_ns() - t, 50 * GRACE_NS);
	/* No timer either: the answer comes when the index has been searched. */
	turns(5);
	rig_ask(&alice, RIG_LARGE, 1);
	for (int i = 0; i < 50 && !alice.answered; i++)
		turn();
	ck_assert(alice.answered);
	ck_assert_uint_eq(alice.reclaims, 0);
	ck_assert_uint_eq(alice.barriers, 0);
}

/* A client deletes without a message to the server. */
static void delete_by_slot(struct peer *p, size_t n)
{
	uint64_t *slots = region_slots(&region, region_dir(&region)[0]);

	ck_assert_uint_le(n, SUBTABLE_SLOTS);
	for (size_t i = 0; i < n; i++)
		slots[i] = slot_pack(p->held[--p->n_held], 1, SLOT_DEAD);
}

/* ---- reasons for waiting ------------------------------------------------------------ */

static struct {
	unsigned n;
	uint32_t req;
	uint64_t cls, bytes, refused;
} told;

static void hear_full(struct peer *p, const struct msg *m)
{
	(void)p;
	if (m->type != MSG_STATS)
		return;
	told.n++;
	told.req = m->req;
	for (uint32_t i = 0; i < m->stats.n; i++) {
		uint64_t v = m->stats.stat[i].value;

		if (m->stats.stat[i].id == MSG_STAT_FULL_CLASS)
			told.cls = v;
		else if (m->stats.stat[i].id == MSG_STAT_FREE_BYTES)
			told.bytes = v;
		else if (m->stats.stat[i].id == MSG_STAT_PAGES_REFUSED)
			told.refused = v;
	}
}

TEST(waiting_request_is_told_its_reason_at_once)
{
	memset(&told, 0, sizeof(told));
	rig_get_all(&alice, RIG_SMALL);
	/* A part of a segment, so that its pages keep their class. */
	rig_give(&alice, 100, RETURN_FREE);
	join(&bob, &rig_local, getpid());
	calm();
	alice.heard = hear_full;
	rig_ask(&alice, RIG_LARGE, 1);
	/* Before bob is asked, and long before the answer. */
	WAIT_FOR(told.n == 1 || alice.answered);
	ck_assert(!alice.answered);
	ck_assert_uint_eq(told.req, alice.req);
	ck_assert_uint_eq(told.cls, RIG_LARGE);
	ck_assert_uint_ge(told.bytes, 100 * 64);
	ck_assert_uint_eq(told.bytes, slab_count(c->slab).bytes_free -
				      slab_count_class(c->slab, RIG_LARGE).bytes_free);
	ck_assert_uint_eq(told.refused, 0);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 0);
	ck_assert_uint_eq(told.n, 1);
}

static uint64_t no_pages(void *arg, uint64_t at, uint64_t n, uint64_t more)
{
	(void)at;
	(void)n;
	(void)more;
	++*(unsigned *)arg;
	return 0;
}

/* The machine has no more memory, though most of the region is free. */
TEST(pages_that_the_machine_lacks_are_not_granted)
{
	unsigned asked = 0;
	size_t n;

	heap_set_back(region.heap, no_pages, &asked);
	n = rig_get_all(&alice, RIG_SMALL);
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	ck_assert_uint_gt(asked, 0);
	ck_assert_uint_gt(heap_left(region.heap), heap_total(region.heap) / 2);
	ck_assert_uint_lt(n * 64, MIB);
	/* Existing pages stay in use. */
	rig_give(&alice, n, RETURN_FREE);
	ck_assert_uint_eq(rig_get_all(&alice, RIG_SMALL), n);
}

/* Without T, and without a barrier, which alice does not answer. */
TEST(tombstones_in_a_full_store_are_replaced_from_the_reserve)
{
	rig_get_all(&alice, RIG_SMALL);
	ck_assert_uint_gt(slab_count_class(c->slab, RIG_SMALL).free, 100);
	alice.silent = true;
	delete_by_slot(&alice, 10);
	turns(5);
	ck_assert_uint_ge(rig_get(&alice, RIG_SMALL, 64), 10);
	ck_assert_uint_eq(grow_stats(c)->compactions, 0);
	alice.silent = false;
}

TEST(deleted_blocks_are_found_soon_after_memory_ran_out)
{
	rig_get_all(&alice, RIG_SMALL);
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_eq(rig_get(&alice, RIG_SMALL, 1), 0);
		delete_by_slot(&alice, 1000);
		turns(5);
		ck_assert_uint_eq(rig_get(&alice, RIG_SMALL, 64), 64);
		ck_assert_uint_eq(rig_get_all(&alice, RIG_SMALL), 1000 - 64);
	}
}

/* For the waiting requests; the barrier is as old as before. */
static void time_passes(uint64_t ns)
{
	struct deferred *d;

	TAILQ_FOREACH(d, &c->grants->deferred, link) {
		d->began_ns -= ns;
		d->hunt_ns -= ns;
		d->until_ns -= ns;
	}
}

TEST_GROUP(.setup = setup_large_index, .teardown = rig_end);

/*
 * Tombstones in all subtables keep each page of small blocks in use. Compacting a
 * subtable takes a page: after the reserve is used up, one barrier for every two.
 */
TEST(search_is_waited_for_however_long_it_takes)
{
	size_t tables = region.subtables, n = rig_get_all(&alice, RIG_SMALL);
	unsigned rounds;

	ck_assert_uint_eq(tables, 8);
	/* The pages for growth are gone as well. */
	while (heap_left(region.heap)) {
		ck_assert_uint_ne(heap_take_index(region.heap), 0);
		region.subtables++;
	}
	ck_assert_uint_le(n / tables, SUBTABLE_SLOTS);
	for (size_t i = 0; i < n; i++)
		region_slots(&region, region_dir(&region)[i % tables])
			[i / tables] = slot_pack(alice.held[i], 1, SLOT_DEAD);
	alice.silent = true;
	rig_ask(&alice, RIG_LARGE, 1);
	for (rounds = 0; !alice.answered; rounds++) {
		WAIT_FOR(alice.answered || alice.barrier);
		/* Not for deferred blocks. */
		if (grow_searching(c))
			time_passes(NS_PER_SEC / 2);
		turns(10);
		answer_barrier(&alice);
	}
	ck_assert_uint_eq(alice.n, 1);
	ck_assert_uint_ge(rounds, 4);
}

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(others_are_asked_and_waited_for_a_short_time)
{
	unsigned asked;
	uint64_t t;

	rig_get_all(&alice, RIG_SMALL);
	join(&bob, &rig_local, getpid());
	calm();
	t = clock_now_ns();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	ck_assert_uint_ge(alice.answered_ns - t, 45 * NS_PER_MS);
	ck_assert_uint_lt(alice.answered_ns - t, 500 * NS_PER_MS);
	ck_assert_uint_eq(bob.reclaims, 1);
	ck_assert_uint_eq(alice.reclaims, 0);
	/* It found nothing, so it does not search again soon. */
	rig_ask(&alice, RIG_LARGE, 1);
	turns(15);
	if (clock_now_ns() - t < 100 * NS_PER_MS)
		ck_assert_uint_eq(bob.reclaims, 1);
	WAIT_FOR(alice.answered);
	asked = bob.reclaims;
	calm();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	ck_assert_uint_gt(bob.reclaims, asked);
}

TEST(returned_blocks_are_granted)
{
	join(&bob, &rig_local, getpid());
	rig_get_all(&bob, RIG_SMALL);
	ck_assert_uint_eq(alice.reclaims, 1);
	calm();
	rig_ask(&alice, RIG_LARGE, 64);
	WAIT_FOR(bob.reclaims == 1);
	ck_assert(!alice.answered);
	rig_give(&bob, bob.n_held, RETURN_FREE);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 64);
}

/* Bob has all there is, and alice nothing. */
static void bob_takes_all(void)
{
	rig_give(&alice, alice.n_held, RETURN_FREE);
	rig_get_all(&bob, RIG_LARGE);
	rig_get_all(&bob, RIG_SMALL);
}

static void alice_asks_for_one_of_bobs(void)
{
	rig_get_all(&alice, RIG_SMALL);
	join(&bob, &rig_local, getpid());
	bob_takes_all();
	calm();
	bob.reclaims = 0;
	rig_ask(&alice, RIG_LARGE, 1);
}

/* The previous wait used all of its time. */
TEST(others_asked_late_are_waited_for)
{
	struct deferred *d;

	alice_asks_for_one_of_bobs();
	while (!alice.answered && !bob.reclaims) {
		TAILQ_FOREACH(d, &c->grants->deferred, link)
			d->hunt_ns = 0;
		turn();
	}
	turns(10);
	ck_assert(!alice.answered);
	rig_give(&bob, bob.n_held, RETURN_DEFERRED);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 1);
}

/* A second question to others, for another request, does not extend the wait. */
TEST(others_asked_last_are_waited_for_once)
{
	struct deferred *d;

	alice_asks_for_one_of_bobs();
	WAIT_FOR(bob.reclaims);
	ck_assert(!alice.answered);
	c->reclaim_until_ns = clock_now_ns() + 60 * NS_PER_SEC;
	TAILQ_FOREACH(d, &c->grants->deferred, link)
		d->hunt_ns = 0;
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 0);
	ck_assert_uint_lt(clock_now_ns(), c->reclaim_until_ns);
}

/* Asked a moment ago: asked again as soon as allowed. */
TEST(session_that_got_memory_is_asked_again)
{
	unsigned asked;

	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 1);
	join(&bob, &rig_local, getpid());
	rig_get_all(&bob, RIG_LARGE);
	rig_get_all(&bob, RIG_SMALL);
	calm();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	asked = bob.reclaims;
	rig_give(&alice, 1, RETURN_FREE);
	ck_assert_uint_eq(rig_get(&bob, RIG_LARGE, 1), 1);
	rig_ask(&alice, RIG_LARGE, 1);
	WAIT_FOR(alice.answered || bob.reclaims > asked);
	ck_assert(!alice.answered);
	rig_give(&bob, bob.n_held, RETURN_FREE);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 1);
}

/* Its own request asks only the others. */
TEST(session_that_asks_is_asked_for_others)
{
	rig_get_all(&alice, RIG_SMALL);
	join(&bob, &rig_local, getpid());
	bob_takes_all();
	calm();
	bob.reclaims = 0;
	rig_ask(&bob, class_for(100000), 1);
	rig_ask(&alice, RIG_LARGE, 1);
	WAIT_FOR(alice.answered || bob.reclaims > 0);
	ck_assert(!alice.answered);
	rig_give(&bob, bob.n_held, RETURN_FREE);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 1);
}

static uint8_t hint_status; /* of the last answer */

static void hear_hint(struct peer *p, const struct msg *m)
{
	if (m->type == MSG_HINT_REPLY && m->req == p->req) {
		hint_status = m->hint_reply.status;
		p->answered = true;
	}
}

/* A window of the subtable is full, or nearly: the server's answer to the hint. */
static uint8_t hint_of(struct peer *p, bool full)
{
	uint64_t entry = region_dir(&region)[0];
	struct msg m = {.type = MSG_HINT, .req = ++p->req,
			.hint = {.page = entry_page(entry),
				 .gen = entry_gen(entry), .full = full}};

	p->heard = hear_hint;
	p->answered = false;
	ck_assert(say(p, &m, NULL));
	WAIT_FOR(p->answered);
	return hint_status;
}

static uint8_t hint(struct peer *p)
{
	return hint_of(p, true);
}

/* Hint again and again, as a client does, while the server is at work. */
static uint8_t hint_out(struct peer *p, uint64_t until_ns)
{
	uint8_t status;

	for (;;) {
		status = hint(p);
		if (status != MSG_HINT_WORKING || clock_now_ns() >= until_ns)
			return status;
		turns(1);
	}
}

/* A full window while bob holds all memory. */
static void index_is_full(void)
{
	uint64_t *slots = region_slots(&region, region_dir(&region)[0]);

	rig_get_all(&alice, RIG_SMALL);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		slots[i] = slot_pack(alice.held[--alice.n_held], 1, 0);
	join(&bob, &rig_local, getpid());
	bob_takes_all();
	calm();
	bob.reclaims = alice.reclaims = 0;
}

TEST(memory_of_others_lets_the_index_grow)
{
	uint64_t t;

	index_is_full();
	t = clock_now_ns();
	/* Asking brings nothing: this is noticed soon, and then reported at once. */
	ck_assert_uint_eq(hint_out(&alice, t + NS_PER_SEC), MSG_HINT_NOSPC);
	ck_assert_uint_ge(clock_now_ns() - t, 45 * NS_PER_MS);
	ck_assert_uint_eq(bob.reclaims, 1);
	ck_assert_uint_eq(alice.reclaims, 0);
	calm();
	while (bob.reclaims == 1)
		ck_assert_uint_eq(hint(&alice), MSG_HINT_WORKING);
	rig_give(&bob, bob.n_held, RETURN_FREE);
	ck_assert_uint_eq(hint_out(&alice, clock_now_ns() + 20 * NS_PER_SEC),
			  MSG_HINT_DONE);
	ck_assert_uint_eq(region.subtables, 2);
}

/* Sessions other than bob were asked just before. */
TEST(full_index_asks_sessions_that_were_not_asked)
{
	uint64_t asked_ns;

	index_is_full();
	rig_ask(&bob, RIG_LARGE, 1);
	WAIT_FOR(alice.reclaims == 1);
	asked_ns = clock_now_ns();
	WAIT_FOR(bob.answered);
	while (clock_now_ns() < asked_ns + 60 * NS_PER_MS)
		turn();
	ck_assert_uint_eq(bob.reclaims, 0);
	while (!bob.reclaims) /* other work comes first */
		ck_assert_uint_eq(hint(&alice), MSG_HINT_WORKING);
}

/* A client that gave up does not shorten the wait of the next. */
TEST(full_index_waits_for_each_request)
{
	index_is_full();
	ck_assert_uint_eq(hint(&alice), MSG_HINT_WORKING);
	turns(1200);
	bob.reclaims = 0;
	while (!bob.reclaims)
		ck_assert_uint_eq(hint(&alice), MSG_HINT_WORKING);
}

TEST(early_hint_reclaims_no_memory)
{
	index_is_full();
	for (unsigned i = 0; i < 4; i++) {
		hint_of(&alice, false);
		turns(30);
	}
	ck_assert_uint_eq(bob.reclaims, 0);
	ck_assert_uint_eq(alice.reclaims, 0);
}

/*
 * A session that gets blocks late is recorded as their holder by a running sweep, and
 * when it dies.
 */
TEST(blocks_granted_late_are_known_to_a_sweep)
{
	uint64_t cursor = 0;

	join(&bob, &rig_local, getpid());
	rig_get_all(&alice, RIG_SMALL);
	rig_get_reserve(&alice, RIG_SMALL);
	calm();
	sweep_lost(c);
	ck_assert_uint_eq(sweep_stats(c).deaths, 1);
	ck_assert(sweep_hurry(c));
	WAIT_FOR(sweep_running(c));
	rig_give(&alice, 64, RETURN_DEFERRED);
	rig_ask(&bob, RIG_SMALL, 8);
	ck_assert_uint_eq(c->grants->n_deferred, 1);
	ck_assert(!bob.session->sweep.granted);
	WAIT_FOR(bob.answered);
	ck_assert_uint_gt(bob.n, 0);
	ck_assert(bob.session->sweep.granted);
	for (size_t i = 0; i < bob.n; i++)
		ck_assert_int_eq(slab_mark(c->slab, bob.got[i]),
				 SLAB_SEEN_AGAIN);
	while (slab_unmark(c->slab, &cursor, 1000))
		;
}

/* Blocks whose T has passed when the next request comes, before the server looked. */
TEST(waiting_request_is_served_before_the_next)
{
	join(&bob, &rig_local, getpid());
	rig_get_all(&alice, RIG_SMALL);
	rig_get_reserve(&alice, RIG_SMALL);
	calm();
	rig_give(&alice, 64, RETURN_DEFERRED);
	rig_ask(&bob, RIG_SMALL, 48);
	ck_assert_uint_eq(c->grants->n_deferred, 1);
	clock_sleep_ns(3 * GRACE_NS);
	rig_ask(&alice, RIG_SMALL, 48);
	ck_assert(bob.answered);
	ck_assert_uint_eq(bob.n, 48);
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 16);

	/* A request that comes while others wait is queued after them. */
	rig_give(&alice, 1, RETURN_DEFERRED);
	rig_ask(&bob, RIG_SMALL, 1);
	rig_ask(&alice, RIG_SMALL, 1);
	ck_assert_uint_eq(c->grants->n_deferred, 2);
	clock_sleep_ns(3 * GRACE_NS);
	WAIT_FOR(bob.answered && alice.answered);
	ck_assert_uint_eq(bob.n, 1);
	ck_assert_uint_eq(alice.n, 0);
}

TEST(session_that_leaves_drops_its_requests)
{
	join(&bob, &rig_local, getpid());
	rig_get_all(&alice, RIG_SMALL);
	calm();
	rig_ask(&bob, RIG_LARGE, 1);
	rig_ask(&alice, RIG_LARGE, 1);
	ck_assert(!bob.answered);
	ck_assert_uint_eq(c->grants->n_deferred, 2);
	bob.session->left = true;
	session_end(bob.session);
	ck_assert_uint_eq(c->grants->n_deferred, 1);
	WAIT_FOR(alice.answered);
	ck_assert(!bob.answered);
	ck_assert_uint_eq(c->grants->n_deferred, 0);
}

TEST_SUITE("memory")
