/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport suite: every test runs over each transport. With
 * FARKV_TEST_TRANSPORT=rdma these are the lanes of this machine's RDMA device, and
 * faults injected on them; else shared memory.
 */
#include "config.h"

#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/xport/xport.h"
#include "tests/rig/cases.h"
#include "tests/rig/verbs_far.h"
#include "tests/rig/wr.h"

#define REGION 8192u

static uint8_t region[REGION] __attribute__((aligned(4096)));

/* The transport of the running test. */
enum { PLAIN, FAULT_QUIET, FAULT_DELAY, N_LANES };

static struct xport_lane *plain_open(bool readonly)
{
	memset(region, 0, sizeof(region));
	if (!far_wanted())
		return xport_shm_open(region, REGION, readonly);
	far_open(region, REGION);
	return far_lane(&(struct far_lane){.readonly = readonly});
}

static struct xport_lane *fault_open(const struct xport_fault_config *cfg)
{
	return xport_fault_open(plain_open(false), cfg);
}

/* Lanes of the peer belong to it. */
static void lane_close(struct xport_lane *lane)
{
	if (!far_wanted())
		xport_close(lane);
}

static struct xport_lane *lane_open(int kind)
{
	struct xport_fault_config cfg = {.seed = 7,
					 .delay_ppm = 700000,
					 .delay_polls = 5,
					 .hide_direct = true};
	struct xport_lane *lane;

	if (kind == PLAIN)
		lane = plain_open(false);
	else if (kind == FAULT_QUIET)
		lane = fault_open(&(struct xport_fault_config){0});
	else
		lane = fault_open(&cfg);
	ck_assert_ptr_nonnull(lane);
	return lane;
}

static void wait_done(struct xport_lane *lane, struct xport_chain *c)
{
	uint64_t end = clock_now_ns() + 10 * NS_PER_SEC;

	for (int i = 0; !c->done && (i < 1000 || clock_now_ns() < end); i++)
		xport_poll(lane);
	ck_assert(c->done);
}

TEST_GROUP(.teardown = far_close);

TEST_LOOP(chain_write_read_cas_execute_in_order_and_are_counted, 0, N_LANES)
{
	struct xport_lane *lane = lane_open(_i);
	uint64_t *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c = {.n = 4};

	mem[0] = 0x1111;
	mem[1] = 0;
	c.wr[0] = write_wr(64, &mem[0], 8);
	c.wr[1] = read_wr(64, &mem[1], 8);
	c.wr[2] = cas_wr(64, 0x1111, 0x22);
	c.wr[3] = cas_wr(64, 0x1111, 0x33);
	ck_assert_int_eq(xport_post(lane, &c), 0);
	wait_done(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_uint_eq(c.n_done, 4);
	ck_assert_uint_eq(mem[1], 0x1111);
	ck_assert_uint_eq(c.wr[2].found, 0x1111);
	ck_assert_uint_eq(c.wr[3].found, 0x22);
	ck_assert_uint_eq(region[64], 0x22);
	ck_assert_uint_eq(lane->counters.reads, 1);
	ck_assert_uint_eq(lane->counters.writes, 1);
	ck_assert_uint_eq(lane->counters.cas, 2);
	ck_assert_uint_eq(lane->counters.read_bytes, 8);
	ck_assert_uint_eq(lane->counters.write_bytes, 8);
	ck_assert_uint_eq(lane->counters.doorbells, 1);
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

TEST_LOOP(post_many_chains_ring_one_doorbell_and_complete_in_order, 0, N_LANES)
{
	struct xport_lane *lane = lane_open(_i);
	struct xport_chain c[5];
	uint8_t *mem = xport_mem_alloc(lane, 64);

	memset(c, 0, sizeof(c));
	for (unsigned i = 0; i < 5; i++) {
		c[i].n = 1;
		c[i].next = i < 4 ? &c[i + 1] : NULL;
		mem[i] = (uint8_t)(i + 1);
		c[i].wr[0] = (struct xport_wr){.opcode = XPORT_WRITE,
					       .len = 1,
					       .off = 128,
					       .laddr = &mem[i]};
	}
	ck_assert_int_eq(xport_post(lane, &c[0]), 0);
	wait_done(lane, &c[4]);
	for (unsigned i = 0; i < 5; i++)
		ck_assert(c[i].done && c[i].status == 0);
	ck_assert_uint_eq(region[128], 5);
	ck_assert_uint_eq(lane->counters.doorbells, 1);
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

TEST_LOOP(post_request_outside_region_or_misaligned_posts_nothing, 0, N_LANES)
{
	static const struct xport_wr bad[] = {
		{.opcode = XPORT_READ, .len = 8, .off = REGION - 7},
		{.opcode = XPORT_READ, .len = 8, .off = UINT64_MAX - 3},
		{.opcode = XPORT_READ, .len = UINT32_MAX, .off = 0},
		{.opcode = XPORT_READ, .len = 0, .off = 0},
		{.opcode = XPORT_WRITE, .len = 1, .off = REGION},
		{.opcode = XPORT_CAS, .len = 8, .off = 4},
		{.opcode = XPORT_CAS, .len = 4, .off = 8},
	};
	struct xport_lane *lane = lane_open(_i);
	uint8_t *mem = xport_mem_alloc(lane, 64);

	memset(mem, 0xEE, 64);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct xport_chain c = {.n = 2};

		c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE,
					    .len = 1,
					    .off = 0,
					    .laddr = mem};
		c.wr[1] = bad[i];
		c.wr[1].laddr = mem + 32;
		ck_assert_int_eq(xport_post(lane, &c), FARKV_EINVAL);
		ck_assert_uint_eq(region[0], 0);
	}
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

/* A READ's memory may overlap no earlier request's, read or written. */
TEST_LOOP(post_read_into_memory_of_its_chain_posts_nothing, 0, N_LANES)
{
	static const struct {
		unsigned opcode, at, len, to, read; /* laddr and bytes of both */
		int err;
	} cases[] = {
		{XPORT_WRITE, 0, 8, 0, 8, FARKV_EINVAL},
		{XPORT_WRITE, 0, 16, 15, 8, FARKV_EINVAL},
		{XPORT_WRITE, 8, 16, 0, 9, FARKV_EINVAL},
		{XPORT_WRITE, 8, 1, 0, 32, FARKV_EINVAL},
		{XPORT_READ, 0, 8, 0, 8, FARKV_EINVAL},
		{XPORT_READ, 8, 8, 0, 9, FARKV_EINVAL},
		{XPORT_WRITE, 0, 8, 8, 8, 0},
		{XPORT_WRITE, 8, 8, 0, 8, 0},
		{XPORT_READ, 0, 8, 8, 16, 0},
	};
	struct xport_lane *lane = lane_open(_i);
	uint8_t *mem = xport_mem_alloc(lane, 64);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct xport_chain c = {.n = 3};

		memset(mem, 0xEE, 64);
		memset(region, 0, 256);
		c.wr[0] = (struct xport_wr){.opcode = (uint8_t)cases[i].opcode,
					    .len = cases[i].len,
					    .laddr = mem + cases[i].at};
		c.wr[1] = (struct xport_wr){.opcode = XPORT_CAS, .len = 8,
					    .off = 128, .swap = 1};
		c.wr[2] = (struct xport_wr){.opcode = XPORT_READ, .off = 64,
					    .len = cases[i].read,
					    .laddr = mem + cases[i].to};
		ck_assert_int_eq(xport_post(lane, &c), cases[i].err);
		if (!cases[i].err)
			wait_done(lane, &c);
		ck_assert_uint_eq(region[128], cases[i].err ? 0 : 1);
		ck_assert_uint_eq(mem[cases[i].to], cases[i].err ? 0xEE : 0);
	}
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

/* A request's bytes from two places are joined, and split again. */
TEST_LOOP(segments_of_a_request_are_its_bytes_in_order, 0, N_LANES)
{
	static const struct {
		uint32_t len, at, part;
	} cases[] = {{64, 0, 56},  {64, 24, 32}, {65, 1, 1},	 {1000, 31, 961},
		     {300, 40, 9}, {4096, 27, 4000}, {200, 10, 0}};
	struct xport_lane *lane = lane_open(_i);
	uint8_t *mem = xport_mem_alloc(lane, 4096);
	uint8_t *part = xport_mem_alloc(lane, 4096);

	ck_assert(lane->caps & XPORT_SEGMENTS);
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		uint32_t len = cases[k].len, at = cases[k].at;
		uint32_t n = cases[k].part;
		struct xport_chain c = {.n = 1};
		uint8_t want[4096];

		memset(region, 0, sizeof(region));
		for (uint32_t i = 0; i < len; i++)
			want[i] = (uint8_t)(i * 3 + i / 256 + k);
		memcpy(mem, want, at);
		memcpy(part, want + at, n);
		memcpy(mem + at, want + at + n, len - at - n);
		c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE, .off = 64,
					    .len = len, .laddr = mem,
					    .seg = part, .seg_at = at,
					    .seg_len = n};
		ck_assert_int_eq(xport_post(lane, &c), 0);
		wait_done(lane, &c);
		ck_assert_int_eq(c.status, 0);
		ck_assert_mem_eq(region + 64, want, len);
		ck_assert_uint_eq(region[64 + len], 0);
		memset(mem, 0xEE, 4096);
		memset(part, 0xEE, 4096);
		c.wr[0].opcode = XPORT_READ;
		ck_assert_int_eq(xport_post(lane, &c), 0);
		wait_done(lane, &c);
		ck_assert_int_eq(c.status, 0);
		ck_assert_mem_eq(mem, want, at);
		ck_assert_mem_eq(part, want + at, n);
		ck_assert_mem_eq(mem + at, want + at + n, len - at - n);
		ck_assert_uint_eq(mem[len - n], 0xEE);
		ck_assert_uint_eq(part[n], 0xEE);
	}
	xport_mem_free(lane, mem, 4096);
	xport_mem_free(lane, part, 4096);
	lane_close(lane);
}

TEST_LOOP(segment_outside_of_its_request_posts_nothing, 0, N_LANES)
{
	struct xport_lane *lane = lane_open(_i);
	uint8_t *mem = xport_mem_alloc(lane, 256);
	const struct xport_wr bad[] = {
		{.opcode = XPORT_WRITE, .len = 64, .seg = mem + 128,
		 .seg_at = 65, .seg_len = 1},
		{.opcode = XPORT_WRITE, .len = 64, .seg = mem + 128,
		 .seg_at = 60, .seg_len = 5},
		{.opcode = XPORT_WRITE, .len = 64, .seg = mem + 128,
		 .seg_at = 4, .seg_len = UINT32_MAX},
		{.opcode = XPORT_CAS, .len = 8, .seg = mem + 128,
		 .seg_at = 0, .seg_len = 8},
		/* fewer than eight bytes after it */
		{.opcode = XPORT_READ, .len = 64, .seg = mem + 128,
		 .seg_at = 24, .seg_len = 33},
		/* what the WRITE before takes its bytes from */
		{.opcode = XPORT_READ, .len = 64, .seg = mem + 193,
		 .seg_at = 24, .seg_len = 30},
		{.opcode = XPORT_READ, .len = 64, .seg = mem + 200,
		 .seg_at = 24, .seg_len = 30},
	};

	memset(region, 0, sizeof(region));
	memset(mem, 1, 256);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct xport_chain c = {.n = 2};

		c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE, .len = 32,
					    .laddr = mem + 100,
					    .seg = mem + 200, .seg_at = 4,
					    .seg_len = 20};
		c.wr[1] = bad[i];
		c.wr[1].laddr = mem;
		ck_assert_int_eq(xport_post(lane, &c), FARKV_EINVAL);
		ck_assert_uint_eq(region[0], 0);
	}
	xport_mem_free(lane, mem, 256);
	lane_close(lane);
}

TEST_LOOP(broken_lane_ends_every_chain_with_its_error, 0, N_LANES)
{
	struct xport_lane *lane = lane_open(_i);
	uint64_t *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c = {.n = 1};

	mem[0] = 5;
	xport_break(lane, FARKV_EDISCONNECTED);
	c.wr[0] = (struct xport_wr){.opcode = XPORT_WRITE,
				    .len = 8,
				    .off = 0,
				    .laddr = mem};
	ck_assert_int_eq(xport_post(lane, &c), 0);
	wait_done(lane, &c);
	ck_assert_int_eq(c.status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c.n_done, 0);
	ck_assert_uint_eq(region[0], 0);
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

/* Chains may lie on stacks: nobody may write to them any more. */
TEST_LOOP(one_poll_of_a_broken_lane_ends_all_chains, 0, N_LANES)
{
	struct xport_lane *lane = lane_open(_i);
	uint64_t *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c[8];

	for (unsigned i = 0; i < 8; i++) {
		c[i] = (struct xport_chain){.n = 1};
		c[i].wr[0] = (struct xport_wr){.opcode = XPORT_READ,
					       .len = 8,
					       .off = 0,
					       .laddr = &mem[i]};
		ck_assert_int_eq(xport_post(lane, &c[i]), 0);
	}
	xport_break(lane, FARKV_ETIMEDOUT);
	xport_poll(lane);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_msg(c[i].done, "chain %u is under way", i);
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

TEST(readonly_lane_refuses_write_and_cas)
{
	struct xport_lane *lane = plain_open(true);
	uint64_t *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c = {.n = 1};

	mem[0] = 1;
	c.wr[0] = write_wr(0, mem, 8);
	ck_assert_int_eq(xport_post(lane, &c), FARKV_EPERM);
	c.wr[0] = cas_wr(0, 0, 1);
	ck_assert_int_eq(xport_post(lane, &c), FARKV_EPERM);
	c.wr[0] = read_wr(0, mem, 8);
	ck_assert_int_eq(xport_post(lane, &c), 0);
	wait_done(lane, &c);
	ck_assert_uint_eq(mem[0], 0);
	ck_assert(!(lane->caps & XPORT_DIRECT_STORE));
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

/* break_at = N stops before request N, or just after it with its result lost */
TEST_LOOP(fault_break_at_each_request_reports_what_happened, 0, 6)
{
	unsigned at = (unsigned)_i / 2 + 1;
	bool lost = _i % 2;
	struct xport_fault_config cfg = {.break_at = at,
					 .lose_completion = lost};
	struct xport_lane *lane = fault_open(&cfg);
	uint8_t *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c = {.n = 3};

	for (unsigned i = 0; i < 3; i++) {
		mem[i] = (uint8_t)(i + 1);
		c.wr[i] = (struct xport_wr){.opcode = XPORT_WRITE,
					    .len = 1,
					    .off = i,
					    .laddr = &mem[i]};
	}
	ck_assert_int_eq(xport_post(lane, &c), 0);
	wait_done(lane, &c);
	ck_assert_int_eq(c.status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c.n_done, at - 1);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(region[i] != 0, i + 1 < at + lost);
	ck_assert_int_eq(xport_broken(lane), FARKV_EDISCONNECTED);
	xport_mem_free(lane, mem, 64);
	lane_close(lane);
}

static void gap_write(void *arg)
{
	(void)arg;
	memset(region, 0xBB, 64);
}

TEST_LOOP(fault_torn_read_mixes_old_and_new_at_its_granularity, 0, 2)
{
	struct xport_fault_config cfg = {.seed = 3,
					 .tear_ppm = 1000000,
					 .byte_tear = _i == 1,
					 .tear_gap = gap_write};
	struct xport_lane *inner = plain_open(false);
	struct xport_lane *lane = xport_fault_open(inner, &cfg);
	uint8_t *got = xport_mem_alloc(lane, 64);
	unsigned mixed_words = 0, mixed_reads = 0, scattered = 0;

	ck_assert_uint_eq(lane->caps & XPORT_READ8_ATOMIC,
			  _i == 1 ? 0 : inner->caps & XPORT_READ8_ATOMIC);
	for (unsigned round = 0; round < 200; round++) {
		struct xport_chain c = {.n = 1};
		unsigned old = 0;

		memset(region, 0xAA, 64);
		c.wr[0] = (struct xport_wr){.opcode = XPORT_READ,
					    .len = 64,
					    .off = 0,
					    .laddr = got};
		ck_assert_int_eq(xport_post(lane, &c), 0);
		wait_done(lane, &c);
		while (old < 64 && got[old] == 0xAA)
			old++;
		for (unsigned i = old; i < 64; i++) {
			ck_assert(got[i] == 0xBB || (_i == 1 && got[i] == 0xAA));
			scattered += got[i] == 0xAA;
		}
		mixed_reads += old > 0;
		mixed_words += old % 8 != 0;
	}
	ck_assert_uint_gt(mixed_reads, 100);
	ck_assert(_i == 0 || scattered > 100);
	if (_i == 1)
		ck_assert_uint_gt(mixed_words, 100);
	else
		ck_assert_uint_eq(mixed_words, 0);
	xport_mem_free(lane, got, 64);
	lane_close(lane);
}

TEST_SUITE("xport")
