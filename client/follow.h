/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * follow.h - read by one-sided READs what has changed in a server's store since the previous pass.
 * doc/cluster.md, "Followers and moves: the rules", has the rule; tests/model/follow.pml checks it.
 *
 * Each pass goes over the whole index in the order of hashes, a subtable at a time. A word equal to
 * that of the previous pass names the same content, unless incarnations in its page restarted at 0
 * in the meantime: the server names those pages when a pass begins (PASS). Keys whose word has
 * changed are changes. A new subtable (after a split, a compaction or an eviction) is reported as a
 * whole: the caller deletes all keys of its range that are not listed.
 *
 * One thread.
 */
#ifndef CLIENT_FOLLOW_H
#define CLIENT_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

struct follow;

struct follow_options {
	const char *address; /* of the server */
	const char *keys, *key; /* as in struct farkv_options */
	uint64_t map_id; /* of the cluster's map that the server has */
	uint8_t server;  /* its number there */
	uint8_t follows; /* 1: the server's farkv_wait_followers() waits for these passes; 0: a move's */
	uint8_t own_server; /* number of the server that copies */
	uint32_t timeout_ms; /* of each step */
};

/** Connect. Errors of farkv_open(); FARKV_EREFUSED: the server has another map. */
int follow_open(const struct follow_options *o, struct follow **out);
/** NULL is allowed. */
void follow_close(struct follow *f);

/** The seed of the server's index. */
uint64_t follow_index_seed(const struct follow *f);

/**
 * Begin a pass: tells the server that all changes of the previous one are applied. *fenced_out: the
 * epoch of the map whose fence is complete at the server, so that this pass sees the last writes to
 * fenced partitions; or 0. Cost: one message and its answer, one more for each answer that
 * announces more pages, and one at the end of the pass. FARKV_EDISCONNECTED: the connection is
 * lost, or the server has another region; close.
 */
int follow_pass(struct follow *f, uint64_t *fenced_out);

struct follow_change {
	const void *key;
	size_t key_len;
	uint64_t value_len; /* of the value, approximately */
	bool same; /* in a part with `whole`: listed, but unchanged */
};

/** The next part of a pass. Valid until the next call. */
struct follow_part {
	uint64_t first, last; /* hashes of the index that it covers */
	bool whole; /* `change` lists all keys of the range that have a value */
	const struct follow_change *change;
	size_t n;
};

/**
 * The next part. FARKV_ENOTFOUND: the pass is complete. Other errors as follow_pass(),
 * FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_ECORRUPT. Cost: one round trip for the words of a subtable,
 * one for each 128 changes.
 */
int follow_next(struct follow *f, struct follow_part *out);

/** As farkv_mget() at the server; marks no key as read, and counts nothing. */
int follow_get(struct follow *f, struct farkv_get_item *items, size_t n);

#endif
