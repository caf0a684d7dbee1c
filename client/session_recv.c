/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's part of a session: receiving messages, sending answers. */
#include "config.h"

#include "session_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/util.h"

/* Messages received before other sessions are served. */
#define RECEIVE_BURST 16
/* Unsent answers after which the server counts as not reading. */
#define OUT_MAX 64

/*
 * GATE_BROKEN is set: an operation that begins from now on leaves again without a look at the
 * region.
 */
static void let_go(struct session *s)
{
	if (s->ch->tether && !s->leaving) {
		control_heavy_barrier();
		s->last_mark = gate_mark(&s->gate);
		s->leaving = true;
	}
	if (s->ch->tether && gate_passed(&s->gate, s->last_mark))
		channel_untie(s->ch);
	control_tick(&s->src, s->ch->tether != NULL);
}

void session_listen_no_more(struct session *s)
{
	control_mute(&s->src);
	let_go(s);
}

/* ---- answers -------------------------------------------------- */

/* If the channel cannot tell when it has room, ticks are used. */
void session_watch(struct session *s)
{
	if (s->ch->pollable)
		control_watch(&s->src, s->out_head != NULL);
	control_tick(&s->src, session_stop_wanted(s) ||
				      (s->out_head && !s->ch->pollable));
}

static bool out_flush(struct session *s)
{
	while (s->out_head) {
		struct out_msg *o = s->out_head;
		int rc = channel_send(s->ch, o->bytes, o->len);

		if (rc == EAGAIN)
			break;
		if (rc) {
			session_lost(s, rc);
			session_listen_no_more(s);
			return false;
		}
		s->out_head = o->next;
		if (!s->out_head)
			s->out_tail = &s->out_head;
		s->n_out--;
		free(o);
	}
	session_watch(s);
	return true;
}

void session_answer(struct session *s, const struct msg *m,
		    const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	struct out_msg *o;
	size_t len;

	if (msg_encode(m, refs, buf, sizeof(buf), &len)) {
		session_end(s, "cannot answer the server: %s", err_detail());
		return;
	}
	o = s->n_out < OUT_MAX ? malloc(sizeof(*o) + len) : NULL;
	if (!o) {
		session_end(s, "the server takes no answers, or memory is out");
		return;
	}
	o->next = NULL;
	o->len = len;
	memcpy(o->bytes, buf, len);
	*s->out_tail = o;
	s->out_tail = &o->next;
	s->n_out++;
	(void)out_flush(s);
}

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
	gate_raise(&s->gate, GATE_MAIL);
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
	gate_raise(&s->gate, GATE_MAIL);
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
	gate_raise(&s->gate, GATE_MAIL);
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
	session_end(s, "the server ended the session%s%s", n ? ": " : "", text);
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
	if (n == 0) {
		session_break(s, true, "%s", s->ch->why);
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

	if (s->out_head && !out_flush(s))
		return;
	while (burst++ < RECEIVE_BURST && receive_one(s))
		;
}

void session_tick(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	if (src->muted)
		let_go(s);
	else if (out_flush(s))
		session_stopped(s);
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

	gate_raise(&s->gate, GATE_FORKED);
	channel_forked(s->ch);
}
