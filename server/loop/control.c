/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "control_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "conn_rdma.h"
#include "conn_unix.h"
#include "grants.h"
#include "grow.h"
#include "rekey.h"
#include "returns.h"
#include "welcome.h"

#define TICK_MS 200
/* Log lines per period: warnings about peers, notes about single clients. */
#define COMPLAINTS_MAX 1u
#define COMPLAINTS_NS NS_PER_SEC
#define NOTES_MAX 20u
/*
 * Version prefixes per session and period. A client asks for the next one after 2^31 writes;
 * at this rate one session needs 2,000 years for all of them.
 */
#define PREFIXES_MAX 4u
#define PREFIXES_NS (60 * NS_PER_SEC)
#define NOTES_NS (10 * NS_PER_SEC)

void control_tick_soon(struct control *c)
{
	static const struct timeval soon = {.tv_usec = TICK_MS * 1000};

	if (!event_pending(c->tick, EV_TIMEOUT, NULL))
		event_add(c->tick, &soon);
}

/*
 * The session has not reached READY and cannot any more. No operation of it runs or will run,
 * as after BYE (protocol.md, "A WELCOME that nobody reads").
 */
static bool never_began(const struct session *s)
{
	return s->welcomed && !s->begun && s->port->silence &&
	       s->port->silence(s->conn);
}

void control_end_session(struct session *s)
{
	struct control *c = s->control;
	char peer[80];

	s->port->fence(s->conn);
	s->left = s->left || never_began(s);
	welcome_session_ended(s);
	memory_session_ended(s);
	returns_session_ended(s);
	/* An RDMA session needs none of this: it is fenced, its connection is gone (I6). */
	if (s->tether && s->welcomed && !s->left) {
		lingering_add(&c->lingering, s->tether, s->id, s->pid);
		s->tether = NULL;
	}
	barrier_session_ended(s);
	sweep_session_ended(s);
	stats_session_ended(s);
	fsck_session_ended(s);
	if (s->welcomed) {
		c->stats.sessions--;
		session_peer(s, peer);
		if (!s->left && control_note_due(c))
			log_info("session %u (%s) ended without goodbye: its "
				 "blocks stay unused until a sweep",
				 s->id, peer);
		else if (s->left)
			log_debug("session %u (%s) left", s->id, peer);
	}
	TAILQ_REMOVE(&c->sessions, s, link);
	c->n_connections--;
	session_free(s);
}

bool control_end_dead(struct session *s)
{
	/* Before READY the client may be about to map the tether. */
	if (!s->tether || !s->begun || !tether_is_loose(s->tether))
		return false;
	control_end_session(s);
	return true;
}

/* Log how many lines were dropped. True: call again later. */
static bool tell_dropped(struct control *c, uint64_t now)
{
	uint32_t n = rate_limit_dropped(&c->complaints, COMPLAINTS_NS, now);

	if (n)
		log_warn("%u more warnings about peers were not shown", n);
	n = rate_limit_dropped(&c->notes, NOTES_NS, now);
	if (n)
		log_info("%u more lines about single sessions were not shown",
			 n);
	return c->complaints.dropped || c->notes.dropped;
}

bool control_complaint_due(struct control *c)
{
	uint64_t now = clock_now_ns();

	(void)tell_dropped(c, now);
	if (rate_limit_take(&c->complaints, COMPLAINTS_MAX, COMPLAINTS_NS, now))
		return true;
	control_tick_soon(c);
	return false;
}

bool control_note_due(struct control *c)
{
	uint64_t now = clock_now_ns();

	(void)tell_dropped(c, now);
	if (rate_limit_take(&c->notes, NOTES_MAX, NOTES_NS, now))
		return true;
	control_tick_soon(c);
	return false;
}

void control_refuse(struct session *s, enum msg_reason reason, const char *text)
{
	struct control *c = s->control;
	struct msg m = {.type = MSG_REFUSE};
	bool tell = reason != MSG_REASON_AUTH &&
		    (s->welcomed || !s->port->remote);
	char peer[80];

	s->begun = true; /* it is refused because of a message that it sent */
	if (control_complaint_due(c))
		log_warn("connection of %s closed: %s", session_peer(s, peer),
			 text);
	if (reason == MSG_REASON_PROTOCOL)
		c->stats.protocol_errors++;
	m.refuse.reason = (uint16_t)reason;
	m.refuse.text = (const uint8_t *)text;
	m.refuse.text_len = tell ? (uint16_t)strnlen(text, MSG_TEXT_MAX) : 0;
	(void)session_send(s, &m, NULL, NULL, 0);
	control_end_session(s);
}

/* ---- messages ------------------------------------------------------------------ */

bool control_reply(struct session *s, struct msg *m, uint32_t req,
		   const struct block_ref *refs)
{
	m->req = req;
	if (session_send(s, m, refs, NULL, 0))
		return true;
	control_end_session(s);
	return false;
}

bool control_next_id(struct control *c, uint32_t *id_out)
{
	if (c->next_id == UINT32_MAX)
		return false;
	*id_out = ++c->next_id;
	return true;
}

static bool on_prefix(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_PREFIX};

	/* The 2^32 numbers serve sessions too: a session that does not write gets no prefix. */
	if (s->readonly) {
		control_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session asked for versions");
		return false;
	}
	if (!rate_limit_take(&s->prefixes, PREFIXES_MAX, PREFIXES_NS,
			     clock_now_ns())) {
		control_refuse(s, MSG_REASON_PROTOCOL,
			       "a session asked for versions too often");
		return false;
	}
	if (!control_next_id(s->control, &r.prefix.prefix)) {
		control_refuse(s, MSG_REASON_FULL,
			       "all version prefixes are used up; restart the "
			       "server");
		return false;
	}
	return control_reply(s, &r, m->req, NULL);
}

static bool on_bye(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_BYE_ACK};

	s->left = true;
	sweep_session_left(s);
	return control_reply(s, &r, m->req, NULL);
}

/* False: the session is gone. */
static bool dispatch(struct session *s, const struct msg *m)
{
	char why[80];

	if (m->type == MSG_AUTH)
		return welcome_on_auth(s, m);
	if (!s->welcomed) {
		snprintf(why, sizeof(why), "%s came before HELLO",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
	/* From BYE on its process counts as having unmapped the region (I6). */
	if (s->left && m->type != MSG_BARRIER_ACK &&
	    m->type != MSG_SWEEP_ACK && m->type != MSG_SWEEP_CLAIM) {
		snprintf(why, sizeof(why), "%s came after BYE",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
	switch (m->type) {
	case MSG_GRANT_REQ:
		return memory_on_grant(s, m);
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
	case MSG_PING: {
		struct msg r = {.type = MSG_PONG, .epoch = m->epoch};

		return control_reply(s, &r, m->req, NULL);
	}
	case MSG_BARRIER_ACK:
		return barrier_on_ack(s, m);
	case MSG_SWEEP_ACK:
		return sweep_on_ack(s, m);
	case MSG_SWEEP_CLAIM:
		return sweep_on_claim(s, m);
	case MSG_BYE:
		return on_bye(s, m);
	case MSG_READY:
		return true;
	default:
		snprintf(why, sizeof(why), "%s was not expected",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
}

bool control_packet(struct session *s, const void *buf, size_t len)
{
	struct msg m;

	if (!returns_finish(s))
		return false;
	s->begun = s->welcomed;
	if (msg_decode(buf, len, &m)) {
		control_refuse(s, MSG_REASON_PROTOCOL, err_detail());
		return false;
	}
	if (m.type == MSG_HELLO)
		return welcome_on_hello(
			s, &m, (const uint8_t *)buf + MSG_HEADER_BYTES,
			len - MSG_HEADER_BYTES);
	return dispatch(s, &m);
}

/* ---- events --------------------------------------------------------------------- */

/* The oldest connection that has not sent HELLO; NULL if there is none. */
static struct session *oldest_mute(const struct control *c,
				   struct session *newest)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (!s->welcomed && !s->parked)
			return s;
	return newest;
}

static void displace(struct session *mute)
{
	control_refuse(mute, MSG_REASON_DISPLACED,
		       "others came before it had said HELLO");
}

/*
 * A new connection displaces the oldest one without HELLO when there is no room, so that
 * silent connections cannot keep out others. A client sends HELLO as soon as it is connected;
 * one that was too slow, on a busy machine, connects again.
 */
void control_begin_session(struct session *s)
{
	struct control *c = s->control;
	struct session *mute;

	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	c->n_connections++;
	control_tick_soon(c);
	if (c->n_connections + conn_unix_closing(c->unix_port) <=
	    c->cfg.max_sessions)
		return;
	mute = oldest_mute(c, s);
	if (mute == s)
		control_refuse(s, MSG_REASON_FULL,
			       "too many sessions; see --max-sessions");
	else
		displace(mute);
}

bool control_make_room(struct control *c)
{
	struct session *mute = oldest_mute(c, NULL);

	if (mute)
		displace(mute);
	return mute != NULL;
}

void control_fail(struct control *c)
{
	c->failed = true;
	event_active(c->on_term, EV_SIGNAL, 1);
}

static void drain_begin(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;
	struct session *s, *next;
	struct msg m = {.type = MSG_SHUTDOWN};

	(void)what;
	if (c->drain_until)
		return;
	if (!c->failed)
		log_info("signal %d: leaving, %u connections", (int)sig,
			 c->n_connections);
	c->drain_until =
		clock_now_ns() + (uint64_t)c->cfg.drain_ms * NS_PER_MS;
	if (c->unix_port)
		(void)conn_unix_accept(c->unix_port, false);
	m.refuse.reason = MSG_REASON_SHUTDOWN;
	m.refuse.text = (const uint8_t *)"the server is leaving";
	m.refuse.text_len = (uint16_t)strlen("the server is leaving");
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!session_send(s, &m, NULL, NULL, 0))
			control_end_session(s);
	}
	event_active(c->tick, EV_TIMEOUT, 0);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	struct session *s, *next;
	uint64_t now = clock_now_ns();
	bool again = c->drain_until != 0;

	(void)fd;
	(void)what;
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->welcomed || s->parked)
			continue;
		if (now - s->connected_ns > c->cfg.hello_ms * NS_PER_MS)
			control_refuse(s, MSG_REASON_DISPLACED,
				       "no HELLO came");
		else
			again = true;
	}
	again = tell_dropped(c, now) || again;
	again = barrier_tick(c) || again;
	again = sweep_tick(c) || again;
	if (c->rdma)
		again = conn_rdma_tick(c->rdma) || again;
	if (!c->drain_until && c->unix_port)
		again = !conn_unix_accept(c->unix_port, true) || again;
	if (again)
		control_tick_soon(c);
	if (!c->drain_until)
		return;
	if (c->n_connections == 0 || now >= c->drain_until)
		event_base_loopbreak(c->base);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	rekey(arg);
}

/* ---- life ------------------------------------------------------------------------- */

static int out_of_memory(void)
{
	return err_set(FARKV_ENOMEM, "no memory for the control loop");
}

/* libevent's caller logs the failure itself. */
static void on_libevent(int severity, const char *text)
{
	/* After an error line libevent ends the process. */
	if (severity == EVENT_LOG_ERR)
		log_error("libevent: %s", text);
	else
		log_debug("libevent: %s", text);
}

/* A signal that the parent process has set to "ignore" stays ignored. */
static bool heed(struct event *on_signal, int sig)
{
	return util_signal_ignored(sig) || event_add(on_signal, NULL) == 0;
}

static int events_init(struct control *c)
{
	static const struct timeval soon = {0};

	event_set_log_callback(on_libevent);
	c->base = event_base_new();
	if (!c->base || !work_queue_init(&c->work, c->base) || !memory_init(c) ||
	    !barrier_init(c) || !sweep_init(c) ||
	    !fsck_init(c))
		return out_of_memory();
	c->tick = evtimer_new(c->base, on_tick, c);
	c->on_term = evsignal_new(c->base, SIGTERM, drain_begin, c);
	c->on_int = evsignal_new(c->base, SIGINT, drain_begin, c);
	c->on_hup = evsignal_new(c->base, SIGHUP, on_hangup, c);
	if (!c->tick || !c->on_term || !c->on_int || !c->on_hup ||
	    !heed(c->on_term, SIGTERM) || !heed(c->on_int, SIGINT) ||
	    event_add(c->on_hup, NULL))
		return out_of_memory();
	/* libevent reserves eight timers with the first one: no later event_add() fails. */
	if (event_add(c->tick, &soon))
		return out_of_memory();
	return 0;
}

static int ports_open(struct control *c)
{
	if (c->cfg.socket) {
		c->unix_port = conn_unix_new(c, c->cfg.socket);
		if (!c->unix_port)
			return out_of_memory();
	}
	return c->cfg.rdma ? conn_rdma_open(c, c->cfg.rdma, &c->rdma) : 0;
}

/*
 * Versions begin with the session's number. A client may remember a version of a store that is
 * gone, so a restarted store begins with other numbers. This mask keeps versions below 2^53,
 * which every JSON reader represents exactly, for a million sessions.
 */
#define FIRST_ID_MASK 0xFFFFFu

int control_new(const struct control_config *cfg, struct region *region,
		struct control **out)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return out_of_memory();
	c->cfg = *cfg;
	c->region = region;
	c->next_id = (uint32_t)region->sb.region_id[0] & FIRST_ID_MASK;
	stats_init(c);
	TAILQ_INIT(&c->sessions);
	returns_init(c);
	signal(SIGPIPE, SIG_IGN);
	c->slab = slab_new(region->heap, region->sb.meta_bytes / PAGE_BYTES,
			   heap_total(region->heap), region->sb.grace_ns);
	err = c->slab ? events_init(c) : out_of_memory();
	if (!err)
		err = ports_open(c);
	if (!err && !grow_init(c))
		err = out_of_memory();
	if (err) {
		control_free(c);
		return err;
	}
	*out = c;
	return 0;
}

static void event_drop(struct event *e)
{
	if (e)
		event_free(e);
}

void control_free(struct control *c)
{
	struct session *s;

	if (!c)
		return;
	while ((s = TAILQ_FIRST(&c->sessions)))
		control_end_session(s);
	(void)tell_dropped(c, UINT64_MAX); /* every period has ended */
	grow_fini(c);
	conn_rdma_close(c->rdma);
	conn_unix_free(c->unix_port);
	event_drop(c->tick);
	event_drop(c->on_term);
	event_drop(c->on_int);
	event_drop(c->on_hup);
	memory_fini(c);
	fsck_fini(c);
	stats_fini(c);
	sweep_fini(c);
	barrier_fini(c);
	lingering_fini(&c->lingering);
	work_queue_fini(&c->work);
	if (c->base)
		event_base_free(c->base);
	slab_free(c->slab);
	free(c);
}

int control_run(struct control *c)
{
	event_base_dispatch(c->base);
	return c->failed;
}

const char *control_rdma_address(const struct control *c)
{
	return c->rdma ? xport_verbs->server_address(conn_rdma_server(c->rdma)) : NULL;
}

const char *control_rdma_device(const struct control *c)
{
	return c->rdma ? xport_verbs->server_device(conn_rdma_server(c->rdma)) : NULL;
}
