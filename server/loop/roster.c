/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "roster.h"

#include "common/base/atomic.h"
#include "common/base/proc.h"

struct session_entry *roster_enter(const struct region *r, uint32_t id, pid_t pid)
{
	struct session_entry *table = region_sessions(r);
	uint32_t n = r->sb.session_count;

	/* Ids are consecutive: the first entry looked at is free as a rule. */
	for (uint32_t i = 0; i < n; i++) {
		struct session_entry *e = &table[(id + i) % n];

		if (e->prefix)
			continue;
		e->pid = (uint32_t)pid;
		e->start_time = pid ? proc_start_time(pid) : 0;
		atom_store_publish(&e->prefix, id);
		return e;
	}
	return NULL;
}

void roster_clear(struct session_entry *e)
{
	if (e)
		e->prefix = 0;
}
