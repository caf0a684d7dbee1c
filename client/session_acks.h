/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session_acks.h - answers that wait until the handle is between two operations. The control
 * thread calls these functions, except where any thread may.
 */
#ifndef CLIENT_SESSION_ACKS_H
#define CLIENT_SESSION_ACKS_H

#include "session_state.h"

/** Do and answer what has become possible now that operations have ended. */
void session_stopped(struct session *s);

/** HITS, with the counts so far. Any thread. */
struct msg session_hits_message(const struct session *s);

/** The server's messages of these names; each is answered by session_stopped(), now or later. */
void session_on_barrier(struct session *s, uint64_t number);
void session_on_sweep_begin(struct session *s, uint64_t number);
void session_on_sweep_query(struct session *s, const struct msg *m);
void session_on_sweep_end(struct session *s, uint64_t number);
void session_on_reclaim(struct session *s);
/** MAP after WELCOME. */
void session_on_map(struct session *s, const struct msg *m);

#endif
