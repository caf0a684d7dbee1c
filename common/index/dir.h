/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/dir.h - the directory: a cached copy of any age (I5), the entry of an operation's
 * key, and whether that entry has changed since (OP_MOVED).
 */
#ifndef COMMON_INDEX_DIR_H
#define COMMON_INDEX_DIR_H

#include "index_priv.h"

/**
 * Read D and the array it names. Waits for the lane; rare. 0,
 * FARKV_EDISCONNECTED, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_ETIMEDOUT.
 */
int dir_refill(struct index *ix, uint64_t deadline_ns);

/** Release the copy. */
void dir_free(struct index *ix);

/**
 * The entry of the operation's key, by the cached copy, which is read first if there is
 * none. False: the entry leads nowhere, or the copy could not be read; *next_out says how
 * it goes on.
 */
bool dir_find(struct index *ix, struct index_op *op, uint64_t deadline_ns,
	      enum next *next_out);

/** NEXT_MOVED: the chain of OP_MOVED. */
enum next dir_look(struct index *ix, struct index_op *op);
/** That chain is done. The subtable was replaced: NEXT_AGAIN. It was not: a GET, and a
 * lost CAS that is looked up, walk the window (NEXT_WALK); a writer waits. */
enum next dir_looked(struct index *ix, struct index_op *op);

#endif
