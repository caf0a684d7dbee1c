/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "dispatch.h"

#include <stdio.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#include "barrier.h"
#include "core.h"
#include "expire.h"
#include "fence.h"
#include "fsck.h"
#include "grants.h"
#include "grow.h"
#include "membership.h"
#include "passes.h"
#include "returns.h"
#include "session.h"
#include "stats.h"
#include "sweep.h"
#include "welcome.h"

/*
 * Version prefixes per session and period. A client asks for the next one after 2^31 writes;
 * at this rate one session needs 2,000 years for all of them.
 */
#define PREFIXES_MAX 4u
#define PREFIXES_NS (60 * NS_PER_SEC)

static bool on_prefix(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_PREFIX};

	/* The 2^32 numbers serve sessions too: a session that does not write gets no prefix. */
	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for versions");
		return false;
	}
	if (!rate_limit_take(&s->prefixes, PREFIXES_MAX, PREFIXES_NS,
			     clock_now_ns())) {
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "a session asked for versions too often");
		return false;
	}
	if (!core_next_id(s->control, &r.prefix.prefix)) {
		session_refuse(s, MSG_REASON_FULL,
			       "all version prefixes are used up; restart the "
			       "server");
		return false;
	}
	return session_reply(s, &r, m->req, NULL);
}

static bool on_ping(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_PONG, .epoch = m->epoch};

	return session_reply(s, &r, m->req, NULL);
}

static bool on_bye(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_BYE_ACK};

	s->left = true;
	sweep_session_left(s);
	return session_reply(s, &r, m->req, NULL);
}

/* Take the counts of a session over RDMA; one over shared memory writes them to its tether's page.
 */
static bool on_hits(struct session *s, const struct msg *m)
{
	for (uint32_t i = 0; i < m->stats.n; i++) {
		if (m->stats.stat[i].id == MSG_STAT_HITS)
			s->hits.hits = m->stats.stat[i].value;
		else if (m->stats.stat[i].id == MSG_STAT_MISSES)
			s->hits.misses = m->stats.stat[i].value;
		else if (m->stats.stat[i].id == MSG_STAT_SETS)
			s->hits.sets = m->stats.stat[i].value;
	}
	return true;
}

/* The welcomed session with the smallest number above `after`, or NULL. */
static const struct session *next_after(const struct control *c, uint64_t after)
{
	const struct session *s, *next = NULL;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->welcomed && s->id > after && (!next || s->id < next->id))
			next = s;
	return next;
}

/* The session with the next number. */
static bool on_client_req(struct session *s, const struct msg *m)
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

/* End another session, whose program may connect again. Sessions that may write can ask for it. */
static bool on_kill(struct session *s, const struct msg *m)
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

static bool refuse(struct session *s, const struct msg *m, const char *what)
{
	char why[80];

	snprintf(why, sizeof(why), "%s %s", msg_type_name(m->type), what);
	session_refuse(s, MSG_REASON_PROTOCOL, why);
	return false;
}

/* What a client's control thread still sends after BYE: its process counts as having unmapped the
 * region (I6). */
static bool may_follow_bye(uint8_t type)
{
	return type == MSG_BARRIER_ACK || type == MSG_HITS || type == MSG_SWEEP_ACK ||
	       type == MSG_SWEEP_CLAIM || type == MSG_LEASE_REQ || type == MSG_MAP_ACK;
}

/* False: the session is gone. */
static bool dispatch(struct session *s, const struct msg *m)
{
	if (m->type == MSG_AUTH)
		return welcome_on_auth(s, m);
	if (!s->welcomed)
		return refuse(s, m, "came before HELLO");
	if (s->left && !may_follow_bye(m->type))
		return refuse(s, m, "came after BYE");
	switch (m->type) {
	case MSG_GRANT_REQ:
		return grants_on_request(s, m);
	case MSG_RETURN:
		return returns_on_message(s, m);
	case MSG_HINT:
		return grow_on_hint(s, m);
	case MSG_PREFIX_REQ:
		return on_prefix(s, m);
	case MSG_STATS_REQ:
		return stats_on_request(s, m);
	case MSG_FSCK_REQ:
		return fsck_on_request(s, m);
	case MSG_PING:
		return on_ping(s, m);
	case MSG_BARRIER_ACK:
		return barrier_on_ack(s, m);
	case MSG_SWEEP_ACK:
		return sweep_on_ack(s, m);
	case MSG_SWEEP_CLAIM:
		return sweep_on_claim(s, m);
	case MSG_BYE:
		return on_bye(s, m);
	case MSG_HITS:
		return on_hits(s, m);
	case MSG_CLOCK_START:
		return expire_on_start(s, m);
	case MSG_CLIENT_REQ:
		return on_client_req(s, m);
	case MSG_KILL:
		return on_kill(s, m);
	case MSG_CLASS_REQ:
		return stats_on_class(s, m);
	case MSG_PAUSE_REQ:
		return stats_on_pause(s, m);
	case MSG_LEASE_REQ:
		return membership_on_lease(s, m);
	case MSG_MAP_ACK:
		return fence_on_ack(s, m);
	case MSG_PASS:
		return passes_on_pass(s, m);
	case MSG_WAIT_REQ:
		return passes_on_wait(s, m);
	case MSG_READY:
		return true;
	default:
		return refuse(s, m, "was not expected");
	}
}

static bool handle(struct session *s, const void *buf, size_t len)
{
	struct msg m;

	if (!returns_finish(s))
		return false;
	s->begun = s->welcomed;
	if (msg_decode(buf, len, &m)) {
		session_refuse(s, MSG_REASON_PROTOCOL, err_detail());
		return false;
	}
	if (m.type == MSG_HELLO)
		return welcome_on_hello(
			s, &m, (const uint8_t *)buf + MSG_HEADER_BYTES,
			len - MSG_HEADER_BYTES);
	return dispatch(s, &m);
}

bool dispatch_packet(struct session *s, const void *buf, size_t len)
{
	struct pauses *pauses = &s->control->pauses;
	uint64_t now = clock_now_ns();
	bool there = handle(s, buf, len);

	pauses_add(pauses, MSG_PAUSE_MESSAGE, now);
	return there;
}
