/* SPDX-License-Identifier: BSD-3-Clause */
/** dispatch.h - the messages of clients: each goes to the module that handles it. */
#ifndef SERVER_LOOP_DISPATCH_H
#define SERVER_LOOP_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>

struct session;

/** Handle a packet. False: the session is gone. */
bool dispatch_packet(struct session *s, const void *buf, size_t len);

#endif
