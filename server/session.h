/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session.h - one client's connection: a packet socket and its unsent messages.
 *
 * Knows framing, queueing and time limits; what messages mean is control.c's.
 */
#ifndef SERVER_SESSION_H
#define SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <event2/event.h>

#include "common/msg.h"

struct control;

struct out_packet {
	STAILQ_ENTRY(out_packet) link;
	size_t len;
	uint8_t bytes[];
};

struct session {
	TAILQ_ENTRY(session) link; /* of all connections */
	struct control *control;
	int fd;
	struct event *readable, *writable;
	STAILQ_HEAD(, out_packet) out;
	size_t out_bytes;
	bool welcomed; /* HELLO was answered: it takes part in barriers */
	bool readonly;
	bool left;     /* said BYE */
	uint64_t barrier_owed; /* number of the BARRIER it has to answer, or 0 */
	uint32_t n_deferred; /* its requests that wait for blocks */
	uint32_t id;
	uint64_t connected_ns;
	pid_t pid;     /* of the peer, from the kernel */
};

/** A session that does not read is closed when so much waits for it. */
#define SESSION_OUT_MAX (1u << 20)

/** Wrap a connected socket, which the session owns. NULL if out of memory. */
struct session *session_new(struct control *control, struct event_base *base,
			    int fd, event_callback_fn on_read,
			    event_callback_fn on_write);
void session_free(struct session *s);

/**
 * Send a message, or queue it if the peer's buffer is full. `fds` (n_fds of them,
 * may be 0) travel along and need an empty queue. False: the session is beyond
 * help and must be closed.
 */
bool session_send(struct session *s, const struct msg *m,
		  const struct block_ref *refs, const int *fds, int n_fds);

/** Send what is queued; called when the socket is writable. False as above. */
bool session_flush(struct session *s);

/**
 * Receive one packet. Returns its length, 0 at the end of the connection, -1 with
 * errno EAGAIN if there is none, -2 if it was too long. Descriptors that the peer
 * sent are closed.
 */
ssize_t session_receive(struct session *s, void *buf, size_t cap);

#endif
