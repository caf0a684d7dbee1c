/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/atomic.h"

/* Field 22 of /proc/PID/stat. The second one, the name, may contain anything but ends at the
 * last parenthesis. 0: unknown. */
static uint64_t start_time(pid_t pid)
{
	char path[32], text[1024], *at;
	uint64_t start = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	at = strrchr(text, ')');
	for (int field = 3; at && field <= 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%" SCNu64, &start) == 1 ? start : 0;
}

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
		e->start_time = pid ? start_time(pid) : 0;
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
