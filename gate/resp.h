/* SPDX-License-Identifier: BSD-3-Clause */
/** resp.h - execute Redis's requests. */
#ifndef GATE_RESP_H
#define GATE_RESP_H

#include "client.h"

/**
 * Execute the request at `data`, and append its reply to `c->out`. Returns the bytes of the
 * request; 0 if it is incomplete, or if c->closing was set after a violation of the protocol.
 */
size_t resp_step(struct client *c, char *data, size_t len);

#endif
