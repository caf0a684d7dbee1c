/* SPDX-License-Identifier: BSD-3-Clause */
/** apply.h - what a child (follower.h) does in its own server: puts and deletes. */
#ifndef SERVER_FOLLOWER_APPLY_H
#define SERVER_FOLLOWER_APPLY_H

#include <stdint.h>

#include "client/follow.h"

#include "follower.h"

struct apply;

/** `order` must stay. NULL: out of memory. */
struct apply *apply_new(const struct follower_order *order, struct farkv *own, struct follow *source);
/** NULL is allowed; leaves own server and source open. */
void apply_free(struct apply *a);

/**
 * Copy what has changed in this part of the source, and delete what the source does not have. 0, or
 * an error with a line in apply_detail().
 */
int apply_part(struct apply *a, const struct follow_part *p);

/**
 * Delete all keys but those of the order's partitions; needs no source. Errors as apply_part().
 * Calls step() before each part of the scan.
 */
int apply_purge(struct apply *a, void (*step)(void *arg), void *arg);

/** The line of the last error. */
const char *apply_detail(const struct apply *a);

/** Copied so far. */
uint64_t apply_keys(const struct apply *a);
uint64_t apply_bytes(const struct apply *a);

#endif
