/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

#include "common/base/err.h"
#include "common/region/hash.h"
#include "tests/rig/fake_region.h"
#include "tests/rig/cases.h"

TEST(slot_pack_worked_example)
{
	struct block_ref b = {.off = 0x4000000, .inc = 5, .cls = 3};
	uint64_t w = slot_pack(b, 0x55, SLOT_BLIND);

	ck_assert_uint_eq(w, UINT64_C(0x55200A0C00200000));
	ck_assert_uint_eq(slot_off(w), 0x4000000);
	ck_assert_uint_eq(slot_class(w), 3);
	ck_assert_uint_eq(slot_fp(w), 0x55);
	ck_assert_uint_eq(slot_inc(w), 5);
	ck_assert(!slot_is_null(w));
	ck_assert_uint_eq(slot_empty(1), UINT64_C(0x0000000400000000));
	ck_assert(slot_is_null(slot_empty(SLOT_GEN_MASK)));
}

TEST(slot_pack_every_field_at_its_limit_stays_in_its_bits)
{
	struct block_ref b = {.off = SLOT_PTR_MASK * PTR_UNIT,
			      .inc = SLOT_INC_MASK,
			      .cls = SLOT_CLASS_MASK};
	uint64_t w = slot_pack(b, SLOT_FP_MASK, 0);

	ck_assert_uint_eq(w, ~(UINT64_C(7) << 53));
	ck_assert_uint_eq(SLOT_BLIND | SLOT_FROZEN | SLOT_DEAD | w, UINT64_MAX);
	ck_assert_uint_eq(slot_empty(SLOT_GEN_MASK),
			  ((UINT64_C(1) << 53) - 1) & ~SLOT_PTR_MASK);
	ck_assert_uint_eq(slot_fp(slot_empty(SLOT_GEN_MASK)), 0);
}

TEST(page_pack_worked_examples)
{
	uint32_t p = page_pack(PAGE_IS_SEGMENT, 33, 38);

	ck_assert_uint_eq(p, 0x800010A6);
	ck_assert_uint_eq(page_kind(p), PAGE_IS_SEGMENT);
	ck_assert_uint_eq(page_count(p), 33);
	ck_assert_uint_eq(page_class(p), 38);
	ck_assert_uint_eq(page_pack(PAGE_IS_SUBTABLE, 0, 0), 0x40000000);
	ck_assert_uint_eq(page_pack(PAGE_IS_LATER, 0, 38), 0xC0000026);
	ck_assert_uint_eq(page_pack(PAGE_IS_FREE, 0, 0), 0);
	/* The longest segment: one block of the largest class. */
	ck_assert_uint_eq(page_count(page_pack(PAGE_IS_SEGMENT, 32769, CLASS_COUNT - 1)),
			  32769);
}

TEST(heat_at_wraps_and_neighbours_differ)
{
	ck_assert_uint_eq(heat_at(0x200008, 4096), 1);
	ck_assert_uint_eq(heat_at(0x200000 + 8 * 4096, 4096), 0);
	ck_assert_uint_eq(heat_at(UINT64_C(1) << 38, 1), 0);
}

TEST(entry_and_dirword_worked_examples)
{
	uint64_t e = entry_pack(64, 1, 9);
	uint64_t d = dirword_pack(0x1000, 9);

	ck_assert_uint_eq(e, UINT64_C(0x9200000040000040));
	ck_assert_uint_eq(entry_page(e), 64);
	ck_assert_uint_eq(entry_gen(e), 1);
	ck_assert_uint_eq(entry_depth(e), 9);
	ck_assert_uint_eq(d, UINT64_C(0x8009000000001000));
	ck_assert_uint_eq(dirword_off(d), 0x1000);
	ck_assert_uint_eq(dirword_depth(d), 9);
}

TEST(hash_parts_stay_in_range_and_use_their_own_bits)
{
	ck_assert_uint_eq(hash_home_line(UINT64_MAX), HOME_LINES - 1);
	ck_assert_uint_eq(hash_home_line(0), 0);
	ck_assert_uint_eq(hash_dir_index(UINT64_MAX, 0), 0);
	ck_assert_uint_eq(hash_dir_index(UINT64_MAX, 9), 511);
	ck_assert_uint_eq(hash_dir_index(UINT64_C(1) << 63, 1), 1);
	ck_assert_uint_eq(hash_fp(0x7FE), 0xFE);
	ck_assert_uint_eq(hash_fp(0x700), 0xFF); /* never that of EMPTY */
	ck_assert_uint_eq(hash_home_line(0xFF), 0);
	/* a window never leaves its subtable */
	ck_assert_uint_le(hash_home_line(UINT64_MAX) + WINDOW_LINES,
			  SUBTABLE_LINES);
}

TEST(class_table_grows_and_class_for_is_its_inverse)
{
	ck_assert_uint_eq(class_bytes(0), 64);
	ck_assert_uint_eq(class_bytes(1), 96);
	ck_assert_uint_eq(class_bytes(2), 128);
	ck_assert_uint_eq(class_bytes(6), 256);
	ck_assert_uint_eq(class_bytes(CLASS_LARGE - 1), 57344);
	ck_assert_uint_eq(class_bytes(CLASS_LARGE), 65536 + 2048);
	ck_assert_uint_eq(class_bytes(CLASS_LARGE + 1), 81920 + 2048);
	ck_assert_uint_eq(class_bytes(CLASS_COUNT - 1), (UINT64_C(1) << 30) + 2048);
	ck_assert_uint_eq(class_for(0), 0);
	for (unsigned c = 0; c < CLASS_COUNT; c++) {
		ck_assert_uint_eq(class_bytes(c) % PTR_UNIT, 0);
		ck_assert_uint_eq(class_for(class_bytes(c)), c);
		ck_assert_uint_eq(class_for(class_bytes(c) + 1), c + 1);
	}
	for (uint64_t n = 1; n < 200000; n++) {
		ck_assert_uint_ge(class_bytes(class_for(n)), n);
		ck_assert(class_for(n) == 0 || class_bytes(class_for(n) - 1) < n);
	}
	ck_assert_uint_eq(class_for(UINT64_MAX), CLASS_COUNT);
}

static struct superblock good_sb(void)
{
	struct superblock sb = {.region_bytes = META_ALIGN + PAGE_BYTES,
				.meta_bytes = META_ALIGN,
				.max_value = 100,
				.max_key = 10,
				.grace_ns = 1};

	superblock_seal(&sb);
	return sb;
}

TEST(superblock_golden_bytes)
{
	/* Laid out by hand from doc/region-format.md. */
	static const uint8_t golden[] = {
		0x46, 0x4b, 0x56, 0x52, 0x45, 0x47, 0x4e, 0x31,
		0x03, 0x00, 0x00, 0x00, 0x90, 0x00, 0x00, 0x00,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
		0x2a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x20, 0x40, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00,
		0x00, 0xe1, 0xf5, 0x05, 0x00, 0x00, 0x00, 0x00,
		0xc0, 0x86, 0xfd, 0x6a, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x80, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
		0x08, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00,
		0x5f, 0x00, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x80, 0xff, 0x1d, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x09, 0x41, 0x82, 0x77, 0x92, 0xbb, 0x2e, 0x1a,
	};
	struct superblock sb = {
		.region_id = {0x1122334455667788, 0x99AABBCCDDEEFF00},
		.hash_seed = 42,
		.region_bytes = (1u << 30) + META_ALIGN,
		.meta_bytes = META_ALIGN,
		.max_value = 64 << 20,
		.grace_ns = 100000000,
		.created_s = 1795000000,
		.max_key = 65535,
		.session_count = 5,
	};

	ck_assert_uint_eq(sizeof(golden), sizeof(sb));
	superblock_seal(&sb);
	ck_assert_mem_eq(&sb, golden, sizeof(golden));
	ck_assert_int_eq(superblock_verify(&sb), 0);
}

TEST(hash_golden_values)
{
	ck_assert_uint_eq(hash_key(42, "key", 3), UINT64_C(0x67197794b225585e));
	ck_assert_uint_eq(hash_key(1, "farkv", 5), UINT64_C(0x89a5d00c5de0c830));
	ck_assert_uint_eq(hash_image("", 0), UINT64_C(0x2d06800538d394c2));
}

TEST(hash_key_in_line_is_hash_key)
{
	uint8_t key[48];
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < 20000; i++) {
		for (size_t at = 0; at < sizeof(key); at += sizeof(x)) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(key + at, &x, sizeof(x));
		}
		ck_assert_uint_eq(hash_key_in_line(x, key + i % 8, i % 40),
				  hash_key(x, key + i % 8, i % 40));
	}
}

/* In one pass with a copy, and in pieces: a page of stripes, and more. */
TEST(hash_copy_is_hash_image_of_what_was_copied)
{
	static uint8_t bytes[300], copy[300];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + i / 7);
	for (size_t len = HASH_COPY_MIN; len <= HASH_COPY_MAX; len++) {
		const uint8_t *at = bytes + len % 17;
		size_t room = ((len + 7) & ~(size_t)7) + 8;

		memset(copy, 0xEE, sizeof(copy));
		ck_assert_uint_eq(hash_copy(copy, at, len, room), XXH3_64bits(at, len));
		ck_assert_mem_eq(copy, at, room);
		ck_assert_uint_eq(copy[room], 0xEE);
	}
}

TEST(sums_by_avx2_and_by_pieces_are_xxh3)
{
	static uint8_t bytes[9000];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 89 + i / 11);
	for (size_t len = 0; len <= 8900; len += 1 + len / 97) {
		const uint8_t *at = bytes + len % 61;
		size_t first = len / 3, second = len / 2;
		const struct hash_piece pieces[] = {
			{at, first, NULL},
			{at + first, second, NULL},
			{NULL, 0, NULL},
			{at + first + second, len - first - second, NULL}};

		ck_assert_uint_eq(hash_image(at, len), XXH3_64bits(at, len));
		ck_assert_uint_eq(hash_pieces(pieces, 4), XXH3_64bits(at, len));
		ck_assert_uint_eq(hash_pieces_narrow(pieces, 4), XXH3_64bits(at, len));
	}
}

/* Lengths around the steps of the copy. */
TEST(pieces_that_are_copied_are_summed_as_copied)
{
	static uint8_t bytes[3 * HASH_STEP_BYTES], copy[sizeof(bytes)];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 89 + i / 11);
	for (size_t steps = 0; steps <= 2; steps++)
		for (size_t len = steps * HASH_STEP_BYTES; len < steps * HASH_STEP_BYTES + 3; len++) {
			const struct hash_piece pieces[] = {{bytes, 35, NULL},
							    {bytes + 35, len, copy},
							    {bytes + 35 + len, 4, NULL}};

			memset(copy, 0, sizeof(copy));
			ck_assert_uint_eq(hash_pieces(pieces, 3), XXH3_64bits(bytes, len + 39));
			ck_assert_mem_eq(copy, bytes + 35, len);
			ck_assert_uint_eq(copy[len], 0);
			memset(copy, 0, sizeof(copy));
			ck_assert_uint_eq(hash_pieces_narrow(pieces, 3), XXH3_64bits(bytes, len + 39));
			ck_assert_mem_eq(copy, bytes + 35, len);
		}
}

TEST(superblock_verify_every_bit_flip_is_refused)
{
	struct superblock sb = good_sb();

	ck_assert_int_eq(superblock_verify(&sb), 0);
	for (unsigned bit = 0; bit < sizeof(sb) * 8; bit++) {
		struct superblock bad = sb;

		((uint8_t *)&bad)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(superblock_verify(&bad), FARKV_EFORMAT);
		ck_assert_str_ne(err_detail(), "");
	}
}

TEST(superblock_verify_sealed_but_impossible_geometry_is_refused)
{
	struct superblock sb;

#define REFUSED(change)                                                        \
	do {                                                                   \
		sb = good_sb();                                                \
		change;                                                        \
		sb.checksum = hash_image(                                      \
			&sb, offsetof(struct superblock, checksum));           \
		ck_assert_int_eq(superblock_verify(&sb), FARKV_EFORMAT);       \
	} while (0)
	REFUSED(sb.version = 1);
	REFUSED(sb.flags = REGION_ORDERED);
	REFUSED(sb.flags = 1u << 31);
	REFUSED(sb.heat_bytes = 4096); /* without REGION_CACHE */
	REFUSED(sb.flags = REGION_CACHE);
	REFUSED(sb.flags = REGION_CACHE; sb.heat_bytes = 4097);
	REFUSED(sb.page_map_off += 64);
	REFUSED(sb.page_map_off -= 8);
	REFUSED(sb.page_map_off = UINT64_C(1) << 62);
	REFUSED(sb.session_table_off = REGION_DIR_OFF);
	REFUSED(sb.session_table_off += 64);
	REFUSED(sb.session_table_off -= 8);
	REFUSED(sb.session_count = 5);
	REFUSED(sb.page_bytes = 4096);
	REFUSED(sb.window_lines = 4);
	REFUSED(sb.class_count = 3);
	REFUSED(sb.ptr_unit = 64);
	REFUSED(sb.meta_bytes = 0);
	REFUSED(sb.meta_bytes = 4096);
	REFUSED(sb.region_bytes = META_ALIGN);
	REFUSED(sb.region_bytes += 1);
	REFUSED(sb.region_bytes = UINT64_C(1) << 60);
	REFUSED(sb.max_key = 0);
	REFUSED(sb.max_key = 70000);
	REFUSED(sb.max_value = UINT64_C(1) << 40);
	REFUSED(sb.grace_ns = 0);
}

TEST(superblock_verify_other_version_is_refused_by_name)
{
	const uint32_t versions[] = {2, 4};

	for (unsigned i = 0; i < 2; i++) {
		struct superblock sb = good_sb();
		char want[64];

		sb.version = versions[i];
		snprintf(want, sizeof(want), "region format %u; this program reads 3: ",
			 versions[i]);
		ck_assert_int_eq(superblock_verify(&sb), FARKV_EFORMAT);
		ck_assert_ptr_nonnull(strstr(err_detail(), want));
	}
}

TEST(superblock_verify_cache_flag_with_heat_area_is_read)
{
	struct superblock sb = good_sb();

	sb.flags = REGION_CACHE;
	sb.heat_bytes = 4096;
	superblock_seal(&sb);
	ck_assert_int_eq(superblock_verify(&sb), 0);
}

TEST_SUITE("layout")
