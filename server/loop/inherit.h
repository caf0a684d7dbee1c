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
 * adopted region needs. Once, before the first connection. 0; FARKV_ENOMEM, or FARKV_ESYS if a tether
 * cannot be opened, each with a detail: its session may still use the region.
 */
int inherit_sessions(struct control *c);

#endif
