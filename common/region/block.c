/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "block.h"

#include <string.h>

#include "common/base/atomic.h"
#include "hash.h"
#include "common/base/util.h"

/*
 * Write what follows the value: user word, padding, and the checksum of all: header and key (the
 * `head` bytes at `p`), value, user word.
 */
static void tail_encode(uint8_t *tail, const uint8_t *p, const struct block_header *h,
			const struct block_pair *kv, struct block_ref ref)
{
	size_t head = sizeof(*h) + kv->key_len, user = block_user_bytes(h->inc_flags);
	struct hash_piece pieces[] = {
		{p, head, NULL}, {kv->value, kv->value_len, NULL}, {tail, user, NULL}};
	size_t pad = block_room_of(h) - BLOCK_SUM_BYTES - block_end(h);
	uint64_t sum;

	memcpy(tail, &kv->user, user);
	memset(tail + user, 0, pad);
	sum = hash_pieces(pieces, 3) ^ block_binding(ref);
	memcpy(tail + user + pad, &sum, sizeof(sum));
}

void block_encode_around(void *dst, struct block_ref ref, uint64_t version,
			 const struct block_pair *kv)
{
	struct block_header h = block_header_of(kv, slot_pack(ref, 0, 0), version);
	uint8_t *p = dst;
	size_t head = block_head_encode(p, block_binding(ref), &h, kv->key, kv->key_hash);

	tail_encode(p + head, p, &h, kv, ref);
}

void block_encode_past_cache(void *dst, struct block_ref ref, uint64_t version,
			     const struct block_pair *kv)
{
	struct block_header h = block_header_of(kv, slot_pack(ref, 0, 0), version);
	uint8_t *p = dst;
	size_t head = block_head_encode(p, block_binding(ref), &h, kv->key, kv->key_hash);

	tail_encode(p + head + kv->value_len, p, &h, kv, ref);
	atom_copy_past_cache(p + head, kv->value, kv->value_len);
}

/* Copy once: others may write the original, and the lengths are checked only here. */
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
	       (h->inc_flags & ~(BLOCK_INC_MASK | BLOCK_FLAGS)) == 0 && h->key_len != 0 &&
	       block_room_of(h) <= class_bytes(ref.cls);
}

static void view_fill(struct block_view *v, const struct block_header *h)
{
	*v = (struct block_view){
		.version = h->version,
		.value_len = h->value_len,
		.key_len = h->key_len,
		.expiry = h->expiry,
		.flags = h->inc_flags & BLOCK_FLAGS,
	};
}

enum block_check block_verify(const void *image, struct block_ref ref,
			      const void *key, uint16_t key_len,
			      struct block_view *view_out)
{
	const uint8_t *p = image;
	struct block_header h;
	uint64_t end;

	header_copy(&h, p);
	if (!header_fits(&h, ref))
		return BLOCK_BAD;
	end = block_end(&h);
	if (block_sum(p, block_room_of(&h)) !=
	    (hash_image(p, end) ^ block_binding(ref)))
		return BLOCK_BAD;
	view_fill(view_out, &h);
	view_out->key = p + sizeof(h);
	view_out->value = view_out->key + h.key_len;
	memcpy(&view_out->user, view_out->value + h.value_len, block_user_bytes(h.inc_flags));
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
		out[k++] = (struct hash_piece){b->image + at, n, NULL};
		at += n;
	}
	if (at < seg_end && at < end) {
		n = UTIL_MIN(end, seg_end) - at;
		out[k++] = (struct hash_piece){b->seg + (at - b->seg_at), n, NULL};
		at += n;
	}
	if (at < end)
		out[k++] = (struct hash_piece){b->image + (at - b->seg_len), end - at, NULL};
	return k;
}

/* Copy `len` bytes of the block from `at` on to `to`. */
static void copy_of(const struct block_split *b, size_t at, size_t len, void *to)
{
	struct hash_piece pieces[3];
	unsigned n = pieces_of(b, at, len, pieces);
	uint8_t *p = to;

	for (unsigned i = 0; i < n; p += pieces[i++].len)
		memcpy(p, pieces[i].data, pieces[i].len);
}

enum block_check block_verify_split(const struct block_split *parts,
				    struct block_ref ref, const void *key,
				    uint16_t key_len,
				    struct block_view *view_out)
{
	struct hash_piece pieces[3];
	struct block_header h;
	uint64_t sum = 0, end;
	unsigned n;

	header_copy(&h, parts->image);
	if (!header_fits(&h, ref))
		return BLOCK_BAD;
	copy_of(parts, block_room_of(&h) - BLOCK_SUM_BYTES, BLOCK_SUM_BYTES, &sum);
	end = block_end(&h);
	n = pieces_of(parts, 0, end, pieces);
	if (parts->seg_from)
		pieces[1] = (struct hash_piece){parts->seg_from, parts->seg_len, parts->seg};
	if (sum != (hash_pieces(pieces, n) ^ block_binding(ref)))
		return BLOCK_BAD;
	view_fill(view_out, &h);
	if (h.key_len != key_len ||
	    memcmp(parts->image + sizeof(h), key, key_len) != 0)
		return BLOCK_OTHER;
	view_out->key = parts->image + sizeof(h);
	view_out->value = h.value_len <= parts->seg_len ? parts->seg : NULL;
	n = block_user_bytes(h.inc_flags);
	copy_of(parts, end - n, n, &view_out->user);
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

bool block_rebind(uint8_t *image, struct block_ref from, struct block_ref to,
		  uint64_t key_hash, size_t *room_out)
{
	struct block_header h;
	uint64_t sum;
	size_t room;

	memcpy(&h, image, sizeof(h));
	room = block_room_of(&h);
	if (room > class_bytes(from.cls) || (h.inc_flags & BLOCK_INC_MASK) != from.inc ||
	    h.head_sum != block_head_sum(&h, block_binding(from), key_hash) ||
	    block_sum(image, room) != (hash_image(image, block_end(&h)) ^ block_binding(from)))
		return false;
	h.inc_flags = (uint16_t)((h.inc_flags & ~BLOCK_INC_MASK) | to.inc);
	h.head_sum = block_head_sum(&h, block_binding(to), key_hash);
	memcpy(image, &h, sizeof(h));
	sum = hash_image(image, block_end(&h)) ^ block_binding(to);
	memcpy(image + room - sizeof(sum), &sum, sizeof(sum));
	*room_out = room;
	return true;
}
