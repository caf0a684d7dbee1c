/* SPDX-License-Identifier: BSD-3-Clause */
/** control_priv.h - what the files of the control loop share: control.c,
 * welcome.c, memory.c, barrier.c and the ports. All of it is the control thread's. */
#ifndef SERVER_CONTROL_PRIV_H
#define SERVER_CONTROL_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "common/layout.h"
#include "common/msg.h"

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
	uint64_t last_complaint_ns;
	uint64_t notes_since_ns;
	uint32_t n_notes, notes_untold;

	/* memory.c */
	struct deferred_list deferred; /* oldest first */
	uint32_t n_deferred;
	struct event *deferred_due;
	uint64_t reclaim_until_ns; /* what sessions were asked for may come */

	struct departed departed;
	struct barrier barrier;
	struct sweep *sweep;
	struct fsck *fsck;
};

/** Forget a session and close its connection. `s` is gone then. */
void control_end_session(struct session *s);
/**
 * The same for one that is silent, if its process has ended though its socket is open:
 * see departed_is_dead(). True if so.
 */
bool control_end_dead(struct session *s);

/** A connection was made: watch it. May end it at once. */
void control_begin_session(struct session *s);
/** End the oldest connection that has not said HELLO; false if there is none. */
bool control_make_room(struct control *c);

/** A packet came. False: the session is gone. */
bool control_packet(struct session *s, const void *buf, size_t len);

/**
 * Something began that has to be looked at now and then until it is over: a
 * connection without HELLO, a barrier, an end. An idle server never wakes up.
 */
void control_tick_soon(struct control *c);

/** Leave as soon as possible; control_run() then says so. */
void control_fail(struct control *c);

/** At most one complaint a second: peers may misbehave in bulk. */
bool control_complaint_due(struct control *c);

/** Lines about one client of many: some in ten seconds, then their number. */
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

/* ---- welcome.c: HELLO, CHALLENGE, AUTH, WELCOME ------------------------------- */

/** Handle HELLO, whose body is `body`; false: the session is gone. */
bool welcome_on_hello(struct session *s, const struct msg *m, const void *body,
		      size_t len);
/** `s` is about to end; before a barrier can pass because of that. */
void welcome_session_ended(struct session *s);
/** Handle AUTH. */
bool welcome_on_auth(struct session *s, const struct msg *m);

/** Go on with the HELLO of a session that is parked. May end it. */
void welcome_resume(struct session *s);

/* ---- memory.c: GRANT, RETURN, RECLAIM -------------------------------------- */

bool memory_init(struct control *c);
void memory_fini(struct control *c);

/** Handle a message; false: the session is gone. */
bool memory_on_grant(struct session *s, const struct msg *m);
bool memory_on_return(struct session *s, const struct msg *m);

/** Blocks or pages have become free, or it is known that none will: the requests
 * that wait are looked at soon. */
void memory_resume(struct control *c);

/**
 * Ask the sessions but `asker` (NULL: all) for what they hold and do not use: each that
 * was not asked since `since_ns`. One that was asked a moment before that is asked later,
 * if it was given something meanwhile. An asker gives back its own when it is told no.
 * Ends those whose process is gone, never `asker`. True while an answer is worth waiting
 * for: call again in some ms.
 */
bool memory_reclaim(struct control *c, const struct session *asker,
		    uint64_t since_ns);

/** `s` is about to end. Ends no other session. */
void memory_session_ended(struct session *s);

#endif
