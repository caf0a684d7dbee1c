/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in flight over several calls, on a lane where only polls make progress. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/rig/cases.h"
#include "tests/rig/fake_client.h"
#include "tests/rig/index_rig.h"
#include "tests/rig/step_lane.h"

#define MANY 100
#define FEW 8
#define LATER (1000 * NS_PER_SEC)

static struct step_lane *lane;
static struct op_queue s;
static struct index_op ops[MANY];
static char names[MANY][16];
static struct fake_client mine;

static void begin(void)
{
	setup(false);
	lane = step_lane_open(
		xport_shm_open(region.base, region.sb.region_bytes, false));
	ck_assert_ptr_nonnull(lane);
	lane->at_once = true;
	fake_client_init(&mine, &region, &lane->lane, 3);
	for (uint8_t cls = 0; cls < 4; cls++)
		fake_region_grant(&region, mine.alloc, cls, 4 * MANY);
	op_queue_init(&s);
	lane->at_once = false;
	lane->posts = lane->polls = 0;
	fake_now = NS_PER_SEC;
	index_set_clock(mine.ix, fake_clock, NULL);
	for (unsigned i = 0; i < MANY; i++) {
		index_op_init(&ops[i]);
		snprintf(names[i], sizeof(names[i]), "key%u", i);
	}
}

static void end(void)
{
	for (unsigned i = 0; i < MANY; i++)
		index_op_fini(mine.ix, &ops[i]);
	fake_client_close(&mine);
	teardown();
}

static void submit(unsigned i, enum index_kind kind, const char *value,
		   uint64_t deadline_ns)
{
	struct index_key k = key_of(names[i]);

	index_op_start(&ops[i], kind, &k, value,
		       value ? (uint32_t)strlen(value) : 0);
	index_submit(mine.ix, &s, &ops[i], deadline_ns);
}

/* Polls until this many operations have ended; returns them. */
static unsigned reap_until(unsigned n)
{
	unsigned ended = 0;

	for (unsigned i = 0; i < 100 * MANY && ended < n; i++) {
		(void)index_reap(mine.ix, &s);
		while (index_take(&s))
			ended++;
	}
	return ended;
}

static void check_gets(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(ops[i].result, 0);
		ck_assert_uint_eq(ops[i].view.value_len, strlen(names[i]));
		ck_assert_mem_eq(ops[i].view.value, names[i],
				 ops[i].view.value_len);
	}
}

/* Submitting posts nothing; one post carries what is ready. */
TEST(ready_operations_share_a_doorbell)
{
	begin();
	for (unsigned i = 0; i < FEW; i++)
		PUT(&other, key_of(names[i]), names[i]);
	for (unsigned i = 0; i < FEW; i++)
		submit(i, INDEX_GET, NULL, LATER);
	ck_assert_uint_eq(lane->posts, 0);
	ck_assert(!op_queue_is_idle(&s));
	ck_assert_ptr_null(index_take(&s));
	index_post(mine.ix, &s);
	index_post(mine.ix, &s);
	ck_assert_uint_eq(lane->posts, 1);
	ck_assert_uint_eq(lane->waiting, FEW);
	lane->at_once = true;
	ck_assert_uint_eq(reap_until(FEW), FEW);
	ck_assert(op_queue_is_idle(&s));
	ck_assert_uint_eq(lane->posts, 2);
	check_gets(FEW);
	end();
}

/* An operation proceeds while others of its post are not done. */
TEST(operations_proceed_independently)
{
	begin();
	for (unsigned i = 0; i < MANY; i++)
		PUT(&other, key_of(names[i]), names[i]);
	submit(0, INDEX_GET, NULL, LATER);
	submit(1, INDEX_GET, NULL, LATER);
	submit(2, INDEX_GET, NULL, LATER);
	ck_assert(index_reap(mine.ix, &s)); /* 0's window is READ */
	ck_assert_uint_eq(lane->posts, 2);
	ck_assert_uint_eq(lane->waiting, 3);
	submit(3, INDEX_GET, NULL, LATER); /* while they are under way */
	ck_assert_uint_eq(reap_until(4), 4);
	check_gets(4);
	end();
}

/* In a pipeline of new operations each completes once. */
TEST(pipeline_of_all_kinds_completes_each_once)
{
	unsigned done = 0, next = 0, seen[MANY] = {0};
	struct index_op *op;

	begin();
	while (done < MANY) {
		if (next < MANY) {
			submit(next, next % 3 ? INDEX_PUT : INDEX_ADD,
			       names[next], LATER);
			next++;
		}
		(void)index_reap(mine.ix, &s);
		while ((op = index_take(&s))) {
			ck_assert_int_eq(op->result, 0);
			seen[op - ops]++;
			done++;
		}
	}
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_uint_eq(seen[i], 1);
		submit(i, INDEX_GET, NULL, LATER);
	}
	ck_assert_uint_eq(reap_until(MANY), MANY);
	check_gets(MANY);
	end();
}

/* index_run() beside an op queue with chains in flight. */
TEST(run_beside_an_op_queue_completes)
{
	struct index_op *op = &ops[9];
	struct index_key k;

	begin();
	PUT(&other, key_of(names[9]), names[9]);
	submit(0, INDEX_PUT, "a", LATER);
	submit(1, INDEX_PUT, "b", LATER);
	index_post(mine.ix, &s);
	k = key_of(names[9]);
	index_op_start(op, INDEX_GET, &k, NULL, 0);
	index_run(mine.ix, &op, 1, 0, LATER);
	ck_assert_int_eq(op->result, 0);
	ck_assert_int_eq(ops[0].result, INDEX_PENDING);
	ck_assert_uint_eq(reap_until(2), 2);
	check_value(&other, key_of(names[0]), "a");
	check_value(&other, key_of(names[1]), "b");
	end();
}

/* A waiting operation is returned like a finished one, and can be submitted again. */
TEST(waiting_operations_are_returned)
{
	static const char big[5000];
	struct index_key k;

	begin();
	k = key_of(names[0]);
	index_op_start(&ops[0], INDEX_PUT, &k, big, sizeof(big));
	index_submit(mine.ix, &s, &ops[0], LATER);
	ck_assert(op_queue_is_idle(&s));
	ck_assert_ptr_eq(index_take(&s), &ops[0]);
	ck_assert_int_eq(ops[0].result, INDEX_PENDING);
	ck_assert_int_eq(ops[0].wait, INDEX_WAIT_BLOCK);
	fake_region_grant(&region, mine.alloc, ops[0].cls, 1);
	index_submit(mine.ix, &s, &ops[0], LATER);
	ck_assert_uint_eq(reap_until(1), 1);
	ck_assert_int_eq(ops[0].result, 0);
	end();
}

/* ---- deadlines ------------------------------------------------------------------- */

static void poll_in_vain(void)
{
	for (int i = 0; i < 64; i++)
		ck_assert(!index_reap(mine.ix, &s));
}

/*
 * On a lane without progress the operation ends at its deadline and breaks the lane; the
 * others can be resumed.
 */
TEST(silent_lane_breaks_at_the_first_deadline)
{
	begin();
	submit(0, INDEX_GET, NULL, fake_now + 10);
	submit(1, INDEX_GET, NULL, LATER);
	lane->still = true;
	poll_in_vain();
	ck_assert_int_eq(xport_broken(&lane->lane), 0);
	fake_now += 11;
	poll_in_vain();
	ck_assert_int_ne(xport_broken(&lane->lane), 0);
	ck_assert_int_eq(ops[0].result, FARKV_ETIMEDOUT);
	ck_assert_uint_eq(lane->waiting, 0);
	ck_assert_uint_eq(reap_until(2), 2);
	ck_assert_int_eq(ops[1].result, FARKV_EDISCONNECTED);
	end();
}

/* A compare-and-swap in flight may have happened. */
TEST(silent_lane_leaves_a_swap_unknown)
{
	begin();
	submit(0, INDEX_PUT, "v", fake_now + 10);
	ck_assert(index_reap(mine.ix, &s)); /* the window */
	lane->still = true;
	fake_now += 11;
	poll_in_vain();
	ck_assert_int_eq(ops[0].result, FARKV_EMAYBE);
	ck_assert_ptr_eq(index_take(&s), &ops[0]);
	ABSENT(&other, key_of(names[0]));
	end();
}

/* A late poll returns completed operations; operations not begun end. */
TEST(late_polls_find_completed_operations)
{
	begin();
	PUT(&other, key_of(names[0]), names[0]);
	submit(0, INDEX_GET, NULL, fake_now + 10);
	for (unsigned i = 1; i < 10; i++)
		submit(i, INDEX_GET, NULL, LATER);
	ck_assert(index_reap(mine.ix, &s));
	fake_now += 11;
	ck_assert_uint_eq(reap_until(10), 10);
	ck_assert_int_eq(xport_broken(&lane->lane), 0);
	check_gets(1);
	for (unsigned i = 1; i < 10; i++)
		ck_assert_int_eq(ops[i].result, FARKV_ENOTFOUND);
	end();
}

static void rival_changes_it(void)
{
	PUT(&other, key_of(names[0]), fake_now % 2 ? "one" : "other");
	fake_now++;
}

static int rival_always(void *arg, const struct xport_chain *c, unsigned i,
			bool after)
{
	(void)arg;
	if (c->wr[i].opcode == XPORT_CAS && !after)
		rival_changes_it();
	return 0;
}

/* An operation that always loses ends by the clock, and changes nothing. */
TEST(operation_that_always_loses_ends_at_its_deadline)
{
	static const struct xport_fault_config cfg = {.hide_direct = true,
						      .hook = rival_always};
	struct fake_client loser;
	uint64_t version, end_ns;

	begin();
	PUT(&other, key_of(names[0]), "first");
	ck_assert_int_eq(run(&other, INDEX_GET, key_of(names[0]), NULL, 0), 0);
	version = other.op.version;
	fake_client_open(&loser, &region, &cfg, 4);
	fake_region_grant(&region, loser.alloc, 0, 8);
	index_set_clock(loser.ix, fake_clock, NULL);
	for (unsigned i = 0; i < 2; i++) {
		struct index_key k = key_of(names[0]);

		index_op_start(&ops[i], INDEX_REPLACE, &k, "mine", 4);
		ops[i].expected = version;
		index_submit(loser.ix, &s, &ops[i], fake_now + 200);
	}
	end_ns = fake_now + 2000;
	for (unsigned n = 0; n < 2;) {
		ck_assert_msg(fake_now < end_ns,
			      "nobody has looked at the clock: %u of 2 over", n);
		(void)index_reap(loser.ix, &s);
		while (index_take(&s))
			n++;
	}
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(ops[i].result, FARKV_ETIMEDOUT);
		index_op_fini(loser.ix, &ops[i]);
	}
	ck_assert_int_eq(xport_broken(loser.lane), 0);
	fake_client_close(&loser);
	end();
}

TEST_SUITE("op_queue")
