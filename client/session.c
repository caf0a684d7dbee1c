/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "atfork.h"
#include "session_recv.h"
#include "session_state.h"

/*
 * Waits are cut into slices: a condition variable cannot use CLOCK_BOOTTIME, and after a suspend of
 * the machine a passed deadline must be noticed soon.
 */
#define WAIT_SLICE_NS (200 * NS_PER_MS)
/* Buffer for a message on the handle's thread, whose stack may be small. */
#define SEND_BYTES (MSG_HEADER_BYTES + 64 + 8 * INVENTORY_RETURN_MAX)

/* ---- waiting and notification ------------------------------------------------ */

void session_wakes(struct session *s, struct notifier *w, bool grants)
{
	/* Only this thread writes them. */
	if (s->notifier == w && s->notifier_grants == grants)
		return;
	pthread_mutex_lock(&s->lock);
	s->notifier = w;
	s->notifier_grants = grants;
	pthread_mutex_unlock(&s->lock);
}

/* ---- end ---------------------------------------------------------------- */

bool session_was_cut(struct session *s)
{
	bool cut;

	pthread_mutex_lock(&s->lock);
	cut = !s->ended;
	pthread_mutex_unlock(&s->lock);
	return cut;
}

bool session_is_away(const struct session *s)
{
	return atom_load_relaxed(&s->away);
}

int session_reason(struct session *s)
{
	if (qsbr_pending(&s->qsbr) & PENDING_FORKED)
		return err_set(FARKV_EDISCONNECTED,
			       "handle was opened before fork(): a child must "
			       "open handles of its own");
	pthread_mutex_lock(&s->lock);
	err_set(FARKV_EDISCONNECTED, "%s",
		s->over ? s->reason : "the session is over");
	pthread_mutex_unlock(&s->lock);
	return FARKV_EDISCONNECTED;
}

/* ---- begin and free --------------------------------------------------------------------- */

static void sync_init(struct session *s)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->cond, &attr);
	pthread_condattr_destroy(&attr);
}

int session_begin(struct channel *ch, const struct superblock *sb,
		struct xport_lane *lane, struct inventory *inv,
		struct session **s_out)
{
	struct session *s = aligned_alloc(64, sizeof(*s));
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM, "no memory for a session");
	memset(s, 0, sizeof(*s));
	s->ch = ch;
	s->src = (struct control_source){.fd = ch->fd,
					 .ready = session_ready,
					 .tick = session_tick,
					 .lost = session_fds_lost,
					 .forked = session_forked};
	s->lane = lane;
	s->inv = inv;
	s->fork_gen = atfork_generation();
	s->meta_bytes = sb->meta_bytes;
	s->region_bytes = sb->region_bytes;
	s->next_req = 1; /* HELLO was number 1 */
	s->grants_tail = &s->inbox.grants;
	s->out_tail = &s->out_head;
	s->sends_hits = !ch->tether;
	s->qsbr.hits = ch->tether ? ch->tether : &s->hits;
	sync_init(s);
	/* From here on the control thread uses it. */
	err = control_add(&s->src);
	if (err)
		goto err_free;
	s->qsbr.fence = control_qsbr_fence(); /* this thread's alone */
	*s_out = s;
	return 0;

err_free:
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return err;
}

struct channel *session_free(struct session *s)
{
	struct channel *ch;

	if (!s)
		return NULL;
	ch = s->ch;
	/*
	 * In a forked child the control thread and the socket are gone, and the state of lock
	 * and condition is undefined: only free memory.
	 */
	if (s->fork_gen == atfork_generation()) {
		control_remove(&s->src);
		pthread_cond_destroy(&s->cond);
		pthread_mutex_destroy(&s->lock);
	} else {
		channel_forget(ch);
		ch = NULL;
	}
	free(s->map);
	for (struct session_grant *g = s->inbox.grants, *next; g; g = next) {
		next = g->next;
		free(g);
	}
	for (struct out_msg *o = s->out_head, *next; o; o = next) {
		next = o->next;
		free(o);
	}
	for (unsigned i = 0; i < s->n_acks; i++)
		free(s->acks[i].refs);
	free(s);
	return ch;
}

struct qsbr *session_qsbr(struct session *s)
{
	return &s->qsbr;
}

/* ---- the handle's thread --------------------------------------------------------- */

/*
 * Wait on the condition; the lock is held. Also notices if the program has closed the
 * connection's descriptor, after which no event would arrive.
 */
static void cond_wait_until(struct session *s, uint64_t until_ns)
{
	uint64_t now = clock_now_ns();
	struct timespec ts;

	if (until_ns <= now)
		return;
	if (!channel_is_open(s->ch)) {
		pthread_mutex_unlock(&s->lock);
		session_lost(s, EBADF);
		pthread_mutex_lock(&s->lock);
		return;
	}
	ts = clock_after_ns(UTIL_MIN(until_ns - now, WAIT_SLICE_NS));
	pthread_cond_timedwait(&s->cond, &s->lock, &ts);
}

static int send_timeout(void)
{
	return err_set(FARKV_ETIMEDOUT,
		       "the server reads no requests; is it stopped?");
}

void session_wait_room(struct session *s, uint64_t until_ns)
{
	uint64_t now = clock_now_ns();

	if (session_is_away(s)) {
		pthread_mutex_lock(&s->lock);
		if (!s->over)
			cond_wait_until(s, until_ns);
		pthread_mutex_unlock(&s->lock);
	} else if (now < until_ns)
		channel_wait_room(s->ch, (int)(UTIL_MIN(until_ns - now,
							WAIT_SLICE_NS) /
					       NS_PER_MS + 1));
}

static int send_wait(struct session *s, uint64_t deadline_ns)
{
	/* A caller that does not wait needs no error line. */
	if (deadline_ns == 0)
		return FARKV_ETIMEDOUT;
	if (clock_now_ns() >= deadline_ns)
		return send_timeout();
	session_wait_room(s, deadline_ns);
	return 0;
}

static int send_numbered(struct session *s, const struct msg *m,
			 const struct block_ref *refs, uint64_t deadline_ns)
{
	uint8_t buf[SEND_BYTES];
	size_t len;
	int err;

	err = msg_encode(m, refs, buf, sizeof(buf), &len);
	if (err)
		return err;
	for (;;) {
		int rc;

		if (qsbr_pending(&s->qsbr) & (PENDING_BROKEN | PENDING_FORKED))
			return session_reason(s);
		rc = session_is_away(s) ? EAGAIN : channel_send(s->ch, buf, len);
		if (rc == 0)
			break;
		if (channel_is_away(s->ch, rc)) /* the control thread will see it, too */
			rc = EAGAIN;
		if (rc != EAGAIN) {
			session_lost(s, rc);
			continue;
		}
		err = send_wait(s, deadline_ns);
		if (err)
			return err;
	}
	s->sent++;
	return 0;
}

int session_post(struct session *s, struct msg *m, const struct block_ref *refs,
		 uint64_t deadline_ns)
{
	bool grant = m->type == MSG_GRANT_REQ;
	int err;

	if (s->sends_hits && (m->type == MSG_STATS_REQ || m->type == MSG_BYE)) {
		struct msg hits = session_hits_message(s);

		err = send_numbered(s, &hits, NULL, deadline_ns);
		if (err)
			return err;
	}
	if (++s->next_req == 0)
		s->next_req = 1; /* 0 is for messages that the server initiates */
	m->req = s->next_req;
	/* Count first: the answer may arrive before send() returns. */
	if (grant)
		atom_count(&s->grants_out, 1);
	err = send_numbered(s, m, refs, deadline_ns);
	if (err && grant)
		atom_count(&s->grants_out, UINT32_MAX);
	return err;
}

static void call_prepare(struct session *s, uint8_t expect)
{
	uint32_t req = s->next_req + 1;

	pthread_mutex_lock(&s->lock);
	s->awaited = req ? req : 1;
	s->awaited_type = expect;
	s->answered = false;
	pthread_mutex_unlock(&s->lock);
}

static int call_timeout(const struct msg *m)
{
	return err_set(FARKV_ETIMEDOUT,
		       "the server did not answer %s in time; is it stopped or "
		       "overloaded?",
		       msg_type_name(m->type));
}

int session_call_begin(struct session *s, struct msg *m, uint8_t expect,
		       uint64_t deadline_ns)
{
	call_prepare(s, expect);
	return session_post(s, m, NULL, deadline_ns);
}

int session_call_take(struct session *s, struct msg *answer_out)
{
	int err = FARKV_EAGAIN;

	pthread_mutex_lock(&s->lock);
	if (s->answered) {
		*answer_out = s->answer;
		s->answered = false;
		err = 0;
	} else if (s->over) {
		err = FARKV_EDISCONNECTED;
	}
	pthread_mutex_unlock(&s->lock);
	return err == FARKV_EDISCONNECTED ? session_reason(s) : err;
}

void session_call_forget(struct session *s)
{
	pthread_mutex_lock(&s->lock);
	s->awaited = 0;
	s->answered = false;
	pthread_mutex_unlock(&s->lock);
}

/* ---- a cluster's maps ------------------------------------------------------------------ */

void session_keep_lease(struct session *s, uint32_t lease_ms, const uint32_t *routed)
{
	struct msg m = {.type = MSG_LEASE_REQ};

	pthread_mutex_lock(&s->lock);
	s->lease_pause_ns = lease_ms * NS_PER_MS / 5;
	s->lease_asked_ns = clock_now_ns();
	s->routed = routed;
	pthread_mutex_unlock(&s->lock);
	/*
	 * The control thread continues when the answer comes. A socket that stays full has a silent
	 * server.
	 */
	if (session_post(s, &m, NULL, clock_now_ns() + NS_PER_SEC) == FARKV_ETIMEDOUT)
		session_lost(s, ETIMEDOUT);
}

uint64_t session_lease_ns(const struct session *s)
{
	uint64_t lease = atom_load_follow(&s->lease_ns);

	return session_map_waits(s) ? atom_load_relaxed(&s->lease_before_ns) : lease;
}

bool session_map_waits(const struct session *s)
{
	return atom_load_follow(&s->map_waits) != 0;
}

struct clustermap *session_take_map(struct session *s)
{
	struct clustermap *map;

	pthread_mutex_lock(&s->lock);
	map = s->map;
	s->map = NULL;
	atom_store_publish(&s->map_waits, 0u);
	pthread_mutex_unlock(&s->lock);
	return map;
}

bool session_call_ready(struct session *s)
{
	bool ready;

	pthread_mutex_lock(&s->lock);
	ready = s->answered || s->over;
	pthread_mutex_unlock(&s->lock);
	return ready;
}

int session_call(struct session *s, struct msg *m, uint8_t expect,
		 struct msg *answer_out, uint64_t deadline_ns)
{
	bool answered, over;
	int err = session_call_begin(s, m, expect, deadline_ns);

	pthread_mutex_lock(&s->lock);
	while (!err && !s->answered && !s->over &&
	       clock_now_ns() < deadline_ns)
		cond_wait_until(s, deadline_ns);
	s->awaited = 0;
	answered = s->answered;
	s->answered = false;
	over = s->over;
	if (!err && answered)
		*answer_out = s->answer;
	pthread_mutex_unlock(&s->lock);
	if (err || answered)
		return err;
	return over ? session_reason(s) : call_timeout(m);
}

void session_wait(struct session *s, uint64_t until_ns)
{
	pthread_mutex_lock(&s->lock);
	while (!s->inbox.grants && !s->inbox.has_prefix && !s->has_full && !s->answered &&
	       !s->over && clock_now_ns() < until_ns)
		cond_wait_until(s, until_ns);
	pthread_mutex_unlock(&s->lock);
}

void session_record(struct session *s)
{
	if (s->inv && (qsbr_pending(&s->qsbr) & PENDING_SWEEP))
		session_journal(s);
}

void session_take_grants(struct session *s, struct session_grants_inbox *inbox_out)
{
	pthread_mutex_lock(&s->lock);
	qsbr_clear_pending(&s->qsbr, PENDING_GRANTS);
	*inbox_out = s->inbox;
	memset(s->inbox.full, 0, sizeof(s->inbox.full));
	s->has_full = false;
	s->inbox.grants = NULL;
	s->grants_tail = &s->inbox.grants;
	s->inbox.has_prefix = false;
	pthread_mutex_unlock(&s->lock);
}

uint32_t session_grants_out(const struct session *s)
{
	return atom_load_relaxed(&s->grants_out);
}

uint64_t session_sent(const struct session *s)
{
	return s->sent;
}

/*
 * Name the blocks that the journal holds, because a session that has ended answers no questions. A
 * later sweep asks nothing of a session that has returned everything.
 */
static int claims_send(struct session *s, uint64_t until_ns)
{
	struct msg m = {.type = MSG_SWEEP_CLAIM};
	struct block_ref refs[INVENTORY_RETURN_MAX];
	uint64_t cursor = 0;
	int err = 0;

	if (!s->inv || !journal_sweep(s->inv->journal, &m.blocks.number))
		return 0;
	if (journal_overflowed(s->inv->journal))
		return FARKV_ETOOLARGE;
	while (!err && (m.blocks.n = (uint32_t)journal_next(
				s->inv->journal, m.blocks.number, &cursor, refs,
				INVENTORY_RETURN_MAX)) > 0)
		/* Unsolicited, so without a request number. */
		err = send_numbered(s, &m, refs, until_ns);
	return err;
}

bool session_bye(struct session *s, uint64_t until_ns)
{
	struct msg m = {.type = MSG_BYE};
	bool heard;

	if (claims_send(s, until_ns) || session_post(s, &m, NULL, until_ns))
		return false;
	pthread_mutex_lock(&s->lock);
	while (!s->bye_acked && !s->over && clock_now_ns() < until_ns)
		cond_wait_until(s, until_ns);
	heard = s->bye_acked || !s->over;
	pthread_mutex_unlock(&s->lock);
	return heard;
}
