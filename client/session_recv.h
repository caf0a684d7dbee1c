/* SPDX-License-Identifier: BSD-3-Clause */
/** session_recv.h - struct session, and the control thread's half of it. */
#ifndef CLIENT_SESSION_RECV_H
#define CLIENT_SESSION_RECV_H

#include <pthread.h>

#include "control.h"
#include "notifier.h"
#include "session.h"

/* Barriers, sweeps and their questions that may wait for operations at once. */
#define ACKS_MAX 32

/* An answer that the socket had no room for. */
struct out_msg {
	struct out_msg *next;
	size_t len;
	uint8_t bytes[];
};

/* An answer that waits until running operations have ended. */
struct pending_ack {
	uint8_t type; /* MSG_BARRIER_ACK, MSG_SWEEP_ACK or MSG_SWEEP_CLAIM */
	uint32_t req; /* SWEEP_CLAIM: number of the question */
	uint64_t number;
	uint64_t mark; /* qsbr_snapshot() */
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
	bool sweeping;  /* it has not ended */
	unsigned reclaim_tries;
	unsigned looks; /* at a server whose process seems to be the one that ended */
	struct out_msg *out_head, **out_tail;
	unsigned n_out;
	uint64_t last_mark; /* qsbr_snapshot() when `leaving` was set */
	bool leaving;       /* unmap the tether when the counter has passed last_mark */

	uint64_t lease_ns; /* atomic: see session_lease_ns(); set by the control thread */
	uint32_t away; /* atomic: see session_is_away(); set by the control thread */
	uint32_t grants_out; /* atomic: the handle's thread adds, control subtracts */

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t cond;  /* grants, answer, end */
	struct session_grant *grants, **grants_tail;
	uint32_t prefix;
	bool has_prefix;
	uint64_t full[SESSION_FULL_WORDS]; /* see struct session_grants_inbox */
	uint64_t other_bytes;
	bool has_full, no_pages;
	uint32_t awaited;     /* number of the request whose answer is awaited, or 0 */
	uint8_t awaited_type; /* type of that answer */
	bool answered, over, bye_acked;
	bool ended; /* one side ended it for a reason of its own */
	uint64_t lease_pause_ns; /* between two questions for the lease; 0: none are asked */
	uint64_t lease_asked_ns; /* when the question was sent that has no answer; 0: none */
	uint64_t lease_next_ns;  /* the control thread: when the next one is due */
	struct msg answer;
	char reason[256];
	struct notifier *notifier; /* called at the end, or NULL; ... */
	bool notifier_grants;     /* ... and for grants and answers */

	bool tells_hits;  /* it has no tether: HITS goes before some messages */
	struct hits hits; /* counts of a session without a tether, or after it */

	/* on a cache line of its own: the handle's thread writes it all the time */
	struct qsbr qsbr __attribute__((aligned(64)));
};

/**
 * End the session, from either thread; the first reason stands. `cut`: neither side wanted the
 * end.
 */
void session_break(struct session *s, bool cut, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The lock is held: wake those that wait. `over`: the session has ended. */
void session_tell(struct session *s, bool over);

/** End the session because the channel could not send, with an errno. */
void session_lost(struct session *s, int errnum);

/** HITS, with the counts so far. Any thread. */
struct msg session_hits_message(const struct session *s);

/** The functions of the session's control_source. */
void session_ready(struct control_source *src);
void session_tick(struct control_source *src);
void session_fds_lost(struct control_source *src);
void session_forked(struct control_source *src);

#endif
