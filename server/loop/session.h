/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session.h - one client's connection: its state, its unsent messages, its end. conn_unix.c
 * and conn_rdma.c transport the messages, dispatch.c interprets them.
 */
#ifndef SERVER_LOOP_SESSION_H
#define SERVER_LOOP_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common/base/rate_limit.h"
#include "common/proto/hits.h"
#include "common/proto/msg.h"

#include "demand.h"

struct control;
struct key;
struct unfinished;
struct session;
struct session_entry;
struct tether;

/** Operations of a connection. */
struct conn_ops {
	bool remote; /* over RDMA: its process is elsewhere; the NIC writes for it */
	/*
	 * Send one packet; `fds` (n_fds of them, may be 0) travel along. 0, EAGAIN
	 * (session_flush() is called when there is room), or an errno that ends the session.
	 */
	int (*send)(void *conn, const void *buf, size_t len, const int *fds,
		    int n_fds);
	/* After the return no operation of the session can reach the region. */
	void (*fence)(void *conn);
	/*
	 * After the return no message can arrive. True if all earlier ones have been read.
	 * NULL: unknown.
	 */
	bool (*silence)(void *conn);
	/* Release the connection; messages sent before still go out. */
	void (*close)(void *conn);
	/* The peer's name, for the log. */
	const char *(*peer)(void *conn, char *buf, size_t cap);
};

struct out_packet {
	STAILQ_ENTRY(out_packet) link;
	size_t len;
	uint8_t bytes[];
};

/** The content of HELLO, kept while the client authenticates. */
struct session_hello {
	uint32_t req;
	uint8_t role;
	uint32_t replaces;
	uint64_t replaces_region[2];
	uint64_t map;   /* id of the cluster's map, or 0 */
	uint8_t server; /* of that map */
	uint16_t body_len;
	uint8_t body[256]; /* the original bytes, which the proof covers */
};

struct session {
	TAILQ_ENTRY(session) link; /* in the list of all connections */
	struct control *control;
	const struct conn_ops *port;
	void *conn; /* argument of the port's functions */
	STAILQ_HEAD(, out_packet) out;
	size_t out_bytes;
	bool challenged; /* CHALLENGE was sent, AUTH is due */
	bool welcomed; /* it takes part in barriers */
	bool readonly;
	bool saver;    /* of the server's own child: snapshots.h */
	bool copies;   /* of one of those of copies.h */
	bool begun;    /* it has sent a message after WELCOME */
	bool left;     /* it has sent BYE, or nothing after WELCOME */
	uint64_t barrier_owed; /* number of the BARRIER to be acknowledged, or 0 */
	uint32_t n_deferred; /* its requests that wait for blocks */
	struct unfinished *unfinished; /* its RETURN in progress, or NULL */
	struct rate_limit in_use;   /* returned blocks that slots name */
	struct rate_limit prefixes; /* requests for prefixes */
	struct demand demand;  /* in a store that evicts */
	uint64_t granted_ns;   /* when it was last granted blocks */
	uint64_t reclaimed_ns; /* when it was last sent RECLAIM */
	/* Its HELLO waits for a sweep, and this continues it; may end it. NULL: does not wait. */
	void (*resume)(struct session *s);
	struct {
		uint64_t number;   /* the sweep that it takes part in */
		uint64_t owed;     /* the one to acknowledge, or 0 */
		uint32_t due;      /* the question to answer next */
		uint32_t asked;    /* the last one sent to it */
		uint64_t since_ns; /* since when it owes an answer */
		bool granted;      /* it has ever been granted blocks */
	} sweep; /* see sweep.c */
	uint64_t map_epoch; /* of the map that it came by; 0: none */
	uint64_t map_owed; /* the epoch of the MAP to acknowledge; 0: none */
	uint64_t lease_ns; /* until when it has a lease, at most */
	bool held; /* its HELLO waits for the end of a restore */
	bool passes;    /* it has sent PASS, ... */
	uint64_t reset; /* ... and was told the resets before this one: passes.c */
	uint32_t id;
	uint64_t connected_ns; /* or when its HELLO was parked or resumed */
	pid_t pid;     /* of the peer, for the log; 0: remote or in another PID namespace */
	struct hits hits; /* as its last HITS said; local sessions have a tether */
	struct session_entry *entry; /* in the session table; NULL: none, or its tether's */
	struct tether *tether; /* shows whether its process has the region mapped; NULL: remote */
	struct session_hello hello;
	char name[64]; /* what its program calls itself in HELLO; control characters are ? */
	uint8_t nonce[MSG_NONCE_BYTES]; /* of CHALLENGE */
	uint8_t token[MSG_TOKEN_BYTES]; /* of WELCOME */
	const struct key *key; /* the key that it has proved; NULL: none */
};

/** Time limit for one session's messages in a round of the event loop. */
#define SESSION_SLICE_NS UINT64_C(300000)

/** A session that does not read is closed when this many bytes wait for it. */
#define SESSION_OUT_MAX (1u << 20)

/** NULL if out of memory; `conn` then stays the caller's. */
struct session *session_new(struct control *control,
			    const struct conn_ops *port, void *conn);

/** Tell all modules, close the connection and free `s`. */
void session_end(struct session *s);
/**
 * The same for a silent session whose process has unmapped its tether (lingering.h) though its
 * socket is open: a child made without atfork handlers, or one between vfork() and exec(),
 * holds a copy of the socket. True if it was ended.
 */
bool session_end_dead(struct session *s);

/**
 * Send a message, or queue it while the peer has no room. `fds` (n_fds of them, may be 0)
 * travel along and need an empty queue. False: the session is broken and must be closed.
 */
bool session_send(struct session *s, const struct msg *m,
		  const struct block_ref *refs, const int *fds, int n_fds);

/** Answer request `req`. False: the session is gone. */
bool session_reply(struct session *s, struct msg *m, uint32_t req,
		   const struct block_ref *refs);

/**
 * Tell the client the reason, then end the session. A remote client that is not welcomed yet,
 * and one that failed to prove a key, gets the reason's number only.
 */
void session_refuse(struct session *s, enum msg_reason reason, const char *text);

/** Send what is queued; called when there is room. False: as session_send(). */
bool session_flush(struct session *s);

/**
 * True if the session's next packet may be taken. Not while its last one is handled in slices: ask
 * again in the next round of the loop. dispatch_packet() finishes the last one first in any case.
 */
static inline bool session_may_take(const struct session *s)
{
	return !s->unfinished;
}

/** What the session has counted, by its own account. */
struct hits session_hits(const struct session *s);

/** "pid 4711" or "192.0.2.7:41234": for the log; buf of 80 bytes. */
const char *session_peer(const struct session *s, char buf[80]);

#endif
