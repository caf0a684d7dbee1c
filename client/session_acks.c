/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that wait until the handle is between two operations. Barriers (I5); sweeps, which find
 * what dead sessions held; and giving back an idle handle's blocks.
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

#include "session_acks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"

/* RETURNs at a time: some 4000 blocks, a fraction of a millisecond. */
#define RECLAIM_BURST 16
/* Milliseconds of a full socket after which a RECLAIM is given up: a server that still lacks
 * memory asks again. */
#define RECLAIM_TRIES_MAX 50

/*
 * A broken lane may have left a CAS in flight, in the NIC or in the network, so the session
 * cannot say that its operations are over; it will be replaced, or the server cuts it off.
 * Shared memory leaves nothing in flight.
 */
static bool cannot_tell(const struct session *s)
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
		return !s->routed || !atom_load_follow(s->routed) || !session_map_waits(s);
	if (of_sweep(a) && (qsbr_pending(&s->qsbr) & PENDING_SWEEP))
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

		if (!(of_sweep(a) && sweep_waits) && ack_ready(s, a)) {
			ack_send(s, a);
			continue;
		}
		sweep_waits |= of_sweep(a);
		s->acks[kept++] = *a;
	}
	s->n_acks = kept;
}

/* Drop answers to a sweep that is over. */
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
		session_channel_ended(s, rc);
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

void session_stopped(struct session *s)
{
	if (s->src.muted || cannot_tell(s))
		return;
	if (session_work(s) && !qsbr_active(&s->qsbr)) {
		uint32_t todo;

		inventory_lock(s->inv);
		todo = session_work(s); /* the handle's thread may have done it */
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

void session_on_barrier(struct session *s, uint64_t number)
{
	qsbr_set_pending(&s->qsbr, PENDING_DROP);
	ack_later(s, (struct pending_ack){.type = MSG_BARRIER_ACK,
					  .number = number});
}

/* The flag is set first: a call that was routed before is seen here, a later one sees the flag. */
void session_on_map(struct session *s, const struct msg *m)
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
	if (!session_map_waits(s))
		atom_store_relaxed(&s->lease_before_ns, atom_load_relaxed(&s->lease_ns));
	atom_store_publish(&s->map_waits, 1u);
	session_tell(s, false);
	pthread_mutex_unlock(&s->lock);
	free(older);
	ack_later(s, (struct pending_ack){.type = MSG_MAP_ACK, .number = epoch});
}

/* A new sweep ends the previous one. */
void session_on_sweep_begin(struct session *s, uint64_t number)
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

void session_on_sweep_query(struct session *s, const struct msg *m)
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

void session_on_sweep_end(struct session *s, uint64_t number)
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

void session_on_reclaim(struct session *s)
{
	if (!s->inv)
		return;
	s->reclaim_tries = 0;
	qsbr_set_pending(&s->qsbr, PENDING_RECLAIM);
	control_heavy_barrier();
	session_stopped(s);
}
