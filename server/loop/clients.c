/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "clients.h"

#include <stdio.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"

#include "core.h"
#include "session.h"

/* The welcomed session with the smallest number above `after`, or NULL. */
static const struct session *next_after(const struct control *c, uint64_t after)
{
	const struct session *s, *next = NULL;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed && s->id > after && (!next || s->id < next->id))
			next = s;
	return next;
}

bool clients_on_request(struct session *s, const struct msg *m)
{
	const struct session *next = next_after(s->control, m->epoch.number);
	struct msg r = {.type = MSG_CLIENT};
	struct hits hits;
	char peer[80];

	if (next) {
		hits = session_hits(next);
		r.client.session = next->id;
		r.client.pid = (uint32_t)next->pid;
		r.client.flags = (next->port->remote ? FARKV_CLIENT_RDMA : 0) |
				 (next->readonly ? FARKV_CLIENT_READONLY : 0) |
				 (next == s ? FARKV_CLIENT_SELF : 0);
		r.client.age_ms = (clock_now_ns() - next->connected_ns) / NS_PER_MS;
		r.client.hits = hits.hits;
		r.client.misses = hits.misses;
		r.client.sets = hits.sets;
		r.client.name_len = (uint16_t)strnlen(next->name, MSG_CLIENT_NAME_MAX);
		memcpy(r.client.name, next->name, r.client.name_len);
		r.client.peer_len = (uint16_t)strnlen(session_peer(next, peer), MSG_CLIENT_PEER_MAX);
		memcpy(r.client.peer, peer, r.client.peer_len);
	}
	return session_reply(s, &r, m->req, NULL);
}

bool clients_on_kill(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_KILLED};
	struct session *other;
	char text[80];

	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION, "a read-only session may not end others");
		return false;
	}
	TAILQ_FOREACH(other, &s->control->sessions, link)
		if (other != s && other->welcomed && other->id == m->epoch.number)
			break;
	if (other) {
		snprintf(text, sizeof(text), "ended by session %u (kvcli kill)", s->id);
		session_refuse(other, MSG_REASON_DISPLACED, text);
		r.epoch.number = 1;
	}
	return session_reply(s, &r, m->req, NULL);
}
