/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * roster.h - the region's session table: which sessions may still use the region, for a later
 * server. Written before WELCOME is sent; cleared when the session can do nothing any more.
 * Event loop only.
 */
#ifndef SERVER_LOOP_ROSTER_H
#define SERVER_LOOP_ROSTER_H

#include <stdint.h>
#include <sys/types.h>

#include "server/memory/region.h"

/**
 * Enter session `id` of process `pid`; 0: it is on another host, or in another PID namespace.
 * NULL if no entry is free. Reads /proc/PID/stat.
 */
struct session_entry *roster_enter(const struct region *r, uint32_t id, pid_t pid);

/** Clear an entry; NULL is allowed. */
void roster_clear(struct session_entry *e);

#endif
