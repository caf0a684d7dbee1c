/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "published.h"

#include <string.h>

#include "common/atomic.h"
#include "common/block.h"
#include "common/util.h"

bool published(const struct region *r, struct block_ref ref, size_t *read)
{
	/* Clients may write there: lengths are read once, the key from a copy. */
	static uint8_t image[BLOCK_HEADER_BYTES + UINT16_MAX];
	const uint8_t *src = region_at(r, ref.off);
	const uint64_t *slots;
	struct block_header h;
	uint64_t hash;
	size_t have;

	memcpy(&h, src, sizeof(h));
	atom_compiler_barrier();
	have = UTIL_MIN(sizeof(h) + (size_t)h.key_len,
			(size_t)class_bytes(ref.cls));
	memcpy(image, src, have);
	*read += have;
	ref.inc = h.inc_flags & BLOCK_INC_MASK;
	if (!block_key_hash(image, have, ref, r->sb.hash_seed, &hash))
		return false;
	slots = region_slots(r, region_entry(r, hash)) +
		hash_home_line(hash) * LINE_SLOTS;
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		uint64_t w = atom_load_relaxed(&slots[i]);

		if (slot_off(w) == ref.off && slot_inc(w) == ref.inc)
			return true;
	}
	return false;
}
