/* SPDX-License-Identifier: BSD-3-Clause */
/** transport.h - which transports the server offers: the choice at start. */
#ifndef SERVER_LOOP_TRANSPORT_H
#define SERVER_LOOP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

enum transport { TRANSPORT_AUTO, TRANSPORT_SHM, TRANSPORT_RDMA, TRANSPORT_BOTH };

struct transport_wanted {
	enum transport transport;
	const char *listen; /* HOST:PORT, or NULL */
	bool have_keys, no_auth;
};

/** Where to listen for RDMA clients. */
struct transport_address {
	char host[256]; /* empty: every address */
	char port[8];
};

struct transport_plan {
	bool socket, rdma;
	char why[600]; /* one line for the log */
};

/**
 * Read "HOST:PORT", "HOST", ":PORT" or "[IPV6]:PORT"; NULL is every address at the
 * default port. FARKV_EINVAL with a detail.
 */
int transport_address(const char *text, struct transport_address *out);

/**
 * Choose. Reads the machine's RDMA devices for AUTO only. FARKV_EINVAL if remote clients would
 * need no credentials and --no-auth was not given.
 */
int transport_choose(const struct transport_wanted *w,
		     const struct transport_address *a,
		     struct transport_plan *out);

#endif
