/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * stats.h - the figures of STATS. A walk over the index counts items, in slices, at most once
 * a second; a request waits for it or gets the last count.
 */
#ifndef SERVER_LOOP_STATS_H
#define SERVER_LOOP_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/proto/msg.h"
#include "server/memory/region.h"

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
	struct stats_count count; /* the last complete one */
	uint64_t counted_ns;      /* when it ended; 0 never */
	struct stats_count now;   /* the running one */
	struct region_walk walk;
	uint64_t cpu_ns; /* CPU time at the last request */
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
