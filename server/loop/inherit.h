/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * inherit.h - the sessions of the server before this one, of the same region.
 *
 * Their processes still map the region and go on with it. They are lingering sessions
 * (lingering.h): no barrier passes and no sweep begins before each has unmapped its tether.
 */
#ifndef SERVER_LOOP_INHERIT_H
#define SERVER_LOOP_INHERIT_H

#include <stdbool.h>

struct control;

/**
 * Take over the session table and the tethers, and ask for the sweep and the barrier that an
 * adopted region needs. Once, before the first connection. False: out of memory.
 */
bool inherit_sessions(struct control *c);

#endif
