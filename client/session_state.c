/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session ends, and what it sends from the control thread. */
#include "config.h"

#include "session_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

/* Checks, 20 ms apart, of what may be the server that has just ended. */
#define LOOKS_MAX 25
/* Unsent answers after which the server counts as not reading. */
#define OUT_MAX 64

void session_notify(struct session *s, bool over)
{
	pthread_cond_broadcast(&s->cond);
	if (s->notifier && (over || s->notifier_grants))
		notifier_call(s->notifier);
}

/* ---- the end ---------------------------------------------------------------- */

void session_break(struct session *s, bool cut, const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&s->lock);
	if (!s->over) {
		va_start(ap, fmt);
		vsnprintf(s->reason, sizeof(s->reason), fmt, ap);
		va_end(ap);
		s->over = true;
		s->ended = !cut;
		xport_break(s->lane, FARKV_EDISCONNECTED);
		qsbr_set_pending(&s->qsbr, PENDING_BROKEN);
		session_notify(s, true);
	}
	pthread_mutex_unlock(&s->lock);
}

void session_lost(struct session *s, int errnum)
{
	char reason[sizeof(s->reason)];

	session_break(s, true, "%s",
		      channel_explain(errnum, reason, sizeof(reason)));
}

void session_release_tether(struct session *s)
{
	if (s->ch->tether && !s->leaving) {
		atom_store_relaxed(&s->qsbr.hits, &s->hits);
		control_heavy_barrier();
		s->last_mark = qsbr_snapshot(&s->qsbr);
		s->leaving = true;
	}
	if (s->ch->tether && qsbr_passed(&s->qsbr, s->last_mark))
		channel_untie(s->ch);
	control_tick(&s->src, s->ch->tether != NULL);
}

void session_stop_listening(struct session *s)
{
	control_mute(&s->src);
	control_look(&s->src, false);
	session_release_tether(s);
}

uint32_t session_work(const struct session *s)
{
	return s->inv ? qsbr_pending(&s->qsbr) & (PENDING_SWEEP | PENDING_RECLAIM) : 0;
}

/* ---- no server ---------------------------------------------------------------- */

/*
 * Drop the server's requests, which no longer need answers. Not from code that is answering: it
 * uses the list, and may hold the inventory's lock.
 */
static void forget_requests(struct session *s)
{
	for (unsigned i = 0; i < s->n_acks; i++)
		free(s->acks[i].refs);
	s->n_acks = 0;
	if (!s->inv)
		return;
	inventory_lock(s->inv);
	qsbr_clear_pending(&s->qsbr, PENDING_SWEEP | PENDING_RECLAIM);
	if (s->sweeping)
		journal_end(s->inv->journal);
	inventory_unlock(s->inv);
	s->sweeping = false;
}

void session_go_away(struct session *s)
{
	if (atom_load_relaxed(&s->away))
		return;
	control_mute(&s->src);
	pthread_mutex_lock(&s->lock);
	atom_store_relaxed(&s->away, 1);
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	control_tick(&s->src, false);
	control_look(&s->src, true);
}

void session_look_for_server(struct session *s)
{
	enum channel_next next = channel_look(s->ch);

	if (s->n_acks || s->sweeping || session_work(s))
		forget_requests(s);
	/* After some time it is another process that happens to have the same PID. */
	s->looks = next == CHANNEL_SAME_PROCESS ? s->looks + 1 : 0;
	if (!(qsbr_pending(&s->qsbr) & PENDING_BROKEN) && next != CHANNEL_OTHER_PROCESS &&
	    s->looks < LOOKS_MAX)
		return;
	control_look(&s->src, false);
	session_break(s, true, "the server was started again");
	session_release_tether(s);
}

void session_channel_ended(struct session *s, int errnum)
{
	if (channel_is_away(s->ch, errnum)) {
		session_go_away(s);
		return;
	}
	session_lost(s, errnum);
	session_stop_listening(s);
}

/* ---- answers -------------------------------------------------- */

struct msg session_hits_message(const struct session *s)
{
	struct msg m = {.type = MSG_HITS};

	m.stats.n = 3;
	m.stats.stat[0].id = MSG_STAT_HITS;
	m.stats.stat[0].value = atom_load_relaxed(&s->hits.hits);
	m.stats.stat[1].id = MSG_STAT_MISSES;
	m.stats.stat[1].value = atom_load_relaxed(&s->hits.misses);
	m.stats.stat[2].id = MSG_STAT_SETS;
	m.stats.stat[2].value = atom_load_relaxed(&s->hits.sets);
	return m;
}

/* True if something waits for the end of operations. */
static bool waits_for_operations(const struct session *s)
{
	return s->n_acks > 0 || session_work(s);
}

/* If the channel does not report room to send, use ticks. */
void session_watch(struct session *s)
{
	if (s->ch->pollable)
		control_watch(&s->src, s->out_head != NULL);
	control_tick(&s->src, waits_for_operations(s) ||
				      (s->out_head && !s->ch->pollable));
}

bool session_flush_answers(struct session *s)
{
	while (s->out_head) {
		struct out_msg *o = s->out_head;
		int rc = channel_send(s->ch, o->bytes, o->len);

		if (rc == EAGAIN)
			break;
		if (rc) {
			session_channel_ended(s, rc);
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

void session_answer(struct session *s, const struct msg *m, const struct block_ref *refs)
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
	(void)session_flush_answers(s);
}
