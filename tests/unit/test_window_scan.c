/* SPDX-License-Identifier: BSD-3-Clause */
/* The masks of a line: their meaning, and that all implementations agree. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/index/window_scan.h"
#include "tests/rig/cases.h"

static uint64_t rnd = 0x2545F4914F6CDD1D;

static uint64_t draw(void)
{
	rnd ^= rnd << 13;
	rnd ^= rnd >> 7;
	rnd ^= rnd << 17;
	return rnd;
}

static struct block_ref block(uint64_t r)
{
	return (struct block_ref){
		.off = (r % ((UINT64_C(1) << SLOT_PTR_BITS) - 1) + 1) * PTR_UNIT,
		.cls = (uint8_t)(r >> 40 & SLOT_CLASS_MASK),
		.inc = (uint16_t)(r >> 48 & SLOT_INC_MASK)};
}

/* Words of slots, and some that no slot should hold. */
static uint64_t any_word(void)
{
	uint64_t r = draw();
	uint32_t fp = (uint32_t)(draw() % 3 ? draw() % 4 : draw() % 256);

	switch (draw() % 8) {
	case 0:
		return slot_empty((uint32_t)r);
	case 1:
		return slot_pack(block(r), fp, SLOT_FROZEN);
	case 2:
		return slot_pack(block(r), fp, SLOT_DEAD | SLOT_BLIND);
	case 3:
		return UINT64_C(1) << r % 64;
	case 4:
		return ~(UINT64_C(1) << r % 64);
	case 5:
		return r;
	default:
		return slot_pack(block(r), fp, r & 1 ? SLOT_BLIND : 0);
	}
}

static void same(const uint64_t *line, uint32_t fp)
{
	struct line_masks plain = window_scan_plain(line, fp);
	struct line_masks used = window_scan(line, fp);

	ck_assert_uint_eq(used.match, plain.match);
	ck_assert_uint_eq(used.stop, plain.stop);
#if defined(__SSE2__)
	used = window_scan_sse2(line, fp);
	ck_assert_uint_eq(used.match, plain.match);
	ck_assert_uint_eq(used.stop, plain.stop);
#endif
	for (unsigned i = 0; i < LINE_SLOTS; i++) {
		uint64_t w = line[i];

		ck_assert_uint_eq(plain.match >> i & 1, slot_fp(w) == fp);
		ck_assert_uint_eq(plain.stop >> i & 1,
				  slot_is_null(w) || (w & SLOT_FROZEN) != 0);
	}
	ck_assert_uint_eq((plain.match | plain.stop) >> LINE_SLOTS, 0);
}

TEST(masks_of_random_lines_match_the_words)
{
	uint64_t line[LINE_SLOTS] __attribute__((aligned(64)));

	for (unsigned round = 0; round < 20000; round++) {
		for (unsigned i = 0; i < LINE_SLOTS; i++)
			line[i] = any_word();
		same(line, (uint32_t)(draw() % 3 ? draw() % 4 : draw() % 256));
	}
}

/* Each bit of a word alone, in each slot, for fingerprints of all kinds. */
TEST(masks_of_each_bit_match_the_words)
{
	uint64_t line[LINE_SLOTS] __attribute__((aligned(64)));

	for (unsigned at = 0; at < LINE_SLOTS; at++)
		for (unsigned bit = 0; bit < 64; bit++)
			for (unsigned fp = 0; fp < 256; fp += 17) {
				memset(line, 0, sizeof(line));
				line[at] = UINT64_C(1) << bit;
				same(line, fp);
				memset(line, 0xFF, sizeof(line));
				line[at] ^= UINT64_C(1) << bit;
				same(line, fp);
			}
}

static uint64_t shared_line[LINE_SLOTS] __attribute__((aligned(64)));
static bool binding;

/* Slots alternate between a key of fingerprint 5 and empty. */
static void *bind_slots(void *arg)
{
	uint64_t empty = slot_empty(7), full = slot_pack(block(0x1234567), 5, 0);

	(void)arg;
	for (unsigned i = 0; __atomic_load_n(&binding, __ATOMIC_RELAXED); i++)
		__atomic_store_n(&shared_line[i % LINE_SLOTS],
				 i / LINE_SLOTS % 2 ? full : empty,
				 __ATOMIC_RELEASE);
	return NULL;
}

/* A mask names a slot with either word, also while it changes. */
TEST(slot_that_is_being_claimed_is_in_a_mask)
{
	uint64_t end = clock_now_ns() + 300 * NS_PER_MS;
	unsigned missed = 0;
	pthread_t binder;

	for (unsigned i = 0; i < LINE_SLOTS; i++)
		shared_line[i] = slot_empty(7);
	binding = true;
	ck_assert_int_eq(pthread_create(&binder, NULL, bind_slots, NULL), 0);
	do {
		for (unsigned i = 0; i < 1000; i++) {
			struct line_masks m = window_scan(shared_line, 5);

			missed += (m.match | m.stop) != (1u << LINE_SLOTS) - 1;
			atom_compiler_barrier();
		}
	} while (clock_now_ns() < end);
	__atomic_store_n(&binding, false, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_join(binder, NULL), 0);
	ck_assert_uint_eq(missed, 0);
}

TEST_SUITE("window_scan")
