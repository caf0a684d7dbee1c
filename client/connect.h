/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * connect.h - from a socket's path to a server's WELCOME.
 *
 * Whatever listens there is a stranger until the handshake is over: it may be
 * silent, speak another language, or send descriptors nobody asked for.
 */
#ifndef CLIENT_CONNECT_H
#define CLIENT_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

/** What the HELLO says. */
struct connect_params {
	const char *path; /* of the Unix socket */
	const char *name; /* of this client, for the server's log; may be NULL */
	bool readonly;
	uint32_t replaces; /* the session it follows, or 0, */
	uint64_t replaces_region[2]; /* and the region of that one */
	uint64_t deadline_ns; /* clock_now_ns() */
};

/** What came of it. The receiver closes the three descriptors. */
struct connect_result {
	int fd;      /* the socket, non-blocking, close-on-exec */
	int meta_fd; /* server-written part of the region */
	int data_fd; /* the rest */
	uint32_t session;
	uint32_t prefix; /* of the versions that this session writes */
	bool readonly;   /* what was granted, or asked for if that is less */
	bool peer_may_kill; /* the server's user is ours or root */
	uint64_t region_id[2];
	uint64_t region_bytes;
	uint64_t meta_bytes;
	uint64_t grace_ns;
};

/**
 * Connect and shake hands, within the deadline.
 *
 * Errors: FARKV_EUNREACHABLE (nobody listens), FARKV_EPERM (file modes, or the
 * server's refusal for that reason), FARKV_EPROTOCOL (not a farkv server, or
 * another protocol version), FARKV_EREFUSED (with the server's reason),
 * FARKV_ETIMEDOUT, FARKV_ESYS. Nothing stays open then.
 */
int connect_open(const struct connect_params *p, struct connect_result *out);

#endif
