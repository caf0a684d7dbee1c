/* SPDX-License-Identifier: BSD-3-Clause */
/** wait.h - operations that wait for blocks, migrations or growth. */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct farkv;
struct index_op;

struct wait_state {
	bool begun;
	bool growing; /* the server said that it is enlarging the index, ... */
	bool done;    /* ... and just now that it has done so */
	uint64_t backoff_ns;
	uint64_t clock_due_ns; /* no CLOCK_START before this */

	bool never_blocks;  /* in: handle_need() must not wait for answers */
	bool hint_out;      /* a hint is unanswered, ... */
	uint64_t hint_page; /* ... for this page, ... */
	uint64_t hint_due_ns; /* ... to be answered until then */
};

/**
 * For operations that wait: ask the server for what they need, and end those that cannot continue.
 * Returns when to try the others again unless grants arrive before, or HANDLE_NEVER if none waits.
 * Outside the critical section, or inside with `never_blocks`.
 */
uint64_t handle_need(struct farkv *kv, struct index_op *const *ops, size_t n,
		     struct wait_state *w);

/**
 * Set the line to what an operation lacked that ends with `err` while it waits; unchanged if it
 * does not wait. Returns `err`.
 */
int handle_waited(const struct farkv *kv, const struct index_op *op, int err);

/** As handle_need(), then sleep until something may have changed. Outside the critical section. */
void handle_wait(struct farkv *kv, struct index_op *const *ops, size_t n,
		 struct wait_state *w);

#endif
