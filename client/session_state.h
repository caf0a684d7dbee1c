/* SPDX-License-Identifier: BSD-3-Clause */
/** session_state.h - struct session, how it ends, and what it sends. For session*.c only. */
#ifndef CLIENT_SESSION_STATE_H
#define CLIENT_SESSION_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/proto/msg.h"
#include "common/xport/xport.h"

#include "channel.h"
#include "control.h"
#include "inventory.h"
#include "notifier.h"
#include "qsbr.h"
#include "session_grants.h"

struct clustermap;

/* Barriers, sweeps and their questions that may wait for operations at once. */
#define ACKS_MAX 32

/* An answer that the socket had no room for. */
struct out_msg {
	struct out_msg *next;
	size_t len;
	uint8_t bytes[];
};

/* An answer that waits until the running operations have ended. */
struct pending_ack {
	uint8_t type; /* MSG_BARRIER_ACK, MSG_SWEEP_ACK, MSG_SWEEP_CLAIM or MSG_MAP_ACK */
	uint32_t req; /* SWEEP_CLAIM: number of the question */
	uint64_t number;
	uint64_t mark; /* qsbr_snapshot(); not of MAP_ACK */
	struct block_ref *refs; /* SWEEP_CLAIM: the candidates, on the heap */
	uint32_t n;
};

struct session {
	struct control_source src; /* first: callbacks get its address */
	struct channel *ch;
	struct xport_lane *lane;
	struct inventory *inv; /* NULL: read-only */
	uint64_t fork_gen;
	uint64_t meta_bytes, region_bytes; /* for region_block_ok() */

	/* the handle's thread */
	uint32_t next_req;
	uint64_t sent;

	/* the control thread */
	struct pending_ack acks[ACKS_MAX];
	unsigned n_acks;
	uint64_t sweep; /* the latest one; 0 is older than any */
	bool sweeping;  /* that sweep has not ended */
	unsigned reclaim_tries;
	unsigned looks; /* at a server whose process seems to be the one that ended */
	struct out_msg *out_head, **out_tail;
	unsigned n_out;
	uint64_t last_mark; /* qsbr_snapshot() when `leaving` was set */
	bool leaving;       /* unmap the tether once qsbr_passed(last_mark) */

	/* Atomic, set by the control thread: the end of the lease, and as it was when `map` came.
	 */
	uint64_t lease_ns, lease_before_ns;
	uint32_t map_waits; /* atomic: set by the control thread, cleared by session_take_map() */
	const uint32_t *routed; /* atomic: see session_keep_lease(); NULL: it was not called */
	uint32_t away; /* atomic: see session_is_away(); set by the control thread */
	uint32_t grants_out; /* atomic: the handle's thread adds, control subtracts */

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t cond;  /* grants, answer, end */
	struct session_grants_inbox inbox;
	struct session_grant **grants_tail;
	bool has_full; /* inbox.full is not taken yet */
	uint32_t awaited;     /* number of the request whose answer is awaited, or 0 */
	uint8_t awaited_type; /* type of that answer */
	bool answered, over, bye_acked;
	bool ended; /* one side ended it for a reason of its own */
	uint64_t lease_pause_ns; /* between two questions for the lease; 0: none are asked */
	uint64_t lease_asked_ns; /* when the question was sent that has no answer; 0: none */
	uint64_t lease_next_ns;  /* the control thread: when the next one is due */
	struct clustermap *map;  /* with map_waits: the newest */
	struct msg answer;
	char reason[256];
	struct notifier *notifier; /* called at the end, or NULL; ... */
	bool notifier_grants;     /* ... and for grants and answers */

	bool sends_hits;  /* it has no tether: HITS goes before some messages */
	struct hits hits; /* counts of a session without a tether, or after it */

	/* on a cache line of its own: the handle's thread writes it all the time */
	struct qsbr qsbr __attribute__((aligned(64)));
};

/**
 * End the session, from either thread; the first reason is kept. `cut`: neither side wanted the
 * end.
 */
void session_break(struct session *s, bool cut, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The lock is held: wake those that wait. `over`: the session has ended. */
void session_notify(struct session *s, bool over);

/** End the session for a reason of our own. The control thread. */
#define session_end(s, ...)                           \
	do {                                          \
		session_break(s, false, __VA_ARGS__); \
		session_stop_listening(s);            \
	} while (0)

/** End the session because the channel could not send, with an errno. */
void session_lost(struct session *s, int errnum);

/* The control thread calls the functions below. */

/** The session is over: stop listening, and unmap the tether when no operation is running. */
void session_stop_listening(struct session *s);

/**
 * Unmap the tether if no operation is running, otherwise at a later tick. PENDING_BROKEN is set, so
 * an operation that begins from now on leaves again without reading the region.
 */
void session_release_tether(struct session *s);

/** The channel ended with an errno (0: the server closed it). */
void session_channel_ended(struct session *s, int errnum);

/** The server's process has ended, and its region remains: look for the next server from now on. */
void session_go_away(struct session *s);

/**
 * Look for the next server. If it is there, the handle connects to it, at its next call or at once.
 */
void session_look_for_server(struct session *s);

/** Those of PENDING_SWEEP and PENDING_RECLAIM that need work. */
uint32_t session_work(const struct session *s);

/** Choose the events for the control thread: messages, room to send, or a tick each millisecond. */
void session_watch(struct session *s);

/** Queue an answer and send what the socket accepts; never blocks. May end the session. */
void session_answer(struct session *s, const struct msg *m, const struct block_ref *refs);

/** A HITS message with the current counts. Any thread. */
struct msg session_hits_message(const struct session *s);

/** Send queued answers that the socket takes; false if the session has ended. */
bool session_flush_answers(struct session *s);

#endif
