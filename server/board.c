/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "board.h"

#include "common/atomic.h"
#include "control_priv.h"

static struct notice_line *notices(const struct region *r)
{
	uint64_t page = *(const uint64_t *)(const void *)(r->meta + REGION_BOARD_OFF);
	uint64_t *hints = region_at(r, page * PAGE_BYTES);

	return (struct notice_line *)(void *)(hints + BOARD_HINTS);
}

void board_session_ended(struct control *c, const struct session *s)
{
	struct notice_line *line = notices(c->region);
	struct board *b = &c->board;

	for (uint32_t i = 0; i < BOARD_NOTICES; i++) {
		if (b->left[i] || atom_load_relaxed(&line[i].owner) != s->id)
			continue;
		if (s->left) {
			atom_store_publish(&line[i].owner, 0);
			continue;
		}
		b->left[i] = true;
		b->n_left++;
	}
	if (b->n_left && departed_gone(&c->departed))
		board_departed_gone(c);
}

void board_departed_gone(struct control *c)
{
	struct notice_line *line = notices(c->region);
	struct board *b = &c->board;

	for (uint32_t i = 0; b->n_left && i < BOARD_NOTICES; i++) {
		if (!b->left[i])
			continue;
		atom_store_publish(&line[i].owner, 0);
		b->left[i] = false;
		b->n_left--;
	}
}
