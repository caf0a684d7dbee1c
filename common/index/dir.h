/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/dir.h - the directory: a cached copy of any age (I5), the entry of an operation's key, and
 * the check whether that entry has changed (OP_MOVED).
 */
#ifndef COMMON_INDEX_DIR_H
#define COMMON_INDEX_DIR_H

#include "index_priv.h"

/**
 * Read D and the array that it names into the cached copy. Waits for the lane; rare. 0,
 * FARKV_EDISCONNECTED, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_ETIMEDOUT.
 */
int dir_refill(struct index *ix, uint64_t deadline_ns);

/** Release the cached copy. */
void dir_free(struct index *ix);

/**
 * Set the operation's directory entry by the cached copy, which is read if there is none. False:
 * the entry is not usable, or the copy could not be read; *next_out says how to go on.
 */
bool dir_find(struct index *ix, struct index_op *op, uint64_t deadline_ns,
	      enum next *next_out);

/** NEXT_MOVED: the chain of OP_MOVED. */
enum next dir_look(struct index *ix, struct index_op *op);
/**
 * The chain of OP_MOVED is done. If the subtable was replaced: NEXT_AGAIN. If not: a GET, and an
 * operation that resolves a lost CAS, walk the window (NEXT_WALK); a writer waits.
 */
enum next dir_looked(struct index *ix, struct index_op *op);

#endif
