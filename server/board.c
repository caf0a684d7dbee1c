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

static bool is_session(const struct control *c, uint64_t id)
{
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->id == id)
			return true;
	return false;
}

/* Nobody but who is in session can be at work in the region; nor is `ended`, a number or 0. */
static void free_others(struct control *c, uint32_t ended)
{
	struct notice_line *line = notices(c->region);

	for (uint32_t i = 0; i < BOARD_NOTICES; i++) {
		uint64_t owner = atom_load_relaxed(&line[i].owner);

		if (owner && (owner == ended || !is_session(c, owner)))
			atom_store_publish(&line[i].owner, 0);
	}
}

void board_session_ended(struct control *c, const struct session *s)
{
	struct notice_line *line = notices(c->region);

	if (departed_gone(&c->departed)) {
		free_others(c, s->id);
		return;
	}
	for (uint32_t i = 0; s->left && i < BOARD_NOTICES; i++)
		if (atom_load_relaxed(&line[i].owner) == s->id)
			atom_store_publish(&line[i].owner, 0);
}

void board_departed_gone(struct control *c)
{
	free_others(c, 0);
}
