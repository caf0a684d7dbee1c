/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the control loop: sessions, grants, statistics. One thread; no GET, PUT or
 * DELETE passes through it.
 */
#ifndef SERVER_LOOP_CONTROL_H
#define SERVER_LOOP_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/proto/keyfile.h"
#include "common/rdma/verbs.h"
#include "server/memory/region.h"

#include "listen.h"

struct control;

struct control_config {
	uint32_t max_sessions;
	uint32_t drain_ms;  /* how long to wait for clients at shutdown */
	uint32_t hello_ms;  /* time for a new connection to send HELLO */
	struct listen_socket *socket;            /* NULL: no Unix socket */
	const struct verbs_server_config *rdma;  /* NULL: no RDMA; region and
								functions in it are ignored */
	struct keyfile *keys; /* NULL: no authentication; read again at SIGHUP
				 by the control loop */
	bool keys_on_socket;        /* socket clients need a key, too */
};

/**
 * Serve `region`; it and everything in `cfg` stay the caller's. With RDMA only the NIC
 * writes for clients: sessions of the socket are read-only (I3). On failure *out is
 * untouched; errors as verbs_server_open(), FARKV_ENOMEM.
 */
int control_new(const struct control_config *cfg, struct region *region,
		struct control **out);
void control_free(struct control *c);

/** Address and device that RDMA clients connect to; NULL without RDMA. */
const char *control_rdma_address(const struct control *c);
const char *control_rdma_device(const struct control *c);

/**
 * Run until SIGTERM or SIGINT, then drain: tell the sessions, wait until they have left, at
 * most drain_ms. Returns 0; 1 if it ended because the RDMA device was lost.
 */
int control_run(struct control *c);

#endif
