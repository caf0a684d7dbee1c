/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session.h - one client's connection: what is known of it, and its unsent
 * messages. How messages travel is the port's business (port_unix.c, port_rdma.c),
 * what they mean is control.c's.
 */
#ifndef SERVER_SESSION_H
#define SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common/msg.h"
#include "common/rate_limit.h"

struct control;
struct key;
struct unfinished;
struct session;
struct tether;

/** A way of sending messages to a session's client. */
struct session_port {
	bool remote; /* its process is out of sight; it writes by the card */
	/*
	 * Send one packet; `fds` (n_fds of them, may be 0) travel along. 0,
	 * EAGAIN (session_flush() is then called when there is room), or an errno
	 * that ends the session.
	 */
	int (*send)(void *conn, const void *buf, size_t len, const int *fds,
		    int n_fds);
	/* Nothing of the session may reach the region after the return. */
	void (*fence)(void *conn);
	/*
	 * No message can be sent to here after the return. True if all that came
	 * before have been read. NULL: it cannot tell.
	 */
	bool (*silence)(void *conn);
	/* Release the connection; what was sent still goes out. */
	void (*close)(void *conn);
	/* Who is at the other end, for the log. */
	const char *(*peer)(void *conn, char *buf, size_t cap);
};

struct out_packet {
	STAILQ_ENTRY(out_packet) link;
	size_t len;
	uint8_t bytes[];
};

/** What HELLO said, kept while the client proves who it is. */
struct session_hello {
	uint32_t req;
	uint8_t role;
	uint32_t replaces;
	uint64_t replaces_region[2];
	uint16_t body_len;
	uint8_t body[256]; /* as it was sent: the client's proof covers it */
};

struct session {
	TAILQ_ENTRY(session) link; /* of all connections */
	struct control *control;
	const struct session_port *port;
	void *conn; /* the port's */
	STAILQ_HEAD(, out_packet) out;
	size_t out_bytes;
	bool challenged; /* CHALLENGE was sent, AUTH is due */
	bool welcomed; /* it takes part in barriers */
	bool readonly;
	bool begun;    /* it said something behind WELCOME */
	bool left;     /* said BYE, or nothing behind WELCOME */
	uint64_t barrier_owed; /* number of the BARRIER it has to answer, or 0 */
	uint32_t n_deferred; /* its requests that wait for blocks */
	struct unfinished *unfinished; /* its RETURN that is worked off, or NULL */
	struct rate_limit in_use;   /* blocks that it returned and slots name */
	struct rate_limit prefixes; /* that it asked for */
	uint64_t granted_ns;   /* it was last given some */
	uint64_t reclaimed_ns; /* it was last asked for what it does not use */
	bool parked;         /* its HELLO waits for a sweep */
	struct {
		uint64_t number;   /* sweep that it takes part in */
		uint64_t owed;     /* the one to be acknowledged, or 0 */
		uint32_t due;      /* the question that it has to answer next */
		uint32_t asked;    /* the last one it was asked */
		uint64_t since_ns; /* it has owed an answer */
		bool granted;      /* it was given blocks, ever */
	} sweep; /* see sweep.c */
	uint32_t id;
	uint64_t connected_ns; /* or when it began to wait with its HELLO, or was let go on */
	pid_t pid;     /* of the peer, for people; 0: remote, or out of sight */
	struct tether *tether; /* tells when its process lets go; NULL: remote */
	struct session_hello hello;
	uint8_t nonce[MSG_NONCE_BYTES]; /* of CHALLENGE */
	uint8_t token[MSG_TOKEN_BYTES]; /* of WELCOME */
	const struct key *key; /* that it proved to have; NULL: none */
};

/** How long the messages of one session may take in a round of the event loop. */
#define SESSION_SLICE_NS UINT64_C(300000)

/** A session that does not read is closed when so much waits for it. */
#define SESSION_OUT_MAX (1u << 20)

/** NULL if out of memory; `conn` then stays the caller's. */
struct session *session_new(struct control *control,
			    const struct session_port *port, void *conn);
/** Close the connection and free. NULL is allowed. */
void session_free(struct session *s);

/**
 * Send a message, or queue it while the peer has no room. `fds` (n_fds of them,
 * may be 0) travel along and need an empty queue. False: the session is beyond
 * help and must be closed.
 */
bool session_send(struct session *s, const struct msg *m,
		  const struct block_ref *refs, const int *fds, int n_fds);

/** Send what is queued; called when there is room. False as above. */
bool session_flush(struct session *s);

/** "pid 4711" or "192.0.2.7:41234": for the log; buf of 80 bytes. */
const char *session_peer(const struct session *s, char buf[80]);

#endif
