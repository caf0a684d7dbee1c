/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sweep.h - finds blocks of sessions that died, and gives them back.
 *
 * The server does not know which session holds an out block. So it asks: from SWEEP_BEGIN on
 * every session remembers what it holds; the server marks all blocks that the index names;
 * sessions claim those of the others that they hold; unclaimed blocks belonged to the dead. A
 * block that the walk missed and that did not leak was held by a living session, or by the
 * server, at some moment since SWEEP_BEGIN.
 *
 * This holds because:
 * - The dead cannot act: connections are fenced, processes are gone.
 * - Blocks granted during a sweep are marked at once, and so are those that a migration moves
 *   values to.
 * - The walk begins when all operations that started without knowledge of the sweep are over.
 * - A session that leaves first names what it remembers. If one dies during the sweep the
 *   sweep starts again.
 * - A migration keeps the range of hashes, so no word moves from the part of the index still
 *   to be visited to the visited part (region_walk).
 *
 * The walk, the questions and the removal of marks run in slices. On an idle server no timer
 * of a sweep runs. Event loop only.
 */
#ifndef SERVER_LOOP_SWEEP_H
#define SERVER_LOOP_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/region/layout.h"

struct control;
struct loop_module;
struct msg;
struct session;

struct sweep_stats {
	uint64_t sweeps;      /* searches that have ended */
	uint64_t swept;       /* blocks that they freed */
	uint64_t last_ns;     /* duration of the last one */
	uint64_t deaths;      /* dead sessions that are not swept yet; sweep_lost() counts as one */
};

enum sweep_result {
	SWEEP_DONE,
	SWEEP_SILENT,    /* a session does not answer */
	SWEEP_LINGERING, /* a process of a dead session lingers */
	SWEEP_BUSY,      /* too many sessions died during the sweep */
};

/** The result of a requested sweep. */
struct sweep_outcome {
	enum sweep_result result;
	uint32_t session; /* SILENT, LINGERING: that session */
	pid_t pid;        /* its process; 0 if in another PID namespace */
	uint64_t held;    /* blocks claimed by living sessions */
	uint64_t leaked, leaked_bytes; /* ... and blocks given back */
};

/**
 * Its tick cuts off or gives up silent sessions, and resumes writers that have been held up
 * too long.
 */
extern const struct loop_module sweep_module;

/**
 * Request a sweep, though no session died; it begins as soon as none runs. `done` is called
 * once, sooner or later; one such request at a time.
 */
void sweep_request(struct control *c,
		   void (*done)(struct control *c,
				const struct sweep_outcome *o));

/** Blocks are out that no session has: a sweep is due, as after a death. */
void sweep_lost(struct control *c);

/**
 * Memory is out: sweep without a pause if there is anything to sweep. True if that may free
 * blocks soon.
 */
bool sweep_hurry(struct control *c);

/** True if a sweep runs. */
bool sweep_running(const struct control *c);

/** A migration gave keys of the subtable of this entry other blocks, and has stored it. */
void sweep_moved(struct control *c, uint64_t entry);

/** `s` is granted these blocks with its next message. */
void sweep_granted(struct session *s, const struct block_ref *refs, size_t n);

/** WELCOME was sent. False: the session is gone. */
bool sweep_welcomed(struct session *s);
/** `s` sent BYE, after it has named what it remembers. */
void sweep_session_left(struct session *s);
/** Begin a sweep if one is due, soon: a lingering process that it waited for may be gone. */
void sweep_schedule(struct control *c);

/** True if a new writer's HELLO has to wait; a call of s->resume follows. */
bool sweep_holds_writers(const struct control *c);

/** Handle a message; false: the session is gone. */
bool sweep_on_ack(struct session *s, const struct msg *m);
bool sweep_on_claim(struct session *s, const struct msg *m);

struct sweep_stats sweep_stats(const struct control *c);

#endif
