/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * opened.h - the handles of this process that are open, so that one that is closed twice is
 * recognized without a look at its memory. Any thread; takes a lock, at open and close only.
 */
#ifndef CLIENT_OPENED_H
#define CLIENT_OPENED_H

#include <stdbool.h>

/** Embedded in a handle. */
struct opened {
	struct opened *next;
};

void opened_add(struct opened *o);
/** False if it is not there; then nothing of *o has been read. Cost: a walk over all that
 * are open. */
bool opened_remove(struct opened *o);

/** Around fork(2); see atfork.c. */
void opened_fork_prepare(void);
void opened_fork_end(void);

#endif
