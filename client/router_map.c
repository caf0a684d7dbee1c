/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/msg.h"

#include "connect.h"
#include "notifier.h"
#include "open.h"
#include "queue.h"
#include "queue_state.h"
#include "relink.h"

/* Pause between two requests for a newer map, and the time for one server to answer. */
#define ASK_PAUSE_NS (50 * NS_PER_MS)
#define ASK_NS (200 * NS_PER_MS)
/* ... while calls wait for a partition, which the server announces unasked. */
#define ASK_BLOCKED_NS NS_PER_SEC
/* Pause between two checks of the lease, or for a map. */
#define LOOK_NS NS_PER_MS

/* ---- newer maps ---------------------------------------------------------------------------- */

/* True if the new map's list of servers begins with the old one's. */
static bool extends(const struct clustermap *map, const struct clustermap *old)
{
	if (map->n_servers < old->n_servers || map->seed != old->seed)
		return false;
	for (uint32_t i = 0; i < old->n_servers; i++)
		if (strcmp(map->server[i].name, old->server[i].name) != 0 ||
		    strcmp(map->server[i].address, old->server[i].address) != 0)
			return false;
	return true;
}

/*
 * Count the unannounced partitions: not those of servers that have announced their map, nor of a
 * server that is not connected, because it connects by the newest map only.
 */
static void count_unannounced(struct router *r)
{
	r->n_unannounced = 0;
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		uint32_t owner = r->map.owner[p];
		const struct farkv *m = r->member[owner];

		r->unannounced[p] &= m->announced < r->required[owner] && router_is_connected(m);
		r->n_unannounced += r->unannounced[p];
	}
}

static void mark_unannounced(struct router *r, const struct clustermap *map)
{
	for (uint32_t p = 0; p < CLUSTERMAP_PARTITIONS; p++) {
		if (map->owner[p] == r->map.owner[p])
			continue;
		r->unannounced[p] = true;
		r->required[map->owner[p]] = map->epoch;
	}
}

/* Make a handle of a server that was added, with the options of the other members. */
static int add_member(struct farkv *kv, const struct clustermap *map, uint32_t i)
{
	const struct router *r = kv->router;
	int err = handle_open_member(kv, map, i, clock_now_ns() + ASK_NS, NULL), fd;

	/* If it refuses this client, calls for its keys report that. */
	if (!r->member[i])
		return err;
	err = buffers_register_all(&r->member[i]->buffers, &r->member[0]->buffers);
	if (!err && r->member[0]->queue)
		err = queue_new(r->member[i]);
	if (err || !kv->notifier)
		return err;
	fd = farkv_event_fd(r->member[i]);
	return fd < 0 ? fd : notifier_add(kv->notifier, fd);
}

/* Install the map. Connections to servers that have not lost anything are kept. */
static bool install(struct farkv *kv, const struct clustermap *map)
{
	struct router *r = kv->router;

	if (map->epoch <= r->map.epoch || !extends(map, &r->map))
		return false;
	for (uint32_t i = r->map.n_servers; i < map->n_servers; i++)
		if (!r->member[i] && add_member(kv, map, i))
			return false;
	/*
	 * It lost keys of this handle only if it had begun, and this handle knew it with
	 * partitions.
	 */
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (map->server[i].emptied > r->map.server[i].emptied && r->map.server[i].emptied &&
		    r->map.server[i].partitions)
			r->lost |= UINT64_C(1) << i;
	mark_unannounced(r, map);
	r->map = *map;
	for (uint32_t i = 0; i < map->n_servers; i++) {
		r->member[i]->map_id = map->id;
		r->member[i]->map_epoch = map->epoch;
		/* A server that refused the previous map may take this one. */
		r->member[i]->next_attempt_ns = 0;
	}
	count_unannounced(r);
	return true;
}

static bool take_map(struct farkv *kv, struct farkv *m)
{
	struct clustermap *map = session_take_map(m->conn.session);
	bool newer;

	if (!map)
		return false;
	if (map->epoch > m->announced)
		m->announced = map->epoch;
	newer = install(kv, map);
	if (kv->router->n_unannounced)
		count_unannounced(kv->router);
	free(map);
	return newer;
}

static bool map_waits(const struct farkv *m)
{
	return m->conn.session && session_map_waits(m->conn.session);
}

bool router_map_waits(const struct farkv *kv)
{
	const struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (map_waits(r->member[i]))
			return true;
	return false;
}

bool router_take_maps(struct farkv *kv)
{
	struct router *r = kv->router;
	bool newer = false;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		struct farkv *m = r->member[i];

		/*
		 * Operations there count by a lease from before its map: the map waits until they
		 * have ended.
		 */
		if (map_waits(m) && !atom_load_relaxed(&m->routed))
			newer |= take_map(kv, m);
	}
	return newer;
}

/* Ask a server for its map. True: it is a newer one, and installed. */
static bool ask(struct farkv *kv, const struct farkv *m)
{
	struct clustermap *map = NULL;
	struct conn_order o = {.uri = &m->uri, .name = m->name, .readonly = true, .map_out = &map};
	struct conn conn;
	bool newer = false;

	if (conn_make(&o, clock_now_ns() + ASK_NS, &conn) == 0)
		conn_close(&conn); /* it is in no cluster */
	if (map)
		newer = install(kv, map);
	free(map);
	return newer;
}

/* Ask those servers first that are probably there. Keeps the error's line. */
static void ask_all(struct farkv *kv)
{
	struct router *r = kv->router;
	char line[ERR_LINE_MAX];
	bool newer = false;

	snprintf(line, sizeof(line), "%s", err_detail());
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < r->map.n_servers && !newer; i++)
			if (router_is_connected(r->member[i]) == (round == 0))
				newer = ask(kv, r->member[i]);
	err_set(FARKV_EDISCONNECTED, "%s", line);
	r->asked_ns = clock_now_ns();
}

static void renew(struct farkv *kv, uint64_t pause_ns)
{
	if (!router_take_maps(kv) && clock_now_ns() >= kv->router->asked_ns + pause_ns)
		ask_all(kv);
}

void router_renew(struct farkv *kv, int err)
{
	if (kv->router->leased && handle_is_away(err))
		renew(kv, ASK_PAUSE_NS);
}

/* ---- begin --------------------------------------------------------------------------------- */

bool router_wait_for_map(struct farkv *kv, uint64_t until_ns)
{
	if (clock_now_ns() >= until_ns) {
		err_set(FARKV_ETIMEDOUT, "the key's partition is moving, and its servers do not go on "
					 "with it; see kvcli cluster status");
		return false;
	}
	clock_sleep_ns(LOOK_NS);
	renew(kv, ASK_BLOCKED_NS);
	count_unannounced(kv->router);
	return true;
}

/* True if no newer map was there when the control thread could see the call. */
static bool route(struct farkv *m)
{
	/*
	 * Store the word, then check for a map; the control thread does the two in the opposite
	 * order.
	 */
	if (m->qsbr->fence) {
		(void)atom_exchange(&m->routed, 1u);
	} else {
		atom_store_relaxed(&m->routed, 1u);
		atom_compiler_barrier();
	}
	if (__builtin_expect(!map_waits(m), 1))
		return true;
	atom_store_publish(&m->routed, 0u);
	return false;
}

int router_enter(struct router_call *c)
{
	struct farkv *kv = c->kv;
	struct router *r = kv->router;

	c->member = kv;
	if (__builtin_expect(kv->taken, 0)) {
		if (handle_is_busy(kv))
			return 0;
		router_settle(kv);
	}
	for (;;) {
		uint32_t p = c->key && c->key_len ? clustermap_partition(&r->map, c->key, c->key_len) : 0;
		struct farkv *m = r->member[r->map.owner[p]];

		if (!r->leased) {
			c->member = m;
			return 0;
		}
		if (router_blocks_any(r) && router_blocks(r, p)) {
			if (!c->until_ns)
				c->until_ns = clock_now_ns() + kv->op_timeout_ns;
			if (!router_wait_for_map(kv, c->until_ns))
				return FARKV_ETIMEDOUT;
		} else if (route(m)) {
			c->member = m;
			return 0;
		} else {
			(void)router_take_maps(kv);
		}
	}
}

bool router_enter_all(struct farkv *kv, uint64_t servers)
{
	struct router *r = kv->router;
	uint64_t begun = 0;

	for (uint32_t i = 0; r->leased && i < r->map.n_servers; i++) {
		struct farkv *m = r->member[i];
		bool runs = atom_load_relaxed(&m->routed); /* requests in flight: not to be left here */

		if (!(servers >> i & 1))
			continue;
		if (runs ? map_waits(m) : !route(m)) {
			router_leave_all(kv, begun);
			return false;
		}
		begun |= (uint64_t)!runs << i;
	}
	return true;
}

int router_enter_unblocked(struct farkv *kv, uint64_t servers)
{
	uint64_t until = clock_now_ns() + kv->op_timeout_ns;

	for (;;) {
		if (router_blocks_any(kv->router)) {
			if (!router_wait_for_map(kv, until))
				return FARKV_ETIMEDOUT;
		} else if (router_enter_all(kv, servers)) {
			return 0;
		} else {
			(void)router_take_maps(kv);
		}
	}
}

void router_leave_all(struct farkv *kv, uint64_t servers)
{
	struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (servers >> i & 1)
			atom_store_publish(&r->member[i]->routed, 0u);
}

/* ---- leases -------------------------------------------------------------------------------- */

static bool covers(const struct farkv *m, uint64_t at_ns)
{
	return m->conn.session && session_lease_ns(m->conn.session) > at_ns;
}

/* Wait until a lease covers `at_ns`. False: none will, or the map has changed. */
static bool await(struct farkv *kv, const struct farkv *m, uint64_t at_ns)
{
	struct router *r = kv->router;
	uint64_t epoch = r->map.epoch;

	while (!covers(m, at_ns)) {
		/* Operations by the member's old map have ended, and no later lease covers them. */
		if (!router_is_connected(m) || map_waits(m) || clock_now_ns() >= at_ns + kv->op_timeout_ns)
			return false;
		clock_sleep_ns(LOOK_NS);
		/* The first answer of a new connection takes a moment. */
		if (clock_now_ns() >= at_ns + ASK_PAUSE_NS && !map_waits(m))
			router_renew(kv, FARKV_ETIMEDOUT);
		if (r->map.epoch != epoch && !covers(m, at_ns))
			return false;
	}
	return true;
}

static int not_covered(const struct farkv *m, int err)
{
	return err_set(err, "server %s: its lease has ended%s", m->server_name,
		       err == FARKV_EMAYBE ? " and the write may be lost; read the key again" :
					     ", so what it has may be old");
}

int router_await_lease(struct farkv *kv, const struct farkv *member, uint64_t at_ns)
{
	if (!kv->router->leased || await(kv, member, at_ns))
		return 0;
	return not_covered(member, FARKV_EDISCONNECTED);
}

bool router_again(struct router_call *c, int *err)
{
	uint64_t now = clock_now_ns(), epoch = c->kv->router->map.epoch;
	struct farkv *m = c->member;
	bool lapsed;

	lapsed = !handle_is_away(*err) && *err != FARKV_EMAYBE && *err != FARKV_EINVAL &&
		 !covers(m, now) && !await(c->kv, m, now);
	atom_store_publish(&m->routed, 0u);
	if (lapsed)
		*err = not_covered(m, c->writes && !*err ? FARKV_EMAYBE : FARKV_EDISCONNECTED);
	if (!handle_is_away(*err))
		return false;
	router_renew(c->kv, *err);
	if (*err == FARKV_ETIMEDOUT)
		return false;
	return router_member(c->kv->router, c->key, c->key_len) != m ||
	       c->kv->router->map.epoch != epoch;
}

/* ---- followers ----------------------------------------------------------------------------- */

static int ask_follower(struct farkv *m, uint64_t until_ns)
{
	struct msg q = {.type = MSG_WAIT_REQ};

	if (!router_is_connected(m)) {
		int err;

		m->deadline_ns = until_ns;
		err = relink(m);
		if (err)
			return err;
	}
	return session_call_begin(m->conn.session, &q, MSG_WAITED, until_ns);
}

/* The answer to ask_follower(). *has_out: the follower has all; otherwise there is none now. */
static int await_follower(struct farkv *m, uint64_t until_ns, bool *has_out)
{
	struct msg answer;
	int err;

	while ((err = session_call_take(m->conn.session, &answer)) == FARKV_EAGAIN) {
		if (clock_now_ns() >= until_ns) {
			session_call_forget(m->conn.session);
			return err_set(FARKV_ETIMEDOUT, "its follower does not go on with its copy; see "
							"kvcli cluster status");
		}
		session_wait(m->conn.session, until_ns);
	}
	*has_out = !err && answer.epoch.number;
	return err;
}

static int named(const struct farkv *m, int err)
{
	if (err)
		handle_name_server(m, err);
	return err;
}

/* Ask the servers of *set side by side; it becomes those that have no follower now. */
static int ask_followers(const struct router *r, uint64_t *set, uint64_t until_ns)
{
	uint64_t asked = 0;
	int err = 0;

	for (uint32_t i = 0; i < r->map.n_servers && !err; i++) {
		if (!(*set >> i & 1))
			continue;
		err = named(r->member[i], ask_follower(r->member[i], until_ns));
		asked |= (uint64_t)!err << i;
	}
	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		bool has = false;

		if (!(asked >> i & 1))
			continue;
		if (err)
			session_call_forget(r->member[i]->conn.session);
		else
			err = named(r->member[i], await_follower(r->member[i], until_ns, &has));
		*set &= ~((uint64_t)has << i);
	}
	return err;
}

/* Wait until all followers have all earlier writes, or `until_ns`. */
static int wait_for_all(struct farkv *kv, uint64_t until_ns)
{
	const struct router *r = kv->router;
	uint64_t set = router_all_servers(r);

	for (;;) {
		int err = ask_followers(r, &set, until_ns);

		if (err || !set)
			return err;
		if (clock_now_ns() >= until_ns)
			return err_set(FARKV_ETIMEDOUT, "server %s has no follower with a whole copy; see "
							"kvcli cluster status",
				       r->map.server[__builtin_ctzll(set)].name);
		clock_sleep_ns(UTIL_MIN(ASK_PAUSE_NS, until_ns - UTIL_MIN(until_ns, clock_now_ns())));
	}
}

int router_wait_followers(struct farkv *kv, uint32_t timeout_ms)
{
	uint64_t until = clock_now_ns() + timeout_ms * NS_PER_MS, epoch;
	struct router *r = kv->router;
	int err = router_begin(kv);

	if (err)
		return err;
	(void)router_take_maps(kv);
	if (!r->leased || !r->map.replicas)
		return router_end(kv, err_set(FARKV_ENOTSUP, "farkv_wait_followers: the cluster has no "
							     "followers: kvcli cluster init --replicas 1"));
	/*
	 * All servers by one map: keys may move from a server that has not answered to one that
	 * has.
	 */
	do {
		epoch = r->map.epoch;
		err = r->lost ? 0 : wait_for_all(kv, until);
		router_renew(kv, err);
		(void)router_take_maps(kv);
	} while (!err && r->map.epoch != epoch);
	if (r->lost)
		err = err_set(FARKV_EDISCONNECTED,
			      "server %s is gone: what was written to it since the last "
			      "farkv_wait_followers() may be lost",
			      r->map.server[__builtin_ctzll(r->lost)].name);
	r->lost = 0;
	return router_end(kv, err);
}
