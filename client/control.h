/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control.h - the process's control thread: it waits on the sockets of all sessions and calls
 * their functions. It knows nothing of messages.
 *
 * The thread exists while there are sources, blocks signals (common/base/thread.h), and sleeps in
 * poll(2) unless a source asks for ticks. Once a second it checks whether its descriptors are still
 * its own (common/base/wakeup.h).
 */
#ifndef CLIENT_CONTROL_H
#define CLIENT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/wakeup.h"

/** A socket to watch; embedded in its owner. */
struct control_source {
	int fd;
	/*
	 * These run on the control thread, one at a time, and must not block, nor call
	 * control_add() or control_remove().
	 */
	/* The socket is readable (or writable, after control_watch()). */
	void (*ready)(struct control_source *src);
	/* Called once a millisecond after control_tick(). */
	void (*tick)(struct control_source *src);
	/*
	 * The program has closed the source's or the thread's descriptors (closefrom(3)): no
	 * more events will come. control_add() of another source may call it, too.
	 */
	void (*lost)(struct control_source *src);
	/* In the child of a fork; the socket's copy is closed already. */
	void (*forked)(struct control_source *src);

	/* private to control.c */
	struct control_source *prev, *next;
	struct fd_id id;
	bool ticking, looking, muted, writable;
};

/**
 * Watch `src`; the first source starts the thread. 0, FARKV_ENOMEM or FARKV_ESYS. Not on the
 * control thread.
 */
int control_add(struct control_source *src);

/**
 * Remove `src`: after the return none of its functions is running or will run. Removing the last
 * source ends the thread. Not on the control thread.
 */
void control_remove(struct control_source *src);

/** From a source's function: also call ready() when the socket is writable. */
void control_watch(struct control_source *src, bool writable);
/** From a source's function: call tick() once a millisecond, or stop that. */
void control_tick(struct control_source *src, bool on);
/** From a source's function: call tick() every 20 ms, or stop that. */
void control_look(struct control_source *src, bool on);
/** From a source's function: never call ready() again. */
void control_mute(struct control_source *src);

/**
 * True if qsbr_enter() needs a fence because membarrier(2) is missing. Valid after
 * control_add().
 */
bool control_qsbr_fence(void);
/** Make every running thread of the process execute a full memory barrier. */
void control_heavy_barrier(void);

/** Around fork(2); see atfork.c. */
void control_fork_prepare(void);
void control_fork_parent(void);
void control_fork_child(void);

#endif
