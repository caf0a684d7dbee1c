/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a connection to WELCOME:
 *
 *   HELLO -> WELCOME                             no authentication
 *   HELLO -> CHALLENGE, AUTH -> WELCOME          see common/proto/auth.h
 *   HELLO -> (CHALLENGE, AUTH ->) MAP            a cluster's map, which HELLO did not name
 *
 * Before WELCOME a client has no rights: no descriptor, no rkey, no connection that could use
 * one.
 */
#include "config.h"

#include "welcome.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/proto/auth.h"
#include "common/proto/clustermap.h"
#include "common/proto/keyfile.h"
#include "common/proto/msg.h"
#include "common/rdma/verbs.h"
#include "server/memory/step.h"

#include "barrier.h"
#include "closer.h"
#include "copies.h"
#include "core.h"
#include "roster.h"
#include "session.h"
#include "sweep.h"

/* A remote session that ended, for the session that replaces it. */
struct ended_session {
	uint32_t id;
	uint64_t barriers; /* passed before it ended */
};
#define ENDED_KEPT 256u

struct welcome {
	struct ended_session ended[ENDED_KEPT]; /* a ring: the latest ones */
	uint32_t n_ended;
};

static bool wants_credentials(const struct session *s)
{
	const struct control_config *cfg = &s->control->cfg;

	return cfg->keys && (s->port->remote || cfg->keys_on_socket);
}

/* ---- a cluster ------------------------------------------------------------------ */

static void send_map(struct session *s, const struct clustermap *map)
{
	char text[CLUSTERMAP_TEXT_MAX + 1], peer[80];
	struct msg m = {.type = MSG_MAP, .req = s->hello.req};

	m.map.text = (const uint8_t *)text;
	m.map.text_len = (uint16_t)clustermap_print(map, text);
	log_debug("%s gets the cluster's map", session_peer(s, peer));
	s->begun = true; /* as for a refusal: the server waits for nothing */
	(void)session_send(s, &m, NULL, NULL, 0);
	session_end(s);
}

/*
 * Check what HELLO says of the cluster, for a client that has proved its key, if it needs one.
 * True: it has this server's map and means this server, neither knows of a cluster, or it is the
 * server's own child. False: the session is gone. A client with another map, or none, was sent the
 * map (MAP); one that means another server, or a cluster where there is none, was refused with the
 * reason.
 */
static bool cluster_admits(struct session *s)
{
	const struct control_config *cfg = &s->control->cfg;
	const struct session_hello *h = &s->hello;
	char text[160];

	if ((!cfg->map && !h->map) || s->copies)
		return true;
	if (!cfg->map) {
		session_refuse(s, MSG_REASON_CLUSTER,
			       "this server is in no cluster: start it with --cluster-map");
		return false;
	}
	if (h->map != cfg->map->id) {
		send_map(s, cfg->map);
		return false;
	}
	if (h->server == cfg->server) {
		s->map_epoch = cfg->map->epoch;
		return true;
	}
	snprintf(text, sizeof(text), "this is server %s, not %s: see kvserver --node-name and the map",
		 cfg->map->server[cfg->server].name,
		 h->server < cfg->map->n_servers ? cfg->map->server[h->server].name : "another");
	session_refuse(s, MSG_REASON_CLUSTER, text);
	return false;
}

/* ---- WELCOME ------------------------------------------------------------------- */

static void areas_of_socket(const struct superblock *sb, struct msg *w)
{
	w->welcome.flags |= MSG_WELCOME_READ8_ATOMIC;
	w->welcome.n_areas = sb->heat_bytes ? 3 : 2;
	w->welcome.areas[0].bytes = sb->meta_bytes;
	w->welcome.areas[1].off = sb->meta_bytes;
	w->welcome.areas[1].bytes = sb->region_bytes - sb->meta_bytes;
	w->welcome.areas[2].off = sb->region_bytes;
	w->welcome.areas[2].bytes = sb->heat_bytes;
}

static void areas_of_card(struct verbs_server *vs, bool readonly, struct msg *w)
{
	struct verbs_area areas[VERBS_AREAS_MAX];

	w->welcome.n_areas = xport_verbs->server_areas(vs, readonly, areas);
	if (xport_verbs->server_read8_atomic(vs))
		w->welcome.flags |= MSG_WELCOME_READ8_ATOMIC;
	for (unsigned i = 0; i < w->welcome.n_areas; i++)
		w->welcome.areas[i] = (struct msg_area){
			.off = areas[i].off,
			.bytes = areas[i].bytes,
			.raddr = areas[i].raddr,
			.rkey = areas[i].rkey};
}

static void fill(struct session *s, struct msg *w)
{
	struct control *c = s->control;
	const struct superblock *sb = &c->region->sb;

	w->welcome.session = s->id;
	w->welcome.prefix = s->id;
	w->welcome.role = s->readonly ? MSG_ROLE_RO : MSG_ROLE_RW;
	w->welcome.region_id[0] = sb->region_id[0];
	w->welcome.region_id[1] = sb->region_id[1];
	w->welcome.region_bytes = sb->region_bytes;
	w->welcome.meta_bytes = sb->meta_bytes;
	w->welcome.grace_ns = sb->grace_ns;
	if (c->region->outlives)
		w->welcome.flags |= MSG_WELCOME_OUTLIVES;
	memcpy(w->welcome.token, s->token, sizeof(s->token));
	if (s->port->remote) {
		areas_of_card(c->verbs, s->readonly, w);
		return;
	}
	areas_of_socket(sb, w);
	if (c->verbs) {
		const char *address =
			xport_verbs->server_address(c->verbs);

		w->welcome.address = (const uint8_t *)address;
		w->welcome.address_len = (uint16_t)strlen(address);
	}
}

/*
 * True if a word that session `id` remembers may have recurred since it ended: after a barrier
 * blocks begin with incarnation 0 again.
 */
static bool words_may_recur(const struct control *c, uint32_t id)
{
	if (c->barrier->on)
		return true;
	for (uint32_t i = 0; i < ENDED_KEPT; i++)
		if (c->welcome->ended[i].id == id)
			return c->welcome->ended[i].barriers != c->barrier->passed;
	return true;
}

void welcome_note_ended(struct control *c, uint32_t id)
{
	struct welcome *w = c->welcome;

	w->ended[w->n_ended++ % ENDED_KEPT] = (struct ended_session){
		.id = id, .barriers = c->barrier->passed};
}

static void session_ended(struct session *s)
{
	/* A session that said BYE is not replaced. */
	if (s->welcomed && !(s->left && !s->port->remote))
		welcome_note_ended(s->control, s->id);
}

/* True if it replaces another session of this store. */
static bool follows_one(const struct session *s)
{
	const struct session_hello *h = &s->hello;

	return h->replaces != 0 &&
	       memcmp(h->replaces_region, s->control->region->sb.region_id,
		      sizeof(h->replaces_region)) == 0;
}

/*
 * End the session that this one replaces before this one begins (I6). False if this one may
 * not end it, so that its last operations may still happen, or if words that it remembers may
 * have recurred.
 */
static bool end_replaced(struct session *s)
{
	struct control *c = s->control;
	const struct session_hello *h = &s->hello;
	struct session *old;

	if (!follows_one(s))
		return true;
	TAILQ_FOREACH(old, &c->sessions, link)
		if (old != s && old->welcomed && old->id == h->replaces)
			break;
	if (!s->port->remote) {
		/* The end of the socket may follow messages that are not read yet. */
		if (old)
			(void)session_end_dead(old);
		sweep_schedule(c);
		return !words_may_recur(c, h->replaces);
	}
	/* Only a session of the same host and the same key. */
	if (old && (!old->port->remote || old->key != s->key ||
		    !xport_verbs->peer_same_host(old->conn, s->conn)))
		return false;
	if (old)
		session_end(old);
	return !words_may_recur(c, h->replaces);
}

/*
 * Each lingering session takes a descriptor: a client that leaves many of them must not use
 * up all descriptors.
 */
static bool too_many_lingering(struct control *c)
{
	if (c->lingering.n < c->cfg.max_sessions)
		return false;
	(void)lingering_gone(&c->lingering);
	return c->lingering.n >= c->cfg.max_sessions;
}

/* What the session needs before it can be welcomed: a number, a token, descriptors. False: it
 * was refused. */
static bool prepare(struct session *s, struct msg *w)
{
	struct control *c = s->control;
	int errnum;

	if (!core_next_id(c, &s->id)) {
		session_refuse(s, MSG_REASON_FULL,
			       "all 2^32 session numbers are used up; restart "
			       "the server");
		return false;
	}
	if (auth_token(s->token)) {
		session_refuse(s, MSG_REASON_INTERNAL, err_detail());
		return false;
	}
	w->welcome.swept = !end_replaced(s);
	if (!s->port->remote && too_many_lingering(c)) {
		session_refuse(s, MSG_REASON_FULL,
			       "too many sessions ended without goodbye while "
			       "their processes live on");
		return false;
	}
	if (s->tether) {
		s->tether->id = s->id;
		s->tether->dir_fd = c->region->sessions_fd;
		s->tether->stored = c->region->outlives && c->region->sessions_fd < 0;
	}
	errnum = s->tether ? tether_make(s->tether) : 0;
	if (errnum) {
		session_refuse(s, MSG_REASON_FULL,
			       errnum == EMFILE || errnum == ENFILE ?
				       "the server is out of descriptors" :
				       "the server is out of memory");
		return false;
	}
	return true;
}

/* False: the session is gone. */
static bool send_welcome(struct session *s, const struct msg *w)
{
	const struct region *r = s->control->region;
	int fds[4] = {r->meta_ro_fd, s->readonly ? r->data_ro_fd : r->data_fd, r->heat_fd};
	int n = r->heat ? 3 : 2;
	bool sent;

	fds[n++] = s->tether ? s->tether->client_fd : -1;
	sent = session_send(s, w, NULL, fds, s->port->remote ? 0 : n);
	if (s->tether)
		tether_sent(s->tether);
	if (sent)
		return true;
	/* The client got no descriptors: nothing to wait for. */
	s->left = true;
	session_end(s);
	return false;
}

static bool welcome(struct session *s, bool readonly,
		    const struct key *key, const uint8_t *client_nonce)
{
	struct control *c = s->control;
	struct msg w = {.type = MSG_WELCOME, .req = s->hello.req};
	char peer[80];

	s->key = key;
	if (!cluster_admits(s) || !prepare(s, &w))
		return false;
	/* While a NIC writes, CPUs may only read (I3). */
	s->readonly = readonly || (c->verbs && !s->port->remote);
	fill(s, &w);
	if (key) {
		struct auth_server in = {.client_nonce = client_nonce,
					 .server_nonce = s->nonce,
					 .region_id = c->region->sb.region_id,
					 .session = s->id,
					 .role = w.welcome.role};

		auth_server_tag(key, &in, w.welcome.tag);
	}
	s->entry = roster_enter(c->region, s->id, s->port->remote ? 0 : s->pid);
	if (!s->entry && c->region->outlives) {
		session_refuse(s, MSG_REASON_FULL,
			       "the region's session table is full: it was made with a smaller "
			       "--max-sessions");
		return false;
	}
	step_reached(STEP_ENTERED);
	/* It takes part in barriers before it can hold a reference (I5). */
	s->welcomed = true;
	c->counts.sessions++;
	c->counts.sessions_total++;
	if (!send_welcome(s, &w) || !sweep_welcomed(s))
		return false;
	step_reached(STEP_WELCOMED);
	log_debug("session %u: %s, %s%s%s", s->id, session_peer(s, peer),
		  s->readonly ? "read-only" : "read-write",
		  key ? ", key " : "", key ? key->name : "");
	return true;
}

/* ---- HELLO and AUTH ----------------------------------------------------------------- */

static bool challenge(struct session *s)
{
	struct msg m = {.type = MSG_CHALLENGE, .req = s->hello.req};

	if (s->hello.body_len == 0 || auth_nonce(s->nonce)) {
		session_refuse(s, MSG_REASON_INTERNAL,
			       "no challenge could be made");
		return false;
	}
	s->challenged = true;
	memcpy(m.challenge.nonce, s->nonce, sizeof(s->nonce));
	return session_reply(s, &m, m.req, NULL);
}

static bool go_on(struct session *s)
{
	if (wants_credentials(s))
		return challenge(s);
	return welcome(s, s->hello.role == MSG_ROLE_RO, NULL, NULL);
}

/* Everything but the server's own child waits until a snapshot is restored, or the map is known. */
static bool hold(struct session *s)
{
	s->held = (s->control->restoring || s->control->joining) && !s->saver;
	return s->held;
}

/* A sweep lets new writers in. */
static void resume(struct session *s)
{
	s->resume = NULL;
	s->connected_ns = clock_now_ns();
	(void)go_on(s);
}

/* A returning client may be just what the sweep waits for: do not park it. */
static bool admit(struct session *s)
{
	if (hold(s))
		return true;
	if (s->hello.role != MSG_ROLE_RW || follows_one(s) || !sweep_holds_writers(s->control))
		return go_on(s);
	s->resume = resume;
	s->connected_ns = clock_now_ns(); /* it waits from now on */
	return true;
}

void welcome_waiting(struct control *c)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (!s->held)
			continue;
		s->connected_ns = clock_now_ns();
		(void)admit(s);
	}
}

bool welcome_on_hello(struct session *s, const struct msg *m, const void *body,
		      size_t len)
{
	struct session_hello *h = &s->hello;

	if (s->welcomed || s->challenged || s->resume || s->held) {
		session_refuse(s, MSG_REASON_PROTOCOL, "HELLO was said twice");
		return false;
	}
	if (s->control->drain_until) {
		session_refuse(s, MSG_REASON_SHUTDOWN, "the server is leaving");
		return false;
	}
	snprintf(s->name, sizeof(s->name), "%.*s", (int)m->hello.name_len,
		 (const char *)m->hello.name);
	util_one_line(s->name);
	s->saver = core_is_saver(s->control, s->name);
	s->copies = copies_is_child(s->control, s->name);
	h->req = m->req;
	h->role = m->hello.role;
	h->replaces = m->hello.replaces;
	memcpy(h->replaces_region, m->hello.replaces_region,
	       sizeof(h->replaces_region));
	h->map = m->hello.map;
	h->server = m->hello.server;
	if (len <= sizeof(h->body)) {
		memcpy(h->body, body, len);
		h->body_len = (uint16_t)len;
	}
	return admit(s);
}

bool welcome_on_auth(struct session *s, const struct msg *m)
{
	struct auth_client in = {.server_nonce = s->nonce,
				 .client_nonce = m->auth.nonce,
				 .name = (const char *)m->auth.name,
				 .hello = s->hello.body,
				 .name_len = m->auth.name_len,
				 .hello_len = s->hello.body_len,
				 .role = s->hello.role};
	uint8_t tag[AUTH_TAG_BYTES];
	const struct key *key, *known;

	if (!s->challenged) {
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "AUTH came without a CHALLENGE");
		return false;
	}
	s->challenged = false;
	known = keyfile_find(s->control->cfg.keys, in.name, in.name_len);
	key = known ? known : auth_dummy_key();
	if (key)
		auth_client_tag(key, &in, tag);
	if (!key || !auth_equal(tag, m->auth.tag) || !known) {
		session_refuse(s, MSG_REASON_AUTH,
			       known ? "the proof of its key is wrong" :
				       "its key is not known");
		return false;
	}
	return welcome(s, s->hello.role == MSG_ROLE_RO || key->role == KEY_RO,
		       key, m->auth.nonce);
}

/* ---- connections without HELLO ------------------------------------------------------ */

/* The oldest connection that has not sent HELLO; NULL if there is none. */
static struct session *oldest_mute(const struct control *c,
				   struct session *newest)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (!s->welcomed && !s->resume && !s->held)
			return s;
	return newest;
}

static void displace(struct session *mute)
{
	session_refuse(mute, MSG_REASON_DISPLACED,
		       "others came before it had said HELLO");
}

/*
 * A new connection displaces the oldest one without HELLO when there is no room, so that
 * silent connections cannot keep out others. A client sends HELLO as soon as it is connected;
 * one that was too slow, on a busy machine, connects again.
 */
void welcome_begin(struct session *s)
{
	struct control *c = s->control;
	struct session *mute;

	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	c->n_connections++;
	core_tick_soon(c);
	if (c->n_connections + (c->closer ? closer_pending(c->closer) : 0) <=
	    c->cfg.max_sessions)
		return;
	mute = oldest_mute(c, s);
	if (mute == s)
		session_refuse(s, MSG_REASON_FULL,
			       "too many sessions; see --max-sessions");
	else
		displace(mute);
}

bool welcome_make_room(struct control *c)
{
	struct session *mute = oldest_mute(c, NULL);

	if (mute)
		displace(mute);
	return mute != NULL;
}

static bool tick(struct control *c)
{
	uint64_t now = clock_now_ns();
	struct session *s, *next;
	bool again = false;

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next) {
		if (s->welcomed || s->resume || s->held)
			continue;
		if (now - s->connected_ns > c->cfg.hello_ms * NS_PER_MS)
			session_refuse(s, MSG_REASON_DISPLACED,
				       "no HELLO came");
		else
			again = true;
	}
	return again;
}

/* ---- life ---------------------------------------------------------------------------- */

static bool init(struct control *c)
{
	c->welcome = calloc(1, sizeof(*c->welcome));
	return c->welcome != NULL;
}

static void fini(struct control *c)
{
	free(c->welcome);
}

const struct loop_module welcome_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended,
	.tick = tick,
};
