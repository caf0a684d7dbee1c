/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session_recv.h - what arrives for a session: the functions of its control_source. All but
 * session_journal() run on the control thread.
 */
#ifndef CLIENT_SESSION_RECV_H
#define CLIENT_SESSION_RECV_H

#include "session_state.h"

/** The functions of struct control_source. */
void session_ready(struct control_source *src);
void session_tick(struct control_source *src);
void session_fds_lost(struct control_source *src);
void session_forked(struct control_source *src);

/**
 * Enter all that the session holds in the journal, the grants inbox included, and clear
 * PENDING_SWEEP. The inventory's lock is held. The handle's thread, or the control thread while no
 * operation runs.
 */
void session_journal(struct session *s);

#endif
