/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "server/follower/follower.h"

#include "core.h"
#include "fence.h"
#include "session.h"

/* Between the end of a child and the next one of its kind. */
#define RETRY_NS (300 * NS_PER_MS)
#define RETRY_DOUBLINGS 6u /* after failures in a row */
#define TELL_NS (10 * NS_PER_SEC) /* between two log lines about it */
/* A copy that has not been updated for this long, while its source lives, is not taken over. */
#define LATE_NS (60 * NS_PER_SEC)

struct set {
	bool has[CLUSTERMAP_PARTITIONS];
};

struct job {
	TAILQ_ENTRY(job) link;
	struct copies *copies;
	enum follower_kind kind;
	uint8_t source;
	struct set set;
	bool runs; /* the child */
	struct follower child;
	struct event *event; /* of the child's reports; NULL: it does not run */
	struct follower_report last; /* of this child; zeros at first */
	bool whole;  /* a child has copied all of it; later ones keep that up */
	uint64_t passed_ns; /* when the latest pass was reported; at first, when the job began */
	/* Of those of the partitions that are to move here: */
	uint64_t fence_epoch; /* of the first map that was seen with all of them fenced; or 0 */
	bool ready; /* what they had when the fence was complete is copied, and the child is gone */
	uint64_t heard_ns; /* of the child, the last time; or when it began */
	unsigned failures; /* children in a row that have ended */
	uint64_t retry_ns;
};

struct copies {
	struct control *c;
	TAILQ_HEAD(, job) jobs;
	struct follower_order address; /* own, keys and key */
	struct set have; /* partitions to be installed whose keys are here */
	bool dirty; /* there may be keys of partitions that are neither owned nor copied */
	uint64_t told_ns;
};

/* ---- children ------------------------------------------------------------------------------ */

static void end_session(struct control *c, const char *name)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next)
		if (strcmp(s->name, name) == 0)
			session_end(s);
}

static void job_halt(struct job *j)
{
	if (!j->runs)
		return;
	core_event_free(j->event);
	j->event = NULL;
	follower_stop(&j->child);
	j->runs = false;
	/* By RDMA its last WRITE may still be on its way: the server ends the session, too. */
	end_session(j->copies->c, j->child.name);
	memset(&j->last, 0, sizeof(j->last));
}

static void job_drop(struct job *j)
{
	job_halt(j);
	TAILQ_REMOVE(&j->copies->jobs, j, link);
	free(j);
}

static void child_ended(struct job *j)
{
	const struct clustermap *map = j->copies->c->cfg.map;
	uint64_t now = clock_now_ns();

	j->retry_ns = now + (RETRY_NS << UTIL_MIN(j->failures, RETRY_DOUBLINGS));
	/* Once is usual: the source has another map. */
	if (++j->failures < 2 || now < j->copies->told_ns + TELL_NS)
		return;
	j->copies->told_ns = now;
	if (j->kind == FOLLOWER_PURGE)
		log_warn("cluster: deleting the keys of other servers: %s; trying again",
			 j->last.detail[0] ? j->last.detail : "the process has ended");
	else
		log_warn("cluster: copying from %s: %s; trying again", map->server[j->source].name,
			 j->last.detail[0] ? j->last.detail : "the process has ended");
}

static void on_report(evutil_socket_t fd, short what, void *arg)
{
	struct follower_report r;
	struct job *j = arg;
	bool first, passed;
	int got;

	(void)fd;
	(void)what;
	while ((got = follower_report(&j->child, &r)) > 0) {
		first = !j->last.passes && r.passes;
		passed = r.passes > j->last.passes && !r.err;
		j->last = r;
		j->heard_ns = clock_now_ns();
		if (passed) {
			j->whole = true;
			j->passed_ns = j->heard_ns;
		}
		/* The fault is here: this store is full, say, and lacks what was written. */
		if (r.err == FARKV_ENOSPC || r.err == FARKV_ENOMEM || r.err == FARKV_EINDEXFULL)
			j->whole = false;
		j->failures = r.err ? j->failures : 0;
		if (first || (j->fence_epoch && r.fenced >= j->fence_epoch))
			core_look_at_map(j->copies->c);
	}
	if (got < 0) {
		struct follower_report last = j->last;
		bool done = j->kind == FOLLOWER_PURGE && last.passes && !last.err;

		if (!done)
			child_ended(j);
		job_halt(j);
		if (done)
			j->last = last; /* copies_step() sees it */
		core_look_at_map(j->copies->c);
	}
}

/* Start the child, unless it runs. One that has sent no report for LATE_NS is replaced. */
static void job_start(struct job *j)
{
	struct control *c = j->copies->c;
	const struct clustermap *map = c->cfg.map;
	struct follower_order o = j->copies->address;
	uint64_t now = clock_now_ns();

	if (j->runs && now > j->heard_ns + LATE_NS) {
		log_warn("cluster: a process that copies keys stands still: starting another one");
		job_halt(j);
	}
	if (j->runs || now < j->retry_ns)
		return;
	j->heard_ns = now;
	j->retry_ns = now + RETRY_NS;
	o.kind = j->kind;
	o.seed = map->seed;
	o.map_id = map->id;
	if (j->kind != FOLLOWER_PURGE) {
		o.source_server = j->source;
		o.own_server = (uint8_t)c->cfg.server;
		snprintf(o.source, sizeof(o.source), "%s", map->server[j->source].address);
	}
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		o.partition[p / 8] |= (uint8_t)(j->set.has[p] << p % 8);
	if (follower_start(&o, &j->child)) {
		log_warn("cluster: %s", err_detail());
		return;
	}
	j->runs = true;
	j->event = event_new(c->base, j->child.fd, EV_READ | EV_PERSIST, on_report, j);
	if (!j->event || event_add(j->event, NULL))
		job_halt(j);
}

/* A source has one child, for followed and moving partitions alike: no two children write one key.
 */
static struct job *job_find(const struct copies *w, bool purges, uint8_t source)
{
	struct job *j;

	TAILQ_FOREACH(j, &w->jobs, link)
		if ((j->kind == FOLLOWER_PURGE) == purges && j->source == source)
			return j;
	return NULL;
}

/* NULL: out of memory; it is tried again. */
static struct job *job_add(struct copies *w, enum follower_kind kind, uint8_t source,
			   const struct set *set)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->copies = w;
	j->kind = kind;
	j->source = source;
	j->set = *set;
	j->passed_ns = clock_now_ns();
	TAILQ_INSERT_TAIL(&w->jobs, j, link);
	return j;
}

bool copies_is_child(const struct control *c, const char *name)
{
	const struct job *j;

	if (strncmp(name, FOLLOWER_NAME, strlen(FOLLOWER_NAME)) != 0)
		return false;
	if (!c->copies) /* the map does not change: children are started by hand */
		return true;
	TAILQ_FOREACH(j, &c->copies->jobs, link)
		if (j->runs && strcmp(j->child.name, name) == 0)
			return true;
	return false;
}

/* ---- deleting what is left ----------------------------------------------------------------- */

/* True: all keys but those of `keep` are gone. Otherwise a child deletes them. */
static bool purged(struct copies *w, const struct set *keep)
{
	struct job *j = job_find(w, true, 0);
	bool same = j && memcmp(&j->set, keep, sizeof(*keep)) == 0;

	if (same && j->last.passes && !j->runs) {
		job_drop(j);
		return true;
	}
	if (j && !same)
		job_drop(j);
	if (!same)
		j = job_add(w, FOLLOWER_PURGE, 0, keep);
	if (j)
		job_start(j);
	return false;
}

static void purge(struct copies *w)
{
	const struct clustermap *map = w->c->cfg.map;
	const struct job *j;
	struct set keep;

	if (!w->dirty || !fence_acknowledged(w->c))
		return;
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		keep.has[p] = map->owner[p] == w->c->cfg.server;
	TAILQ_FOREACH(j, &w->jobs, link)
		for (uint32_t p = 0; j->kind != FOLLOWER_PURGE && p < CLUSTERMAP_PARTITIONS; p++)
			keep.has[p] |= j->set.has[p];
	w->dirty = !purged(w, &keep);
}

/* ---- maps ---------------------------------------------------------------------------------- */

static bool intersects(const struct set *a, const struct set *b)
{
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		if (a->has[p] && b->has[p])
			return true;
	return false;
}

/*
 * True if all partitions of the source came here as soon as it lost them. No map that this server
 * missed gave them to a third one: an owner keeps a partition for at least a session's time, and a
 * server without a view for that long has lost its own partitions.
 */
static bool came_straight(const struct job *j, const struct clustermap *map, const struct clustermap *old,
			  uint32_t me)
{
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		if (j->set.has[p] && map->owner[p] != me)
			return false;
	return map->server[j->source].emptied > old->epoch;
}

/* True if the partitions that are got from the job's source have their keys here. */
static bool has_keys(const struct job *j, const struct clustermap *map, const struct clustermap *old,
		     uint32_t me)
{
	if (map->server[j->source].emptied <= old->epoch)
		return j->ready;
	return j->kind == FOLLOWER_FOLLOW && j->whole && came_straight(j, map, old, me);
}

/* The job's partitions of `gains` are this server's own. */
static void job_gives(struct job *j, const struct clustermap *map, const struct set *gains)
{
	struct copies *w = j->copies;
	const struct clustermap *old = w->c->cfg.map;
	bool keys = has_keys(j, map, old, w->c->cfg.server), left = false;

	log_info("cluster: gets partitions of %s, %s", old->server[j->source].name,
		 keys ? "with their keys" : "empty");
	job_halt(j);
	j->ready = false;
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		w->have.has[p] |= keys && j->set.has[p] && gains->has[p];
		j->set.has[p] &= !gains->has[p];
		left |= j->set.has[p];
	}
	if (keys && left)
		return;
	w->dirty |= !keys || left;
	job_drop(j);
}

bool copies_prepare_map(struct control *c, const struct clustermap *map)
{
	const struct clustermap *old = c->cfg.map;
	struct copies *w = c->copies;
	struct set gains, keep;
	struct job *j, *next;
	bool empty = false;

	if (!old)
		return true;
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		gains.has[p] = map->owner[p] == c->cfg.server && old->owner[p] != c->cfg.server;
	TAILQ_FOREACH_SAFE(j, &w->jobs, link, next)
		if (j->kind != FOLLOWER_PURGE && intersects(&j->set, &gains))
			job_gives(j, map, &gains);
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		keep.has[p] = !gains.has[p] || w->have.has[p];
		empty |= !keep.has[p];
	}
	return !empty || !w->dirty || purged(w, &keep);
}

void copies_installed(struct control *c, const struct clustermap *before)
{
	const struct clustermap *map = c->cfg.map;
	struct copies *w = c->copies;

	for (uint32_t p = 0; before && p < CLUSTERMAP_PARTITIONS; p++)
		w->dirty |= before->owner[p] == c->cfg.server && map->owner[p] != c->cfg.server;
	memset(&w->have, 0, sizeof(w->have));
}

/* ---- which partitions to copy -------------------------------------------------------------- */

/* The first registered server after `of`, in the order of the list, that is not drained. */
static bool is_candidate(const struct clustermap *map, uint32_t me, uint32_t of, uint64_t living)
{
	for (uint32_t i = 1; i < map->n_servers; i++) {
		uint32_t at = (of + i) % map->n_servers;

		if ((living >> at & 1) && !map->server[at].drained)
			return at == me;
	}
	return false;
}

static bool follows(const struct clustermap *map, uint32_t me, uint32_t of, uint64_t living)
{
	uint8_t f = map->server[of].follower;

	if (!map->replicas || of == me || !map->server[of].partitions)
		return false;
	if (f != CLUSTERMAP_NONE && (living >> f & 1))
		return f == me;
	return is_candidate(map, me, of, living);
}

static bool moves_here(const struct control *c, uint32_t source, uint32_t partition)
{
	const struct clustermap *map = c->cfg.map;

	return map->owner[partition] == source && map->to[partition] == c->cfg.server;
}

/* The partitions of the source to copy, and why. True: there are any. */
static bool wanted(const struct control *c, uint32_t source, uint64_t living, struct set *out,
		   enum follower_kind *kind_out)
{
	bool follow = follows(c->cfg.map, c->cfg.server, source, living), any = false;

	*kind_out = follow ? FOLLOWER_FOLLOW : FOLLOWER_MOVE;
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		out->has[p] = source != c->cfg.server &&
			      (follow ? c->cfg.map->owner[p] == source : moves_here(c, source, p));
		any |= out->has[p];
	}
	return any;
}

static bool is_part(const struct set *part, const struct set *of)
{
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++)
		if (part->has[p] && !of->has[p])
			return false;
	return true;
}

static void adjust(struct copies *w, uint32_t source, uint64_t living)
{
	struct job *j = job_find(w, false, (uint8_t)source);
	enum follower_kind kind;
	struct set set;
	bool any = wanted(w->c, source, living, &set, &kind), whole = false;

	if (j && (!any || kind != j->kind || memcmp(&set, &j->set, sizeof(set)) != 0)) {
		/* A follower of fewer partitions still has all of these. */
		whole = kind == j->kind && j->whole && is_part(&set, &j->set);
		w->dirty = true;
		job_drop(j);
		j = NULL;
	}
	if (any && !j) {
		log_info("cluster: copies %s of %s",
			 kind == FOLLOWER_MOVE ? "partitions" : "all partitions",
			 w->c->cfg.map->server[source].name);
		j = job_add(w, kind, (uint8_t)source, &set);
		if (j)
			j->whole = whole;
	}
	if (!j)
		return;
	if ((living >> source & 1) && clock_now_ns() > j->passed_ns + LATE_NS)
		j->whole = false;
	if (!j->ready)
		job_start(j);
}

/* ---- maps that the jobs propose ------------------------------------------------------------ */

/* The map that the job's moves propose, or NULL. */
static int next_of_move(struct job *j, struct clustermap **out)
{
	struct control *c = j->copies->c;
	const struct clustermap *map = c->cfg.map;
	bool any = false, fenced = true;

	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		any |= moves_here(c, j->source, p);
		fenced &= map->fenced[p] || !moves_here(c, j->source, p);
	}
	if (!any || !fenced) {
		j->fence_epoch = 0;
		j->ready = false;
		return any && j->last.passes ? clustermap_fence(map, j->source, c->cfg.server, out) : 0;
	}
	if (!j->fence_epoch)
		j->fence_epoch = map->epoch;
	/* The child is dead before anyone may write here. */
	if (j->last.fenced >= j->fence_epoch && j->last.passes) {
		job_halt(j);
		j->ready = true;
	}
	return j->ready ? clustermap_moved(map, j->source, c->cfg.server, out) : 0;
}

/* The map names a follower as long as its copy is whole. */
static int next_of_follower(const struct job *j, struct clustermap **out)
{
	struct control *c = j->copies->c;
	bool named = c->cfg.map->server[j->source].follower == c->cfg.server;

	if (j->kind != FOLLOWER_FOLLOW || named == j->whole)
		return 0;
	return clustermap_follow(c->cfg.map, j->source,
				 j->whole ? (uint8_t)c->cfg.server : CLUSTERMAP_NONE, out);
}

struct clustermap *copies_step(struct control *c, uint64_t living)
{
	struct copies *w = c->copies;
	const struct clustermap *map = c->cfg.map;
	struct clustermap *next = NULL;
	struct job *j;
	int err = 0;

	for (uint32_t i = 0; i < map->n_servers; i++)
		adjust(w, i, living);
	purge(w);
	TAILQ_FOREACH(j, &w->jobs, link) {
		if (j->kind == FOLLOWER_PURGE)
			continue;
		err = next_of_move(j, &next);
		if (!err && !next)
			err = next_of_follower(j, &next);
		if (err)
			log_warn("cluster: %s", err_detail());
		if (next)
			return next;
	}
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

void copies_set_address(struct control *c, const char *uri, const char *key)
{
	struct copies *w = c->copies;

	if (!w)
		return;
	snprintf(w->address.own, sizeof(w->address.own), "%s", uri);
	if (key)
		snprintf(w->address.key, sizeof(w->address.key), "%s", key);
	if (c->cfg.keys_path)
		snprintf(w->address.keys, sizeof(w->address.keys), "%s", c->cfg.keys_path);
}

static bool init(struct control *c)
{
	if (!c->cfg.cluster)
		return true;
	c->copies = calloc(1, sizeof(*c->copies));
	if (!c->copies)
		return false;
	c->copies->c = c;
	TAILQ_INIT(&c->copies->jobs);
	return true;
}

static void fini(struct control *c)
{
	struct job *j;

	if (!c->copies)
		return;
	while ((j = TAILQ_FIRST(&c->copies->jobs)))
		job_drop(j);
	free(c->copies);
	c->copies = NULL;
}

const struct loop_module copies_module = {
	.init = init,
	.fini = fini,
};
