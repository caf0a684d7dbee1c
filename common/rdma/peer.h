/* SPDX-License-Identifier: BSD-3-Clause */
/** peer.h - connections of clients. Everything runs on the server's loop. */
#ifndef COMMON_RDMA_PEER_H
#define COMMON_RDMA_PEER_H

#include "server_state.h"

/** Handle rdma_cm's events. */
void verbs_cm_dispatch(struct verbs_server *vs);
/** The control connection is up. No effect if that is known already or the peer is ending. */
void verbs_peer_established(struct verbs_peer *p);
/** A send has completed: free its slot. */
void verbs_peer_sent(struct verbs_server *vs, const struct arrival *a);
/** Messages of the peer were dropped: end it. */
void verbs_peer_overrun(struct verbs_peer *p, enum verbs_overrun why);
/** verbs_peer_gone() once its queued messages are taken. `why` must stay valid. */
void verbs_peer_hang_up(struct verbs_peer *p, const char *why);
/** End a peer that is gone or must be closed; calls on_gone(). */
void verbs_peer_gone(struct verbs_peer *p, const char *why);
/** End all peers, then report that the device is lost. */
void verbs_device_lost(struct verbs_server *vs, const char *why);
/** Finish peers that end, and end those not established in time. True: call again. */
bool verbs_peers_tick(struct verbs_server *vs, uint64_t now);
/** End all connections at once, without callbacks. */
void verbs_peers_destroy(struct verbs_server *vs);

#endif
