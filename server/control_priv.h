/* SPDX-License-Identifier: BSD-3-Clause */
/** control_priv.h - struct control, and what control.c does for the other files of the control
 * loop. All of it is the control thread's. */
#ifndef SERVER_CONTROL_PRIV_H
#define SERVER_CONTROL_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "common/layout.h"
#include "common/msg.h"
#include "common/rate_limit.h"

#include "barrier.h"
#include "control.h"
#include "departed.h"
#include "fsck.h"
#include "session.h"
#include "slab.h"
#include "stats.h"
#include "sweep.h"
#include "work.h"

TAILQ_HEAD(session_list, session);

/* A GRANT_REQ that waits for blocks; see memory.c for which. */
struct deferred {
	TAILQ_ENTRY(deferred) link;
	struct session *session;
	uint64_t began_ns;
	uint64_t hunt_ns;  /* until when memory of others may become its */
	uint64_t until_ns; /* ... and that of its own class */
	uint64_t barriers, searches, sweeps; /* it waits for no later ones */
	uint32_t req, count;
	uint8_t cls;
	bool asked; /* those who are asked last have had their time */
};
TAILQ_HEAD(deferred_list, deferred);

struct unfinished; /* a RETURN that takes more than a slice: returns.c */
TAILQ_HEAD(unfinished_list, unfinished);

/* A remote session that ended, for the one that follows it; see welcome.c. */
struct ended_session {
	uint32_t id;
	uint64_t barriers; /* that had passed before */
};
#define ENDED_KEPT 256u

struct control {
	struct control_config cfg;
	struct region *region;
	struct port_unix *unix_port; /* NULL: none */
	struct port_rdma *rdma;      /* NULL: none */
	struct event_base *base;
	struct event *tick, *on_term, *on_int, *on_hup;
	struct work_queue work;
	struct slab *slab;
	struct grow *grow;
	struct stats stats;
	struct session_list sessions;
	uint32_t n_connections;
	uint32_t next_id; /* sessions and version prefixes draw from it */
	struct ended_session ended[ENDED_KEPT]; /* a ring: the last ones */
	uint32_t n_ended;
	uint64_t drain_until; /* 0: serving */
	bool failed;
	struct rate_limit complaints, notes; /* lines in the log */

	/* memory.c */
	struct deferred_list deferred; /* oldest first */
	uint32_t n_deferred;
	struct event *deferred_due;
	uint64_t reclaim_until_ns; /* what sessions were asked for may come */

	/* returns.c */
	struct unfinished_list unfinished;
	struct work returning;
	uint64_t forgotten; /* of slab_forgotten(), as far as it was seen to */

	struct departed departed;
	struct barrier barrier;
	struct sweep *sweep;
	struct fsck *fsck;
};

/** Forget a session and close its connection. `s` is gone then. */
void control_end_session(struct session *s);
/**
 * The same for one that is silent, if its process has let go of it (departed.h) though
 * its socket is open: a child that was made without atfork handlers, or is between
 * vfork() and exec(), holds a copy. True if so.
 */
bool control_end_dead(struct session *s);

/** A connection was made: watch it. May end it at once. */
void control_begin_session(struct session *s);
/** End the oldest connection that has not said HELLO; false if there is none. */
bool control_make_room(struct control *c);

/** A packet came. False: the session is gone. */
bool control_packet(struct session *s, const void *buf, size_t len);
/**
 * May its next packet be taken? Not while its last one is worked off in slices; ask
 * again in the next round of the loop. A packet that comes nevertheless is not refused:
 * what is unfinished is finished first, in one go.
 */
static inline bool control_may_take(const struct session *s)
{
	return !s->unfinished;
}

/**
 * Something began that has to be looked at now and then until it is over: a
 * connection without HELLO, a barrier, an end. An idle server never wakes up.
 */
void control_tick_soon(struct control *c);

/** Leave as soon as possible; control_run() then says so. */
void control_fail(struct control *c);

/**
 * May a warning about a peer be logged? One a second: peers may misbehave in bulk. Those
 * that were not shown are counted, and their number is logged when the second is over.
 */
bool control_complaint_due(struct control *c);

/** The same for lines about one client of many: 20 in ten seconds. */
bool control_note_due(struct control *c);

/** A number that no session and no prefix had before; false when all are used up. */
bool control_next_id(struct control *c, uint32_t *id_out);

/**
 * Say why, then end it. Who has not been welcomed from afar, and who failed to
 * prove a key, learns the reason's number only.
 */
void control_refuse(struct session *s, enum msg_reason reason, const char *text);

/** Answer request `req`. False: the session is gone. */
bool control_reply(struct session *s, struct msg *m, uint32_t req,
		   const struct block_ref *refs);

#endif
