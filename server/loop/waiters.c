/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "waiters.h"

#include <stdlib.h>

bool waiters_add(struct waiters *list, struct session *s, uint32_t req)
{
	struct waiter *w;
	unsigned n = 0;

	TAILQ_FOREACH(w, list, link)
		n += w->session == s;
	w = n < WAITERS_MAX ? malloc(sizeof(*w)) : NULL;
	if (!w)
		return false;
	*w = (struct waiter){.session = s, .req = req};
	TAILQ_INSERT_TAIL(list, w, link);
	return true;
}

struct session *waiters_take(struct waiters *list, uint32_t *req_out)
{
	struct waiter *w = TAILQ_FIRST(list);
	struct session *s;

	if (!w)
		return NULL;
	TAILQ_REMOVE(list, w, link);
	s = w->session;
	*req_out = w->req;
	free(w);
	return s;
}

void waiters_drop(struct waiters *list, const struct session *s)
{
	struct waiter *w, *next;

	for (w = TAILQ_FIRST(list); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (s && w->session != s)
			continue;
		TAILQ_REMOVE(list, w, link);
		free(w);
	}
}
