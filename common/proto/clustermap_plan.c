/* SPDX-License-Identifier: BSD-3-Clause */
/* The next epoch's map: takeovers, followers, and moves of partitions. */
#include "config.h"

#include "clustermap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "clustermap_priv.h"

/* Bytes of text that a plan leaves free, for later changes of servers and followers. */
#define ROOM 1000u

static bool has(uint64_t set, uint32_t server)
{
	return set >> server & 1;
}

static int begin(const struct clustermap *m, struct clustermap **next_out)
{
	struct clustermap *next;

	if (!m->lease_ms)
		return err_set(FARKV_EINVAL, "a map without a lease does not change");
	next = clustermap_new();
	if (!next)
		return FARKV_ENOMEM;
	*next = *m;
	next->epoch++;
	*next_out = next;
	return 0;
}

/* Hand out the map, or free it after an error or if something is `wrong`. */
static int finish(struct clustermap *next, int err, const char *wrong, struct clustermap **out)
{
	if (!err && !wrong)
		wrong = clustermap_complete(next);
	if (wrong)
		err = err_set(FARKV_EINVAL, "%s", wrong);
	if (err)
		free(next);
	else
		*out = next;
	return err;
}

static void stay(struct clustermap *m, uint32_t partition)
{
	m->to[partition] = CLUSTERMAP_NONE;
	m->fenced[partition] = false;
}

/* ---- takeovers ------------------------------------------------------------------------- */

/* End the moves from and to servers of `gone`. */
static void end_moves(struct clustermap *m, uint64_t gone)
{
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		if (m->to[i] != CLUSTERMAP_NONE && (has(gone, m->owner[i]) || has(gone, m->to[i])))
			stay(m, i);
}

/*
 * Give living followers the partitions that they have copies of. Returns the servers that got some.
 */
static uint64_t promote(struct clustermap *m, uint64_t gone, uint64_t living)
{
	uint64_t got = 0;

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		uint8_t follower = m->server[m->owner[i]].follower;

		if (!has(gone, m->owner[i]) || follower == CLUSTERMAP_NONE || !has(living, follower))
			continue;
		m->owner[i] = follower;
		got |= UINT64_C(1) << follower;
	}
	return got;
}

/*
 * Divide what `gone` still has among `heirs`, and return those that got some: in equal runs, or, if
 * `whole`, without cutting the existing runs, so that the text does not grow.
 */
static uint64_t divide(struct clustermap *m, uint64_t gone, uint64_t heirs, bool whole)
{
	uint32_t n = (uint32_t)__builtin_popcountll(heirs), all = 0, at = 0, to = 0;
	uint8_t last = CLUSTERMAP_NONE;
	uint64_t got = 0;

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		all += has(gone, m->owner[i]);
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		uint32_t run = at * n / UTIL_MAX(all, 1u);
		bool on = whole && m->owner[i] == last;

		last = m->owner[i];
		if (!has(gone, last))
			continue;
		at++;
		if (!on)
			for (to = 0; run || !has(heirs, to); to++)
				run -= has(heirs, to);
		m->owner[i] = (uint8_t)to;
		got |= UINT64_C(1) << to;
	}
	return got;
}

static void end_followers(struct clustermap *m, uint64_t gone, uint64_t got)
{
	for (uint32_t i = 0; i < m->n_servers; i++) {
		struct clustermap_server *s = &m->server[i];

		if (has(gone | got, i) ||
		    (s->follower != CLUSTERMAP_NONE && has(gone, s->follower)))
			s->follower = CLUSTERMAP_NONE;
	}
}

static uint64_t drained(const struct clustermap *m)
{
	uint64_t set = 0;

	for (uint32_t i = 0; i < m->n_servers; i++)
		set |= (uint64_t)m->server[i].drained << i;
	return set;
}

static void change_hands(struct clustermap *m, uint64_t gone, uint64_t living, bool whole)
{
	uint64_t heirs = living & ~drained(m), got;

	end_moves(m, gone);
	got = promote(m, gone, living);
	got |= divide(m, gone, heirs ? heirs : living, whole);
	end_followers(m, gone, got);
	for (uint32_t i = 0; i < m->n_servers; i++)
		if (has(gone, i))
			m->server[i].emptied = m->epoch;
}

int clustermap_take_over(const struct clustermap *m, uint64_t gone, uint64_t living,
			 struct clustermap **out)
{
	struct clustermap *next = NULL;
	int err;

	if (!living)
		return err_set(FARKV_EINVAL, "no server of the cluster lives");
	err = begin(m, &next);
	if (err)
		return err;
	change_hands(next, gone, living, false);
	if (clustermap_complete(next)) { /* too long */
		*next = *m;
		next->epoch++;
		change_hands(next, gone, living, true);
	}
	return finish(next, 0, NULL, out);
}

int clustermap_start_empty(const struct clustermap *m, uint32_t server, uint64_t living,
			  struct clustermap **out)
{
	struct clustermap *next = NULL;
	int err;

	if (m->server[server].emptied && living)
		return clustermap_take_over(m, UINT64_C(1) << server, living, out);
	err = begin(m, &next);
	if (err)
		return err;
	next->server[server].emptied = next->epoch;
	end_followers(next, UINT64_C(1) << server, 0);
	return finish(next, 0, NULL, out);
}

/* ---- plans ----------------------------------------------------------------------------- */

struct plan {
	struct clustermap *m;
	uint64_t getting;  /* the servers that get partitions */
	uint32_t n[CLUSTERMAP_SERVERS_MAX]; /* partitions of each after the planned moves */
	uint32_t want[CLUSTERMAP_SERVERS_MAX];
};

static uint32_t final_owner(const struct clustermap *m, uint32_t partition)
{
	return m->to[partition] != CLUSTERMAP_NONE ? m->to[partition] : m->owner[partition];
}

/*
 * Compute the shares: the servers with most partitions get the remainder, which needs the fewest
 * moves.
 */
static void share_out(struct plan *p)
{
	uint32_t n = (uint32_t)__builtin_popcountll(p->getting);
	uint32_t share = CLUSTERMAP_PARTITIONS / n;

	for (uint32_t i = 0; i < p->m->n_servers; i++)
		p->want[i] = has(p->getting, i) ? share : 0;
	for (uint32_t more = CLUSTERMAP_PARTITIONS % n; more > 0; more--) {
		uint32_t *most = NULL, has_most = 0;

		for (uint32_t i = 0; i < p->m->n_servers; i++)
			if (has(p->getting, i) && p->want[i] == share && (!most || p->n[i] > has_most)) {
				most = &p->want[i];
				has_most = p->n[i];
			}
		if (most)
			++*most;
	}
}

/* Check that each server can give away its surplus. */
static int check(const struct plan *p, uint64_t living)
{
	const struct clustermap *m = p->m;
	uint32_t coming[CLUSTERMAP_SERVERS_MAX] = {0};

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		if (m->fenced[i])
			coming[m->to[i]]++;
	for (uint32_t i = 0; i < m->n_servers; i++) {
		if (p->n[i] > 0 && !has(living, i))
			return err_set(FARKV_EINVAL,
				       "server %s has partitions, but is not there: try again when it is "
				       "back, or when others have taken them over", m->server[i].name);
		if (coming[i] > p->want[i])
			return err_set(FARKV_EINVAL,
				       "partitions are about to arrive at server %s: try again when they "
				       "have", m->server[i].name);
	}
	return 0;
}

static void move(struct plan *p, uint32_t partition, uint32_t to)
{
	p->n[final_owner(p->m, partition)]--;
	p->n[to]++;
	p->m->to[partition] = (uint8_t)to;
}

/* Keep the moves planned in `before` that are still needed: part of their copies may exist. */
static void keep_moves(struct plan *p, const struct clustermap *before)
{
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		uint32_t from = before->owner[i], to = before->to[i];

		if (to != CLUSTERMAP_NONE && !before->fenced[i] && p->n[from] > p->want[from] &&
		    p->n[to] < p->want[to])
			move(p, i, to);
	}
}

struct run {
	uint32_t first, n;
};

static bool keeps(const struct clustermap *m, uint32_t server, uint32_t partition)
{
	return m->owner[partition] == server && m->to[partition] == CLUSTERMAP_NONE;
}

/*
 * The next run of partitions from `at` on that a server has and keeps so far; n is 0 after the last
 * one.
 */
static struct run next_run(const struct clustermap *m, uint32_t server, uint32_t at)
{
	struct run r = {at, 0};

	while (r.first < CLUSTERMAP_PARTITIONS && !keeps(m, server, r.first))
		r.first++;
	while (r.first + r.n < CLUSTERMAP_PARTITIONS && keeps(m, server, r.first + r.n))
		r.n++;
	return r;
}

/*
 * Choose what to move next, up to `most` partitions: the longest run that can move as a whole;
 * otherwise a part of one, if possible at an end next to what `to` has. Cutting few runs keeps the
 * text short.
 */
static struct run choose(const struct clustermap *m, uint32_t from, uint32_t to, uint32_t most)
{
	struct run whole = {0, 0}, part = {0, 0};
	bool touches = false;

	for (struct run r = next_run(m, from, 0); r.n > 0; r = next_run(m, from, r.first + r.n)) {
		uint32_t end = r.first + r.n;

		if (r.n <= most) {
			whole = r.n > whole.n ? r : whole;
		} else if (!touches) {
			bool head = r.first > 0 && final_owner(m, r.first - 1) == to;

			touches = head || (end < CLUSTERMAP_PARTITIONS && final_owner(m, end) == to);
			if (touches || part.n == 0)
				part = (struct run){head ? r.first : end - most, most};
		}
	}
	return whole.n > 0 ? whole : part;
}

static void move_runs(struct plan *p, uint32_t from, uint32_t to)
{
	uint32_t most;

	while ((most = UTIL_MIN(p->n[from] - p->want[from], p->want[to] - p->n[to])) > 0) {
		struct run r = choose(p->m, from, to, most);

		for (uint32_t i = r.first; i < r.first + r.n; i++)
			move(p, i, to);
	}
}

/*
 * No map on the way to the end of the moves, in any order, may be too long: the moves would stop.
 */
static const char *later_wrong(const struct clustermap *m)
{
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	struct clustermap bare = *m;
	size_t len = ROOM;

	memset(bare.owner, 0, sizeof(bare.owner));
	memset(bare.to, CLUSTERMAP_NONE, sizeof(bare.to));
	len += clustermap_print(&bare, buf);
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		size_t owner = strlen(m->server[m->owner[i]].name);
		size_t last = strlen(m->server[final_owner(m, i)].name);

		if (i > 0 && m->owner[i] == m->owner[i - 1] && m->to[i] == m->to[i - 1])
			continue;
		len += strlen("partitions 1000-2000 \n") + UTIL_MAX(owner, last);
		if (m->to[i] != CLUSTERMAP_NONE)
			len += strlen("move 1000-2000  fenced\n") + last;
	}
	return len <= CLUSTERMAP_TEXT_MAX ?
		       NULL :
		       "the moves need a map that is too long: more than 16000 bytes of text";
}

/* Plan the moves of `next`, which has no moves yet except fenced ones. */
static int plan(struct clustermap *next, const struct clustermap *before, uint64_t living)
{
	struct plan p = {.m = next, .getting = living & ~drained(next)};
	int err;

	if (!p.getting)
		return err_set(FARKV_EINVAL, "no server is there that may have the partitions");
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		if (!next->fenced[i])
			next->to[i] = CLUSTERMAP_NONE;
		p.n[final_owner(next, i)]++;
	}
	share_out(&p);
	err = check(&p, living);
	if (err)
		return err;
	keep_moves(&p, before);
	for (uint32_t to = 0; to < next->n_servers; to++)
		for (uint32_t from = 0; from < next->n_servers && p.n[to] < p.want[to]; from++)
			if (p.n[from] > p.want[from])
				move_runs(&p, from, to);
	return 0;
}

int clustermap_balance(const struct clustermap *m, uint64_t living, struct clustermap **out)
{
	struct clustermap *next = NULL;
	int err = begin(m, &next);

	if (err)
		return err;
	err = plan(next, m, living);
	if (!err && memcmp(next->to, m->to, sizeof(m->to)) == 0)
		err = err_set(FARKV_EEXISTS, m->n_moves ? "these moves are planned already" :
							  "there is nothing to move");
	return finish(next, err, err ? NULL : later_wrong(next), out);
}

int clustermap_drain(const struct clustermap *m, uint32_t server, uint64_t living,
		     struct clustermap **out)
{
	struct clustermap *next = NULL;
	int err = begin(m, &next);

	if (err)
		return err;
	next->server[server].drained = true;
	err = plan(next, m, living);
	if (!err && m->server[server].drained && memcmp(next->to, m->to, sizeof(m->to)) == 0)
		err = err_set(FARKV_EEXISTS, "server %s is drained already%s", m->server[server].name,
			      m->n_moves ? ", and the moves are planned" : "");
	return finish(next, err, err ? NULL : later_wrong(next), out);
}

/* ---- servers --------------------------------------------------------------------------- */

/* End the draining of a server, or append one. NULL, or what is wrong. */
static const char *join(struct clustermap *m, const char *name, const char *address)
{
	uint32_t i = clustermap_find(m, name);

	if (i < m->n_servers && strcmp(m->server[i].address, address) == 0) {
		if (!m->server[i].drained)
			return "the cluster has this server already";
		m->server[i].drained = false;
		return NULL;
	}
	return clustermap_add_server(m, (struct word){name, strlen(name)},
				     (struct word){address, strlen(address)});
}

int clustermap_add(const struct clustermap *m, const char *name, const char *address,
		   struct clustermap **out)
{
	struct clustermap *next = NULL;
	int err = begin(m, &next);

	return err ? err : finish(next, 0, join(next, name, address), out);
}

int clustermap_follow(const struct clustermap *m, uint32_t server, uint8_t follower,
		      struct clustermap **out)
{
	struct clustermap *next = NULL;
	const char *wrong = NULL;
	int err = begin(m, &next);

	if (err)
		return err;
	if (follower == server)
		wrong = "a server cannot follow itself";
	else if (follower == m->server[server].follower)
		wrong = "the map says so already";
	next->server[server].follower = follower;
	return finish(next, 0, wrong, out);
}

/* ---- moves ----------------------------------------------------------------------------- */

int clustermap_fence(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out)
{
	struct clustermap *next = NULL;
	uint32_t n = 0;
	int err = begin(m, &next);

	if (err)
		return err;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		if (m->owner[i] != from || m->to[i] != to || m->fenced[i])
			continue;
		next->fenced[i] = true;
		n++;
	}
	return finish(next, 0, n ? NULL : "no partitions are to move so", out);
}

int clustermap_moved(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out)
{
	struct clustermap *next = NULL;
	uint32_t n = 0;
	int err = begin(m, &next);

	if (err)
		return err;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		if (m->owner[i] != from || m->to[i] != to || !m->fenced[i])
			continue;
		next->owner[i] = (uint8_t)to;
		stay(next, i);
		n++;
	}
	next->server[to].follower = CLUSTERMAP_NONE;
	if (n == m->server[from].partitions)
		next->server[from].follower = CLUSTERMAP_NONE;
	return finish(next, 0, n ? NULL : "no partitions are fenced that are to move so", out);
}
