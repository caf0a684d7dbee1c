/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's half of a session: what arrives. */
#include "config.h"

#include "session_recv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "session_acks.h"

/* Messages received before other sessions are served. */
#define RECEIVE_BURST 16

/* ---- grants and answers ---------------------------------------- */

static bool grant_ok(const struct session *s, const struct msg *m)
{
	const struct superblock bounds = {.meta_bytes = s->meta_bytes,
					  .region_bytes = s->region_bytes};

	if (m->blocks.cls >= CLASS_COUNT || m->blocks.n > MSG_REFS_MAX)
		return false;
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		struct block_ref r = msg_ref(m, i);

		if (r.cls != m->blocks.cls ||
		    !region_block_ok(&bounds, r.off, r.cls))
			return false;
	}
	return true;
}

static void on_grant(struct session *s, const struct msg *m)
{
	struct session_grant *g;

	if (atom_load_relaxed(&s->grants_out) == 0 || !grant_ok(s, m)) {
		session_end(s, "protocol error: the server granted blocks that "
			       "nobody asked for, or outside its region");
		return;
	}
	g = malloc(sizeof(*g) + m->blocks.n * sizeof(g->refs[0]));
	if (!g) {
		/* The blocks have no owner: let the server take everything back. */
		session_end(s, "out of memory while blocks arrived");
		return;
	}
	g->next = NULL;
	g->cls = m->blocks.cls;
	g->n = m->blocks.n;
	for (uint32_t i = 0; i < g->n; i++) {
		g->refs[i] = msg_ref(m, i);
		if (s->sweeping && s->inv)
			(void)journal_add(s->inv->journal, g->refs[i]);
	}

	pthread_mutex_lock(&s->lock);
	s->full[g->cls / 64] &= ~(UINT64_C(1) << g->cls % 64);
	*s->grants_tail = g;
	s->grants_tail = &g->next;
	atom_count(&s->grants_out, UINT32_MAX); /* decrements */
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_tell(s, false);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t figure(const struct msg *m, uint16_t id, uint64_t otherwise)
{
	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	return otherwise;
}

/* Give an answer to the waiting call; a late one is dropped. */
static void on_answer(struct session *s, const struct msg *m)
{
	pthread_mutex_lock(&s->lock);
	if (s->awaited && m->req == s->awaited && m->type == s->awaited_type) {
		s->answer = *m;
		s->answered = true;
		s->awaited = 0;
		session_tell(s, false);
	}
	pthread_mutex_unlock(&s->lock);
}

/* A GRANT_REQ waits for memory: see MSG_STAT_FULL_CLASS. */
static void on_full(struct session *s, const struct msg *m, uint64_t cls)
{
	pthread_mutex_lock(&s->lock);
	s->full[cls / 64] |= UINT64_C(1) << cls % 64;
	s->other_bytes = figure(m, MSG_STAT_FREE_BYTES, 0);
	s->no_pages = figure(m, MSG_STAT_PAGES_REFUSED, 0) != 0;
	s->has_full = true;
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_tell(s, false);
	pthread_mutex_unlock(&s->lock);
}

static void on_stats(struct session *s, const struct msg *m)
{
	uint64_t cls = figure(m, MSG_STAT_FULL_CLASS, CLASS_COUNT);

	if (cls < CLASS_COUNT)
		on_full(s, m, cls);
	else
		on_answer(s, m);
}

static void on_prefix(struct session *s, const struct msg *m)
{
	pthread_mutex_lock(&s->lock);
	s->prefix = m->prefix.prefix;
	s->has_prefix = true;
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_tell(s, false);
	pthread_mutex_unlock(&s->lock);
}

static void on_shutdown(struct session *s, const struct msg *m)
{
	char text[MSG_TEXT_MAX + 1];
	size_t n = UTIL_MIN((size_t)m->refuse.text_len, sizeof(text) - 1);

	for (size_t i = 0; i < n; i++) {
		uint8_t c = m->refuse.text[i];

		text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	text[n] = '\0';
	if (m->refuse.reason == MSG_REASON_SHUTDOWN && channel_is_away(s->ch, 0)) {
		channel_leave(s->ch);
		session_go_away(s);
		return;
	}
	if (m->refuse.reason == MSG_REASON_SHUTDOWN && s->ch->outlives) {
		session_break(s, true, "the server ended the session");
		session_listen_no_more(s);
		return;
	}
	session_end(s, "the server ended the session%s%s", n ? ": " : "", text);
}

/* ---- leases --------------------------------------------------- */

/* Clocks of two machines may differ by this part. */
#define LEASE_DRIFT 64

/* The lease counts from the question: the answer may have been on its way for any time. */
static void on_lease(struct session *s, uint64_t left_ns)
{
	uint64_t asked, until;

	pthread_mutex_lock(&s->lock);
	asked = s->lease_asked_ns;
	s->lease_asked_ns = 0;
	s->lease_next_ns = asked + s->lease_pause_ns;
	until = asked + left_ns - left_ns / LEASE_DRIFT;
	if (asked && left_ns && until > s->lease_ns)
		atom_store_publish(&s->lease_ns, until); /* after map_waits: session_lease_ns() */
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	control_look(&s->src, true);
}

static void lease_tick(struct session *s)
{
	struct msg m = {.type = MSG_LEASE_REQ};
	uint64_t now = clock_now_ns();
	bool due;

	pthread_mutex_lock(&s->lock);
	due = s->lease_pause_ns && !s->lease_asked_ns && now >= s->lease_next_ns;
	if (due)
		s->lease_asked_ns = now;
	pthread_mutex_unlock(&s->lock);
	if (due)
		session_answer(s, &m, NULL);
}

static void on_bye_ack(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	s->bye_acked = true;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

static void on_message(struct session *s, const struct msg *m)
{
	switch (m->type) {
	case MSG_GRANT:
		on_grant(s, m);
		break;
	case MSG_PREFIX:
		on_prefix(s, m);
		break;
	case MSG_STATS:
		on_stats(s, m);
		break;
	case MSG_HINT_REPLY:
	case MSG_PONG:
	case MSG_FSCK:
	case MSG_CLIENT:
	case MSG_KILLED:
	case MSG_CLASS:
	case MSG_PAUSE:
	case MSG_PASSED:
	case MSG_WAITED:
		on_answer(s, m);
		break;
	case MSG_BARRIER:
		session_on_barrier(s, m->epoch.number);
		break;
	case MSG_SWEEP_BEGIN:
		session_on_sweep_begin(s, m->epoch.number);
		break;
	case MSG_SWEEP_QUERY:
		session_on_sweep_query(s, m);
		break;
	case MSG_SWEEP_END:
		session_on_sweep_end(s, m->epoch.number);
		break;
	case MSG_RECLAIM:
		session_on_reclaim(s);
		break;
	case MSG_LEASE:
		on_lease(s, m->epoch.number);
		break;
	case MSG_MAP:
		session_on_map(s, m);
		break;
	case MSG_BYE_ACK:
		on_bye_ack(s);
		break;
	case MSG_REFUSE:
	case MSG_SHUTDOWN:
		on_shutdown(s, m);
		break;
	default:
		session_end(s, "protocol error: the server sent %s",
			    msg_type_name(m->type));
	}
}

/* Receive and handle one message; false if there is none, or none will come. */
static bool receive_one(struct session *s)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct msg m;
	ssize_t n;

	n = channel_receive(s->ch, buf, sizeof(buf), NULL);
	if (n < 0)
		return false;
	if (n == 0 && channel_is_away(s->ch, s->ch->errnum)) {
		session_go_away(s);
		return false;
	}
	if (n == 0) {
		session_break(s, true, "%s", s->ch->reason);
		session_listen_no_more(s);
		return false;
	}
	if ((size_t)n > sizeof(buf)) {
		session_end(s, "protocol error: a message of %zd bytes", n);
		return false;
	}
	if (msg_decode(buf, (size_t)n, &m)) {
		session_end(s, "protocol error: %s", err_detail());
		return false;
	}
	on_message(s, &m);
	return !s->src.muted;
}

void session_ready(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;
	unsigned burst = 0;

	if (s->out_head && !session_flush_answers(s))
		return;
	while (burst++ < RECEIVE_BURST && receive_one(s))
		;
}

void session_tick(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	if (src->muted && session_is_away(s) && !s->leaving) {
		session_look_for_server(s);
	} else if (src->muted) {
		session_let_go(s);
	} else if (session_flush_answers(s)) {
		session_stopped(s);
		if (!src->muted)
			lease_tick(s);
	}
}

void session_fds_lost(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	session_lost(s, EBADF);
	session_listen_no_more(s);
}

void session_forked(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	qsbr_set_pending(&s->qsbr, PENDING_FORKED);
	channel_forked(s->ch);
}
