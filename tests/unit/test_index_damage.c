/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that find damaged blocks, or words that lead out of the region. */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

TEST_LOOP(damaged_block_is_corrupt_after_bounded_tries, 0, 2)
{
	struct index_key k;

	setup(_i);
	k = key_of("k");
	PUT(&me, k, "value");
	region.base[slot_off(slots_of(k)[0]) + 26] ^= 1;
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), FARKV_ECORRUPT);
	region.base[slot_off(slots_of(k)[0]) + 26] ^= 1;
	check_value(&me, k, "value");
	teardown();
}

static uint8_t *damaged;

static void repair(void)
{
	*damaged ^= 1;
}

TEST(block_damaged_for_a_moment_is_read_again)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "value");
	damaged = region.base + slot_off(slots_of(k)[0]) + 26;
	*damaged ^= 1;
	rival_sets(XPORT_READ, repair, INDEX_GET, k, NULL);
	rival.skip = 3;
	check_value(&me, k, "value");
	teardown();
}

static const uint64_t bad_words[] = {
	0x3FFFFFFFF,            /* ptr beyond the region */
	1,                      /* ptr into the meta area */
	UINT64_C(127) << 34 | 0x20000, /* class out of the table */
	UINT64_C(94) << 34 | 0x10000,  /* class too large for its place */
};
#define BAD_WORDS (sizeof(bad_words) / sizeof(bad_words[0]))

TEST_LOOP(slot_words_out_of_the_region_are_corrupt_not_followed, 0, 2)
{
	struct index_key k = key_at("k", 9);

	setup(_i);
	for (unsigned i = 0; i < BAD_WORDS; i++) {
		slots_of(k)[0] = bad_words[i] | UINT64_C(9) << 56; /* its own */
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 FARKV_ECORRUPT);
		ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0),
				 FARKV_ECORRUPT);
		ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0),
				 FARKV_ECORRUPT);
	}
	teardown();
}

static uint64_t bad_word;

static void rival_leads_out(void)
{
	slots_of(rival.key)[0] = bad_word;
}

/* The winner of a CAS owns the old block, and writes into it later. */
TEST(put_that_loses_to_a_word_out_of_the_region_takes_no_block)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_REPLACE,
						INDEX_DELETE};
	struct index_key k = key_at("k", 9);
	enum return_kind state;
	struct block_ref ref;

	setup(true);
	for (unsigned i = 0; i < BAD_WORDS * 3; i++) {
		bad_word = bad_words[i / 3] | UINT64_C(9) << 56;
		slots_of(k)[0] = slot_empty(1);
		PUT(&me, k, "v");
		rival_sets(XPORT_CAS, rival_leads_out, INDEX_GET, k, NULL);
		ck_assert_int_eq(run(&me, kinds[i % 3], k, "w", 0),
				 FARKV_ECORRUPT);
		ck_assert_uint_eq(rival.acted, 1);
		ck_assert_uint_eq(slots_of(k)[0], bad_word);
		while (alloc_drain(me.alloc, UINT64_MAX, &ref, 1, &state))
			ck_assert(region_block_ok(&region.sb, ref.off, ref.cls));
	}
	teardown();
}

TEST_LOOP(empty_word_of_another_generation_is_not_empty, 0, 2)
{
	struct index_key k = key_at("k", 9);

	setup(_i);
	slots_of(k)[0] = slot_empty(9);
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), FARKV_ECORRUPT);
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0), FARKV_ECORRUPT);
	ck_assert_uint_eq(slots_of(k)[0], slot_empty(9));
	slots_of(k)[0] = 0;
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "v", 0), FARKV_ECORRUPT);
	ck_assert_uint_eq(slots_of(k)[0], 0);
	teardown();
}

TEST_SUITE("index, damage")
