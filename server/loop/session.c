/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#include "control_priv.h"

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

void session_free(struct session *s)
{
	if (!s)
		return;
	while (!STAILQ_EMPTY(&s->out))
		drop_first(s);
	s->port->close(s->conn);
	tether_free(s->tether);
	free(s);
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
		if (control_note_due(s->control))
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
