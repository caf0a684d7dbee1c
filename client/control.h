/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the process's one control thread: it waits on the sockets of all
 * sessions and calls their functions. It knows nothing of messages.
 *
 * The thread exists while there are sources, blocks all signals, and sleeps in
 * poll(2) unless a source asks for ticks. Once a second it sees whether its descriptors
 * are still its own (common/wakeup.h).
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wakeup.h"

/** A socket to watch; embedded in its owner. */
struct control_source {
	int fd;
	/*
	 * The functions run on the control thread, one at a time, and must not
	 * block, nor call control_add() or control_remove().
	 */
	/* The socket can be read (or, after control_watch(), written). */
	void (*ready)(struct control_source *src);
	/* Once a millisecond after it was asked for by control_tick(). */
	void (*tick)(struct control_source *src);
	/*
	 * The program has closed the thread's descriptors (closefrom(3)): nothing of
	 * the socket will be heard any more. Also called by control_add() for others.
	 */
	void (*lost)(struct control_source *src);
	/* In the child of a fork; the socket's copy is closed already. */
	void (*forked)(struct control_source *src);

	/* private to control.c */
	struct control_source *prev, *next;
	struct fd_id id;
	bool ticking, muted, writable;
};

/**
 * Watch `src`; starts the thread if it is the first. 0, FARKV_ENOMEM or
 * FARKV_ESYS. Any thread but the control thread.
 */
int control_add(struct control_source *src);

/**
 * Forget `src`: no function of it runs or will run after the return. The last
 * one ends the thread. Any thread but the control thread.
 */
void control_remove(struct control_source *src);

/** From a source's function: also call ready() when the socket can be written. */
void control_watch(struct control_source *src, bool writable);
/** From a source's function: call tick() once a millisecond, or no longer. */
void control_tick(struct control_source *src, bool on);
/** From a source's function: never call ready() again. */
void control_mute(struct control_source *src);

/**
 * True if gates must fence for themselves because membarrier(2) is missing.
 * Valid after control_add().
 */
bool control_gates_fence(void);
/** Make every running thread of the process pass a full memory barrier. */
void control_heavy_barrier(void);

/** Around fork(2); see atfork.c. */
void control_fork_prepare(void);
void control_fork_parent(void);
void control_fork_child(void);

#endif
