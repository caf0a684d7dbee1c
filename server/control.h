/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the control loop: sessions, grants, statistics. One thread, no
 * part in any GET, PUT or DELETE.
 */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include <stdint.h>

#include "listen.h"
#include "region.h"

struct control;

struct control_config {
	uint32_t max_sessions;
	uint32_t drain_ms;  /* how long to wait for clients at the end */
	uint32_t hello_ms;  /* a connection must say HELLO within */
};

/** Serve `region` at `listen`; both stay the caller's. NULL with a detail. */
struct control *control_new(const struct control_config *cfg,
			    struct region *region, struct listen_socket *listen);
void control_free(struct control *c);

/**
 * Run until SIGTERM or SIGINT, then drain: tell the sessions, wait for them to
 * leave or for drain_ms. Returns 0.
 */
int control_run(struct control *c);

#endif
