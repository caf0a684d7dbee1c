/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * core.h - the state of the control loop, and what its files share: the tick, limits of log
 * lines, numbers, the table of modules. All of it is the event loop's.
 *
 * Calls go down only: control.c, the connections (conn_*.c), dispatch.c, the modules,
 * session.c, core.c. What a lower file has to tell the modules goes through their table.
 */
#ifndef SERVER_LOOP_CORE_H
#define SERVER_LOOP_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/region/layout.h"

#include "control_config.h"
#include "common/proto/hits.h"
#include "lingering.h"
#include "pauses.h"
#include "server/memory/region.h"
#include "server/memory/slab.h"
#include "work.h"

struct control;
struct session;

/** As on BSD: TAILQ_FOREACH() whose body may remove `var`, but not `next`. */
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, next) \
	for ((var) = TAILQ_FIRST(head); (var) && ((next) = TAILQ_NEXT(var, field), true); (var) = (next))
#endif

TAILQ_HEAD(session_list, session);

/** What a module does at the events of the loop. Each function may be NULL. */
struct loop_module {
	/* False: out of memory; fini() follows. */
	bool (*init)(struct control *c);
	/* Also after a failed init(), and without one. */
	void (*fini)(struct control *c);
	/* `s` is about to end: forget it. Ends no session. */
	void (*session_ended)(struct session *s);
	/*
	 * Blocks or pages have become free, or it is known that none will: continue soon what
	 * waited for them. Ends no session.
	 */
	void (*memory_freed)(struct control *c);
	/* True: call again. May end sessions. */
	bool (*tick)(struct control *c);
};

/** For STATS. */
struct loop_counts {
	uint64_t sessions, sessions_total;
	uint64_t grants, hints, protocol_errors;
	uint64_t refused; /* grants of no block */
	struct hits ended; /* of the sessions that have ended */
};

struct control {
	struct control_config cfg;
	struct region *region;
	struct slab *slab;
	struct event_base *base;
	struct event *tick, *on_term, *on_int, *on_hup;
	struct work_queue work;
	const struct loop_module *const *modules; /* in the order of their calls; NULL at the end */
	struct session_list sessions;
	uint32_t n_connections;
	struct lingering lingering;
	uint64_t inherit_until_ns; /* see core_expects_clients(); 0: the region was not adopted */
	uint64_t drain_until; /* 0: serving */
	bool failed;
	bool again; /* the server is to begin again, with an empty region */
	bool restoring; /* the saver alone is let in: snapshots.h */
	bool joining; /* nobody is let in before the server is registered: membership.h */
	struct rate_limit complaints, notes; /* of log lines */
	struct loop_counts counts;
	struct pauses pauses;

	/* Each of these belongs to the file of its name. */
	struct conn_unix *unix_port; /* NULL: none */
	struct conn_rdma *rdma;      /* NULL: none */
	struct verbs_server *verbs;  /* conn_rdma.c; NULL: no RDMA */
	struct closer *closer;       /* conn_unix.c; NULL: no socket */
	struct welcome *welcome;
	struct evictor *evictor; /* NULL: the store refuses when it is full */
	struct grow *grow;
	struct expire *expire;
	struct grants *grants;
	struct returns *returns;
	struct barrier *barrier;
	struct sweep *sweep;
	struct stats *stats;
	struct http *http; /* metrics.c; NULL: none */
	struct fsck *fsck;
	struct snapshots *snapshots; /* NULL: none are made */
	struct fence *fence;
	struct copies *copies; /* NULL: the map does not change */
	struct membership *membership; /* NULL: the map does not change */
	struct event *look; /* membership's: have a look at the map; or NULL */
	struct passes *passes;
	uint64_t reclaim_until_ns; /* time limit for the answers to RECLAIM */
};

/**
 * Start the tick, which runs until nothing needs it: a connection without HELLO, a barrier, a
 * shutdown. An idle server never wakes up.
 */
void core_tick_soon(struct control *c);

/** Add a session's counts to a sum. Any values do: a client chooses them. */
static inline void core_count_hits(struct hits *sum, struct hits h)
{
	sum->hits += h.hits;
	sum->misses += h.misses;
	sum->sets += h.sets;
}

/** event_free() that takes NULL. */
static inline void core_event_free(struct event *e)
{
	if (e)
		event_free(e);
}

/** Shut down as soon as possible; control_run() then returns 1. */
void core_fail(struct control *c);

/** End at once, to begin again with an empty region: control_run() then returns CONTROL_AGAIN. */
void core_begin_again(struct control *c);

/** In a cluster whose map changes: look at the map soon, for something has to change in it. */
void core_look_at_map(struct control *c);

/** True if a client that gives this name is the server's own child: server/saver/saver.h. */
bool core_is_saver(const struct control *c, const char *name);

/** Tell all modules; see struct loop_module. */
void core_memory_freed(struct control *c);

/**
 * True if a warning about a peer may be logged: one a second, for peers may misbehave in
 * bulk. Dropped warnings are counted, and the count is logged when the second is over.
 */
bool core_complaint_due(struct control *c);

/** The same for lines about single clients: 20 in ten seconds. */
bool core_note_due(struct control *c);

/** Log how many lines were dropped in the periods that ended before `now`. True: call again
 * later. */
bool core_tell_dropped(struct control *c, uint64_t now);

/** True while the clients of the region's previous server can be expected to come soon. */
static inline bool core_expects_clients(const struct control *c)
{
	return c->inherit_until_ns && clock_now_ns() < c->inherit_until_ns;
}

/** A number that no session and no prefix of this region has had; false when all are used up. */
bool core_next_id(struct control *c, uint32_t *id_out);

#endif
