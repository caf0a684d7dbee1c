/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of freed buffers: which sizes, how many, and that all are freed. */
#include "config.h"

#include <string.h>

#include "common/index/spare.h"
#include "tests/rig/cases.h"

static struct spare spare;
static struct xport_lane *lane;

static void setup(void)
{
	static uint8_t region[4096];

	memset(&spare, 0, sizeof(spare));
	lane = xport_shm_open(region, sizeof(region), false);
	ck_assert_ptr_nonnull(lane);
}

/* Frees the rest, which leak checkers would report. */
static void teardown(void)
{
	spare_drop(&spare, lane);
	ck_assert_uint_eq(spare.bytes, 0);
	xport_close(lane);
}

static void *put_by(size_t bytes)
{
	void *mem = xport_mem_alloc(lane, bytes);

	ck_assert_ptr_nonnull(mem);
	memset(mem, 0x5a, bytes);
	ck_assert(spare_put(&spare, mem, bytes));
	return mem;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(each_size_has_its_own_list)
{
	static const size_t sizes[] = {SPARE_WINDOW, 512, 1024, 8192, 65536};
	void *mem[2][sizeof(sizes) / sizeof(sizes[0])];

	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			mem[k][i] = put_by(sizes[i]);
	ck_assert_uint_eq(spare.bytes, 2 * (SPARE_WINDOW + 512 + 1024 + 8192 + 65536));
	ck_assert_ptr_null(spare_take(&spare, 2048));
	/* The last used buffer first. */
	for (unsigned k = 2; k-- > 0;)
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			void *got = spare_take(&spare, sizes[i]);

			ck_assert_ptr_eq(got, mem[k][i]);
			xport_mem_free(lane, got, sizes[i]);
		}
	ck_assert_uint_eq(spare.bytes, 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		ck_assert_ptr_null(spare_take(&spare, sizes[i]));
	put_by(1024);
}

TEST(other_sizes_and_buffers_beyond_the_bound_are_refused)
{
	static const size_t none[] = {0, 8, 513, 1000, 131072};
	uint8_t some[1024];

	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		ck_assert(!spare_put(&spare, some, none[i]));
	for (size_t bytes = 0; bytes < SPARE_KEEP; bytes += 65536)
		put_by(65536);
	ck_assert_uint_eq(spare.bytes, SPARE_KEEP);
	ck_assert(!spare_put(&spare, some, 512));
}

TEST_SUITE("spare")
