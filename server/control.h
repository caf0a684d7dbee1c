/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the control loop: sessions, grants, statistics. One thread, no
 * part in any GET, PUT or DELETE.
 */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/keyfile.h"
#include "common/xport_verbs.h"

#include "listen.h"
#include "region.h"

struct control;

struct control_config {
	uint32_t max_sessions;
	uint32_t drain_ms;  /* how long to wait for clients at the end */
	uint32_t hello_ms;  /* a connection must say HELLO within */
	struct listen_socket *socket;            /* NULL: no Unix socket */
	const struct verbs_server_config *rdma;  /* NULL: no RDMA; its parts
						    about region and functions
						    are not looked at */
	struct keyfile *keys; /* NULL: nobody is asked for credentials; the
				 control loop reads it again at SIGHUP */
	bool keys_on_socket;        /* not only by RDMA */
};

/**
 * Serve `region`; it stays the caller's, as everything in `cfg`. With RDMA,
 * clients write by the card alone: sessions of the socket are read-only (I3).
 * On failure *out is untouched; errors as verbs_server_open(), FARKV_ENOMEM.
 */
int control_new(const struct control_config *cfg, struct region *region,
		struct control **out);
void control_free(struct control *c);

/** Where clients connect by RDMA, and by which device; NULL without. */
const char *control_rdma_address(const struct control *c);
const char *control_rdma_device(const struct control *c);

/**
 * Run until SIGTERM or SIGINT, then drain: tell the sessions, wait for them to
 * leave or for drain_ms. Returns 0; 1 if it ended because the RDMA device was lost.
 */
int control_run(struct control *c);

#endif
