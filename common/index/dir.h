/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/dir.h - the directory: a cached copy of any age (I5), the entry of an operation's key, and
 * the check whether that entry has changed (OP_MOVED).
 */
#ifndef COMMON_INDEX_DIR_H
#define COMMON_INDEX_DIR_H

#include "index_state.h"
#include "op.h"

/**
 * Read D and the array that it names into the cached copy. Waits for the lane; rare. 0,
 * FARKV_EDISCONNECTED, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_ETIMEDOUT.
 */
int dir_refill(struct index *ix, uint64_t deadline_ns);

/**
 * Post `n` chains with one doorbell and wait for all of them: one round trip. Spins on the lane;
 * breaks the lane if they are not done at `deadline_ns` (clock_now_ns()). For the directory and
 * scans; run.h drives operations. Returns the status of the first chain that failed,
 * FARKV_ETIMEDOUT, or the errors of xport_post().
 */
int dir_run_chains(struct index *ix, struct xport_chain *c, unsigned n,
		   uint64_t deadline_ns);

/** A directory entry that an operation used. */
struct dir_place {
	uint64_t dirword; /* D, ... */
	uint64_t index;   /* ... the index in its array, ... */
	uint64_t entry;   /* ... and the entry that was found there */
};

enum dir_fate {
	DIR_HERE,    /* it leads to the same subtable */
	DIR_MOVED,   /* ... to another one, which the cached copy now has */
	DIR_DOUBLED, /* D has changed: the cached copy was dropped */
	DIR_TORN,    /* the entry was torn: READ it again */
};

/**
 * Conclude from `words`, READ in this order by one chain: D, the entry, the entry again where words
 * tear (otherwise 0), D.
 */
enum dir_fate dir_judge(struct index *ix, const struct dir_place *p, const uint64_t words[4]);

/** Release the cached copy. */
void dir_free(struct index *ix);

/**
 * Set the operation's directory entry from the cached copy, which is read if there is none. False:
 * the entry is not usable, or the copy could not be read; *next_out is the next step.
 */
bool dir_find(struct index *ix, struct index_op *op, uint64_t deadline_ns,
	      enum next *next_out);

/** NEXT_MOVED: the chain of OP_MOVED. */
enum next dir_look(struct index *ix, struct index_op *op);
/**
 * The chain of OP_MOVED is done. If the subtable was replaced: NEXT_AGAIN. Otherwise a GET, or an
 * operation that resolves a lost CAS, walks the window (NEXT_WALK), and a writer waits.
 */
enum next dir_looked(struct index *ix, struct index_op *op);

#endif
