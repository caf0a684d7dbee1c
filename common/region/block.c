/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "block.h"

#include <string.h>

#include "common/base/atomic.h"
#include "hash.h"
#include "common/base/util.h"

static size_t head_encode(uint8_t *p, struct block_ref ref, uint64_t version,
			  const struct block_pair *kv)
{
	struct block_header h = {
		.version = version,
		.value_len = kv->value_len,
		.key_len = kv->key_len,
		.inc_flags = ref.inc & BLOCK_INC_MASK,
	};

	return block_head_encode(p, block_binding(ref), &h, kv->key, kv->key_hash);
}

/*
 * Write what follows the value: padding, and the checksum of the `head` bytes at `p` and the value.
 */
static void tail_encode(uint8_t *tail, const uint8_t *p, size_t head,
			const struct block_pair *kv, struct block_ref ref)
{
	struct hash_piece pieces[] = {{p, head}, {kv->value, kv->value_len}};
	uint64_t sum = hash_pieces(pieces, 2) ^ block_binding(ref);
	size_t pad = block_room(kv->key_len, kv->value_len) - kv->value_len -
		     BLOCK_SUM_BYTES - head;

	memset(tail, 0, pad);
	memcpy(tail + pad, &sum, sizeof(sum));
}

void block_encode_around(void *dst, struct block_ref ref, uint64_t version,
			 const struct block_pair *kv)
{
	uint8_t *p = dst;
	size_t head = head_encode(p, ref, version, kv);

	tail_encode(p + head, p, head, kv, ref);
}

void block_encode_past_cache(void *dst, struct block_ref ref, uint64_t version,
			     const struct block_pair *kv)
{
	uint8_t *p = dst;
	size_t head = head_encode(p, ref, version, kv);

	tail_encode(p + head + kv->value_len, p, head, kv, ref);
	atom_copy_past_cache(p + head, kv->value, kv->value_len);
}

/* Copy once: others may write the original, and lengths are checked only here. */
static void header_copy(struct block_header *h, const uint8_t *p)
{
	memcpy(h, p, sizeof(*h));
	atom_compiler_barrier();
}

/* True if a block named by `ref` can have this header. */
static bool header_fits(const struct block_header *h,
			struct block_ref ref)
{
	return (h->inc_flags & BLOCK_INC_MASK) == ref.inc &&
	       (h->inc_flags & ~(BLOCK_INC_MASK | BLOCK_TOMBSTONE)) == 0 &&
	       h->key_len != 0 &&
	       block_room(h->key_len, h->value_len) <= class_bytes(ref.cls);
}

static void view_fill(struct block_view *v, const struct block_header *h)
{
	*v = (struct block_view){
		.version = h->version,
		.value_len = h->value_len,
		.key_len = h->key_len,
		.tombstone = (h->inc_flags & BLOCK_TOMBSTONE) != 0,
	};
}

enum block_check block_verify(const void *image, struct block_ref ref,
			      const void *key, uint16_t key_len,
			      struct block_view *view_out)
{
	const uint8_t *p = image;
	struct block_header h;
	size_t end;

	header_copy(&h, p);
	if (!header_fits(&h, ref))
		return BLOCK_BAD;
	end = sizeof(h) + h.key_len + h.value_len;
	if (block_sum(p, block_room(h.key_len, h.value_len)) !=
	    (hash_image(p, end) ^ block_binding(ref)))
		return BLOCK_BAD;
	view_fill(view_out, &h);
	view_out->key = p + sizeof(h);
	view_out->value = view_out->key + h.key_len;
	if (h.key_len == key_len && memcmp(view_out->key, key, key_len) == 0)
		return BLOCK_MINE;
	return BLOCK_OTHER;
}

/* `len` bytes of the block from `at` on, as contiguous pieces; returns their number. */
static unsigned pieces_of(const struct block_split *b, size_t at, size_t len,
			  struct hash_piece out[3])
{
	size_t end = at + len, seg_end = b->seg_at + b->seg_len, n;
	unsigned k = 0;

	if (at < b->seg_at) {
		n = UTIL_MIN(end, b->seg_at) - at;
		out[k++] = (struct hash_piece){b->image + at, n};
		at += n;
	}
	if (at < seg_end && at < end) {
		n = UTIL_MIN(end, seg_end) - at;
		out[k++] = (struct hash_piece){b->seg + (at - b->seg_at), n};
		at += n;
	}
	if (at < end)
		out[k++] = (struct hash_piece){b->image + (at - b->seg_len),
					       end - at};
	return k;
}

enum block_check block_verify_split(const struct block_split *parts,
				    struct block_ref ref, const void *key,
				    uint16_t key_len,
				    struct block_view *view_out)
{
	struct hash_piece pieces[3];
	struct block_header h;
	uint8_t sum_bytes[BLOCK_SUM_BYTES], *to = sum_bytes;
	uint64_t sum;
	unsigned n;

	header_copy(&h, parts->image);
	if (!header_fits(&h, ref))
		return BLOCK_BAD;
	n = pieces_of(parts,
		      block_room(h.key_len, h.value_len) - BLOCK_SUM_BYTES,
		      BLOCK_SUM_BYTES, pieces);
	for (unsigned i = 0; i < n; to += pieces[i++].len)
		memcpy(to, pieces[i].data, pieces[i].len);
	memcpy(&sum, sum_bytes, sizeof(sum));
	n = pieces_of(parts, 0, sizeof(h) + h.key_len + h.value_len, pieces);
	if (sum != (hash_pieces(pieces, n) ^ block_binding(ref)))
		return BLOCK_BAD;
	view_fill(view_out, &h);
	if (h.key_len != key_len ||
	    memcmp(parts->image + sizeof(h), key, key_len) != 0)
		return BLOCK_OTHER;
	view_out->key = parts->image + sizeof(h);
	view_out->value = h.value_len <= parts->seg_len ? parts->seg : NULL;
	return BLOCK_MINE;
}

enum block_check block_verify_head(const void *image, size_t have, struct block_ref ref,
				   const struct block_key *asked,
				   struct block_view *view_out)
{
	const uint8_t *p = image;
	struct block_header h;
	uint64_t hash;
	bool mine;

	if (have < sizeof(h))
		return BLOCK_PARTIAL;
	header_copy(&h, p);
	if (!header_fits(&h, ref))
		return BLOCK_BAD;
	if (have < sizeof(h) + h.key_len)
		return BLOCK_PARTIAL;
	mine = h.key_len == asked->len && memcmp(p + sizeof(h), asked->data, asked->len) == 0;
	hash = mine ? asked->hash : hash_key(asked->seed, p + sizeof(h), h.key_len);
	if (h.head_sum != block_head_sum(&h, block_binding(ref), hash))
		return BLOCK_BAD;
	view_fill(view_out, &h);
	return mine ? BLOCK_MINE : BLOCK_OTHER;
}

bool block_key_hash(const void *image, size_t have, struct block_ref ref,
		    uint64_t seed, uint64_t *hash_out)
{
	const uint8_t *p = image;
	struct block_header h;
	uint64_t hash;

	if (have < sizeof(h))
		return false;
	header_copy(&h, p);
	if (!header_fits(&h, ref) || have < sizeof(h) + h.key_len)
		return false;
	hash = hash_key(seed, p + sizeof(h), h.key_len);
	if (h.head_sum != block_head_sum(&h, block_binding(ref), hash))
		return false;
	*hash_out = hash;
	return true;
}
