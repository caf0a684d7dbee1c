/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that do not arrive: a lane over a device that the test plays. The device can
 * report a READ or compare-and-swap as done without its data, as rxe does when an
 * acknowledgement with its number comes first. Also which doorbells the device sees and
 * which requests report completion.
 */
#include "config.h"

#include <string.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/played_device.h"
#include "tests/rig/wr.h"

#define REGION DEVICE_REGION
#define PIECE DEVICE_PIECE
#define NONE DEVICE_NONE

/* ---- the lane -------------------------------------------------------------------- */

static struct verbs_lane *verbs;
static struct xport_lane *lane;
static uint8_t *mem;

static const struct verbs_area all = {.bytes = REGION, .raddr = 0x100000, .rkey = 1};

static void setup(void)
{
	verbs = device_lane(&all, 1);
	lane = verbs_lane_base(verbs);
	mem = xport_mem_alloc(lane, REGION);
	ck_assert_ptr_nonnull(mem);
	memset(mem, 0xEE, REGION);
}

static void teardown(void)
{
	xport_mem_free(lane, mem, REGION);
	xport_close(lane);
}

static uint64_t word_at(uint64_t off)
{
	uint64_t word;

	memcpy(&word, region + off, 8);
	return word;
}

static void run(struct xport_chain *c)
{
	ck_assert_int_eq(xport_post(lane, c), 0);
	for (unsigned i = 0; !c->done && i < 100; i++)
		xport_poll(lane);
	ck_assert(c->done);
}

/* The chain ended at request n_done, and the broken lane gives the reason. */
static void ck_lost(const struct xport_chain *c, unsigned n_done)
{
	ck_assert_int_eq(c->status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c->n_done, n_done);
	ck_assert_int_eq(xport_broken(lane), FARKV_EDISCONNECTED);
	ck_assert_str_eq(verbs_lane_reason(verbs),
			 "the local device lost an answer");
}

/* ---- cases ------------------------------------------------------------------------ */

TEST_GROUP(.setup = setup, .teardown = teardown);

/*
 * The chains that a batch posts for one stage: gets of cached locations (round 0) or puts
 * (1). Only the last request reports, and all share one doorbell.
 */
TEST_LOOP(chains_of_one_post_share_a_doorbell_and_the_last_request_reports, 0, 2)
{
	enum { CHAINS = 16, EACH = 2 };
	struct xport_chain c[CHAINS];

	for (unsigned i = 0; i < CHAINS; i++) {
		uint64_t word = word_at(i * 8);

		c[i] = (struct xport_chain){
			.n = EACH, .next = i + 1 < CHAINS ? &c[i + 1] : NULL};
		c[i].wr[_i] = cas_wr(i * 8, word, _i ? i : word);
		c[i].wr[!_i] = _i ? write_wr(1024 + i * 256, mem + i * 256, 256) :
				    read_wr(1024 + i * 256, mem + i * 256, 256);
	}
	ck_assert_int_eq(xport_post(lane, &c[0]), 0);
	ck_assert_uint_eq(device.doorbells, 1);
	ck_assert_uint_eq(device.n, CHAINS * EACH);
	for (unsigned i = 0; i < device.n; i++)
		ck_assert_int_eq(
			!(device.wr[i].send_flags & IBV_SEND_SIGNALED),
			i + 1 < device.n);
	xport_poll(lane);
	for (unsigned i = 0; i < CHAINS; i++) {
		ck_assert(c[i].done && c[i].status == 0);
		ck_assert_uint_eq(c[i].n_done, EACH);
		ck_assert_mem_eq(mem + i * 256, region + 1024 + i * 256, 256);
	}
	ck_assert_uint_eq(device.doorbells, 1);
	ck_assert_uint_eq(lane->counters.doorbells, 1);
}

TEST(all_answers_arrive_the_data_is_there_and_the_lane_stays)
{
	static const uint32_t sizes[] = {1, 7, 8, 9, 64, 1000, 1024, 1031,
					 4096, 5000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct xport_chain c = {.n = 2};
		uint64_t was = word_at(8184);

		c.wr[0] = read_wr(i, mem + i, sizes[i]);
		c.wr[1] = cas_wr(8184, was, was + 1);
		run(&c);
		ck_assert_int_eq(c.status, 0);
		ck_assert_uint_eq(c.n_done, 2);
		ck_assert_mem_eq(mem + i, region + i, sizes[i]);
		ck_assert_uint_eq(c.wr[1].found, was);
		ck_assert_uint_eq(word_at(8184), was + 1);
		device.n = device.done = 0;
	}
	ck_assert_int_eq(xport_broken(lane), 0);
}

/* The previous content proves nothing, even if the answer brings the same bytes. */
TEST(answer_that_equals_the_old_content_is_an_answer)
{
	for (unsigned round = 0; round < 3; round++) {
		struct xport_chain c = {.n = 1};

		c.wr[0] = read_wr(512, mem, 256);
		run(&c);
		ck_assert_int_eq(c.status, 0);
		ck_assert_mem_eq(mem, region + 512, 256);
	}
}

/* The lane breaks at the missing answer; the results before it are certain. */
TEST_LOOP(lost_answer_of_a_read_ends_the_chain_there, 0, 4)
{
	struct xport_chain c = {.n = 4};

	memcpy(mem + 2048, region + 2048, 256); /* from an earlier READ */
	device.lost = (unsigned)_i;
	for (unsigned i = 0; i < 4; i++)
		c.wr[i] = read_wr(2048 + i * 64, mem + 2048 + i * 64,
				  i == 2 ? 8 : 64);
	run(&c);
	ck_lost(&c, (unsigned)_i);
}

TEST_LOOP(lost_answer_of_a_cas_leaves_its_outcome_unknown, 0, 2)
{
	struct xport_chain c = {.n = 2};
	uint64_t was = word_at(64);

	memset(mem, 0x5A, 256);
	c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE, .off = 1024,
				    .laddr = mem, .len = 256};
	/* It swaps (round 0), or finds another word (round 1). */
	c.wr[1] = cas_wr(64, was + (unsigned)_i, 4711);
	device.lost = 1;
	run(&c);
	ck_lost(&c, 1);
	ck_assert_uint_eq(word_at(64), _i ? was : 4711);
	ck_assert_mem_eq(region + 1024, mem, 256);
}

/* The result of an earlier compare-and-swap is not taken for this one. */
TEST(lost_answer_of_a_cas_is_noticed_after_the_queue_wrapped)
{
	struct xport_chain c = {.n = 1};

	for (unsigned i = 0; i < 64; i++) {
		c.wr[0] = cas_wr(64, word_at(64), i + 1);
		run(&c);
		ck_assert_int_eq(c.status, 0);
		device.n = device.done = 0;
	}
	device.lost = 0;
	c.wr[0] = cas_wr(64, 64, 65);
	run(&c);
	ck_lost(&c, 0);
}

TEST_LOOP(lost_answer_of_one_piece_of_a_long_read_ends_the_chain, 0, 6)
{
	struct xport_chain c = {.n = 2};

	device.lost = (unsigned)_i;
	c.wr[0] = read_wr(0, mem, 4 * PIECE + 8); /* 5 pieces */
	c.wr[1] = cas_wr(8184, 0, 0);
	run(&c);
	ck_lost(&c, _i < 5 ? 0 : 1);
}

TEST(lost_answer_leaves_earlier_chains_done_and_later_ones_undone)
{
	struct xport_chain c[3] = {{.n = 1}, {.n = 1}, {.n = 1}};

	for (unsigned i = 0; i < 3; i++) {
		c[i].wr[0] = read_wr(i * 64, mem + i * 64, 64);
		c[i].next = i < 2 ? &c[i + 1] : NULL;
	}
	device.lost = 1;
	ck_assert_int_eq(xport_post(lane, &c[0]), 0);
	xport_poll(lane);
	ck_assert(c[0].done && c[0].status == 0);
	ck_assert_mem_eq(mem, region, 64);
	ck_lost(&c[1], 0);
	ck_lost(&c[2], 0);
}

/* In flight when the lane is given up, and still reported as done. */
TEST_LOOP(lost_answer_while_the_lane_stops_is_noticed, 0, 2)
{
	struct xport_chain c = {.n = 1};

	device.hold = device.finish = true;
	device.lost = _i ? 0 : NONE;
	c.wr[0] = read_wr(0, mem, 64);
	ck_assert_int_eq(xport_post(lane, &c), 0);
	xport_poll(lane);
	ck_assert(!c.done);
	device.hold = false;
	verbs_lane_stop(verbs);
	ck_assert(c.done);
	ck_assert_int_eq(c.status, _i ? FARKV_EDISCONNECTED : 0);
	ck_assert_uint_eq(c.n_done, _i ? 0 : 1);
}

TEST(lane_reconnects_after_a_lost_answer)
{
	struct xport_chain c = {.n = 1};

	device.lost = 0;
	c.wr[0] = read_wr(0, mem, 64);
	run(&c);
	ck_lost(&c, 0);
	device_reset(&all, 1);
	ck_assert_int_eq(verbs_lane_restart(verbs, &device_conn), 0);
	run(&c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_mem_eq(mem, region, 64);
}

TEST_SUITE("answers")
