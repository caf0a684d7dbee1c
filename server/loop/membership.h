/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * membership.h - a server of a cluster whose map changes: its registration with the coordinator,
 * its lease, newer maps, and taking over the partitions of servers that are gone. doc/cluster.md,
 * Leases.
 *
 * Rounds (server/cluster/coord.h) run five times per lease. A round that found the registration and
 * the map gives a lease, from the round's begin, under that map. Nothing else does: while the
 * coordinator is away the lease ends, and with it what clients may believe.
 *
 * Clients find no key of a partition that the server does not have by the map that is installed:
 * when a map shows that it has lost its partitions, control_run() returns CONTROL_AGAIN, and it
 * begins again, empty.
 */
#ifndef SERVER_LOOP_MEMBERSHIP_H
#define SERVER_LOOP_MEMBERSHIP_H

#include <stdbool.h>

struct control;
struct loop_module;
struct msg;
struct session;

extern const struct loop_module membership_module;

/**
 * Run the loop until the server is registered and has a map with its name; clients wait meanwhile.
 * FARKV_EABORTED: a signal came. Nothing to do without a coordinator.
 */
int membership_join(struct control *c);

/** Answer LEASE_REQ; false: the session is gone. */
bool membership_on_lease(struct session *s, const struct msg *m);

#endif
