/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router.h"

#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "queue.h"

void router_settle(struct farkv *kv)
{
	struct router *r = kv->router;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		struct farkv *m = r->member[i];

		if (!m->queued || handle_is_busy(m))
			continue;
		atom_store_relaxed(&m->busy, true);
		queue_settle(m);
		atom_store_relaxed(&m->busy, false);
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

void *router_scratch(struct router_scratch *s, size_t bytes)
{
	if (bytes > s->bytes) {
		free(s->mem);
		s->bytes = UTIL_MAX(bytes, 2 * s->bytes);
		s->mem = malloc(s->bytes);
		if (!s->mem)
			s->bytes = 0;
	}
	/* For no bytes, too, the result is not NULL. */
	return bytes ? s->mem : s;
}
