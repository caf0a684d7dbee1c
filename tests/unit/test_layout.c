/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

#include "common/base/err.h"
#include "common/region/hash.h"
#include "tests/rig/fake_region.h"
#include "common/base/util.h"
#include "tests/rig/test_main.h"

START_TEST(slot_pack_worked_example)
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
END_TEST

START_TEST(slot_pack_every_field_at_its_limit_stays_in_its_bits)
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
END_TEST

START_TEST(entry_and_dirword_worked_examples)
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
END_TEST

START_TEST(hash_parts_stay_in_range_and_use_their_own_bits)
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
END_TEST

START_TEST(class_table_grows_and_class_for_is_its_inverse)
{
	ck_assert_uint_eq(class_bytes(0), 64);
	ck_assert_uint_eq(class_bytes(1), 96);
	ck_assert_uint_eq(class_bytes(2), 128);
	ck_assert_uint_eq(class_bytes(6), 256);
	ck_assert_uint_eq(class_bytes(CLASS_COUNT - 1), UINT64_C(1) << 30);
	ck_assert_uint_eq(class_for(0), 0);
	for (unsigned c = 0; c < CLASS_COUNT; c++) {
		ck_assert_uint_eq(class_bytes(c) % PTR_UNIT, 0);
		ck_assert_uint_eq(class_for(class_bytes(c)), c);
		ck_assert_uint_eq(class_for(class_bytes(c) + 1), c + 1);
	}
	for (uint64_t n = 1; n < 100000; n++) {
		ck_assert_uint_ge(class_bytes(class_for(n)), n);
		ck_assert(class_for(n) == 0 || class_bytes(class_for(n) - 1) < n);
	}
	ck_assert_uint_eq(class_for(UINT64_MAX), CLASS_COUNT);
}
END_TEST

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

START_TEST(superblock_golden_bytes)
{
	/* Laid out by hand from doc/region-format.md. */
	static const uint8_t golden[] = {
		0x46, 0x4b, 0x56, 0x52, 0x45, 0x47, 0x4e, 0x31,
		0x02, 0x00, 0x00, 0x00, 0x70, 0x00, 0x00, 0x00,
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
		0x66, 0xe2, 0x88, 0x93, 0x27, 0x6b, 0x4e, 0xa0,
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
	};

	ck_assert_uint_eq(sizeof(golden), sizeof(sb));
	superblock_seal(&sb);
	ck_assert_mem_eq(&sb, golden, sizeof(golden));
	ck_assert_int_eq(superblock_verify(&sb), 0);
}
END_TEST

START_TEST(hash_golden_values)
{
	ck_assert_uint_eq(hash_key(42, "key", 3), UINT64_C(0x67197794b225585e));
	ck_assert_uint_eq(hash_key(1, "farkv", 5), UINT64_C(0x89a5d00c5de0c830));
	ck_assert_uint_eq(hash_image("", 0), UINT64_C(0x2d06800538d394c2));
}
END_TEST

START_TEST(hash_key_in_line_is_hash_key)
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
END_TEST

/* In one pass with a copy, and in pieces: a page of stripes, and more. */
START_TEST(hash_copy_is_hash_image_of_what_was_copied)
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
END_TEST

START_TEST(sums_by_avx2_and_by_pieces_are_xxh3)
{
	static uint8_t bytes[9000];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 89 + i / 11);
	for (size_t len = 0; len <= 8900; len += 1 + len / 97) {
		const uint8_t *at = bytes + len % 61;
		size_t first = len / 3, second = len / 2;
		const struct hash_piece pieces[] = {
			{at, first},
			{at + first, second},
			{NULL, 0},
			{at + first + second, len - first - second}};

		ck_assert_uint_eq(hash_image(at, len), XXH3_64bits(at, len));
		ck_assert_uint_eq(hash_pieces(pieces, 4), XXH3_64bits(at, len));
		ck_assert_uint_eq(hash_pieces_narrow(pieces, 4), XXH3_64bits(at, len));
	}
}
END_TEST

START_TEST(superblock_verify_every_bit_flip_is_refused)
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
END_TEST

START_TEST(superblock_verify_sealed_but_impossible_geometry_is_refused)
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
END_TEST

static const struct block_ref ref = {.off = META_ALIGN, .inc = 7, .cls = 3};

static void encode(uint8_t *image, const char *key, const char *value)
{
	memset(image, 0xA5, class_bytes(ref.cls));
	block_encode(image, ref, 0x100000002,
		     &(struct block_pair){.key = key, .key_hash = hash_key(42, key, strlen(key)),
					  .key_len = strlen(key),
					  .value = value, .value_len = strlen(value)}, 0);
}

static enum block_check verify_head(const void *image, size_t have, struct block_ref at,
				    const char *key, struct block_view *view_out)
{
	struct block_key asked = {.data = key,
				  .hash = hash_key(42, key, strlen(key)),
				  .seed = 42,
				  .len = strlen(key)};

	return block_verify_head(image, have, at, &asked, view_out);
}

START_TEST(header_sum_is_xxh3_of_its_bytes)
{
	struct block_header h;
	uint64_t x = 1, seed;
	uint8_t *bytes = (uint8_t *)&h;

	for (unsigned n = 0; n < 10000; n++) {
		for (size_t i = 0; i < sizeof(h); i++) {
			x = x * UINT64_C(6364136223846793005) + n;
			bytes[i] = (uint8_t)(x >> 56);
		}
		seed = n ? x * x : 0;
		ck_assert_uint_eq(block_head_sum(&h, block_binding(ref), seed),
				  (uint32_t)XXH3_64bits_withSeed(
					  &h, offsetof(struct block_header, head_sum),
					  seed ^ block_binding(ref)));
	}
}
END_TEST

START_TEST(block_encode_golden_bytes)
{
	/* version; value length, key length, inc; expiry, head_sum; key, value;
	 * checksum: by hand from doc/region-format.md. */
	static const uint8_t golden[] = {
		0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
		0x05, 0x00, 0x00, 0x00, 0x03, 0x00, 0x07, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x1c, 0x2b, 0xf6, 0xf5,
		0x6b, 0x65, 0x79, 0x76, 0x61, 0x6c, 0x75, 0x65,
		0x00, 0xcf, 0xb1, 0x59, 0x5e, 0x14, 0x9f, 0xb6,
	};
	uint8_t image[160];

	encode(image, "key", "value");
	ck_assert_uint_eq(block_room(3, 5), sizeof(golden));
	ck_assert_mem_eq(image, golden, sizeof(golden));
	ck_assert_uint_eq(image[40], 0xA5); /* no byte after it is written */
}
END_TEST

START_TEST(block_verify_every_bit_flip_is_bad)
{
	uint8_t image[160];
	struct block_view v;

	encode(image, "key", "value!");
	ck_assert_int_eq(block_verify(image, ref, "key", 3, &v), BLOCK_MINE);
	ck_assert_uint_eq(v.value_len, 6);
	ck_assert_mem_eq(v.value, "value!", 6);
	ck_assert_uint_eq(v.version, 0x100000002);
	ck_assert_int_eq(block_verify(image, ref, "kez", 3, &v), BLOCK_OTHER);
	ck_assert_int_eq(block_verify(image, ref, "ke", 2, &v), BLOCK_OTHER);
	for (unsigned bit = 0; bit < block_room(3, 6) * 8; bit++) {
		unsigned byte = bit / 8;

		if (byte >= 33 && byte < 40)
			continue; /* padding */
		image[byte] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(block_verify(image, ref, "key", 3, &v),
				 BLOCK_BAD);
		image[byte] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

/* A block of a key "key" with a value of lens[_i] bytes, and memory for copies of it. */
struct parted {
	uint32_t len;
	size_t bytes, room;
	struct block_ref at;
	struct block_pair pair;
	uint8_t *whole, *value;
};

static void parted_init(struct parted *p, int i)
{
	static const uint32_t lens[] = {0, 1, 7, 8, 100, 239, 240, 241, 5000};
	uint8_t cls = (uint8_t)class_for(block_room(3, lens[i]));

	*p = (struct parted){.len = lens[i], .bytes = class_bytes(cls),
			     .room = block_room(3, lens[i]),
			     .at = {.off = META_ALIGN, .inc = 9, .cls = cls}};
	p->whole = calloc(1, p->bytes);
	p->value = malloc(p->bytes + 1);
	for (size_t n = 0; n < p->bytes; n++)
		p->value[n] = (uint8_t)(n * 7 + 1);
	p->pair = (struct block_pair){.key = "key", .key_hash = hash_key(42, "key", 3),
				      .key_len = 3, .value = p->value,
				      .value_len = p->len};
	block_encode(p->whole, p->at, 77, &p->pair, 0);
}

static void parted_fini(struct parted *p)
{
	free(p->whole);
	free(p->value);
}

START_TEST(block_encoded_around_or_past_the_cache_is_the_block)
{
	struct parted p;
	uint8_t *around;

	parted_init(&p, _i);
	around = calloc(1, p.bytes);
	block_encode_around(around, p.at, 77, &p.pair);
	ck_assert_mem_eq(around, p.whole, 27);
	ck_assert_mem_eq(around + 27, p.whole + 27 + p.len, p.room - p.len - 27);
	/* Past the cache, at each alignment that blocks have. */
	for (size_t to = 0; to < 64; to += PTR_UNIT) {
		uint8_t *at64 = aligned_alloc(64, 64 + util_align_up(p.bytes, 64));

		memset(at64, 0xA5, 64 + util_align_up(p.bytes, 64));
		block_encode_past_cache(at64 + to, p.at, 77, &p.pair);
		ck_assert_mem_eq(at64 + to, p.whole, p.room);
		ck_assert(at64[to + p.room] == 0xA5 || p.room == p.bytes);
		free(at64);
	}
	free(around);
	parted_fini(&p);
}
END_TEST

/* The same bytes with some of them in another place, for all positions. */
START_TEST(block_in_parts_is_the_block)
{
	struct block_split parts;
	struct block_view v;
	struct parted p;
	uint8_t *image, *value;

	parted_init(&p, _i);
	image = malloc(p.bytes + 1);
	value = malloc(p.bytes + 1);
	parts = (struct block_split){image, value, BLOCK_HEADER_BYTES + 3, 0};
	/* Each length of the segment, up to all bytes after the key. */
	for (size_t n = p.len > 8 ? p.len - 8 : 0; n <= p.bytes - 27; n++) {
		parts.seg_len = n;
		memcpy(image, p.whole, 27);
		memcpy(value, p.whole + 27, n);
		memcpy(image + 27, p.whole + 27 + n, p.bytes - 27 - n);
		memset(&v, 0xA5, sizeof(v));
		ck_assert_int_eq(block_verify_split(&parts, p.at, "key", 3, &v),
				 BLOCK_MINE);
		ck_assert_uint_eq(v.value_len, p.len);
		ck_assert_uint_eq(v.version, 77);
		ck_assert_ptr_eq(v.value, p.len <= n ? value : NULL);
		ck_assert_int_eq(block_verify_split(&parts, p.at, "kez", 3, &v),
				 BLOCK_OTHER);
		ck_assert_int_eq(block_verify_split(&parts, ref, "key", 3, &v),
				 BLOCK_BAD);
		if (n) {
			value[n / 2] ^= 4;
			ck_assert(block_verify_split(&parts, p.at, "key", 3, &v) ==
					  BLOCK_BAD ||
				  27 + n / 2 >= p.room ||
				  (27 + n / 2 >= 27 + p.len &&
				   27 + n / 2 < p.room - BLOCK_SUM_BYTES));
			value[n / 2] ^= 4;
		}
		image[n % 20] ^= 1;
		ck_assert_int_eq(block_verify_split(&parts, p.at, "key", 3, &v),
				 BLOCK_BAD);
	}
	free(image);
	free(value);
	parted_fini(&p);
}
END_TEST

START_TEST(block_verify_another_place_class_or_inc_is_bad)
{
	uint8_t image[256];
	struct block_view v;
	struct block_ref other = ref;

	encode(image, "key", "value");
	other.off += PTR_UNIT;
	ck_assert_int_eq(block_verify(image, other, "key", 3, &v), BLOCK_BAD);
	other = ref;
	other.cls++;
	ck_assert_int_eq(block_verify(image, other, "key", 3, &v), BLOCK_BAD);
	other = ref;
	other.inc++;
	ck_assert_int_eq(block_verify(image, other, "key", 3, &v), BLOCK_BAD);
	ck_assert_int_eq(verify_head(image, 64, other, "key", &v),
			 BLOCK_BAD);
}
END_TEST

START_TEST(block_verify_head_tells_mine_other_bad_partial)
{
	uint8_t image[160];
	struct block_view v;

	encode(image, "key", "value");
	ck_assert_int_eq(
		verify_head(image, 32, ref, "key", &v),
		BLOCK_MINE);
	ck_assert_uint_eq(v.version, 0x100000002);
	ck_assert_int_eq(
		verify_head(image, 32, ref, "kez", &v),
		BLOCK_OTHER);
	ck_assert_int_eq(
		verify_head(image, 26, ref, "k", &v),
		BLOCK_PARTIAL);
	/* Nothing is concluded from bytes that are not there. */
	ck_assert_int_eq(
		verify_head((uint8_t[BLOCK_HEADER_BYTES]){0}, BLOCK_HEADER_BYTES - 1, ref, "key", &v),
		BLOCK_PARTIAL);
	for (unsigned bit = 0; bit < 27 * 8; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_ne(verify_head(image, 64, ref, "key", &v),
				 BLOCK_MINE);
		ck_assert_int_ne(verify_head(image, 64, ref, "kez", &v),
				 BLOCK_MINE);
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("layout");
	TCase *t = tcase_create("words");

	tcase_add_test(t, slot_pack_worked_example);
	tcase_add_test(t, slot_pack_every_field_at_its_limit_stays_in_its_bits);
	tcase_add_test(t, entry_and_dirword_worked_examples);
	tcase_add_test(t, hash_parts_stay_in_range_and_use_their_own_bits);
	tcase_add_test(t, class_table_grows_and_class_for_is_its_inverse);
	suite_add_tcase(s, t);
	t = tcase_create("superblock");
	tcase_add_test(t, superblock_golden_bytes);
	tcase_add_test(t, hash_golden_values);
	tcase_add_test(t, hash_key_in_line_is_hash_key);
	tcase_add_test(t, hash_copy_is_hash_image_of_what_was_copied);
	tcase_add_test(t, sums_by_avx2_and_by_pieces_are_xxh3);
	tcase_add_test(t, superblock_verify_every_bit_flip_is_refused);
	tcase_add_test(
		t, superblock_verify_sealed_but_impossible_geometry_is_refused);
	suite_add_tcase(s, t);
	t = tcase_create("block");
	tcase_add_test(t, header_sum_is_xxh3_of_its_bytes);
	tcase_add_test(t, block_encode_golden_bytes);
	tcase_add_test(t, block_verify_every_bit_flip_is_bad);
	tcase_add_loop_test(t, block_encoded_around_or_past_the_cache_is_the_block,
			    0, 9);
	tcase_add_loop_test(t, block_in_parts_is_the_block, 0, 9);
	tcase_add_test(t, block_verify_another_place_class_or_inc_is_bad);
	tcase_add_test(t, block_verify_head_tells_mine_other_bad_partial);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
