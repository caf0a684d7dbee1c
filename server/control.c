/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "control_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"

#define TICK_MS 200

void control_end_session(struct session *s)
{
	struct control *c = s->control;

	memory_session_ended(s);
	if (s->welcomed) {
		c->stats.sessions--;
		if (!s->left)
			log_info("session %u (pid %d) ended without goodbye: "
				 "its blocks stay unused until a sweep",
				 s->id, (int)s->pid);
		else
			log_debug("session %u (pid %d) left", s->id,
				  (int)s->pid);
	}
	TAILQ_REMOVE(&c->sessions, s, link);
	c->n_connections--;
	session_free(s);
}

/* At most one line a second: peers may misbehave in bulk. */
static bool complaint_due(struct control *c)
{
	uint64_t now = clock_now_ns();

	if (now - c->last_complaint_ns <= NS_PER_SEC)
		return false;
	c->last_complaint_ns = now;
	return true;
}

void control_refuse(struct session *s, enum msg_reason reason, const char *text)
{
	struct control *c = s->control;
	struct msg m = {.type = MSG_REFUSE};

	if (complaint_due(c))
		log_warn("connection of pid %d closed: %s", (int)s->pid, text);
	if (reason == MSG_REASON_PROTOCOL)
		c->stats.protocol_errors++;
	m.refuse.reason = (uint16_t)reason;
	m.refuse.text = (const uint8_t *)text;
	m.refuse.text_len = (uint16_t)strnlen(text, MSG_TEXT_MAX);
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

static bool next_id(struct control *c, uint32_t *id_out)
{
	if (c->next_id == UINT32_MAX)
		return false;
	*id_out = ++c->next_id;
	return true;
}

static bool on_hello(struct session *s, const struct msg *m)
{
	struct control *c = s->control;
	const struct superblock *sb = &c->region->sb;
	struct msg w = {.type = MSG_WELCOME, .req = m->req};
	uint32_t id;
	int fds[2];

	if (s->welcomed) {
		control_refuse(s, MSG_REASON_PROTOCOL, "HELLO was said twice");
		return false;
	}
	if (c->drain_until) {
		control_refuse(s, MSG_REASON_SHUTDOWN, "the server is leaving");
		return false;
	}
	if (!next_id(c, &id)) {
		control_refuse(s, MSG_REASON_FULL,
			       "all 2^32 session numbers are used up; restart "
			       "the server");
		return false;
	}
	if (memcmp(m->hello.replaces_region, sb->region_id,
		   sizeof(sb->region_id)) == 0)
		departed_replaced(&c->departed, m->hello.replaces, s->pid);
	s->id = id;
	s->readonly = m->hello.role == MSG_ROLE_RO;
	w.welcome.session = id;
	w.welcome.prefix = id;
	w.welcome.role = m->hello.role;
	w.welcome.region_id[0] = sb->region_id[0];
	w.welcome.region_id[1] = sb->region_id[1];
	w.welcome.region_bytes = sb->region_bytes;
	w.welcome.meta_bytes = sb->meta_bytes;
	w.welcome.grace_ns = sb->grace_ns;
	w.welcome.n_areas = 2;
	w.welcome.areas[0].bytes = sb->meta_bytes;
	w.welcome.areas[1].off = sb->meta_bytes;
	w.welcome.areas[1].bytes = sb->region_bytes - sb->meta_bytes;
	fds[0] = c->region->meta_ro_fd;
	fds[1] = s->readonly ? c->region->data_ro_fd : c->region->data_fd;
	/* It counts for barriers before it can hold a reference (I5). */
	s->welcomed = true;
	c->stats.sessions++;
	c->stats.sessions_total++;
	if (!session_send(s, &w, NULL, fds, 2)) {
		control_end_session(s);
		return false;
	}
	log_debug("session %u: pid %d, %s", id, (int)s->pid,
		  s->readonly ? "read-only" : "read-write");
	return true;
}

/* The index does not grow yet: nothing to do early, no help when it is full. */
static bool on_hint(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_HINT_REPLY};

	s->control->stats.hints++;
	r.hint_reply.status = m->hint.full ? MSG_HINT_NOSPC : MSG_HINT_DONE;
	return control_reply(s, &r, m->req, NULL);
}

static bool on_prefix(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_PREFIX};

	if (!next_id(s->control, &r.prefix.prefix)) {
		control_refuse(s, MSG_REASON_FULL,
			       "all version prefixes are used up; restart the "
			       "server");
		return false;
	}
	return control_reply(s, &r, m->req, NULL);
}

static bool on_stats(struct session *s, const struct msg *m)
{
	struct msg r = {.req = m->req};

	stats_fill(&s->control->stats, s->control->region, s->control->slab,
		   &r);
	return control_reply(s, &r, m->req, NULL);
}

static bool on_bye(struct session *s, const struct msg *m)
{
	struct msg r = {.type = MSG_BYE_ACK};

	s->left = true;
	return control_reply(s, &r, m->req, NULL);
}

/* False: the session is gone. */
static bool dispatch(struct session *s, const struct msg *m)
{
	char why[80];

	if (m->type == MSG_HELLO)
		return on_hello(s, m);
	if (!s->welcomed) {
		snprintf(why, sizeof(why), "%s came before HELLO",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
	/* Its process counts as through with the region from BYE on (I6). */
	if (s->left && m->type != MSG_BARRIER_ACK) {
		snprintf(why, sizeof(why), "%s came after BYE",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
	switch (m->type) {
	case MSG_GRANT_REQ:
		return memory_on_grant(s, m);
	case MSG_RETURN:
		return memory_on_return(s, m);
	case MSG_HINT:
		return on_hint(s, m);
	case MSG_PREFIX_REQ:
		return on_prefix(s, m);
	case MSG_STATS_REQ:
		return on_stats(s, m);
	case MSG_PING: {
		struct msg r = {.type = MSG_PONG, .epoch = m->epoch};

		return control_reply(s, &r, m->req, NULL);
	}
	case MSG_BARRIER_ACK:
		return memory_on_barrier_ack(s, m);
	case MSG_BYE:
		return on_bye(s, m);
	default:
		snprintf(why, sizeof(why), "%s was not expected",
			 msg_type_name(m->type));
		control_refuse(s, MSG_REASON_PROTOCOL, why);
		return false;
	}
}

/* ---- events --------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct session *s = arg;

	(void)fd;
	(void)what;
	/* A few at a time: one busy client must not starve the others. */
	for (int i = 0; i < 16; i++) {
		ssize_t n = session_receive(s, buf, sizeof(buf));
		struct msg m;

		if (n == -1 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == -1 || n == 0) {
			control_end_session(s);
			return;
		}
		if (n == -2) {
			control_refuse(s, MSG_REASON_PROTOCOL,
				       "message is too long");
			return;
		}
		if (msg_decode(buf, (size_t)n, &m)) {
			control_refuse(s, MSG_REASON_PROTOCOL, err_detail());
			return;
		}
		if (!dispatch(s, &m))
			return;
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	if (!session_flush(arg))
		control_end_session(arg);
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	struct session *s;
	int peer;

	(void)what;
	peer = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (peer < 0) {
		if (errno == EMFILE || errno == ENFILE) {
			/* The tick listens again. */
			if (complaint_due(c))
				log_warn("out of descriptors: connections wait");
			event_del(c->acceptable);
		}
		return;
	}
	s = session_new(c, c->base, peer, on_readable, on_writable);
	if (!s) {
		close(peer);
		return;
	}
	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	c->n_connections++;
	if (c->n_connections > c->cfg.max_sessions)
		control_refuse(s, MSG_REASON_FULL,
			       "too many sessions; see --max-sessions");
}

static void drain_begin(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;
	struct session *s, *next;
	struct msg m = {.type = MSG_SHUTDOWN};

	(void)what;
	if (c->drain_until)
		return;
	log_info("signal %d: leaving, %u connections", (int)sig,
		 c->n_connections);
	c->drain_until =
		clock_now_ns() + (uint64_t)c->cfg.drain_ms * NS_PER_MS;
	event_del(c->acceptable);
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

	(void)fd;
	(void)what;
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->welcomed && now - s->connected_ns >
					    c->cfg.hello_ms * NS_PER_MS)
			control_refuse(s, MSG_REASON_PROTOCOL,
				       "no HELLO came");
	}
	memory_tick(c);
	if (!c->drain_until)
		event_add(c->acceptable, NULL);
	else if (c->n_connections == 0 || now >= c->drain_until)
		event_base_loopbreak(c->base);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	(void)arg;
	log_info("SIGHUP: nothing to reload; options are read at start");
}

/* ---- life ------------------------------------------------------------------------- */

struct control *control_new(const struct control_config *cfg,
			    struct region *region, struct listen_socket *listen)
{
	static const struct timeval every = {.tv_usec = TICK_MS * 1000};
	struct control *c = calloc(1, sizeof(*c));

	if (!c)
		goto err_memory;
	c->cfg = *cfg;
	c->region = region;
	c->listen = listen;
	c->stats.started_ns = clock_now_ns();
	TAILQ_INIT(&c->sessions);
	c->slab = slab_new(region->heap, region->sb.meta_bytes / PAGE_BYTES,
			   heap_total(region->heap), region->sb.grace_ns);
	c->base = event_base_new();
	if (!c->slab || !c->base || !memory_init(c))
		goto err_memory;
	c->acceptable = event_new(c->base, listen->fd, EV_READ | EV_PERSIST,
				  on_acceptable, c);
	c->tick = event_new(c->base, -1, EV_PERSIST, on_tick, c);
	c->on_term = evsignal_new(c->base, SIGTERM, drain_begin, c);
	c->on_int = evsignal_new(c->base, SIGINT, drain_begin, c);
	c->on_hup = evsignal_new(c->base, SIGHUP, on_hangup, c);
	if (!c->acceptable || !c->tick || !c->on_term || !c->on_int ||
	    !c->on_hup || event_add(c->acceptable, NULL) ||
	    event_add(c->tick, &every) || event_add(c->on_term, NULL) ||
	    event_add(c->on_int, NULL) || event_add(c->on_hup, NULL))
		goto err_memory;
	signal(SIGPIPE, SIG_IGN);
	return c;

err_memory:
	control_free(c);
	err_set(FARKV_ENOMEM, "no memory for the control loop");
	return NULL;
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
	event_drop(c->acceptable);
	event_drop(c->tick);
	event_drop(c->on_term);
	event_drop(c->on_int);
	event_drop(c->on_hup);
	memory_fini(c);
	if (c->base)
		event_base_free(c->base);
	slab_free(c->slab);
	free(c);
}

int control_run(struct control *c)
{
	event_base_dispatch(c->base);
	return 0;
}
