/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "board.h"

#include "common/atomic.h"
#include "control_priv.h"

/* NULL: there was no page for a board. */
static struct notice_line *notices(const struct region *r)
{
	uint64_t page = *(const uint64_t *)(const void *)(r->meta + REGION_BOARD_OFF);
	uint64_t *hints = region_at(r, page * PAGE_BYTES);

	return page == 0 ? NULL : (struct notice_line *)(void *)(hints + BOARD_HINTS);
}

void board_session_ended(struct control *c, uint32_t id)
{
	struct notice_line *line = notices(c->region);
	struct board *b = &c->board;

	for (uint32_t i = 0; line && i < BOARD_NOTICES; i++) {
		if (b->left[i] || atom_load_relaxed(&line[i].owner) != id)
			continue;
		b->left[i] = true;
		b->n_left++;
	}
	if (b->n_left == 0 || !departed_gone(&c->departed))
		return;
	for (uint32_t i = 0; i < BOARD_NOTICES; i++) {
		if (b->left[i])
			atom_store_publish(&line[i].owner, 0);
		b->left[i] = false;
	}
	b->n_left = 0;
}
