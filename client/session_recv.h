/* SPDX-License-Identifier: BSD-3-Clause */
/** session_recv.h - what arrives for a session: the functions of its control_source. */
#ifndef CLIENT_SESSION_RECV_H
#define CLIENT_SESSION_RECV_H

#include "session_state.h"

void session_ready(struct control_source *src);
void session_tick(struct control_source *src);
void session_fds_lost(struct control_source *src);
void session_forked(struct control_source *src);

#endif
