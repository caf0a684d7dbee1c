/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of the fast paths that few operations need. */
#include "config.h"

#include "shm.h"

/* ---- GET --------------------------------------------------------------------------- */

uint64_t get_left(const struct index *ix, uint32_t expiry)
{
	return block_ttl_left(expiry, 0, expiry_clock(ix));
}

/*
 * True if an intact header only shows another value length than the last GET's. The next GET may
 * have that length, too.
 */
static bool value_length_differs(struct index *ix, const struct index_key *key,
				 const struct get_source *src)
{
	uint64_t found = shm_lengths(src->block);
	uint32_t len = (uint32_t)found;

	if (len == ix->usual_len || found != shm_lengths_by(src->word, key->len, len) ||
	    !get_fits(src, key->len, len))
		return false;
	ix->usual_len = len;
	return true;
}

/*
 * True if the block is intact and another key's: then its slot is that key's for good (I1). The
 * value can have any length, so the block is copied again.
 */
static bool holds_other_key(const struct index_key *key, const struct get_source *src)
{
	uint64_t found = shm_lengths(src->block);
	uint32_t len = (uint32_t)found;
	uint16_t key_len = (uint16_t)(found >> 32);

	return key_len > 0 && found == shm_lengths_by(src->word, key_len, len) &&
	       get_fits(src, key_len, len) &&
	       block_copy_holds(src->to, src->block, word_binding(src->word), key_len,
				len) &&
	       (key_len != key->len ||
		!atom_same_block(key->data, src->to + sizeof(struct block_header),
				 key_len)) &&
	       still_holds(src->slot, src->word);
}

bool get_next_candidates(struct index *ix, const struct index_key *key, struct get_source *src)
{
	unsigned n = 0;

	for (;;) {
		if ((n && get_copy(ix, key, src)) ||
		    (value_length_differs(ix, key, src) && get_copy(ix, key, src))) {
			/* Leave an expired value to the search. */
			if (!get_lives(ix, src))
				return false;
			if (!still_holds(src->slot, src->word))
				break;
			heat_mark_slot(ix, src->slot);
			return true;
		}
		if (!holds_other_key(key, src)) {
			if (!still_holds(src->slot, src->word))
				break;
			return false;
		}
		src->match &= src->match - 1;
		if (!src->match || ++n == OP_PROBE_MAX || !get_find(ix, src))
			return false;
		get_request(src);
	}
	ix->retries++; /* another writer changed the slot */
	return false;
}

/* ---- PUT --------------------------------------------------------------------------- */

/*
 * The image is made on the stack and copied: the checksum then reads from the nearest cache, and
 * the copy's stores overlap its waits for the block's lines. Faster than building in place for
 * blocks of 2,000 to 12,000 bytes; slower for larger ones, which fill half of that cache. From
 * BLOCK_PAST_CACHE on a value is written past the caches.
 */
#define IMAGE_MAX 12288u
void index_put_build_large(const struct put *p, uint8_t *block)
{
	struct block_pair pair = {.key = p->key.data,
				  .key_hash = p->key.hash,
				  .key_len = p->key.len,
				  .value = p->value,
				  .value_len = p->value_len};
	struct block_ref ref = slot_block(p->block);
	size_t room = block_room(p->key.len, p->value_len);
	uint8_t image[IMAGE_MAX];

	if (p->value_len >= BLOCK_PAST_CACHE) {
		block_encode_past_cache(block, ref, p->version, &pair);
		return;
	}
	block_encode(room <= IMAGE_MAX ? image : block, ref, p->version, &pair);
	if (room <= IMAGE_MAX)
		atom_copy_block(block, image, room);
}

uint64_t index_put_old_bytes(const struct index *ix, uint64_t word)
{
	struct block_ref ref = slot_block(word);

	return region_block_ok(&ix->sb, ref.off, ref.cls) ? class_bytes(ref.cls) : 0;
}

bool index_put_retire(struct index *ix, uint64_t word, uint8_t cls)
{
	op_retire(ix, slot_block(word), cls);
	return alloc_class_has_spare(ix->alloc, &ix->alloc->cls[cls], ix->recent_ns) &&
	       !alloc_gained_many(ix->alloc);
}
