/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fence.h"

#include <stdlib.h>

#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "common/proto/msg.h"

#include "core.h"
#include "session.h"

/* Of the session that has ended without goodbye: its process may still be at an operation. */
struct fence {
	uint64_t ended_lease_ns;
};

void fence_begin(struct control *c)
{
	const struct clustermap *map = c->cfg.map;
	char text[CLUSTERMAP_TEXT_MAX + 1];
	struct msg m = {.type = MSG_MAP};
	struct session *s, *next;

	m.map.text = (const uint8_t *)text;
	m.map.text_len = (uint16_t)clustermap_print(map, text);
	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (!s->welcomed || s->left || !s->hello.map)
			continue;
		s->map_owed = map->epoch;
		if (!session_send(s, &m, NULL, NULL, 0))
			session_end(s);
	}
}

uint64_t fence_complete(const struct control *c)
{
	uint64_t now = clock_now_ns();
	const struct session *s;

	if (!c->cfg.map || now <= c->fence->ended_lease_ns)
		return 0;
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->map_owed && now <= s->lease_ns)
			return 0;
	return c->cfg.map->epoch;
}

bool fence_acknowledged(struct control *c)
{
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->map_owed)
			return false;
	return lingering_gone(&c->lingering);
}

bool fence_grant_lease(struct session *s, uint64_t until_ns)
{
	if (s->map_owed)
		return false;
	s->lease_ns = UTIL_MAX(s->lease_ns, until_ns);
	return true;
}

bool fence_on_ack(struct session *s, const struct msg *m)
{
	if (!s->map_owed || m->epoch.number > s->map_owed) {
		session_refuse(s, MSG_REASON_PROTOCOL, "a map was acknowledged that was not sent");
		return false;
	}
	/* An answer to an earlier one: another follows. */
	if (m->epoch.number == s->map_owed)
		s->map_owed = 0;
	return true;
}

static void session_ended(struct session *s)
{
	struct fence *f = s->control->fence;

	if (f && !s->left)
		f->ended_lease_ns = UTIL_MAX(f->ended_lease_ns, s->lease_ns);
}

static bool init(struct control *c)
{
	c->fence = calloc(1, sizeof(*c->fence));
	return c->fence;
}

static void fini(struct control *c)
{
	free(c->fence);
	c->fence = NULL;
}

const struct loop_module fence_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
};
