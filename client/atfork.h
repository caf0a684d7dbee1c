/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * atfork.h - handles in a child of fork(2).
 *
 * The child has neither the control thread nor the mapped regions, and its copies of the sockets
 * would make sessions look alive. So the child closes those copies and marks every inherited
 * session as ended; handles that it opens itself work.
 */
#ifndef CLIENT_ATFORK_H
#define CLIENT_ATFORK_H

#include <stdint.h>

/** Install the handlers, once per process. 0 or FARKV_ENOMEM. Any thread. */
int atfork_init(void);

/** Differs after each fork that this process descends from; compare for equality. */
uint64_t atfork_generation(void);

#endif
