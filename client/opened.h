/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * opened.h - the open handles of this process, so that a second close is recognized without
 * reading the handle's memory. Any thread; takes a lock, at open and close only.
 */
#ifndef CLIENT_OPENED_H
#define CLIENT_OPENED_H

#include <stdbool.h>
#include <stdint.h>

/** Embedded in a handle. */
struct opened {
	struct opened *next;
	uint64_t number; /* from 1 on; no other handle of this process has had it */
};

/** Number a handle that the program cannot close by itself, as opened_add() does. */
void opened_number(struct opened *o);
/** `o` is zeroed, or was removed. It gets its number the first time. */
void opened_add(struct opened *o);
/** False if it is not in the list; *o has then not been read. Searches all open handles. */
bool opened_remove(struct opened *o);

/** Around fork(2); see atfork.c. */
void opened_fork_prepare(void);
void opened_fork_end(void);

#endif
