/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of lanes of an RDMA device: queues that fill up, requests longer than the
 * device's longest, buffers, fences, and connections that end during requests. Needs a
 * device; run by make check-rdma.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/xport/xport.h"
#include "common/rdma/verbs.h"
#include "tests/rig/cases.h"
#include "tests/rig/verbs_far.h"
#include "tests/rig/wr.h"

#define SMALL ((size_t)64 << 10)
#define LARGE ((size_t)20 << 20) /* rxe: 8 MiB at once */

static uint8_t *region;
static struct xport_lane *lane;

static void map(size_t bytes)
{
	region = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(region, MAP_FAILED);
	far_open(region, bytes);
}

static void setup(void)
{
	map(SMALL);
	lane = far_lane(&(struct far_lane){0});
}

static uint64_t word(size_t off)
{
	return *(uint64_t *)(void *)(region + off);
}

/* `n` chains of `each` requests for one post; their owner fills wr[]. */
static struct xport_chain *chains_new(unsigned n, uint8_t each)
{
	struct xport_chain *c = calloc(n, sizeof(*c));

	ck_assert_ptr_nonnull(c);
	for (unsigned i = 0; i < n; i++) {
		c[i].n = each;
		c[i].next = i + 1 < n ? &c[i + 1] : NULL;
	}
	return c;
}

/* ---- queues ------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = far_close);

/* More than the send queue holds; each CAS needs the one before it. */
TEST(post_1200_cas_at_once_all_happen_in_order)
{
	enum { CHAINS = 200 };
	struct xport_chain *c = chains_new(CHAINS, XPORT_CHAIN_MAX);
	uint64_t n = 0;

	for (unsigned i = 0; i < CHAINS; i++)
		for (unsigned j = 0; j < XPORT_CHAIN_MAX; j++, n++)
			c[i].wr[j] = cas_wr(64, n, n + 1);
	far_run(lane, c);
	n = 0;
	for (unsigned i = 0; i < CHAINS; i++) {
		ck_assert(c[i].done && c[i].status == 0);
		ck_assert_uint_eq(c[i].n_done, XPORT_CHAIN_MAX);
		for (unsigned j = 0; j < XPORT_CHAIN_MAX; j++, n++)
			ck_assert_uint_eq(c[i].wr[j].found, n);
	}
	ck_assert_uint_eq(word(64), n);
	ck_assert_uint_eq(lane->counters.cas, n);
	ck_assert_uint_eq(lane->counters.doorbells, 1);
	free(c);
}

TEST(post_4000_writes_at_once_none_is_lost)
{
	enum { CHAINS = 1000, EACH = 4 };
	struct xport_chain *c = chains_new(CHAINS, EACH);
	uint64_t *mem = xport_mem_alloc(lane, CHAINS * EACH * 8);
	uint64_t n = 0;

	for (unsigned i = 0; i < CHAINS; i++)
		for (unsigned j = 0; j < EACH; j++, n++) {
			mem[n] = ~n;
			c[i].wr[j] = write_wr(n * 8, &mem[n], 8);
		}
	far_run(lane, c);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_uint_eq(word(i * 8), ~i);
	ck_assert_uint_eq(lane->counters.writes, n);
	ck_assert_uint_eq(lane->counters.write_bytes, n * 8);
	xport_mem_free(lane, mem, CHAINS * EACH * 8);
	free(c);
}

/* Without polls the queue fills, and later posts wait in the lane. */
TEST(post_after_post_without_a_poll_complete_in_posting_order)
{
	enum { POSTS = 400 };
	struct xport_chain *c = chains_new(POSTS, 3);
	uint64_t *mem = xport_mem_alloc(lane, 2 * POSTS * 8);

	for (unsigned i = 0; i < POSTS; i++) {
		c[i].next = NULL;
		mem[2 * i] = i + 1;
		mem[2 * i + 1] = 0;
		c[i].wr[0] = write_wr(128, &mem[2 * i], 8);
		c[i].wr[1] = read_wr(128, &mem[2 * i + 1], 8);
		c[i].wr[2] = cas_wr(136, i, i + 1);
		ck_assert_int_eq(xport_post(lane, &c[i]), 0);
	}
	for (unsigned i = 0; i < POSTS; i++) {
		far_wait(lane, &c[i]);
		for (unsigned j = 0; j < i; j++)
			ck_assert(c[j].done);
		ck_assert_int_eq(c[i].status, 0);
		ck_assert_uint_eq(mem[2 * i + 1], i + 1);
		ck_assert_uint_eq(c[i].wr[2].found, i);
	}
	ck_assert_uint_eq(word(128), POSTS);
	ck_assert_uint_eq(word(136), POSTS);
	ck_assert_uint_eq(lane->counters.doorbells, POSTS);
	xport_mem_free(lane, mem, 2 * POSTS * 8);
	free(c);
}

/* ---- lengths and buffers ---------------------------------------------------------- */

TEST(request_longer_than_the_device_takes_arrives_whole)
{
	struct xport_chain c = {.n = 1};
	uint64_t *mem;
	size_t words = LARGE / 8;

	far_close();
	map(LARGE);
	lane = far_lane(&(struct far_lane){0});
	mem = xport_mem_alloc(lane, LARGE);
	ck_assert_ptr_nonnull(mem);
	for (size_t i = 0; i < words; i++)
		mem[i] = i * UINT64_C(0x9E3779B97F4A7C15);
	c.wr[0] = write_wr(0, mem, (uint32_t)LARGE);
	far_run(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert(memcmp(region, mem, LARGE) == 0);
	memset(mem, 0, LARGE);
	c.wr[0] = read_wr(0, mem, (uint32_t)LARGE);
	far_run(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_uint_eq(c.n_done, 1);
	ck_assert(memcmp(region, mem, LARGE) == 0);
	/* It counts as one request. */
	ck_assert_uint_eq(lane->counters.writes, 1);
	ck_assert_uint_eq(lane->counters.reads, 1);
	ck_assert_uint_eq(lane->counters.read_bytes, LARGE);
	xport_mem_free(lane, mem, LARGE);
}

/* Small WRITEs are inline: they copy their bytes when they are posted. */
TEST(inline_write_buffer_is_free_after_the_post)
{
	static const uint32_t sizes[] = {1, 7, 8, 63, 64, 128};
	uint8_t *mem = xport_mem_alloc(lane, 128);

	for (unsigned round = 0; round < 120; round++) {
		uint32_t len = sizes[round % 6];
		struct xport_chain c = {.n = 1};

		memset(mem, (int)round + 1, 128);
		memset(region, 0, 256);
		c.wr[0] = write_wr(64, mem, len);
		ck_assert_int_eq(xport_post(lane, &c), 0);
		memset(mem, 0xEE, 128);
		far_wait(lane, &c);
		for (unsigned i = 0; i < 128; i++)
			ck_assert_uint_eq(region[64 + i],
					  i < len ? round + 1 : 0);
		ck_assert_uint_eq(region[63], 0);
	}
	xport_mem_free(lane, mem, 128);
}

/* A fenced WRITE sends what the READ before it brought. */
TEST(fenced_write_carries_the_result_of_the_read_before_it)
{
	static const uint32_t sizes[] = {8, 64, 200, 1000, 9000};

	for (unsigned round = 0; round < 100; round++) {
		uint32_t len = sizes[round % 5];
		struct xport_chain c = {.n = 2};
		uint8_t *mem = xport_mem_alloc(lane, len);

		memset(mem, 0xEE, len);
		memset(region, (int)round + 1, len);
		memset(region + 16384, 0, len);
		c.wr[0] = read_wr(0, mem, len);
		c.wr[1] = write_wr(16384, mem, len);
		c.wr[1].flags = XPORT_FENCE;
		far_run(lane, &c);
		ck_assert_int_eq(c.status, 0);
		for (unsigned i = 0; i < len; i++)
			ck_assert_uint_eq(region[16384 + i], round + 1);
		xport_mem_free(lane, mem, len);
	}
}

/* Memory that an operation allocates and frees, of several sizes at once. */
static void use_memory(void)
{
	static const size_t sizes[] = {64, 100, 4096, 70000, 3 << 19};
	void *mem[5];

	for (unsigned i = 0; i < 5; i++) {
		uint32_t len = (uint32_t)(sizes[i] < SMALL ? sizes[i] : SMALL);
		struct xport_chain c = {.n = 1};

		mem[i] = xport_mem_alloc(lane, sizes[i]);
		ck_assert_ptr_nonnull(mem[i]);
		ck_assert_uint_eq((uintptr_t)mem[i] % 64, 0);
		c.wr[0] = read_wr(0, mem[i], len);
		far_run(lane, &c);
		ck_assert_int_eq(c.status, 0);
	}
	for (unsigned i = 0; i < 5; i++)
		xport_mem_free(lane, mem[i], sizes[i]);
}

TEST(memory_that_was_used_before_is_not_registered_again)
{
	uint64_t before;

	use_memory();
	before = lane->counters.registrations;
	ck_assert_uint_gt(before, 0);
	for (unsigned i = 0; i < 50; i++)
		use_memory();
	ck_assert_uint_eq(lane->counters.registrations, before);
}

/* Memory of the caller, on pages of its own. */
static uint8_t *map_memory(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

TEST(added_memory_carries_segments_until_it_is_removed)
{
	uint8_t *mine = map_memory(SMALL), *mem = xport_mem_alloc(lane, 64);
	uint64_t before = lane->counters.registrations;
	struct xport_chain c = {.n = 2};

	ck_assert(lane->caps & XPORT_SEGMENTS);
	ck_assert(!xport_mem_known(lane, mine, 1, XPORT_READ));
	ck_assert(!xport_mem_known(lane, mem, 1, XPORT_READ));
	ck_assert_int_eq(xport_mem_add(lane, mine, SMALL), 0);
	ck_assert_uint_eq(lane->counters.registrations, before + 1);
	ck_assert(xport_mem_known(lane, mine, SMALL, XPORT_READ));
	ck_assert(xport_mem_known(lane, mine + SMALL - 1, 1, XPORT_READ));
	ck_assert(!xport_mem_known(lane, mine + SMALL - 1, 2, XPORT_READ));
	ck_assert(!xport_mem_known(lane, mine - 1, 2, XPORT_READ));
	for (size_t i = 0; i < SMALL; i++)
		mine[i] = (uint8_t)(i * 5 + i / 256);
	memset(mem, 0xCC, 64);
	/*
	 * 10 bytes of the lane, 5000 of the caller, 20 of the lane; and back, to other
	 * places.
	 */
	c.wr[0] = write_wr(3, mem, 5030);
	c.wr[0].seg = mine + 77;
	c.wr[0].seg_at = 10;
	c.wr[0].seg_len = 5000;
	c.wr[1] = read_wr(3, mem + 32, 5030);
	c.wr[1].seg = mine + 20001;
	c.wr[1].seg_at = 8;
	c.wr[1].seg_len = 5004;
	far_run(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_mem_eq(region + 13, mine + 77, 5000);
	ck_assert_uint_eq(region[12], 0xCC);
	ck_assert_uint_eq(region[5013], 0xCC);
	ck_assert_uint_eq(region[5033], 0);
	ck_assert_mem_eq(mine + 20003, mine + 77, 5000);
	ck_assert_uint_eq(lane->counters.registrations, before + 1);
	xport_mem_remove(lane, mine);
	ck_assert(!xport_mem_known(lane, mine, 1, XPORT_READ));
	xport_mem_remove(lane, mine);
	/* The device uses these pages no more. */
	munmap(mine, SMALL);
	use_memory();
	xport_mem_free(lane, mem, 64);
}

TEST(added_memory_that_may_only_be_read_is_no_destination)
{
	uint8_t *mine = map_memory(SMALL), *mem = xport_mem_alloc(lane, 64);
	struct xport_chain c = {.n = 1};

	memset(mine, 0x5A, SMALL);
	memset(mem, 0xCC, 64);
	ck_assert_int_eq(mprotect(mine, SMALL, PROT_READ), 0);
	ck_assert_int_eq(xport_mem_add(lane, mine, SMALL), 0);
	ck_assert(xport_mem_known(lane, mine, SMALL, XPORT_WRITE));
	ck_assert(!xport_mem_known(lane, mine, SMALL, XPORT_READ));
	c.wr[0] = write_wr(0, mem, 5016);
	c.wr[0].seg = mine + 77;
	c.wr[0].seg_at = 8;
	c.wr[0].seg_len = 5000;
	far_run(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_mem_eq(region + 8, mine + 77, 5000);
	xport_mem_remove(lane, mine);
	munmap(mine, SMALL);
	xport_mem_free(lane, mem, 64);
}

/* Longer than the device's longest request: split anywhere, whatever the segments are. */
TEST(long_request_in_segments_arrives_whole)
{
	static const uint32_t tails[] = {8, 9, 4096, (1u << 20) + 3};
	size_t bytes = LARGE - 8192;
	uint8_t *mine, *mem;

	far_close();
	map(LARGE);
	lane = far_lane(&(struct far_lane){0});
	mine = map_memory(LARGE);
	mem = xport_mem_alloc(lane, 4u << 20);
	ck_assert_int_eq(xport_mem_add(lane, mine, LARGE), 0);
	for (unsigned k = 0; k < 4; k++) {
		uint32_t n = (uint32_t)bytes - 27 - tails[k];
		struct xport_chain c = {.n = 1};

		memset(region, 0, LARGE);
		memset(mem, 0xA0 + k, 4u << 20);
		for (size_t i = 0; i < n; i++)
			mine[i] = (uint8_t)(i ^ i >> 8 ^ k);
		c.wr[0] = write_wr(100, mem, (uint32_t)bytes);
		c.wr[0].seg = mine;
		c.wr[0].seg_at = 27;
		c.wr[0].seg_len = n;
		far_run(lane, &c);
		ck_assert_int_eq(c.status, 0);
		ck_assert(memcmp(region + 127, mine, n) == 0);
		ck_assert_uint_eq(region[126], 0xA0 + k);
		ck_assert_uint_eq(region[127 + n], 0xA0 + k);
		ck_assert_uint_eq(region[99 + bytes], 0xA0 + k);
		memset(mem, 0, 4u << 20);
		memset(mine, 0, n);
		c.wr[0].opcode = XPORT_READ;
		far_run(lane, &c);
		ck_assert_int_eq(c.status, 0);
		ck_assert(memcmp(region + 127, mine, n) == 0);
		ck_assert(memcmp(region + 127 + n, mem + 27, tails[k]) == 0);
		ck_assert_uint_eq(mem[27 + tails[k]], 0);
	}
	xport_mem_free(lane, mem, 4u << 20);
}

/* ---- rights ------------------------------------------------------------------------- */

/* The device refuses one request: those before it happened, none after. */
TEST(wrong_key_in_the_middle_ends_the_chain_where_it_stands)
{
	struct xport_lane *half =
		far_lane(&(struct far_lane){.wrong_from = SMALL / 2});
	uint64_t *mem = xport_mem_alloc(half, 64);
	struct xport_chain c[2] = {{.n = 4, .next = &c[1]}, {.n = 1}};

	for (unsigned i = 0; i < 8; i++)
		mem[i] = 100 + i;
	c[0].wr[0] = write_wr(0, &mem[0], 8);
	c[0].wr[1] = write_wr(8, &mem[1], 8);
	c[0].wr[2] = read_wr(SMALL / 2, &mem[2], 8);
	c[0].wr[3] = write_wr(16, &mem[3], 8);
	c[1].wr[0] = write_wr(24, &mem[4], 8);
	far_run(half, c);
	ck_assert(c[0].done);
	ck_assert_int_ne(c[0].status, 0);
	ck_assert_uint_eq(c[0].n_done, 2);
	ck_assert_int_ne(c[1].status, 0);
	ck_assert_uint_eq(c[1].n_done, 0);
	ck_assert_uint_eq(word(0), 100);
	ck_assert_uint_eq(word(8), 101);
	ck_assert_uint_eq(word(16), 0);
	ck_assert_uint_eq(word(24), 0);
	ck_assert_int_eq(xport_broken(half), FARKV_EDISCONNECTED);
	/* The other lane is not affected. */
	c[1].wr[0] = cas_wr(24, 0, 7);
	far_run(lane, &c[1]);
	ck_assert_int_eq(c[1].status, 0);
	ck_assert_uint_eq(word(24), 7);
}

TEST(request_across_two_keys_is_refused_and_nothing_posted)
{
	struct xport_lane *half =
		far_lane(&(struct far_lane){.wrong_from = SMALL / 2});
	uint8_t *mem = xport_mem_alloc(half, 64);
	struct xport_chain c = {.n = 2};

	memset(mem, 1, 64);
	c.wr[0] = write_wr(0, mem, 8);
	c.wr[1] = write_wr(SMALL / 2 - 4, mem, 8);
	ck_assert_int_eq(xport_post(half, &c), FARKV_EINVAL);
	ck_assert_uint_eq(word(0), 0);
	ck_assert_int_eq(xport_broken(half), 0);
}

/* A client of the role "ro" that knows the writers' rkey. */
TEST_LOOP(write_and_cas_of_a_readonly_connection_are_refused_by_the_device, 0, 2)
{
	struct xport_lane *ro = far_lane(
		&(struct far_lane){.readonly = true, .claims_more = true});
	uint64_t *mem = xport_mem_alloc(ro, 64);
	struct xport_chain c = {.n = 2};

	mem[0] = 5;
	mem[1] = 6;
	memset(region, 0, 64);
	region[8] = 42;
	c.wr[0] = read_wr(8, &mem[1], 8);
	c.wr[1] = _i == 0 ? write_wr(0, mem, 8) : cas_wr(0, 0, 5);
	far_run(ro, &c);
	ck_assert_int_ne(c.status, 0);
	ck_assert_uint_eq(c.n_done, 1);
	ck_assert_uint_eq(mem[1], 42);
	ck_assert_uint_eq(word(0), 0);
}

/* ---- the domain of atomics ------------------------------------------------------- */

struct counter {
	struct xport_lane *lane;
	uint64_t off;
	unsigned won, lost;
};

enum { RAISES = 300 };

static pthread_barrier_t start_line;

static void *raise_word(void *arg)
{
	struct counter *n = arg;
	uint64_t seen = 0;

	pthread_barrier_wait(&start_line);
	while (n->won < RAISES) {
		struct xport_chain c = {.n = 1};

		c.wr[0] = cas_wr(n->off, seen, seen + 1);
		if (xport_post(n->lane, &c))
			return NULL;
		while (!c.done)
			xport_poll(n->lane);
		if (c.status)
			return NULL;
		if (c.wr[0].found == seen)
			n->won++;
		else
			n->lost++;
		seen = c.wr[0].found == seen ? seen + 1 : c.wr[0].found;
	}
	return n;
}

/* Two clients and the server itself: no update is lost (I3). */
TEST(cas_of_three_lanes_on_one_word_all_count)
{
	struct counter n[3] = {
		{.lane = lane, .off = 512},
		{.lane = far_lane(&(struct far_lane){0}), .off = 512},
		{.lane = far_own_lane(), .off = far_own_off() + 512}};
	pthread_t t[3];
	void *ok;

	pthread_barrier_init(&start_line, NULL, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, raise_word, &n[i]),
				 0);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(t[i], &ok);
		ck_assert_ptr_eq(ok, &n[i]);
		ck_assert_uint_eq(n[i].won, RAISES);
	}
	ck_assert_uint_eq(word(512), 3 * RAISES);
	printf("  raised 3 times %d, lost %u %u %u\n", RAISES, n[0].lost,
	       n[1].lost, n[2].lost);
	fflush(stdout);
}

/* ---- ends in the middle ------------------------------------------------------------- */

#define ENDS_NS (15 * NS_PER_SEC)

static void *break_soon(void *arg)
{
	(void)arg;
	usleep(20000);
	xport_break(lane, FARKV_EDISCONNECTED);
	return NULL;
}

/* After the end: some chains succeeded, and none after them. */
static unsigned check_ends(const struct xport_chain *c, unsigned n)
{
	unsigned good = 0;

	while (good < n && c[good].status == 0)
		good++;
	for (unsigned i = 0; i < n; i++) {
		ck_assert(c[i].done);
		ck_assert_int_eq(c[i].status,
				 i < good ? 0 : FARKV_EDISCONNECTED);
		if (i < good)
			ck_assert_uint_eq(c[i].n_done, c[i].n);
		else
			ck_assert_uint_lt(c[i].n_done, c[i].n);
		if (i > good)
			ck_assert_uint_eq(c[i].n_done, 0);
	}
	return good;
}

TEST(lane_broken_by_another_thread_ends_all_chains_soon)
{
	enum { CHAINS = 3000 };
	struct xport_chain *c = chains_new(CHAINS, 2);
	uint8_t *mem = xport_mem_alloc(lane, SMALL);
	uint64_t began;
	unsigned good;
	pthread_t t;

	for (unsigned i = 0; i < CHAINS; i++) {
		c[i].wr[0] = read_wr(0, mem, SMALL);
		c[i].wr[1] = cas_wr(0, 0, 0);
	}
	ck_assert_int_eq(pthread_create(&t, NULL, break_soon, NULL), 0);
	began = clock_now_ns();
	far_run(lane, c);
	ck_assert_uint_lt(clock_now_ns() - began, ENDS_NS);
	pthread_join(t, NULL);
	good = check_ends(c, CHAINS);
	ck_assert_uint_lt(good, CHAINS);
	/* The device does not use the buffers of finished chains. */
	memset(mem, 0xEE, SMALL);
	usleep(50000);
	for (unsigned i = 0; i < SMALL; i++)
		ck_assert_uint_eq(mem[i], 0xEE);
	c[0].next = NULL;
	far_run(lane, &c[0]);
	ck_assert_int_eq(c[0].status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c[0].n_done, 0);
	free(c);
}

static void *fence_soon(void *arg)
{
	usleep(20000);
	far_fence(0);
	memcpy(arg, region, SMALL);
	return NULL;
}

/*
 * The server ends the connection during a stream of WRITEs. The client notices by itself,
 * in bounded time; requests reported as done happened; and after the fence returns
 * nothing changes any more (I6).
 */
TEST(peer_fenced_in_the_middle_ends_the_lane_in_bounded_time)
{
	enum { CHAINS = 2000, EACH = 4 };
	struct xport_chain *c = chains_new(CHAINS, EACH);
	uint64_t *mem = xport_mem_alloc(lane, CHAINS * EACH * 8), began;
	uint8_t *fenced = malloc(SMALL);
	unsigned good, certain;
	pthread_t t;

	for (unsigned i = 0; i < CHAINS * EACH; i++) {
		mem[i] = i + 1;
		c[i / EACH].wr[i % EACH] = write_wr(i * 8, &mem[i], 8);
	}
	ck_assert_int_eq(pthread_create(&t, NULL, fence_soon, fenced), 0);
	began = clock_now_ns();
	do { /* the same again, should it be faster */
		far_run(lane, c);
	} while (c[CHAINS - 1].status == 0 &&
		 clock_now_ns() - began < ENDS_NS);
	printf("  ended after %llu ms\n",
	       (unsigned long long)((clock_now_ns() - began) / NS_PER_MS));
	fflush(stdout);
	ck_assert_uint_lt(clock_now_ns() - began, ENDS_NS);
	pthread_join(t, NULL);
	good = check_ends(c, CHAINS);
	ck_assert_uint_lt(good, CHAINS);
	certain = good * EACH + c[good].n_done;
	for (unsigned i = 0; i < certain; i++)
		ck_assert_uint_eq(word(i * 8), i + 1);
	usleep(100000);
	ck_assert(memcmp(region, fenced, SMALL) == 0);
	free(fenced);
	free(c);
}

/* A request to a peer that is gone, with nothing in flight before. */
TEST(post_to_a_fenced_peer_fails_in_bounded_time)
{
	uint64_t *mem = xport_mem_alloc(lane, 64), began;
	struct xport_chain c = {.n = 2};

	mem[0] = 1;
	far_fence(0);
	began = clock_now_ns();
	c.wr[0] = write_wr(0, mem, 8);
	c.wr[1] = cas_wr(8, 0, 1);
	far_run(lane, &c);
	ck_assert_uint_lt(clock_now_ns() - began, ENDS_NS);
	ck_assert_int_eq(c.status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c.n_done, 0);
	ck_assert_uint_eq(word(0), 0);
	ck_assert_uint_eq(word(8), 0);
}

/*
 * The server probes the client's machine again and again, and nobody reads the probes
 * there, as if the process were stopped: its card answers.
 */
TEST(stopped_peer_is_probed_100_times_and_stays)
{
	struct xport_chain c = {.n = 1};

	for (unsigned i = 0; i < 100; i++) {
		far_probe();
		usleep(10000);
	}
	usleep(1500000); /* without an acknowledgement the retries would be over */
	ck_assert_uint_eq(far_peers(), 1);
	c.wr[0] = cas_wr(0, 0, 5);
	far_run(lane, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_uint_eq(word(0), 5);
}

TEST_SUITE("verbs", far_require())
