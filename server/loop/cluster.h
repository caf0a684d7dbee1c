/* SPDX-License-Identifier: BSD-3-Clause */
/** cluster.h - a server of a cluster welcomes only clients that have its map. */
#ifndef SERVER_LOOP_CLUSTER_H
#define SERVER_LOOP_CLUSTER_H

#include <stdbool.h>

struct session;

/**
 * Check what HELLO says of the cluster, for a client that has proved its key, if it needs one. True:
 * it has this server's map and means this server, neither knows of a cluster, or it is the server's own
 * child. False: the session is gone. A client with another map, or none, was sent the map (MAP); one that
 * means another server, or a cluster where there is none, was refused with the reason.
 */
bool cluster_admits(struct session *s);

#endif
