/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "membership.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "server/cluster/coord.h"

#include "core.h"
#include "copies.h"
#include "fence.h"
#include "passes.h"
#include "session.h"
#include "welcome.h"

#define SESSION_MS 1000u /* what is asked for; ZooKeeper takes no less than two of its ticks */
#define ROUNDS_PER_LEASE 5u
/* Other servers' clocks and ours may differ: parts of the session's time that a lease leaves out.
 */
#define MARGIN 8u
/* A server that nobody here has seen may be about to start. */
#define UNSEEN_NS (30 * NS_PER_SEC)
/* After the coordinator was away all registrations may have ended: session times for others to come
 * back. */
#define RETURN_SESSIONS 5u
#define RETRY_NS (5 * NS_PER_MS) /* until the next try of a round that could not begin */
#define WARN_PAUSE_NS (10 * NS_PER_SEC) /* between two log lines about it */

struct membership {
	struct control *c;
	struct coord *coord;
	struct event *event;
	struct clustermap *map; /* the installed one; c->cfg.map */
	uint64_t lease_ns;      /* its end */
	uint64_t round_ns;      /* when the next one is due */
	uint64_t joined_ns;
	uint64_t viewed_id; /* of the map that the latest view has */
	uint64_t viewed_ns; /* the latest view; 0: none */
	uint64_t calm_ns;   /* nobody is taken over before this */
	uint64_t told_ns;
	uint64_t begun; /* the epoch of the map that is to say that this server is empty */
	uint64_t seen; /* servers, by their numbers, that were registered under this server's eyes */
};

/* ---- maps ---------------------------------------------------------------------------------- */

static bool grows(const struct clustermap *before, const struct clustermap *map, uint32_t server)
{
	for (uint32_t p = 0; before && p < CLUSTERMAP_PARTITIONS; p++)
		if (map->owner[p] == server && before->owner[p] != server)
			return true;
	return false;
}

static void install(struct membership *m, struct clustermap *map, uint32_t server)
{
	struct control_config *cfg = &m->c->cfg;

	log_info("cluster: server %s, %" PRIu32 " of %u partitions, map of epoch %" PRIu64,
		 map->server[server].name, map->server[server].partitions, CLUSTERMAP_PARTITIONS,
		 map->epoch);
	/* Nobody has been let in before the first map: no key has a place yet. */
	if (!m->map)
		region_reseed(m->c->region, clustermap_index_seed(map));
	if (grows(m->map, map, server))
		cfg->grown_epoch = map->epoch;
	cfg->map = map;
	cfg->server = server;
	copies_installed(m->c, m->map);
	free(m->map);
	m->map = map;
	fence_begin(m->c);
}

/* The server's place in a map that was read; it has to have one. */
static bool place(struct membership *m, const struct clustermap *map, uint32_t *server_out)
{
	const char *name = m->c->cfg.node_name;

	*server_out = clustermap_find(map, name);
	if (map->lease_ms && *server_out < map->n_servers)
		return true;
	if (clock_now_ns() >= m->told_ns + WARN_PAUSE_NS) {
		log_warn("cluster: the map at %s has no %s%s", m->c->cfg.cluster,
			 map->lease_ms ? "server " : "lease", map->lease_ms ? name : "");
		m->told_ns = clock_now_ns();
	}
	return false;
}

static uint64_t living(const struct clustermap *map, const struct coord_view *v)
{
	return clustermap_set_of(map, v->members, v->n_members);
}

static void replace_map(struct membership *m, const struct coord_view *v, const struct clustermap *next)
{
	char text[CLUSTERMAP_TEXT_MAX + 1];

	coord_replace_map(m->coord, text, clustermap_print(next, text), v->map_version);
	/* The next round is sent after it. */
	m->round_ns = 0;
}

/*
 * This server's region is empty. False: the map does not say so yet, and others might rely on keys
 * of an earlier process of that name; a new map was proposed.
 */
static bool has_begun(struct membership *m, const struct coord_view *v, const struct clustermap *map,
		      uint32_t server)
{
	struct clustermap *next;

	if (m->map || (m->begun && map->server[server].emptied == m->begun))
		return true;
	if (clustermap_start_empty(map, server, living(map, v) & ~(UINT64_C(1) << server), &next)) {
		log_warn("cluster: %s", err_detail());
		return false;
	}
	m->begun = next->epoch;
	replace_map(m, v, next);
	free(next);
	return false;
}

/* False: there is no lease by this view. */
static bool look_at_map(struct membership *m, const struct coord_view *v)
{
	struct clustermap *map;
	uint32_t server;

	if (clustermap_parse(m->c->cfg.cluster, v->map, v->map_len, &map)) {
		log_warn("cluster: %s", err_detail());
		return false;
	}
	m->viewed_id = map->id;
	if (m->map && map->epoch <= m->map->epoch) {
		bool same = map->id == m->map->id;

		free(map);
		return same;
	}
	if (!place(m, map, &server) || !has_begun(m, v, map, server)) {
		free(map);
		return false;
	}
	if (m->map && map->server[server].emptied > m->map->epoch) {
		log_warn("cluster: others have the partitions of %s by the map of epoch %" PRIu64
			 "; beginning again, empty", map->server[server].name, map->epoch);
		free(map);
		core_begin_again(m->c);
		return false;
	}
	/* Until then clients go on by the map before. */
	if (copies_prepare_map(m->c, map))
		install(m, map, server);
	else
		free(map);
	return true;
}

/* ---- takeovers ----------------------------------------------------------------------------- */

/* It has partitions, follows a server, or will get partitions. */
static bool matters(const struct clustermap *map, uint32_t server)
{
	bool has = map->server[server].partitions > 0;

	for (uint32_t i = 0; i < map->n_servers; i++)
		has |= map->server[i].follower == server;
	for (uint32_t p = 0; map->n_moves && p < CLUSTERMAP_PARTITIONS; p++)
		has |= map->to[p] == server;
	return has;
}

/* True: a new map was proposed. */
static bool take_over(struct membership *m, const struct coord_view *v)
{
	bool late = clock_now_ns() >= m->joined_ns + UNSEEN_NS;
	uint64_t live = living(m->map, v), gone = 0;
	struct clustermap *next;

	m->seen |= live;
	for (uint32_t i = 0; i < m->map->n_servers; i++)
		if (!(live >> i & 1) && (late || m->seen >> i & 1) && matters(m->map, i))
			gone |= UINT64_C(1) << i;
	if (!gone || clock_now_ns() < m->calm_ns)
		return false;
	if (clustermap_take_over(m->map, gone, live, &next)) {
		log_warn("cluster: %s", err_detail());
		return false;
	}
	for (uint32_t i = 0; i < m->map->n_servers; i++)
		if (gone >> i & 1)
			log_warn("cluster: %s is gone: %s", m->map->server[i].name,
				 m->map->server[i].follower != CLUSTERMAP_NONE &&
						 (live >> m->map->server[i].follower & 1) ?
					 "its follower has its partitions" :
					 "others get its partitions, empty");
	replace_map(m, v, next);
	free(next);
	return true;
}

/* Publish the map that this server's copies propose. */
static void step(struct membership *m, const struct coord_view *v)
{
	struct clustermap *next = copies_step(m->c, living(m->map, v));

	if (next)
		replace_map(m, v, next);
	free(next);
}

/* ---- rounds -------------------------------------------------------------------------------- */

static uint64_t lease_length(const struct membership *m)
{
	uint64_t session = coord_session_ms(m->coord) * NS_PER_MS;

	return UTIL_MIN(m->map->lease_ms * NS_PER_MS, session - session / MARGIN);
}

/* Rounds were missed, by the coordinator's fault or this server's: that says nothing about others.
 */
static void note_gap(struct membership *m)
{
	uint64_t now = clock_now_ns();

	if (m->viewed_ns && now - m->viewed_ns > lease_length(m) / 2)
		m->calm_ns = now + RETURN_SESSIONS * coord_session_ms(m->coord) * NS_PER_MS;
	m->viewed_ns = now;
}

static void on_view(void *arg, const struct coord_view *v)
{
	struct membership *m = arg;

	if (!v->registered || m->c->again || !look_at_map(m, v))
		return;
	m->lease_ns = UTIL_MAX(m->lease_ns, v->as_of_ns + lease_length(m));
	if (m->c->joining) {
		m->c->joining = false;
		m->joined_ns = clock_now_ns();
		event_base_loopbreak(m->c->base);
	}
	note_gap(m);
	/* By the newest map only: no wait ends by one that gave the follower less. */
	if (m->map->id == m->viewed_id)
		passes_confirm(m->c, v->as_of_ns);
	/* Changes are made of the newest map only, by servers that have installed it. */
	if (m->map->id == m->viewed_id && !take_over(m, v))
		step(m, v);
}

static void warn_without_lease(struct membership *m, uint64_t now)
{
	const char *why = coord_last_error(m->coord);

	if (now < m->lease_ns || now < m->told_ns + WARN_PAUSE_NS || (m->c->joining && !*why))
		return;
	log_warn("cluster: %s %s%s%s", m->c->cfg.cluster,
		 m->c->joining ? "lets this server wait" : "gives no lease, clients wait",
		 *why ? ": " : "", why);
	m->told_ns = now;
}

static uint64_t pause_of(const struct membership *m)
{
	return (m->map ? m->map->lease_ms : SESSION_MS) * NS_PER_MS / ROUNDS_PER_LEASE;
}

static void on_event(evutil_socket_t fd, short what, void *arg);

static void await(struct membership *m)
{
	uint64_t now = clock_now_ns(), left = m->round_ns > now ? m->round_ns - now : 0;
	struct timeval tv;
	struct pollfd p;
	short events = 0;
	int ms;

	coord_wants(m->coord, &p, &ms);
	left = UTIL_MIN(left, (uint64_t)ms * NS_PER_MS) + 1000;
	events |= p.fd >= 0 && (p.events & POLLIN) ? EV_READ : 0;
	events |= p.fd >= 0 && (p.events & POLLOUT) ? EV_WRITE : 0;
	tv = (struct timeval){.tv_sec = (time_t)(left / NS_PER_SEC),
			      .tv_usec = (suseconds_t)(left % NS_PER_SEC / 1000)};
	(void)event_assign(m->event, m->c->base, p.fd, events, on_event, m);
	(void)event_add(m->event, &tv);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct membership *m = arg;
	uint64_t now = clock_now_ns();

	(void)fd;
	coord_process(m->coord, (short)((what & EV_READ ? POLLIN : 0) | (what & EV_WRITE ? POLLOUT : 0)));
	if (m->c->again)
		return;
	if (now >= m->round_ns)
		m->round_ns = now + (coord_round(m->coord) ? pause_of(m) : RETRY_NS);
	warn_without_lease(m, now);
	await(m);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct membership *m = arg;

	(void)fd;
	(void)what;
	m->round_ns = 0;
	event_active(m->event, EV_TIMEOUT, 0);
}

/* ---- joining and leases -------------------------------------------------------------------- */

int membership_join(struct control *c)
{
	struct membership *m = c->membership;

	if (!m)
		return 0;
	log_info("cluster: %s registers at %s", c->cfg.node_name, c->cfg.cluster);
	await(m);
	while (c->joining && !c->drain_until)
		event_base_loop(c->base, EVLOOP_ONCE);
	if (c->drain_until)
		return err_set(FARKV_EABORTED, "cluster: interrupted by a signal before the server was "
					       "registered");
	welcome_waiting(c);
	return 0;
}

bool membership_on_lease(struct session *s, const struct msg *m)
{
	const struct membership *ms = s->control->membership;
	uint64_t now = clock_now_ns();
	struct msg r = {.type = MSG_LEASE};

	if (ms && ms->lease_ns > now && fence_grant_lease(s, ms->lease_ns))
		r.epoch.number = ms->lease_ns - now;
	return session_reply(s, &r, m->req, NULL);
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool init(struct control *c)
{
	struct coord_config cfg = {.url = c->cfg.cluster, .name = c->cfg.node_name,
				   .session_ms = SESSION_MS, .viewed = on_view};
	struct membership *m;

	if (!cfg.url)
		return true;
	m = calloc(1, sizeof(*m));
	if (!m)
		return false;
	c->membership = m;
	cfg.arg = m;
	m->c = c;
	c->joining = true;
	m->event = event_new(c->base, -1, 0, on_event, m);
	c->look = event_new(c->base, -1, 0, on_look, m);
	return m->event && c->look && coord_open(&cfg, &m->coord) == 0;
}

static void fini(struct control *c)
{
	struct membership *m = c->membership;

	if (!m)
		return;
	core_event_free(m->event);
	core_event_free(c->look);
	c->look = NULL;
	coord_close(m->coord, c->again);
	free(m->map);
	free(m);
	c->membership = NULL;
	c->cfg.map = NULL;
}

const struct loop_module membership_module = {
	.init = init,
	.fini = fini,
};
