/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * handle.h - struct farkv, and what all kinds of calls do with it: pending flags, checks of
 * arguments, error lines, housekeeping after a mutation, counters. Nothing here makes a connection
 * or waits.
 *
 * Calls between the files that share a handle go downwards only: open, call, queue, queue_turn,
 * relink, queue_state, handle.
 *
 * A value that a call returned may be a key or a value of the next call. It lies in memory of the
 * process, not of a lane, and so remains valid when a connection breaks. No call writes to what the
 * previous one returned, because each has two buffers and alternates between them (`copy`, `held`
 * of an operation, `old` of the arena), and requests that were handed out are not reused. Large
 * memory of batches and requests is released when the next call ends; `op` keeps its buffers.
 *
 * One thread at a time, as <farkv.h> says; the control thread shares only the quiescence counter
 * and the session.
 */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/index/index.h"
#include "common/index/run.h"
#include "common/region/hash.h"

#include "arena.h"
#include "buffers.h"
#include "conn.h"
#include "dial.h"
#include "opened.h"
#include "qsbr.h"
#include "uri.h"

#define HANDLE_HINTS 512u
/* Versions that one call may use, retries included. */
#define HANDLE_VERSIONS 65536u
/* Mutations between two checks of surplus blocks and versions; a power of two. */
#define HANDLE_HOUSEKEEPING 1024u
#define HANDLE_BUSY 1u /* farkv.taken: busy, and nothing else */
#define HANDLE_COPY_BYTES 640u /* what a fast get copies, at most */
#define HANDLE_NEVER UINT64_MAX /* later than any time */

struct clustermap;
struct index_scan;
struct latency;
struct notifier;
struct queue;
struct router;

/* The latest report of a nearly full subtable. */
struct handle_hint {
	uint64_t where; /* page and generation, as in a directory entry */
	uint64_t at_ns;
};

struct farkv {
	struct qsbr *qsbr; /* the session's, or &closed */
	uint64_t deadline_ns; /* of the running call */
	/* Reasons against the fast path, readable as one word. */
	union {
		struct {
			bool busy; /* a call runs: other threads' calls are refused, and a child
				      forked meanwhile can free nothing */
			bool queued; /* requests are in flight, or are the program's */
			bool polled;  /* requests were handed out: the next call's end */
			bool batched; /* ... or large values of a batch: releases them */
			bool timed; /* record the next call: timed.h */
		};
		uint64_t taken; /* all of these (little-endian: HANDLE_BUSY is `busy` alone) */
	};
	uint64_t op_timeout_ns;
	uint64_t farewell_ns; /* farkv_close() waits this long for the server */
	struct conn conn;

	uint8_t *copy[2];     /* where the next fast get copies to, and the one after it */
	struct index_op op;   /* for calls with one key */
	struct index_op *ops; /* INDEX_RUN_MAX of them, for batches; NULL until needed */
	size_t ops_used; /* those from here on have minimal buffers */
	struct index_scan *scan; /* keys of the last farkv_scan(); NULL until needed */
	struct queue *queue;  /* submitted requests; NULL until needed */
	uint32_t queue_depth;
	struct notifier *notifier;  /* of farkv_event_fd(); NULL until asked for */
	struct arena arena;   /* a batch's values, except those of its last group */

	uint64_t mutations;   /* since the connection was made */
	uint64_t prefetch_ns; /* no blocks are requested in advance before this; or 0 */
	uint32_t prefix_low;  /* ask for a prefix when fewer versions are left */
	struct handle_hint *hints; /* HANDLE_HINTS, NULL until needed */

	/* Kept when the connection is closed. */
	struct buffers buffers; /* the program's; registered with the current lane */
	struct mapping *borrowed[2]; /* of views, by conn.readonly: stay mapped; NULL without */
	uint64_t epoch; /* barriers seen, and connections made */
	struct qsbr closed; /* qsbr_enter() always fails: used without a connection */
	struct hits uncounted; /* its counts: none */
	struct uri uri;
	char name[64];
	size_t cache_entries, cache_bytes; /* of a connection whose region is not mapped */
	bool readonly; /* requested at open */
	bool outlives; /* the last connection's region may be adopted by another server */
	bool notified;     /* the caller knows that the last connection's store may be gone */
	char reason[256]; /* why the last connection ended, or why there is no new one */
	uint32_t last_id;
	uint64_t last_region[2];
	uint64_t next_attempt_ns; /* no attempt to reconnect before this, after nobody listened */
	struct dial *dial; /* makes the next connection; NULL until one broke */
	bool broke; /* the last attempt replaces a broken connection */
	uint64_t fork_gen;
	struct opened opened;
	struct farkv_counters before; /* of earlier connections */
	struct latency *latency; /* NULL: none is recorded */
	/* Of a cluster's servers: this handle has no connection. NULL: it is one server's. */
	struct router *router;
	const char *server_name; /* of a cluster's server; else NULL, ... */
	uint64_t map_id;         /* ... and these are 0 */
	const struct clustermap *map; /* ... the cluster's, if it changes; or NULL */
	uint64_t map_epoch;
	uint8_t server;
	uint32_t lease_ms; /* of a map that changes: router_map.h */
	uint32_t routed;   /* atomic: see session_keep_lease() */
	uint64_t announced; /* the epoch of the newest map that the server is known to have */
	uint8_t copies[2 * HANDLE_COPY_BYTES + LINE_BYTES];
};

/** True if the parent opened it before fork(2). */
bool handle_inherited(const struct farkv *kv);

/**
 * True if a call is running: in another thread, or interrupted by a signal handler. A plain word
 * that each call sets and clears, so two calls that begin at the same moment do not see each other.
 * Check it before changing the handle.
 */
static inline bool handle_is_busy(const struct farkv *kv)
{
	return atom_load_relaxed(&kv->busy);
}
/** Refuse a call on a busy handle: FARKV_EINVAL; FARKV_EDISCONNECTED in a child. */
int handle_busy(const struct farkv *kv);

/** End the use of borrowed values: the store is another one, or the handle is closed. */
void handle_drop_borrowed(struct farkv *kv);

/** Free large buffers of the batches' operations, except those that the first `n` have used. */
void handle_shrink_ops(struct farkv *kv, size_t n);
/** Release the values that the last mget returned. */
void handle_release_batch(struct farkv *kv);

/** Handle the pending flags of a live session, before its blocks are touched. */
void handle_pending(struct farkv *kv);

/**
 * Result of the slow paths for a handle of several servers: the caller uses the handles of its
 * keys' servers (router.h). No public function returns it.
 */
#define HANDLE_CLUSTER (-1)

/** True for errors of a server that may answer later, or whose keys another one may have now. */
bool handle_is_away(int err);

/**
 * Add the server's name to the line of `err`, if the error is the server's. For a cluster's handle.
 */
void handle_name_server(const struct farkv *kv, int err);

/** FARKV_EINVAL with the line for a handle that is NULL. */
static inline int handle_missing(void)
{
	return err_set(FARKV_EINVAL, "the handle is NULL");
}

/** FARKV_EPERM with the line for a write on a handle that may not write, and the reason. */
int handle_not_allowed(const struct farkv *kv);
/** True if there are enough versions for a write; requests more if not. Never waits. */
bool handle_has_versions(struct farkv *kv);
/** FARKV_ETIMEDOUT with the line for versions that did not come in time. */
int handle_no_versions(void);

/** The error of a key that handle_key() rejects. */
int handle_key_refuse(const struct farkv *kv, const void *key, size_t len);
/** handle_key() for a valid key, or false. With a connection only; also outside of a call. */
static inline bool handle_key_at_once(const struct farkv *kv, const void *key, size_t len,
				      struct index_key *out)
{
	const struct superblock *sb = kv->conn.sb;

	if (__builtin_expect(!key | (len - 1 >= sb->max_key), 0))
		return false;
	out->data = key;
	out->len = (uint16_t)len;
	out->hash = hash_key(sb->hash_seed, key, len);
	return true;
}
/** The value that a get has found, with its data at `data`. */
static inline struct farkv_value handle_value_of(const struct index_op *op, const void *data)
{
	return (struct farkv_value){.data = data,
				    .len = op->view.value_len,
				    .version = op->version,
				    .ttl_ms = op->left_ms == BLOCK_NEVER ? 0 : op->left_ms,
				    .user = op->view.user};
}

/** Check options of a write, which may be NULL: FARKV_EINVAL with a line. */
int handle_write_options(const struct farkv_write_options *o);

/**
 * Check a key against the store's limits and hash it. FARKV_EINVAL, FARKV_ETOOLARGE with a
 * detail that names the limit; then *out is the empty key. Between begin and end.
 */
static inline int handle_key(const struct farkv *kv, const void *key, size_t len,
			     struct index_key *out)
{
	if (handle_key_at_once(kv, key, len, out))
		return 0;
	*out = (struct index_key){.data = ""};
	return handle_key_refuse(kv, key, len);
}
/** The error of a value that handle_value() rejects. */
int handle_value_refuse(const struct farkv *kv, const void *value, size_t len);
/** As handle_key() for a value. */
static inline int handle_value(const struct farkv *kv, const void *value, size_t len)
{
	if (__builtin_expect(((len > 0) & !value) | (len > UINT32_MAX) |
			     (len > kv->conn.sb->max_value), 0))
		return handle_value_refuse(kv, value, len);
	return 0;
}

/**
 * Count the result of `n` calls or items, inside the critical section: gets that found a value or
 * none, and values stored. Errors, deletes and exists are not counted.
 */
static inline void handle_count(const struct farkv *kv, enum index_kind kind, int result,
				uint64_t n)
{
	struct hits *h = qsbr_hits(kv->qsbr);

	if (kind == INDEX_GET && (result == 0 || result == FARKV_ENOTFOUND))
		hits_add(result ? &h->misses : &h->hits, n);
	else if (kind_stores(kind) && result == 0)
		hits_add(&h->sets, n);
}

/**
 * After a mutation: hints, blocks in advance, housekeeping. Never waits. The connection may have
 * been closed when its lane broke.
 */
void handle_after_in_full(struct farkv *kv, const struct index_op *op);
/** Fast path of handle_after(): false if handle_after_in_full() is needed now. */
static inline bool handle_after_at_once(struct farkv *kv, bool has_spare, uint8_t cls)
{
	const struct conn *l = &kv->conn;

	kv->mutations++;
	return has_spare && kv->mutations % HANDLE_HOUSEKEEPING != 0 && !l->unsent[cls] &&
	       !l->denied[cls];
}
static inline void handle_after(struct farkv *kv, const struct index_op *op)
{
	if (!handle_after_at_once(kv, op->has_spare, op->cls))
		handle_after_in_full(kv, op);
}

/** Totals since the handle was opened; `size` is not set. */
void handle_counters(const struct farkv *kv, struct farkv_counters *out);

/** Add a connection's counts to the handle's before it is closed. */
void handle_counters_keep(struct farkv *kv);

/**
 * If the lane broke by itself, end the session: nothing more is sent to the server, and no block is
 * reported free, because requests in flight may still write to any. Call it before leaving the
 * critical section, if possible.
 */
void handle_look_at_lane(struct farkv *kv);

/** Make the error line describe `err`, the result of an operation. */
void handle_line(struct farkv *kv, int err);
/** handle_line() for the caller's result; returns it. */
int handle_result(struct farkv *kv, int err);

#endif
