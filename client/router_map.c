/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#include "connect.h"

/* Between two questions for a newer map, and the time for one server to answer. */
#define ASK_PAUSE_NS (50 * NS_PER_MS)
#define ASK_NS (200 * NS_PER_MS)
/* Between two looks at the lease. */
#define LOOK_NS NS_PER_MS

/* ---- newer maps ---------------------------------------------------------------------------- */

static bool same_servers(const struct clustermap *a, const struct clustermap *b)
{
	if (a->n_servers != b->n_servers || a->seed != b->seed)
		return false;
	for (uint32_t i = 0; i < a->n_servers; i++)
		if (strcmp(a->server[i].name, b->server[i].name) != 0 ||
		    strcmp(a->server[i].address, b->server[i].address) != 0)
			return false;
	return true;
}

/* Connections to servers that have not lost anything are as good as before. */
static bool install(struct router *r, const struct clustermap *map)
{
	if (map->epoch <= r->map.epoch || !same_servers(map, &r->map))
		return false;
	r->map = *map;
	for (uint32_t i = 0; i < map->n_servers; i++)
		r->member[i]->map_id = map->id;
	return true;
}

/* Ask a server for its map. True: it is a newer one, and installed. */
static bool ask(struct router *r, const struct farkv *m)
{
	struct clustermap *map = NULL;
	struct conn_order o = {.uri = &m->uri, .name = m->name, .readonly = true, .map_out = &map};
	struct conn conn;
	bool newer = false;

	if (conn_make(&o, clock_now_ns() + ASK_NS, &conn) == 0)
		conn_close(&conn); /* it is in no cluster */
	if (map)
		newer = install(r, map);
	free(map);
	return newer;
}

static bool is_connected(const struct farkv *m)
{
	return m->conn.session && !(qsbr_pending(m->qsbr) & PENDING_BROKEN);
}

/* Those first that seem to be there. Keeps the error's line. */
static void ask_all(struct router *r)
{
	char line[ERR_LINE_MAX];
	bool newer = false;

	snprintf(line, sizeof(line), "%s", err_detail());
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < r->map.n_servers && !newer; i++)
			if (is_connected(r->member[i]) == (round == 0))
				newer = ask(r, r->member[i]);
	err_set(FARKV_EDISCONNECTED, "%s", line);
	r->asked_ns = clock_now_ns();
}

void router_renew(struct farkv *kv, int err)
{
	struct router *r = kv->router;

	if (r->leased && handle_is_away(err) && clock_now_ns() >= r->asked_ns + ASK_PAUSE_NS)
		ask_all(r);
}

/* ---- leases -------------------------------------------------------------------------------- */

static bool covers(const struct farkv *m, uint64_t at_ns)
{
	return m->conn.session && session_lease_ns(m->conn.session) > at_ns;
}

bool router_counts_now(const struct farkv *kv, const struct farkv *member)
{
	return !kv->router->leased || covers(member, clock_now_ns());
}

/* Wait until a lease covers `at_ns`. False: none will, or the map is another one. */
static bool await(struct farkv *kv, const struct farkv *m, uint64_t at_ns)
{
	struct router *r = kv->router;
	uint64_t epoch = r->map.epoch;

	while (!covers(m, at_ns)) {
		if (!is_connected(m) || clock_now_ns() >= at_ns + kv->op_timeout_ns)
			return false;
		clock_sleep_ns(LOOK_NS);
		/* The first answer of a new connection takes a moment. */
		if (clock_now_ns() >= at_ns + ASK_PAUSE_NS)
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

int router_counts(struct farkv *kv, const struct farkv *member)
{
	if (router_counts_now(kv, member) || await(kv, member, clock_now_ns()))
		return 0;
	return not_covered(member, FARKV_EDISCONNECTED);
}

bool router_again(const struct router_call *c, int *err)
{
	uint64_t now = clock_now_ns();

	if (!handle_is_away(*err) && *err != FARKV_EMAYBE && *err != FARKV_EINVAL &&
	    !covers(c->member, now)) {
		if (await(c->kv, c->member, now))
			return false;
		*err = not_covered(c->member,
				   c->writes && !*err ? FARKV_EMAYBE : FARKV_EDISCONNECTED);
	}
	if (!handle_is_away(*err))
		return false;
	router_renew(c->kv, *err);
	return *err != FARKV_ETIMEDOUT &&
	       router_member(c->kv->router, c->key, c->key_len) != c->member;
}
