/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * snapshots.h - when the server saves its store, and that it restores one before it serves. The
 * work is the saver's (server/saver/saver.h), whose session is a client's like any other, but stays
 * until the end.
 */
#ifndef SERVER_LOOP_SNAPSHOTS_H
#define SERVER_LOOP_SNAPSHOTS_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct loop_module;

extern const struct loop_module snapshots_module;

/** Before the loop runs, once clients can connect: where the saver finds the server. */
bool snapshots_open(struct control *c, const char *uri, const char *key);

/**
 * Run the loop until the snapshot is restored; meanwhile the saver alone is let in, and others
 * wait. 0, or an error with a detail; FARKV_EABORTED: a signal came.
 */
int snapshots_restore(struct control *c);

/** Save now, or again when the save in progress has ended; for SIGUSR1. */
void snapshots_save(struct control *c);

/**
 * The server is about to end, and the other clients have been told. True while the last save is to
 * be waited for: call again. It begins when the other sessions are gone or `late`, and ends those.
 */
bool snapshots_at_end(struct control *c, bool late);

/** Another signal to end: give up a save or restore in progress. */
void snapshots_give_up(struct control *c);

/** For STATS. */
struct snapshots_stats {
	uint64_t saves, failed; /* failed: of saves */
	uint64_t saved_at_ms;   /* when the last good one began, since 1970; 0: never */
};
struct snapshots_stats snapshots_stats(const struct control *c);

#endif
