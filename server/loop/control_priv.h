/* SPDX-License-Identifier: BSD-3-Clause */
/** control_priv.h - struct control, and what control.c does for the other files of the control
 * loop. All of it is the control thread's. */
#ifndef SERVER_LOOP_CONTROL_PRIV_H
#define SERVER_LOOP_CONTROL_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "common/base/rate_limit.h"
#include "common/proto/msg.h"
#include "common/region/layout.h"
#include "server/memory/slab.h"

#include "barrier.h"
#include "control.h"
#include "fsck.h"
#include "lingering.h"
#include "session.h"
#include "stats.h"
#include "sweep.h"
#include "work.h"

TAILQ_HEAD(session_list, session);

/* A GRANT_REQ that waits for blocks; grants.c has the rules. */
struct deferred {
	TAILQ_ENTRY(deferred) link;
	struct session *session;
	uint64_t began_ns;
	uint64_t hunt_ns;  /* until when to wait for memory that others held */
	uint64_t until_ns; /* until when to wait for its own class and pages */
	uint64_t barriers, searches, sweeps; /* counts at which it stops waiting for them */
	uint32_t req, count;
	uint8_t cls;
	bool asked; /* reclaim, the last step, has been waited for */
};
TAILQ_HEAD(deferred_list, deferred);

struct unfinished; /* a RETURN that takes more than one slice: returns.c */
TAILQ_HEAD(unfinished_list, unfinished);

/* A remote session that ended, for the session that replaces it; see welcome.c. */
struct ended_session {
	uint32_t id;
	uint64_t barriers; /* passed before it ended */
};
#define ENDED_KEPT 256u

struct control {
	struct control_config cfg;
	struct region *region;
	struct conn_unix *unix_port; /* NULL: none */
	struct conn_rdma *rdma;      /* NULL: none */
	struct event_base *base;
	struct event *tick, *on_term, *on_int, *on_hup;
	struct work_queue work;
	struct slab *slab;
	struct grow *grow;
	struct stats stats;
	struct session_list sessions;
	uint32_t n_connections;
	uint32_t next_id; /* for sessions and version prefixes */
	struct ended_session ended[ENDED_KEPT]; /* a ring: the latest ones */
	uint32_t n_ended;
	uint64_t drain_until; /* 0: serving */
	bool failed;
	struct rate_limit complaints, notes; /* of log lines */

	/* grants.c */
	struct deferred_list deferred; /* oldest first */
	uint32_t n_deferred;
	struct event *deferred_due;
	uint64_t reclaim_until_ns; /* time limit for the answers to RECLAIM */

	/* returns.c */
	struct unfinished_list unfinished;
	struct work returning;
	uint64_t forgotten; /* slab_forgotten() when it was last handled */

	struct lingering lingering;
	struct barrier barrier;
	struct sweep *sweep;
	struct fsck *fsck;
};

/** Forget a session and close its connection. `s` is freed. */
void control_end_session(struct session *s);
/**
 * The same for a silent session whose process has unmapped its tether (lingering.h) though its
 * socket is open: a child made without atfork handlers, or one between vfork() and exec(),
 * holds a copy of the socket. True if it was ended.
 */
bool control_end_dead(struct session *s);

/** A connection was made: add its session. May end it at once. */
void control_begin_session(struct session *s);
/** End the oldest connection that has not sent HELLO; false if there is none. */
bool control_make_room(struct control *c);

/** Handle a packet. False: the session is gone. */
bool control_packet(struct session *s, const void *buf, size_t len);
/**
 * True if the session's next packet may be taken. Not while its last one is worked off in
 * slices: ask again in the next round of the loop. A packet that comes nevertheless is not
 * refused: the unfinished one is finished first, at once.
 */
static inline bool control_may_take(const struct session *s)
{
	return !s->unfinished;
}

/**
 * Start the tick, which runs until nothing needs it: a connection without HELLO, a barrier, a
 * shutdown. An idle server never wakes up.
 */
void control_tick_soon(struct control *c);

/** Shut down as soon as possible; control_run() then returns 1. */
void control_fail(struct control *c);

/**
 * True if a warning about a peer may be logged: one a second, for peers may misbehave in
 * bulk. Dropped warnings are counted, and the count is logged when the second is over.
 */
bool control_complaint_due(struct control *c);

/** The same for lines about single clients: 20 in ten seconds. */
bool control_note_due(struct control *c);

/** A number that no session and no prefix has had; false when all are used up. */
bool control_next_id(struct control *c, uint32_t *id_out);

/**
 * Tell the client the reason, then end the session. A remote client that is not welcomed yet,
 * and one that failed to prove a key, gets the reason's number only.
 */
void control_refuse(struct session *s, enum msg_reason reason, const char *text);

/** Answer request `req`. False: the session is gone. */
bool control_reply(struct session *s, struct msg *m, uint32_t req,
		   const struct block_ref *refs);

#endif
