/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sweep.h - blocks of sessions that died are found and given back.
 *
 * The server does not know whose an out block is. So it asks: every session
 * remembers what it holds from SWEEP_BEGIN on; all blocks that the index names
 * are marked; who holds one of the others says so; what is left belonged to the
 * dead. A block that the walk missed and that did not leak was in the hands of a
 * living session, or in the server's, at some moment since SWEEP_BEGIN.
 *
 * What makes that true:
 * - The dead cannot act: connections are fenced, processes are gone.
 * - Blocks granted in the middle are marked at once.
 * - The walk begins when all operations that knew nothing of the sweep are over.
 * - Who leaves names what it remembers first. Who dies in the middle cannot:
 *   the sweep starts again.
 * - A migration keeps the range of hashes, so no word moves from the part of the
 *   index that is still to be visited to the part behind (region_walk).
 *
 * The walk, the questions and the clearing of marks go in slices. An idle server
 * has no timer of a sweep running. All of it is the control thread's.
 */
#ifndef SERVER_SWEEP_H
#define SERVER_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/layout.h"

struct control;
struct msg;
struct session;
struct sweep;

struct sweep_stats {
	uint64_t sweeps;      /* that came to their end */
	uint64_t swept;       /* blocks that they gave back */
	uint64_t last_ns;     /* what the last of them took */
	uint64_t deaths;      /* sessions whose blocks are not back yet */
};

enum sweep_result {
	SWEEP_DONE,
	SWEEP_SILENT, /* a session does not answer */
	SWEEP_GHOST,  /* a process of a dead session lives on */
	SWEEP_BUSY,   /* too many deaths in the middle */
};

/** How a sweep ended that was asked for. */
struct sweep_outcome {
	enum sweep_result result;
	uint32_t session; /* SILENT, GHOST: the one */
	pid_t pid;        /* its process; 0 if it is out of sight */
	uint64_t held;    /* blocks that living sessions claimed */
	uint64_t leaked, leaked_bytes; /* ... that were given back */
};

bool sweep_init(struct control *c);
void sweep_fini(struct control *c);

/**
 * Ask for a sweep that begins as soon as none is on, though nobody died. `done` is
 * called once, soon or late; one such request at a time.
 */
void sweep_request(struct control *c,
		   void (*done)(struct control *c,
				const struct sweep_outcome *o));

/** Blocks are out that nobody has: a sweep is due, as after a death. */
void sweep_lost(struct control *c);

/**
 * Memory is out: what may be swept is swept without a pause. True if blocks may
 * come of it soon.
 */
bool sweep_hurry(struct control *c);

/** One goes on. */
bool sweep_running(const struct control *c);

/** `s` gets these blocks with its next message. */
void sweep_granted(struct session *s, const struct block_ref *refs, size_t n);

/** WELCOME was sent. False: the session is gone. */
bool sweep_welcomed(struct session *s);
/** `s` said BYE: it has named what it remembers. */
void sweep_session_left(struct session *s);
/** `s` is about to end. Ends no session. */
void sweep_session_ended(struct session *s);
/** A process came back in place of a session: the dead may all be gone now. */
void sweep_departed_changed(struct control *c);

/** True if a writer has to wait with its HELLO; welcome_resume() follows. */
bool sweep_holds_writers(const struct control *c);

/** Handle a message; false: the session is gone. */
bool sweep_on_ack(struct session *s, const struct msg *m);
bool sweep_on_claim(struct session *s, const struct msg *m);

/** Who does not answer is cut off or given up, who waits with its HELLO let go on in time.
 * True: come again. */
bool sweep_tick(struct control *c);

struct sweep_stats sweep_stats(const struct control *c);

#endif
