/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "reclaim.h"

#include "common/base/clock.h"

#include "core.h"
#include "session.h"

/* Least time between two RECLAIMs to one session, and time for its answer. */
#define RECLAIM_PAUSE_NS (100 * NS_PER_MS)
#define RECLAIM_WAIT_NS (50 * NS_PER_MS)

bool reclaim_ask(struct control *c, const struct session *asker,
		    uint64_t since_ns)
{
	struct session *s, *next;
	struct msg m = {.type = MSG_RECLAIM};
	uint64_t now = clock_now_ns();
	bool soon = false;

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (s == asker || !s->welcomed || s->readonly || s->left ||
		    s->reclaimed_ns >= since_ns)
			continue;
		if (now - s->reclaimed_ns < RECLAIM_PAUSE_NS) {
			/* Asked already; ask again soon only if it was granted blocks since. */
			soon = soon || s->granted_ns > s->reclaimed_ns;
			continue;
		}
		if (session_end_dead(s))
			continue;
		s->reclaimed_ns = now;
		c->reclaim_until_ns = now + RECLAIM_WAIT_NS;
		if (!session_send(s, &m, NULL, NULL, 0))
			session_end(s);
	}
	return soon || now < c->reclaim_until_ns;
}
