/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's half of a session: what it receives, and the answers that wait until the
 * handle is between two operations: to barriers (I5), to sweeps, which find blocks that dead
 * sessions held, and to maps.
 */
#include "config.h"

#include "session_recv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"

/* Messages received before other sessions are served. */
#define RECEIVE_BURST 16
/* RETURNs at a time: some 4000 blocks, a fraction of a millisecond. */
#define RECLAIM_BURST 16
/*
 * Milliseconds of a full socket after which a RECLAIM is given up: a server that still lacks memory
 * asks again.
 */
#define RECLAIM_TRIES_MAX 50

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
		/*
		 * The blocks would have no owner: end the session, so that the server takes
		 * everything back.
		 */
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
	s->inbox.full[g->cls / 64] &= ~(UINT64_C(1) << g->cls % 64);
	*s->grants_tail = g;
	s->grants_tail = &g->next;
	atom_count(&s->grants_out, UINT32_MAX); /* decrements */
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_notify(s, false);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t figure(const struct msg *m, uint16_t id, uint64_t otherwise)
{
	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	return otherwise;
}

/* Pass an answer to the waiting call; drop a late one. */
static void on_answer(struct session *s, const struct msg *m)
{
	pthread_mutex_lock(&s->lock);
	if (s->awaited && m->req == s->awaited && m->type == s->awaited_type) {
		s->answer = *m;
		s->answered = true;
		s->awaited = 0;
		session_notify(s, false);
	}
	pthread_mutex_unlock(&s->lock);
}

/* A GRANT_REQ waits for memory: see MSG_STAT_FULL_CLASS. */
static void on_full(struct session *s, const struct msg *m, uint64_t cls)
{
	pthread_mutex_lock(&s->lock);
	s->inbox.full[cls / 64] |= UINT64_C(1) << cls % 64;
	s->inbox.other_bytes = figure(m, MSG_STAT_FREE_BYTES, 0);
	s->inbox.no_pages = figure(m, MSG_STAT_PAGES_REFUSED, 0) != 0;
	s->has_full = true;
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_notify(s, false);
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
	s->inbox.prefix = m->prefix.prefix;
	s->inbox.has_prefix = true;
	qsbr_set_pending(&s->qsbr, PENDING_GRANTS);
	session_notify(s, false);
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
		session_stop_listening(s);
		return;
	}
	session_end(s, "the server ended the session%s%s", n ? ": " : "", text);
}

/* ---- leases --------------------------------------------------- */

/* The clocks of two machines may differ by this fraction. */
#define LEASE_DRIFT 64

/* The lease counts from the question, because the answer may have been underway for any time. */
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

/* ---- answers that wait until the handle is between two operations -------- */

/*
 * A broken lane may have left a CAS in flight, in the NIC or in the network, so the session cannot
 * declare its operations ended; it will be replaced, or the server cuts it off. Shared memory
 * leaves nothing in flight.
 */
static bool may_be_in_flight(const struct session *s)
{
	return !s->ch->pollable && xport_broken(s->lane);
}

static bool of_sweep(const struct pending_ack *a)
{
	return a->type == MSG_SWEEP_ACK || a->type == MSG_SWEEP_CLAIM;
}

static bool ack_ready(const struct session *s, const struct pending_ack *a)
{
	if (a->type == MSG_MAP_ACK)
		return !s->routed || !atom_load_follow(s->routed) || !atom_load_follow(&s->map_waits);
	if (of_sweep(a) && (qsbr_pending(&s->qsbr) & PENDING_SWEEP))
		return false; /* not recorded yet */
	return qsbr_passed(&s->qsbr, a->mark);
}

static void ack_send(struct session *s, struct pending_ack *a)
{
	struct msg m = {.type = a->type, .req = a->req};

	if (s->sends_hits && a->type == MSG_BARRIER_ACK) {
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
 * Send the answers that are ready. Those of a sweep keep their order, because the server takes
 * claims as answers to its questions in sequence: later answers wait for one that is not ready,
 * even if an operation has ended between two checks here.
 */
static void acks_check(struct session *s)
{
	bool sweep_waits = false;
	unsigned kept = 0;

	for (unsigned i = 0; i < s->n_acks; i++) {
		struct pending_ack *a = &s->acks[i];

		if (!(of_sweep(a) && sweep_waits) && ack_ready(s, a)) {
			ack_send(s, a);
			continue;
		}
		sweep_waits |= of_sweep(a);
		s->acks[kept++] = *a;
	}
	s->n_acks = kept;
}

/* Drop the answers to an ended sweep. */
static void acks_forget_sweep(struct session *s)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->n_acks; i++) {
		if (!of_sweep(&s->acks[i]))
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
 * Return blocks without the queue of answers: a BYE, which the handle's thread sends, must not
 * overtake a RETURN.
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
		session_channel_ended(s, rc);
}

void session_journal(struct session *s)
{
	inventory_record(s->inv);
	pthread_mutex_lock(&s->lock);
	for (const struct session_grant *g = s->inbox.grants; g; g = g->next)
		for (uint32_t i = 0; i < g->n; i++)
			(void)journal_add(s->inv->journal, g->refs[i]);
	pthread_mutex_unlock(&s->lock);
	qsbr_clear_pending(&s->qsbr, PENDING_SWEEP);
}

/* Do the work and send the answers that ended operations have made possible. */
static void operations_ended(struct session *s)
{
	if (s->src.muted || may_be_in_flight(s))
		return;
	if (session_work(s) && !qsbr_active(&s->qsbr)) {
		uint32_t todo;

		inventory_lock(s->inv);
		todo = session_work(s); /* the handle's thread may have done it */
		if (todo & PENDING_SWEEP)
			session_journal(s);
		if (todo & PENDING_RECLAIM)
			reclaim(s);
		inventory_unlock(s->inv);
	}
	acks_check(s);
	if (!s->src.muted)
		session_watch(s);
}

/*
 * Answer when all operations that have begun have ended. The flags are set before: qsbr.h shows why
 * no remembered reference survives.
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
	operations_ended(s);
}

/* ---- barriers, maps, sweeps, RECLAIM -------------------------- */

/*
 * A sweep as the session sees it. BEGIN: everything held is added to the journal while no operation
 * runs, then acknowledged. From then on unlinked blocks (alloc.c) and granted ones (on_grant()) are
 * added. QUERY: first wait for the running operations again, because one of them may have unlinked
 * a block without recording it yet, then name the candidates that are in the journal. A block that
 * did not leak and that the server's walk over the slots did not meet was held by some session at
 * some moment after BEGIN, and that session names it.
 */

static void on_barrier(struct session *s, uint64_t number)
{
	qsbr_set_pending(&s->qsbr, PENDING_DROP);
	ack_later(s, (struct pending_ack){.type = MSG_BARRIER_ACK,
					  .number = number});
}

/* The flag is set first: a call routed before is seen here, and a later call sees the flag. */
static void on_map(struct session *s, const struct msg *m)
{
	struct clustermap *map, *older;
	uint64_t epoch;

	if (clustermap_parse("map", (const char *)m->map.text, m->map.text_len, &map)) {
		session_end(s, "protocol error: %s", err_detail());
		return;
	}
	epoch = map->epoch;
	pthread_mutex_lock(&s->lock);
	older = s->map;
	s->map = map;
	if (!atom_load_follow(&s->map_waits))
		atom_store_relaxed(&s->lease_before_ns, atom_load_relaxed(&s->lease_ns));
	atom_store_publish(&s->map_waits, 1u);
	session_notify(s, false);
	pthread_mutex_unlock(&s->lock);
	free(older);
	ack_later(s, (struct pending_ack){.type = MSG_MAP_ACK, .number = epoch});
}

/* A new sweep ends the previous one. */
static void on_sweep_begin(struct session *s, uint64_t number)
{
	if (number < s->sweep)
		return;
	acks_forget_sweep(s);
	s->sweep = number;
	s->sweeping = true;
	if (s->inv) {
		/* Not while the handle's thread is in session_journal(). */
		inventory_lock(s->inv);
		journal_begin(s->inv->journal, number);
		qsbr_set_pending(&s->qsbr, PENDING_SWEEP);
		inventory_unlock(s->inv);
	}
	ack_later(s, (struct pending_ack){.type = MSG_SWEEP_ACK,
					  .number = number});
}

static void on_sweep_query(struct session *s, const struct msg *m)
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
		/*
		 * Silence would delay the sweep: end the session, so that the server takes
		 * everything back.
		 */
		session_end(s, "out of memory for the server's question");
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		a.refs[i] = msg_ref(m, i);
	ack_later(s, a);
}

static void on_sweep_end(struct session *s, uint64_t number)
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

static void on_reclaim(struct session *s)
{
	if (!s->inv)
		return;
	s->reclaim_tries = 0;
	qsbr_set_pending(&s->qsbr, PENDING_RECLAIM);
	control_heavy_barrier();
	operations_ended(s);
}

/* ---- everything that arrives ---------------------------------- */

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
		on_barrier(s, m->epoch.number);
		break;
	case MSG_SWEEP_BEGIN:
		on_sweep_begin(s, m->epoch.number);
		break;
	case MSG_SWEEP_QUERY:
		on_sweep_query(s, m);
		break;
	case MSG_SWEEP_END:
		on_sweep_end(s, m->epoch.number);
		break;
	case MSG_RECLAIM:
		on_reclaim(s);
		break;
	case MSG_LEASE:
		on_lease(s, m->epoch.number);
		break;
	case MSG_MAP:
		on_map(s, m);
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
		session_stop_listening(s);
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

	if (src->muted && atom_load_relaxed(&s->away) && !s->leaving) {
		session_look_for_server(s);
	} else if (src->muted) {
		session_release_tether(s);
	} else if (session_flush_answers(s)) {
		operations_ended(s);
		if (!src->muted)
			lease_tick(s);
	}
}

void session_fds_lost(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	session_lost(s, EBADF);
	session_stop_listening(s);
}

void session_forked(struct control_source *src)
{
	struct session *s = (struct session *)(void *)src;

	qsbr_set_pending(&s->qsbr, PENDING_FORKED);
	channel_forked(s->ch);
}
