/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the control loop as a whole: it makes the connections and the modules and runs
 * them. One thread; no GET, PUT or DELETE passes through it.
 */
#ifndef SERVER_LOOP_CONTROL_H
#define SERVER_LOOP_CONTROL_H

#include "control_config.h"

struct control;
struct region;

#define CONTROL_AGAIN (-1)

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
 * most drain_ms. Returns 0; 1 if it ended because the RDMA device was lost; CONTROL_AGAIN if the
 * server is to begin again with an empty region (membership.h).
 */
int control_run(struct control *c);

#endif
