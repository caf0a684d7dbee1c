/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fence.h - the map of the cluster has changed: all clients are told, and once the fence is
 * complete no operation by an older map is acknowledged.
 *
 * Each session that came by a map is sent the new one, and gets no lease until it has answered
 * MAP_ACK: then its operations by older maps are over. The fence is complete when each has
 * answered, or the last lease it got has ended: what a stopped client writes later is never
 * acknowledged.
 */
#ifndef SERVER_LOOP_FENCE_H
#define SERVER_LOOP_FENCE_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct loop_module;
struct msg;
struct session;

extern const struct loop_module fence_module;

/** cfg.map is another one. May end sessions. */
void fence_begin(struct control *c);

/** The epoch of cfg.map, if the fence is complete; else 0. */
uint64_t fence_complete(const struct control *c);

/** True if no session owes an answer: no operation by an older map runs anywhere. */
bool fence_acknowledged(struct control *c);

/** Give the session a lease until then. False: it gets none, because it owes an answer. */
bool fence_grant_lease(struct session *s, uint64_t until_ns);

/** Take MAP_ACK; false: the session is gone. */
bool fence_on_ack(struct session *s, const struct msg *m);

#endif
