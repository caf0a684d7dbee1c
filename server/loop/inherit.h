/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inherit.h - the sessions of the region's previous server.
 *
 * Their processes still map the region and go on with it. They are lingering sessions
 * (lingering.h): no barrier passes and no sweep begins before each has unmapped its tether.
 */
#ifndef SERVER_LOOP_INHERIT_H
#define SERVER_LOOP_INHERIT_H

struct control;

/**
 * Take over the session table and the tethers, and ask for the sweep and the barrier that an
 * adopted region needs. Once, before the first connection. 0, or with a detail: FARKV_ENOMEM;
 * FARKV_ESYS if a tether cannot be opened, whose session may still use the region; FARKV_EREFUSED
 * if sessions may still swap slots by CPU and this server's writers come by RDMA (I3).
 */
int inherit_sessions(struct control *c);

#endif
