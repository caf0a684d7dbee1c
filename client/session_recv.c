/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's half of a session: what arrives, sending answers, and answers that
 * wait until the handle is between two operations. Barriers (I5); sweeps, which find what
 * dead sessions held; and giving back an idle handle's blocks.
 *
 * A sweep, seen from here. BEGIN: everything that is held goes into the journal, while
 * the handle stands still; that is acknowledged. From then on what is unlinked
 * (alloc.c) and what is granted (on_grant()) is added. QUERY: once more when the
 * operations are over that were running, for one of them may have unlinked a block
 * and not have recorded it yet, name those candidates that are in the journal. A
 * block that nobody leaked and that the server's walk over the slots did not meet
 * was in somebody's hands at some moment after BEGIN, and that session names it.
 */
#include "config.h"

#include "session_recv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

/* Messages received before other sessions are served. */
#define RECEIVE_BURST 16
/* Looks, 20 ms apart, at what may be the server that has just ended. */
#define LOOKS_MAX 25
/* Unsent answers after which the server counts as not reading. */
#define OUT_MAX 64

/* RETURNs at a time: some 4000 blocks, a fraction of a millisecond. */
#define RECLAIM_BURST 16
/* Milliseconds of a full socket after which a RECLAIM is given up: a server that still lacks
 * memory asks again. */
#define RECLAIM_TRIES_MAX 50

void session_tell(struct session *s, bool over)
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
		session_tell(s, true);
	}
	pthread_mutex_unlock(&s->lock);
}

void session_lost(struct session *s, int errnum)
{
	char reason[sizeof(s->reason)];

	session_break(s, true, "%s",
		      channel_explain(errnum, reason, sizeof(reason)));
}

/*
 * PENDING_BROKEN is set: an operation that begins from now on leaves again without a look at the
 * region.
 */
static void let_go(struct session *s)
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

/**
 * The session is over: stop listening, and unmap the tether when no operation is running.
 */
static void session_listen_no_more(struct session *s)
{
	control_mute(&s->src);
	control_look(&s->src, false);
	let_go(s);
}

/** End the session for a reason of our own. */
#define session_end(s, ...)                           \
	do {                                          \
		session_break(s, false, __VA_ARGS__); \
		session_listen_no_more(s);            \
	} while (0)

static uint32_t work(const struct session *s)
{
	return s->inv ? qsbr_pending(&s->qsbr) & (PENDING_SWEEP | PENDING_RECLAIM) : 0;
}

/* ---- no server ---------------------------------------------------------------- */

/*
 * Nothing of what the server has asked for will be wanted. Not from code that is just answering:
 * it uses the list, and may hold the inventory's lock.
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

static void session_go_away(struct session *s)
{
	if (session_is_away(s))
		return;
	control_mute(&s->src);
	pthread_mutex_lock(&s->lock);
	atom_store_relaxed(&s->away, 1);
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	control_tick(&s->src, false);
	control_look(&s->src, true);
}

/* The server is back: the handle connects to it, at its next call or at once. */
static void look_for_server(struct session *s)
{
	enum channel_next next = channel_look(s->ch);

	if (s->n_acks || s->sweeping || work(s))
		forget_requests(s);
	/* After some time it is another one that happens to have the same number. */
	s->looks = next == CHANNEL_SAME_PROCESS ? s->looks + 1 : 0;
	if (!(qsbr_pending(&s->qsbr) & PENDING_BROKEN) && next != CHANNEL_OTHER_PROCESS &&
	    s->looks < LOOKS_MAX)
		return;
	control_look(&s->src, false);
	session_break(s, true, "the server was started again");
	let_go(s);
}

/** The channel ended, as an errno tells (0: the server closed it). */
static void channel_ended(struct session *s, int errnum)
{
	if (channel_is_away(s->ch, errnum)) {
		session_go_away(s);
		return;
	}
	session_lost(s, errnum);
	session_listen_no_more(s);
}

/* ---- answers -------------------------------------------------- */

/* True if session_stopped() must be called again, in a millisecond. */
static bool session_stop_wanted(const struct session *s)
{
	return s->n_acks > 0 || work(s);
}

/* If the channel cannot tell when it has room, ticks are used. */
static void session_watch(struct session *s)
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
			channel_ended(s, rc);
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

/* Queue an answer and send what the socket takes; never blocks. */
static void session_answer(struct session *s, const struct msg *m,
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

/* ---- answers that wait ------------------------------------------------------- */

/*
 * A broken lane may have left a CAS in flight, in the NIC or in the network, so the session
 * cannot say that its operations are over; it will be replaced, or the server cuts it off.
 * Shared memory leaves nothing in flight.
 */
static bool cannot_tell(const struct session *s)
{
	return !s->ch->pollable && xport_broken(s->lane);
}

static bool ack_ready(const struct session *s, const struct pending_ack *a)
{
	if (a->type != MSG_BARRIER_ACK && (qsbr_pending(&s->qsbr) & PENDING_SWEEP))
		return false; /* not recorded yet */
	return qsbr_passed(&s->qsbr, a->mark);
}

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

static void ack_send(struct session *s, struct pending_ack *a)
{
	struct msg m = {.type = a->type, .req = a->req};

	if (s->tells_hits && a->type == MSG_BARRIER_ACK) {
		struct msg hits = session_hits_message(s);

		session_answer(s, &hits, NULL);
	}
	if (a->type == MSG_SWEEP_CLAIM) {
		m.blocks.number = a->number;
		if (s->inv)
			m.blocks.n = (uint32_t)journal_filter(
				s->inv->journal, a->number, a->refs, a->n);
	} else {
		m.epoch.number = a->number;
	}
	session_answer(s, &m, a->refs);
	free(a->refs);
}

/*
 * Send the answers that are ready. Those of a sweep keep their order, for the server takes claims
 * as answers to its questions in sequence: an answer that is not ready holds up later ones, even
 * if an operation has ended between two checks here.
 */
static void acks_check(struct session *s)
{
	bool sweep_waits = false;
	unsigned kept = 0;

	for (unsigned i = 0; i < s->n_acks; i++) {
		struct pending_ack *a = &s->acks[i];
		bool of_sweep = a->type != MSG_BARRIER_ACK;

		if (!(of_sweep && sweep_waits) && ack_ready(s, a)) {
			ack_send(s, a);
			continue;
		}
		sweep_waits |= of_sweep;
		s->acks[kept++] = *a;
	}
	s->n_acks = kept;
}

/* Drop answers to a sweep that is over. */
static void acks_forget_sweep(struct session *s)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->n_acks; i++) {
		if (s->acks[i].type == MSG_BARRIER_ACK)
			s->acks[kept++] = s->acks[i];
		else
			free(s->acks[i].refs);
	}
	s->n_acks = kept;
}

/* ---- work while no operation of the handle runs --------------------------------- */

/* Send the RETURN that inventory_pick() has prepared; 0 or an errno. */
static int return_send(struct session *s)
{
	struct inventory *inv = s->inv;
	struct msg m = {.type = MSG_RETURN};
	uint8_t buf[MSG_HEADER_BYTES + 64 + 8 * INVENTORY_RETURN_MAX];
	size_t len;
	int rc;

	m.blocks.state = (uint8_t)inv->ret_state;
	m.blocks.n = (uint32_t)inv->n_ret;
	if (msg_encode(&m, inv->ret, buf, sizeof(buf), &len))
		return EINVAL;
	rc = channel_send(s->ch, buf, len);
	if (rc == 0)
		inventory_sent(inv);
	return rc;
}

/*
 * Does not use the queue of answers: a BYE, which the handle's thread sends, must not overtake a
 * RETURN.
 */
static void reclaim(struct session *s)
{
	int rc = 0;

	for (unsigned i = 0; i < RECLAIM_BURST && !rc; i++) {
		if (!inventory_pick(s->inv, true)) {
			qsbr_clear_pending(&s->qsbr, PENDING_RECLAIM);
			return;
		}
		rc = return_send(s);
	}
	if (rc == EAGAIN && ++s->reclaim_tries < RECLAIM_TRIES_MAX)
		return;
	if (rc)
		qsbr_clear_pending(&s->qsbr, PENDING_RECLAIM);
	if (rc && rc != EAGAIN)
		channel_ended(s, rc);
}

void session_record(struct session *s)
{
	inventory_record(s->inv);
	pthread_mutex_lock(&s->lock);
	for (const struct session_grant *g = s->grants; g; g = g->next)
		for (uint32_t i = 0; i < g->n; i++)
			(void)journal_add(s->inv->journal, g->refs[i]);
	pthread_mutex_unlock(&s->lock);
	qsbr_clear_pending(&s->qsbr, PENDING_SWEEP);
}

/** Do and answer what has become possible now that operations have ended. */
static void session_stopped(struct session *s)
{
	if (s->src.muted || cannot_tell(s))
		return;
	if (work(s) && !qsbr_active(&s->qsbr)) {
		uint32_t todo;

		inventory_lock(s->inv);
		todo = work(s); /* the handle's thread may have done it */
		if (todo & PENDING_SWEEP)
			session_record(s);
		if (todo & PENDING_RECLAIM)
			reclaim(s);
		inventory_unlock(s->inv);
	}
	acks_check(s);
	if (!s->src.muted)
		session_watch(s);
}

/*
 * Answer when all operations that have begun are over. Flags are set first: qsbr.h shows why no
 * remembered reference survives.
 */
static void ack_later(struct session *s, struct pending_ack a)
{
	if (s->n_acks == ACKS_MAX) {
		free(a.refs);
		session_end(s, "the server asked for more than it can wait for");
		return;
	}
	control_heavy_barrier();
	a.mark = qsbr_snapshot(&s->qsbr);
	s->acks[s->n_acks++] = a;
	session_stopped(s);
}

/* ---- barriers, sweeps, RECLAIM ---- */

static void session_on_barrier(struct session *s, uint64_t number)
{
	qsbr_set_pending(&s->qsbr, PENDING_DROP);
	ack_later(s, (struct pending_ack){.type = MSG_BARRIER_ACK,
					  .number = number});
}

/* A new sweep ends the previous one. */
static void session_on_sweep_begin(struct session *s, uint64_t number)
{
	if (number < s->sweep)
		return;
	acks_forget_sweep(s);
	s->sweep = number;
	s->sweeping = true;
	if (s->inv) {
		/* Not while the handle's thread is in session_record(). */
		inventory_lock(s->inv);
		journal_begin(s->inv->journal, number);
		qsbr_set_pending(&s->qsbr, PENDING_SWEEP);
		inventory_unlock(s->inv);
	}
	ack_later(s, (struct pending_ack){.type = MSG_SWEEP_ACK,
					  .number = number});
}

static void session_on_sweep_query(struct session *s, const struct msg *m)
{
	uint32_t n = UTIL_MIN(m->blocks.n, MSG_REFS_MAX);
	struct pending_ack a = {.type = MSG_SWEEP_CLAIM,
				.req = m->req,
				.number = m->blocks.number,
				.n = n};

	if (!s->sweeping || m->blocks.number != s->sweep)
		return;
	a.refs = malloc((n + !n) * sizeof(*a.refs));
	if (!a.refs) {
		/* Silence would delay the sweep: let the server take everything back. */
		session_end(s, "out of memory for the server's question");
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		a.refs[i] = msg_ref(m, i);
	ack_later(s, a);
}

static void session_on_sweep_end(struct session *s, uint64_t number)
{
	if (!s->sweeping || number != s->sweep)
		return;
	s->sweeping = false;
	acks_forget_sweep(s);
	if (s->inv) {
		inventory_lock(s->inv);
		qsbr_clear_pending(&s->qsbr, PENDING_SWEEP);
		journal_end(s->inv->journal);
		inventory_unlock(s->inv);
	}
	session_watch(s);
}

static void session_on_reclaim(struct session *s)
{
	if (!s->inv)
		return;
	s->reclaim_tries = 0;
	qsbr_set_pending(&s->qsbr, PENDING_RECLAIM);
	control_heavy_barrier();
	session_stopped(s);
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
		atom_store_relaxed(&s->lease_ns, until);
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

	if (s->out_head && !out_flush(s))
		return;
	while (burst++ < RECEIVE_BURST && receive_one(s))
		;
}

void session_tick(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	if (src->muted && session_is_away(s) && !s->leaving) {
		look_for_server(s);
	} else if (src->muted) {
		let_go(s);
	} else if (out_flush(s)) {
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
