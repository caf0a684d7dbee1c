/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control loop without sockets: the map of its cluster changes (server/loop/fence.h).
 */
#include "config.h"

#include <string.h>

#include "common/proto/clustermap.h"
#include "server/loop/fence.h"
#include "tests/rig/cases.h"
#include "tests/rig/control_rig.h"

#define HOUR_NS (3600 * NS_PER_SEC)

static struct clustermap *map;
static unsigned maps; /* MAPs that arrived */

static void heard(struct peer *p, const struct msg *m)
{
	(void)p;
	maps += m->type == MSG_MAP;
}

static void by_map(struct peer *p)
{
	p->session->hello.map = 1;
	p->heard = heard;
}

static void setup(void)
{
	static const char text[] = "farkv cluster 1\nepoch 7\nseed 0123456789abcdef\nlease 1000\n"
				   "server a shm:///a\npartitions 0-4095 a\n";

	rig_begin(4096);
	ck_assert_int_eq(clustermap_parse("map", text, sizeof(text) - 1, &map), 0);
	maps = 0;
	join(&bob, &rig_remote, 0);
	by_map(&alice);
	by_map(&bob);
	ck_assert(fence_grant_lease(alice.session, clock_now_ns() + HOUR_NS));
	ck_assert(fence_grant_lease(bob.session, clock_now_ns() + HOUR_NS));
	c->cfg.map = map;
	fence_begin(c);
}

static void teardown(void)
{
	c->cfg.map = NULL;
	rig_end();
	free(map);
}

static bool ack(struct peer *p, uint64_t epoch)
{
	const struct msg m = {.type = MSG_MAP_ACK, .epoch = {epoch}};

	return say(p, &m, NULL);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(sessions__answered__fence_is_complete)
{
	ck_assert_uint_eq(maps, 2);
	ck_assert_uint_eq(fence_complete(c), 0);
	ck_assert(ack(&alice, 7));
	ck_assert_uint_eq(fence_complete(c), 0);
	ck_assert(!fence_acknowledged(c));
	ck_assert(ack(&bob, 7));
	ck_assert_uint_eq(fence_complete(c), 7);
	ck_assert(fence_acknowledged(c));
}

TEST(session__silent__fence_is_complete_after_its_lease)
{
	ck_assert(ack(&alice, 7));
	bob.session->lease_ns = clock_now_ns() - 1;
	ck_assert_uint_eq(fence_complete(c), 7);
	ck_assert(!fence_acknowledged(c));
}

TEST(session__owes_an_answer__gets_no_lease)
{
	ck_assert(!fence_grant_lease(alice.session, clock_now_ns() + 2 * HOUR_NS));
	ck_assert(ack(&alice, 6)); /* to an earlier map */
	ck_assert(!fence_grant_lease(alice.session, clock_now_ns() + 2 * HOUR_NS));
	ck_assert(ack(&alice, 7));
	ck_assert(fence_grant_lease(alice.session, clock_now_ns() + 2 * HOUR_NS));
}

TEST(session__answers_a_map_that_was_not_sent__ends)
{
	ck_assert(!ack(&alice, 8));
	ck_assert_ptr_null(alice.session);
	ck_assert(ack(&bob, 7));
	ck_assert(!ack(&bob, 7));
}

/* Its process may still be at an operation. */
TEST(session__lost__its_lease_is_waited_for)
{
	ck_assert(ack(&alice, 7));
	session_end(bob.session);
	ck_assert_uint_eq(fence_complete(c), 0);
}

TEST(session__without_a_map__is_not_asked)
{
	ck_assert(ack(&alice, 7));
	ck_assert(ack(&bob, 7));
	bob.session->hello.map = 0;
	maps = 0;
	fence_begin(c);
	ck_assert_uint_eq(maps, 1);
	ck_assert(ack(&alice, 7));
	ck_assert_uint_eq(fence_complete(c), 7);
}

TEST_SUITE("fence")
