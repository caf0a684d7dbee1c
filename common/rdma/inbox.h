/* SPDX-License-Identifier: BSD-3-Clause */
/** inbox.h - messages of clients, bounded, until the server's loop takes them. */
#ifndef COMMON_RDMA_INBOX_H
#define COMMON_RDMA_INBOX_H

#include "server_state.h"

/** A copy of a completion with its message; NULL if out of memory. free() it. */
struct arrival *verbs_arrival_new(struct verbs_server *vs,
				  const struct ibv_wc *wc);

/** Queue a message. Drops it if its peer is gone or over its bound. With the lock. */
void verbs_inbox_add(struct verbs_server *vs, const struct ibv_wc *wc);

/* The following run on the loop and take the lock. */

/** From now on messages of the new peer are accepted. */
void verbs_inbox_join(struct verbs_peer *p);
/** The peer ends: drop its messages and accept no more. */
void verbs_inbox_remove(struct verbs_peer *p);
bool verbs_inbox_is_empty(struct verbs_peer *p);

/**
 * The next peer with messages or an overrun, in turn; NULL if there is none. The caller
 * gives it back by verbs_inbox_return(), unless it ends the peer.
 */
struct verbs_peer *verbs_inbox_next(struct verbs_server *vs,
				    enum verbs_overrun *overrun_out);
/** Its oldest message, to be freed, or NULL. *last_out: no more are queued. */
struct arrival *verbs_inbox_take(struct verbs_peer *p, bool *last_out);
/** Put the peer at the end of the turn again, if it has more messages. */
void verbs_inbox_return(struct verbs_peer *p);
/** How many peers verbs_inbox_next() can return. */
uint32_t verbs_inbox_waiting(struct verbs_server *vs);

#endif
