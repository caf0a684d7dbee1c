/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control loop without sockets: the barrier with sessions that answer, are
 * silent or leave, and handshakes that are too slow.
 */
#include "config.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/loop/grants.h"
#include "tests/rig/cases.h"
#include "tests/rig/control_rig.h"

/* ---- the barrier ----------------------------------------------------------------- */

/* One exhausted block of alice's, which every session but bob has released. */
static struct block_ref wear_one(void)
{
	struct block_ref b;

	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 1);
	b = alice.held[alice.n_held - 1];
	rig_give(&alice, 1, RETURN_EXHAUSTED);
	return b;
}

static void setup(void)
{
	rig_begin(1);
}

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(silent_client_is_named_and_nothing_is_reused_until_it_answers)
{
	join(&bob, &rig_local, getpid());
	bob.silent = true;
	wear_one();
	WAIT_FOR(bob.barrier);
	turns(20);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 1);
	ck_assert_uint_eq(alice.barrier, 0);
	ck_assert_uint_eq(log_count("bob"), 0);
	c->barrier->began_ns -= 10 * NS_PER_SEC;
	ck_assert(barrier_module.tick(c));
	ck_assert(barrier_module.tick(c));
	ck_assert_uint_eq(log_count("(bob) has not answered"), 1);
	ck_assert_uint_eq(log_count("4.0 KiB of memory"), 1);
	ck_assert_uint_eq(log_count("alice"), 0);
	c->barrier->reported_ns -= 60 * NS_PER_SEC;
	ck_assert(barrier_module.tick(c));
	ck_assert_uint_eq(log_count("(bob) has not answered"), 2);
	ck_assert_uint_eq(bob.fenced, 0);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 1);
	bob.silent = false;
	turn();
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 0);
	ck_assert_uint_eq(c->barrier->passed, 1);
	ck_assert(!barrier_module.tick(c));
}

TEST(silent_remote_client_is_cut_off)
{
	join(&bob, &rig_remote, 0);
	bob.silent = true;
	wear_one();
	WAIT_FOR(bob.barrier);
	c->barrier->began_ns -= 9 * NS_PER_SEC;
	ck_assert(barrier_module.tick(c));
	ck_assert_ptr_nonnull(bob.session);
	c->barrier->began_ns -= NS_PER_SEC;
	ck_assert(!barrier_module.tick(c));
	ck_assert_ptr_null(bob.session);
	ck_assert_uint_eq(bob.fenced, 1);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 0);
}

TEST(memory_request_during_a_stuck_barrier_gets_none_in_time)
{
	uint64_t t;

	rig_get_all(&alice, RIG_SMALL);
	join(&bob, &rig_local, getpid());
	bob.silent = true;
	rig_give(&alice, alice.n_held, RETURN_FREE);
	rig_hide_pages();
	/* Pages would be free if bob answered. */
	rig_ask(&alice, RIG_LARGE, 1);
	WAIT_FOR(bob.barrier);
	ck_assert(!alice.answered);
	c->barrier->began_ns -= NS_PER_SEC;
	WAIT_FOR(alice.answered);
	ck_assert_uint_eq(alice.n, 0);
	t = clock_now_ns();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 0);
	ck_assert_uint_lt(alice.answered_ns - t, 500 * NS_PER_MS);
	bob.silent = false;
	turn();
	ck_assert_uint_eq(rig_get(&alice, RIG_LARGE, 1), 1);
	rig_show_pages();
}

TEST(block_exhausted_during_a_barrier_waits_for_the_next)
{
	struct block_ref b;

	join(&bob, &rig_local, getpid());
	bob.silent = true;
	ck_assert_uint_eq(rig_get(&alice, RIG_SMALL, 1), 1);
	wear_one();
	WAIT_FOR(bob.barrier);
	b = alice.held[0];
	rig_give(&alice, 1, RETURN_EXHAUSTED);
	answer_barrier(&bob);
	ck_assert_uint_eq(c->barrier->passed, 1);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 1);
	ck_assert_uint_eq(slab_count_class(c->slab, b.cls).exhausted, 1);
	WAIT_FOR(bob.barrier);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 1);
	answer_barrier(&bob);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 0);
	ck_assert_uint_eq(bob.barriers, 2);
}

/* All sessions except those that cannot have sent READY. */
TEST(barrier_waits_for_a_session_that_may_have_begun)
{
	static const struct msg ready = {.type = MSG_READY};

	for (unsigned i = 0; i < 4; i++) {
		join(&bob, &rig_local, getpid());
		if (i & 1)
			ck_assert(say(&bob, &ready, NULL));
		bob.unread = i & 2;
		session_end(bob.session);
		ck_assert_ptr_null(bob.session);
		ck_assert_int_eq(lingering_gone(&c->lingering), i == 0);
		untie(bob.tether);
		ck_assert(lingering_gone(&c->lingering));
	}
}

/* The page is taken out of the file before it is sealed, which would wait for pinned pages. */
TEST(counts_in_a_tether_outlast_the_question_whether_it_is_mapped)
{
	static const struct msg ready = {.type = MSG_READY};
	uint64_t *page;

	join(&bob, &rig_local, getpid());
	ck_assert(say(&bob, &ready, NULL));
	page = bob.tether;
	page[0] = 5;
	ck_assert(!tether_is_loose(bob.session->tether));
	ck_assert_uint_eq(page[0], 0);
	page[0] = 2;
	ck_assert_uint_eq(tether_hits(bob.session->tether).hits, 7);
	session_end(bob.session);
	ck_assert_uint_eq(c->counts.ended.hits, 7);
	untie(bob.tether);
	ck_assert(lingering_gone(&c->lingering));
}

TEST(barrier_waits_for_a_lost_session_until_its_process_ends)
{
	static const struct msg ready = {.type = MSG_READY};
	pid_t pid;

	join(&bob, &rig_local, getpid());
	/* The child inherits this mapping, unlike the library's own mappings. */
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	untie(bob.tether);
	bob.session->pid = pid;
	ck_assert(say(&bob, &ready, NULL));
	session_end(bob.session);
	wear_one();
	WAIT_FOR(c->barrier->on && alice.barriers == 1 && !alice.barrier);
	turns(20);
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 1);
	c->barrier->began_ns -= 10 * NS_PER_SEC;
	ck_assert(barrier_module.tick(c));
	ck_assert_uint_eq(log_count("still runs"), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert(!barrier_module.tick(c));
	ck_assert_uint_eq(slab_count(c->slab).exhausted, 0);
}

TEST(idle_server_has_no_barrier_and_no_timer)
{
	join(&bob, &rig_local, getpid());
	turns(210); /* the timer for handshakes */
	barrier_now(c);
	barrier_want(c);
	turns(20);
	ck_assert_uint_eq(alice.barriers + bob.barriers, 0);
	ck_assert(!event_pending(c->barrier->due, EV_TIMEOUT, NULL));
	wear_one();
	WAIT_FOR(c->barrier->passed == 1);
	turns(410);
	/* Each is called once more, however late, and is over then. */
	WAIT_FOR(!event_pending(c->barrier->due, EV_TIMEOUT, NULL) &&
		 !event_pending(c->grants->due, EV_TIMEOUT, NULL) &&
		 !event_pending(c->tick, EV_TIMEOUT, NULL));
	ck_assert_uint_eq(c->barrier->passed, 1);
}

/* ---- newcomers ------------------------------------------------------------------- */

static unsigned refused; /* why bob was closed; 0: he was not */

static void hear_refusal(struct peer *p, const struct msg *m)
{
	(void)p;
	ck_assert_uint_eq(m->type, MSG_REFUSE);
	refused = m->refuse.reason;
}

/* It broke no rule and may connect again. */
TEST(slow_handshake_is_closed_and_not_blamed)
{
	c->cfg.hello_ms = 1;
	join(&bob, &rig_local, getpid());
	bob.session->welcomed = false;
	bob.heard = hear_refusal;
	WAIT_FOR(!bob.session);
	ck_assert_uint_eq(refused, MSG_REASON_DISPLACED);
	ck_assert_uint_eq(c->counts.protocol_errors, 0);
	ck_assert_ptr_nonnull(alice.session);
}

TEST_SUITE("barrier")
