/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks: an image of exactly the bytes of the word's class, with and without correct
 * checksums. A view of a block that verifies lies within the image and names the key.
 */
#include "config.h"

#include "fuzz.h"

#include "common/region/block.h"
#include "common/region/hash.h"
#include "seal.h"

#define SEED 42u
#define CLASSES 20u /* up to 2 KiB */

static void check_whole(const uint8_t *image, struct block_ref ref)
{
	size_t bytes = class_bytes(ref.cls);
	struct block_view v, again;
	enum block_check c = block_verify(image, ref, "key", 3, &v);
	uint64_t hash = 0;

	FUZZ_CHECK(c != BLOCK_PARTIAL);
	if (c == BLOCK_BAD)
		return;
	FUZZ_CHECK(v.key_len > 0 && v.key >= image &&
		   v.value >= v.key + v.key_len &&
		   v.value + v.value_len + BLOCK_SUM_BYTES <= image + bytes);
	FUZZ_CHECK((c == BLOCK_MINE) ==
		   (v.key_len == 3 && memcmp(v.key, "key", 3) == 0));
	FUZZ_CHECK(block_verify(image, ref, v.key, v.key_len, &again) ==
		   BLOCK_MINE);
	if (block_key_hash(image, bytes, ref, SEED, &hash))
		FUZZ_CHECK(hash == hash_key(SEED, v.key, v.key_len));
}

static void check_head(const uint8_t *data, size_t have, struct block_ref ref)
{
	size_t n = have < class_bytes(ref.cls) ? have : class_bytes(ref.cls);
	uint8_t *image = malloc(n + !n);
	uint64_t hash = 0;
	struct block_view v = {0};
	enum block_check c;

	FUZZ_CHECK(image);
	memcpy(image, data, n);
	c = block_verify_head(image, n, ref,
			      &(struct block_key){.data = "key",
						  .len = 3,
						  .hash = hash_key(SEED, "key", 3),
						  .seed = SEED}, &v);
	if (block_key_hash(image, n, ref, SEED, &hash))
		FUZZ_CHECK(c == BLOCK_MINE || c == BLOCK_OTHER);
	if (c == BLOCK_MINE || c == BLOCK_OTHER)
		FUZZ_CHECK(v.key_len > 0 && !v.key && !v.value &&
			   block_view_room(&v) <= class_bytes(ref.cls));
	free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_begin(data, size);
	struct block_ref ref = {.off = 0x200000};
	bool sealed = fuzz_u8(&in) & 1;
	uint8_t *image;
	size_t bytes, n;

	ref.cls = fuzz_u8(&in) % CLASSES;
	ref.inc = fuzz_u16(&in) & BLOCK_INC_MASK;
	bytes = class_bytes(ref.cls);
	image = calloc(1, bytes);
	FUZZ_CHECK(image);
	n = fuzz_left(&in) < bytes ? fuzz_left(&in) : bytes;
	memcpy(image, in.at, n);
	if (sealed)
		seal_block(image, bytes, ref, SEED);
	check_whole(image, ref);
	check_head(image, n, ref);
	free(image);
	return 0;
}
