/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "notice.h"

void notice_open(struct notice *n, uint8_t *base, const struct superblock *sb)
{
	uint64_t page = atom_load_follow(
		(const uint64_t *)(const void *)(base + REGION_BOARD_OFF));

	if (!region_page_ok(sb, page))
		return;
	n->hints = (uint64_t *)(void *)(base + page * PAGE_BYTES);
	n->lines = (struct notice_line *)(void *)(n->hints + BOARD_HINTS);
}

bool notice_claim(struct notice *n, uint64_t slot_off)
{
	if (!n->hints || n->owner == 0 || n->refused == slot_off)
		return false;
	for (uint32_t i = 0; i < BOARD_NOTICES; i++) {
		uint32_t at = (n->owner + i) % BOARD_NOTICES;
		struct notice_line *line = &n->lines[at];

		if (atom_load_relaxed(&line->owner) ||
		    atom_cas_u64(&line->owner, 0, n->owner))
			continue;
		n->own = line;
		n->name = at + 1;
		/* Who listens may have the last owner's count. */
		n->count = atom_load_relaxed(&line->count);
		n->slot = 0;
		return true;
	}
	n->refused = slot_off;
	return false;
}
