/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#include "core.h"
#include "roster.h"

struct session *session_new(struct control *control,
			    const struct conn_ops *port, void *conn)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (!port->remote && !(s->tether = tether_new())) {
		free(s);
		return NULL;
	}
	s->control = control;
	s->port = port;
	s->conn = conn;
	s->connected_ns = clock_now_ns();
	STAILQ_INIT(&s->out);
	return s;
}

static void drop_first(struct session *s)
{
	struct out_packet *p = STAILQ_FIRST(&s->out);

	STAILQ_REMOVE_HEAD(&s->out, link);
	s->out_bytes -= p->len;
	free(p);
}

bool session_send(struct session *s, const struct msg *m,
		  const struct block_ref *refs, const int *fds, int n_fds)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct out_packet *p;
	char peer[80];
	size_t len;
	int rc;

	if (msg_encode(m, refs, buf, sizeof(buf), &len))
		return false;
	if (STAILQ_EMPTY(&s->out)) {
		rc = s->port->send(s->conn, buf, len, fds, n_fds);
		if (rc == 0)
			return true;
		if (rc != EAGAIN || n_fds)
			return false;
	}
	if (s->out_bytes + len > SESSION_OUT_MAX) {
		if (core_note_due(s->control))
			log_warn("session %u (%s) does not read; closed", s->id,
				 session_peer(s, peer));
		return false;
	}
	p = malloc(sizeof(*p) + len);
	if (!p)
		return false;
	p->len = len;
	memcpy(p->bytes, buf, len);
	STAILQ_INSERT_TAIL(&s->out, p, link);
	s->out_bytes += len;
	return true;
}

bool session_flush(struct session *s)
{
	while (!STAILQ_EMPTY(&s->out)) {
		const struct out_packet *p = STAILQ_FIRST(&s->out);
		int rc = s->port->send(s->conn, p->bytes, p->len, NULL, 0);

		if (rc)
			return rc == EAGAIN;
		drop_first(s);
	}
	return true;
}

const char *session_peer(const struct session *s, char buf[80])
{
	return s->port->peer(s->conn, buf, 80);
}

struct hits session_hits(const struct session *s)
{
	return s->tether && s->welcomed ? tether_hits(s->tether) : s->hits;
}

/* ---- the end ------------------------------------------------------------------- */

static void session_free(struct session *s)
{
	while (!STAILQ_EMPTY(&s->out))
		drop_first(s);
	s->port->close(s->conn);
	roster_clear(s->entry);
	tether_remove(s->tether);
	free(s);
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

void session_end(struct session *s)
{
	struct control *c = s->control;
	char peer[80];

	s->port->fence(s->conn);
	s->left = s->left || never_began(s);
	core_count_hits(&c->counts.ended, session_hits(s));
	/* An RDMA session needs none of this: it is fenced, its connection is gone (I6). */
	if (s->tether && s->welcomed && !s->left) {
		s->tether->id = s->id;
		s->tether->pid = s->pid;
		s->tether->entry = s->entry;
		lingering_add(&c->lingering, s->tether);
		s->tether = NULL;
		s->entry = NULL;
	}
	for (const struct loop_module *const *m = c->modules; *m; m++)
		if ((*m)->session_ended)
			(*m)->session_ended(s);
	if (s->welcomed) {
		c->counts.sessions--;
		session_peer(s, peer);
		/* Processes that copy are killed when they are not needed; they hold no blocks. */
		if (!s->left && !s->passes && !s->copies && core_note_due(c))
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

bool session_end_dead(struct session *s)
{
	/* Before READY the client may be about to map the tether. */
	if (!s->tether || !s->begun || !tether_is_loose(s->tether))
		return false;
	session_end(s);
	return true;
}

void session_refuse(struct session *s, enum msg_reason reason, const char *text)
{
	struct control *c = s->control;
	struct msg m = {.type = MSG_REFUSE};
	bool tell = reason != MSG_REASON_AUTH &&
		    (s->welcomed || !s->port->remote);
	char peer[80];

	s->begun = true; /* it is refused because of a message that it sent */
	if (core_complaint_due(c))
		log_warn("connection of %s closed: %s", session_peer(s, peer),
			 text);
	if (reason == MSG_REASON_PROTOCOL)
		c->counts.protocol_errors++;
	m.refuse.reason = (uint16_t)reason;
	m.refuse.text = (const uint8_t *)text;
	m.refuse.text_len = tell ? (uint16_t)strnlen(text, MSG_TEXT_MAX) : 0;
	(void)session_send(s, &m, NULL, NULL, 0);
	session_end(s);
}

bool session_reply(struct session *s, struct msg *m, uint32_t req,
		   const struct block_ref *refs)
{
	m->req = req;
	if (session_send(s, m, refs, NULL, 0))
		return true;
	session_end(s);
	return false;
}
