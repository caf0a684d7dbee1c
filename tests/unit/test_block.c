/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks: their bytes, how copies are verified, expiry. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "common/region/block.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"

static const struct block_ref ref = {.off = META_ALIGN, .inc = 7, .cls = 3};

static void encode(uint8_t *image, const char *key, const char *value)
{
	memset(image, 0xA5, class_bytes(ref.cls));
	block_encode(image, ref, 0x100000002,
		     &(struct block_pair){.key = key, .key_hash = hash_key(42, key, strlen(key)),
					  .key_len = strlen(key),
					  .value = value, .value_len = strlen(value)});
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

TEST(header_sum_is_xxh3_of_its_bytes)
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

TEST(block_encode_golden_bytes)
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

/* A dated block with a user word. */
static const struct block_pair full = {.key = "key",
				       .key_len = 3,
				       .value = "value!",
				       .value_len = 6,
				       .flags = BLOCK_USER | BLOCK_SECONDS,
				       .expiry = 0x11223344,
				       .user = 0xAABBCCDD};

static void encode_full(uint8_t *image)
{
	struct block_pair pair = full;

	pair.key_hash = hash_key(42, "key", 3);
	memset(image, 0xA5, class_bytes(ref.cls));
	block_encode(image, ref, 0x100000002, &pair);
}

TEST(block_encode_golden_bytes_of_expiry_and_user_word)
{
	/* The user word follows the value; the padding follows both. */
	static const uint8_t golden[] = {
		0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
		0x06, 0x00, 0x00, 0x00, 0x03, 0x00, 0x07, 0x60,
		0x44, 0x33, 0x22, 0x11, 0x97, 0x12, 0x8c, 0x98,
		0x6b, 0x65, 0x79, 0x76, 0x61, 0x6c, 0x75, 0x65,
		0x21, 0xdd, 0xcc, 0xbb, 0xaa, 0x00, 0x00, 0x00,
		0xc2, 0x1d, 0x38, 0xee, 0x32, 0x1d, 0xba, 0x2e,
	};
	uint8_t image[160];

	encode_full(image);
	ck_assert_mem_eq(image, golden, sizeof(golden));
	ck_assert_uint_eq(image[48], 0xA5);
}

TEST(block_verify_view_has_expiry_unit_and_user_word)
{
	struct block_view v;
	uint8_t image[160];

	encode_full(image);
	ck_assert_int_eq(block_verify(image, ref, "key", 3, &v), BLOCK_MINE);
	ck_assert_uint_eq(v.expiry, 0x11223344);
	ck_assert_uint_eq(v.user, 0xAABBCCDD);
	ck_assert_uint_eq(v.flags, BLOCK_USER | BLOCK_SECONDS);
	ck_assert_uint_eq(block_view_room(&v), 48);
	ck_assert_int_eq(block_verify(image, ref, "kez", 3, &v), BLOCK_OTHER);
	ck_assert_uint_eq(v.user, 0xAABBCCDD);
	memset(&v, 0xA5, sizeof(v));
	ck_assert_int_eq(verify_head(image, 32, ref, "key", &v), BLOCK_MINE);
	ck_assert_uint_eq(v.expiry, 0x11223344);
	ck_assert_uint_eq(v.flags, BLOCK_USER | BLOCK_SECONDS);
	ck_assert_uint_eq(v.user, 0);
	for (unsigned bit = 0; bit < sizeof(image) * 8; bit++) {
		unsigned byte = bit / 8;

		if ((byte >= 37 && byte < 40) || byte >= 48)
			continue; /* padding */
		image[byte] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(block_verify(image, ref, "key", 3, &v), BLOCK_BAD);
		image[byte] ^= (uint8_t)(1u << bit % 8);
	}
}

/* Sealed by a writer that knows more than this program. */
TEST(block_verify_unknown_flag_is_bad)
{
	struct block_pair pair = full;
	struct block_view v;
	uint8_t image[160];
	uint64_t hash;

	pair.key_hash = hash_key(42, "key", 3);
	pair.flags = 0x8000;
	block_encode(image, ref, 1, &pair);
	ck_assert_int_eq(block_verify(image, ref, "key", 3, &v), BLOCK_BAD);
	ck_assert_int_eq(verify_head(image, 32, ref, "key", &v), BLOCK_BAD);
	ck_assert(!block_key_hash(image, 32, ref, 42, &hash));
}

TEST(block_verify_user_word_beyond_the_class_is_bad)
{
	struct block_ref small = {.off = META_ALIGN, .cls = 0};
	struct block_pair pair = full;
	struct block_view v;
	uint8_t image[160] = {0}, value[32] = {0};

	/* 24 + 3 + 29 + 8 is all of 64 bytes. */
	pair.value = value;
	pair.value_len = 29;
	pair.flags = 0;
	block_encode(image, small, 1, &pair);
	ck_assert_int_eq(block_verify(image, small, "key", 3, &v), BLOCK_MINE);
	pair.flags = BLOCK_USER;
	block_encode(image, small, 1, &pair);
	ck_assert_int_eq(block_verify(image, small, "key", 3, &v), BLOCK_BAD);
}

static void check_expiry(uint64_t now, uint64_t ttl)
{
	struct block_expiry e = block_expiry_encode(now, ttl);
	uint64_t unit = e.flags & BLOCK_SECONDS ? 1000 : 1;
	uint64_t end = (now + ttl) / unit * unit;

	ck_assert_uint_eq(e.flags, ttl > BLOCK_MS_MAX ? BLOCK_SECONDS : 0);
	ck_assert_uint_ne(e.at, 0);
	if ((uint32_t)(end / unit) == 0)
		end += unit; /* 0 means never */
	ck_assert(!block_expired(e.at, e.flags, now));
	ck_assert_uint_eq(block_ttl_left(e.at, e.flags, now), end - now);
	ck_assert(!block_expired(e.at, e.flags, end - 1));
	ck_assert_uint_eq(block_ttl_left(e.at, e.flags, end - 1), 1);
	ck_assert(block_expired(e.at, e.flags, end));
	ck_assert_uint_eq(block_ttl_left(e.at, e.flags, end), 0);
	/* Still so when it is long over. */
	ck_assert(block_expired(e.at, e.flags, end + 0x7FFFFFFF * unit));
}

TEST(expiry_holds_to_the_unit_at_every_age_of_the_region)
{
	const uint64_t ages[] = {0, 1, 999, 0x7FFFFFFF, 0xFFFFFFFF, UINT64_C(1) << 32,
				 0xFFFFFFFFull * 1000 + 77, UINT64_C(1) << 50};
	const uint64_t ttls[] = {1, 2, 1000, 60000, BLOCK_MS_MAX, BLOCK_MS_MAX + 1,
				 BLOCK_MS_MAX + 1999, BLOCK_TTL_MAX_MS};

	for (unsigned a = 0; a < sizeof(ages) / sizeof(*ages); a++)
		for (unsigned t = 0; t < sizeof(ttls) / sizeof(*ttls); t++)
			check_expiry(ages[a], ttls[t]);
	/* An end that would be written as 0. */
	check_expiry((UINT64_C(1) << 32) - 5, 5);
	check_expiry((UINT64_C(1) << 32) * 1000 - BLOCK_MS_MAX - 1000, BLOCK_MS_MAX + 1000);
}

TEST(expiry_zero_is_never)
{
	ck_assert_uint_eq(block_expiry_encode(1000, 0).at, 0);
	ck_assert_uint_eq(block_expiry_encode(1000, 0).flags, 0);
	ck_assert(!block_expired(0, 0, UINT64_MAX));
	ck_assert(!block_expired(0, BLOCK_SECONDS, UINT64_MAX));
	ck_assert_uint_eq(block_ttl_left(0, 0, 5), BLOCK_NEVER);
}

TEST(block_verify_every_bit_flip_is_bad)
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

/* A block of a key "key" with a value of lens[_i] bytes, and memory for copies of it. */
struct parted {
	uint32_t len;
	size_t bytes, room, end;
	struct block_ref at;
	struct block_pair pair;
	uint8_t *whole, *value;
};

static void parted_init(struct parted *p, int i)
{
	static const uint32_t lens[] = {0, 1, 7, 8, 100, 239, 240, 241, 5000};
	uint16_t flags = i % 2 ? BLOCK_USER : 0;
	uint32_t len = lens[i / 2], tail = len + block_user_bytes(flags);
	uint8_t cls = (uint8_t)class_for(block_room(3, tail));

	*p = (struct parted){.len = len, .bytes = class_bytes(cls),
			     .room = block_room(3, tail), .end = 27 + tail,
			     .at = {.off = META_ALIGN, .inc = 9, .cls = cls}};
	p->whole = calloc(1, p->bytes);
	p->value = malloc(p->bytes + 1);
	for (size_t n = 0; n < p->bytes; n++)
		p->value[n] = (uint8_t)(n * 7 + 1);
	p->pair = (struct block_pair){.key = "key", .key_hash = hash_key(42, "key", 3),
				      .key_len = 3, .value = p->value,
				      .value_len = p->len, .flags = flags,
				      .user = 0x12345678, .expiry = 5};
	block_encode(p->whole, p->at, 77, &p->pair);
}

static void parted_fini(struct parted *p)
{
	free(p->whole);
	free(p->value);
}

TEST_LOOP(block_encoded_around_or_past_the_cache_is_the_block, 0, 18)
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

/* The same bytes with some of them in another place, for all positions. */
TEST_LOOP(block_in_parts_is_the_block, 0, 18)
{
	struct block_split parts;
	struct block_view v;
	struct parted p;
	uint8_t *image, *value;

	parted_init(&p, _i);
	image = malloc(p.bytes + 1);
	value = malloc(p.bytes + 1);
	parts = (struct block_split){image, value, BLOCK_HEADER_BYTES + 3, 0, NULL};
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
		ck_assert_uint_eq(v.user, p.pair.flags ? 0x12345678 : 0);
		ck_assert_uint_eq(v.expiry, 5);
		ck_assert_int_eq(block_verify_split(&parts, p.at, "kez", 3, &v),
				 BLOCK_OTHER);
		ck_assert_int_eq(block_verify_split(&parts, ref, "key", 3, &v),
				 BLOCK_BAD);
		if (n) {
			value[n / 2] ^= 4;
			ck_assert(block_verify_split(&parts, p.at, "key", 3, &v) ==
					  BLOCK_BAD ||
				  27 + n / 2 >= p.room ||
				  (27 + n / 2 >= p.end &&
				   27 + n / 2 < p.room - BLOCK_SUM_BYTES));
			value[n / 2] ^= 4;
		}
		/* The value alone, copied meanwhile. */
		if (n == p.len && n) {
			parts.seg_from = p.whole + 27;
			memset(value, 0, n);
			ck_assert_int_eq(block_verify_split(&parts, p.at, "key", 3, &v),
					 BLOCK_MINE);
			ck_assert_mem_eq(value, p.whole + 27, n);
			ck_assert_uint_eq(v.user, p.pair.flags ? 0x12345678 : 0);
			p.whole[27 + n / 2] ^= 4;
			ck_assert_int_eq(block_verify_split(&parts, p.at, "key", 3, &v),
					 BLOCK_BAD);
			p.whole[27 + n / 2] ^= 4;
			parts.seg_from = NULL;
		}
		image[n % 20] ^= 1;
		ck_assert_int_eq(block_verify_split(&parts, p.at, "key", 3, &v),
				 BLOCK_BAD);
	}
	free(image);
	free(value);
	parted_fini(&p);
}

TEST(block_verify_another_place_class_or_inc_is_bad)
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

TEST(block_rebind_another_place_and_incarnation_keeps_the_content)
{
	struct block_ref to = {.off = ref.off + 8 * PTR_UNIT, .cls = ref.cls,
			       .inc = (uint16_t)(ref.inc + 1)};
	uint64_t hash = hash_key(42, "key", 3);
	uint8_t image[256], copy[256];
	struct block_view v;
	size_t room;

	encode(image, "key", "value");
	memcpy(copy, image, sizeof(copy));
	ck_assert(block_rebind(copy, ref, to, hash, &room));
	ck_assert_uint_eq(room, block_room(3, 5));
	ck_assert_int_eq(block_verify(copy, to, "key", 3, &v), BLOCK_MINE);
	ck_assert_mem_eq(v.value, "value", 5);
	ck_assert_int_eq(verify_head(copy, 64, to, "key", &v), BLOCK_MINE);
	ck_assert_int_eq(block_verify(copy, ref, "key", 3, &v), BLOCK_BAD);
	/* What is damaged, or is not what was asked for, is not made good. */
	for (size_t i = 0; i < room * 8; i++) {
		memcpy(copy, image, sizeof(copy));
		copy[i / 8] ^= (uint8_t)(1u << i % 8);
		ck_assert(!block_rebind(copy, ref, to, hash, &room));
		room = block_room(3, 5);
	}
	memcpy(copy, image, sizeof(copy));
	ck_assert(!block_rebind(copy, to, ref, hash, &room));
	ck_assert(!block_rebind(copy, ref, to, hash + 1, &room));
	ck_assert_mem_eq(copy, image, sizeof(copy));
}

TEST(block_verify_head_tells_mine_other_bad_partial)
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

TEST_SUITE("block")
