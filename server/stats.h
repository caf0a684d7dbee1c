/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * stats.h - the figures behind STATS. Items are counted by a walk over the index,
 * in slices; the answer waits for it. Once a second at most: until then the last
 * count stands.
 */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/msg.h"
#include "region.h"
#include "waiters.h"
#include "work.h"

struct control;
struct session;

struct stats_count {
	uint64_t items, dead, item_bytes;
};

struct stats {
	uint64_t started_ns;
	uint64_t sessions, sessions_total;
	uint64_t grants, hints, protocol_errors;

	/* stats.c */
	struct stats_count count; /* the last one */
	uint64_t counted_ns;      /* when; 0 never */
	struct stats_count now;   /* the one that is on */
	struct region_walk walk;
	uint64_t cpu_ns; /* processor time when the last request came */
	struct waiters waiters;
	struct work work;
};

void stats_init(struct control *c);
void stats_fini(struct control *c);

/** Handle STATS_REQ; false: the session is gone. */
bool stats_on_request(struct session *s, const struct msg *m);

/** `s` is about to end. */
void stats_session_ended(struct session *s);

#endif
