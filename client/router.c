/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "queue.h"

bool router_lease_covers_now(const struct farkv *kv, const struct farkv *member)
{
	const struct session *s = member->conn.session;

	return !kv->router->leased || (s && session_lease_ns(s) > clock_now_ns());
}

void router_settle(struct farkv *kv)
{
	struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		struct farkv *m = r->member[i];

		if (handle_is_busy(m))
			continue;
		if (m->queued) {
			atom_store_relaxed(&m->busy, true);
			queue_settle(m);
			atom_store_relaxed(&m->busy, false);
		}
		/* Before the next map is taken: a lease under that map does not cover them. */
		if (queue_in_flight(m) > 0 && !router_lease_covers_now(kv, m))
			r->uncovered[i] = queue_in_flight(m);
		atom_store_publish(&m->routed, 0u);
	}
	kv->queued = false;
}

struct farkv *router_numbered(const struct farkv *kv, uint64_t number)
{
	const struct router *r = kv->router;

	for (uint32_t i = 0; r && i < r->map.n_servers; i++)
		if (r->member[i]->opened.number == number)
			return r->member[i];
	return NULL;
}

int router_begin(struct farkv *kv)
{
	if (handle_inherited(kv) || handle_is_busy(kv))
		return handle_busy(kv);
	err_clear();
	atom_store_relaxed(&kv->busy, true);
	if (kv->queued)
		router_settle(kv);
	return 0;
}

int router_end(struct farkv *kv, int err)
{
	atom_store_relaxed(&kv->busy, false);
	return err;
}

uint64_t router_all_servers(const struct router *r)
{
	uint64_t set = 0;

	for (uint32_t i = 0; i < r->map.n_servers; i++)
		set |= (uint64_t)!router_skips(r, i) << i;
	return set;
}

void router_fan_out(struct router *r, uint64_t servers, uint64_t waiting, fanout_step *step, void *arg)
{
	unsigned helpers = (unsigned)__builtin_popcountll(waiting);

	/* If all wait, the caller takes one of them itself. */
	if (helpers > 0 && waiting == servers)
		helpers--;
	fanout_run(&r->fanout, servers, helpers, step, arg);
}

void *router_scratch(struct router_scratch *s, size_t bytes)
{
	if (bytes > s->bytes) {
		free(s->mem);
		s->bytes = UTIL_MAX(bytes, 2 * s->bytes);
		s->mem = malloc(s->bytes);
		if (!s->mem)
			s->bytes = 0;
	}
	/* Also for 0 bytes the result is not NULL. */
	return bytes ? s->mem : s;
}
