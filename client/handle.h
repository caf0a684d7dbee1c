/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * handle.h - struct farkv and the way every operation takes:
 *
 *   handle_begin()  enter the gate; see to alerts; reconnect if need be
 *   handle_run()    drive index operations to their ends, waiting as needed
 *   handle_end()    leave the gate
 *
 * One thread at a time, as <farkv.h> says; only the gate and the session are
 * shared with the control thread.
 */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/index.h"

#include "arena.h"
#include "buffers.h"
#include "dial.h"
#include "gate.h"
#include "link.h"
#include "opened.h"
#include "queue.h"
#include "uri.h"

#define HANDLE_HINTS 512u
/* Versions that one call may use up, retries included. */
#define HANDLE_VERSIONS 65536u
/* Mutations between two looks at surplus blocks and versions; a power of two. */
#define HANDLE_HOUSEKEEPING 1024u
#define HANDLE_BUSY 1u /* farkv.taken: busy, and not queued */
#define HANDLE_NEVER UINT64_MAX /* a moment that does not come */

/* When a nearly full subtable was reported last. */
struct handle_hint {
	uint64_t where; /* page and generation, as in a directory entry */
	uint64_t at_ns;
};

struct farkv {
	struct gate *gate; /* the session's, or &closed */
	uint64_t deadline_ns; /* of the call that runs */
	/* Why a call does not begin at once. Side by side, to be asked together. */
	union {
		struct {
			bool busy; /* a call runs: no other thread's may, and a child
				      forked meanwhile can free nothing */
			bool queued; /* requests are under way, or lend their values */
			bool lends;  /* the last call, a batch or a poll, lent values */
			bool unused;
		};
		uint32_t taken; /* any, as machines with the least byte first have it */
	};
	uint64_t op_timeout_ns;
	uint64_t farewell_ns; /* farkv_close() waits this long for the server */
	struct link link;

	struct index_op op;   /* of the calls for one key */
	struct index_op *ops; /* INDEX_RUN_MAX for batches; NULL until needed */
	size_t n_next;        /* the call that begins will use so many of them */
	bool untidy; /* a batch has left large buffers, for the next call to give back */
	unsigned spare_calls; /* for so many more calls what batches gave back stays, */
	uint64_t spare_until_ns; /* ... and until then; 0: not known yet */
	size_t n_lent;        /* so many of them hold values of the last batch */
	struct queue *queue;  /* of submitted requests; NULL until needed */
	uint32_t queue_depth;
	struct waker *waker;  /* of farkv_event_fd(); NULL until asked for */
	struct arena arena;   /* a batch's values but those of its last group */

	uint64_t mutations;   /* since the link was made */
	uint64_t prefetch_ns; /* no requests ahead of need before this; or 0 */
	uint32_t prefix_low;  /* ask for a prefix when fewer versions are left */
	struct handle_hint *hints; /* HANDLE_HINTS, NULL until needed */

	/* What stays when the link goes. */
	struct buffers buffers; /* the program's; the link's lane knows them */
	struct gate closed; /* never lets anybody in */
	struct uri uri;
	char name[64];
	size_t cache_entries, cache_bytes; /* of a link whose region is not mapped */
	bool readonly; /* as asked for at open */
	bool told;     /* the caller knows that the last link's store is gone */
	char why[256]; /* the last link's end, or why there is no new one */
	uint32_t last_id;
	uint64_t last_region[2];
	uint64_t next_attempt_ns; /* to reconnect after nobody was there */
	struct dial *dial; /* makes the next link; NULL until one broke */
	bool broke; /* the attempt that runs, or ran, began with a link that broke */
	uint64_t fork_gen;
	struct opened opened;
	struct farkv_counters before; /* of links that are gone */
};

/**
 * Open; `opts` is complete and checked. Errors as farkv_open(). On failure
 * *kv_out is untouched.
 */
int handle_open(const struct uri *uri, const struct farkv_options *opts,
		struct farkv **kv_out);

/** As farkv_close(). One that is not open (it was closed before) or busy is left alone, with
 * a line. */
void handle_close(struct farkv *kv);

/** Was it opened before fork(2), by the parent? */
bool handle_inherited(const struct farkv *kv);

/**
 * Begin a call: its deadline starts, the last call's values end. On success
 * handle_end() must follow. FARKV_EDISCONNECTED, FARKV_ETIMEDOUT, FARKV_ENOMEM.
 */
int handle_begin(struct farkv *kv);
/** What handle_enter_at_once() would not do. Errors as handle_begin(). */
int handle_enter_otherwise(struct farkv *kv);
/**
 * Is a call under way, of another thread's, or one that a signal's handler has interrupted?
 * A plain word that each call sets and clears: two that begin in the same moment are not
 * seen. Look before anything of the handle's is changed.
 */
static inline bool handle_is_busy(const struct farkv *kv)
{
	return atom_load_relaxed(&kv->busy);
}
/** Why a call on a busy handle is refused: FARKV_EINVAL; FARKV_EDISCONNECTED in a child. */
int handle_busy(const struct farkv *kv);

/** handle_enter_at_once() of a handle that is not taken. */
static inline bool handle_enter_free(struct farkv *kv)
{
	atom_store_relaxed(&kv->taken, HANDLE_BUSY);
	kv->deadline_ns = 0;
	if (gate_enter(kv->gate))
		return true;
	gate_leave(kv->gate);
	atom_store_relaxed(&kv->taken, 0);
	return false;
}
/**
 * handle_enter(), if nothing is to be seen to first: the link, and what is known of its
 * store, is what it was. False: nothing was done, and handle_enter_otherwise() goes on.
 */
static inline bool handle_enter_at_once(struct farkv *kv)
{
	return __builtin_expect(!atom_load_relaxed(&kv->taken), 1) &&
	       handle_enter_free(kv);
}
/**
 * As handle_begin(), but for a call that hopes to end without a look at the
 * clock; if it does not, handle_need_clock() comes before anything that waits. The
 * error's line is the last call's: err_clear().
 */
static inline int handle_enter(struct farkv *kv)
{
	return handle_enter_at_once(kv) ? 0 : handle_enter_otherwise(kv);
}
/** The call's deadline counts from now on, which is returned. */
uint64_t handle_start_clock(struct farkv *kv);
/** Start it unless this call has. */
void handle_need_clock(struct farkv *kv);
static inline void handle_end(struct farkv *kv)
{
	gate_leave(kv->gate);
	/* Its requests had ended when the call began. */
	atom_store_relaxed(&kv->taken, 0);
}

/**
 * The gate did not let the caller in, and was left again: see to all alerts, and
 * connect anew if need be. Errors as handle_begin().
 */
int handle_let_in(struct farkv *kv);

/** A batch leaves large buffers: the next call that begins has them to give back. */
void handle_untidy(struct farkv *kv);
/** A call begins, and a batch's values end by that: give its large buffers back. */
void handle_tidy(struct farkv *kv);
/** A call has given some back (`gave`), which stay for those that follow; or it has not, and
 * after many such, and a while, nothing stays. With a link. */
void handle_age_spare(struct farkv *kv, bool gave);

/** See to the alerts of a live session; before its blocks are touched. */
void handle_attend(struct farkv *kv);

/** Between the groups of a batch: let the control thread have its way. */
void handle_pause(struct farkv *kv);

/** The caller has given no handle: EINVAL, with its line. */
static inline int handle_missing(void)
{
	return err_set(FARKV_EINVAL, "the handle is NULL");
}

/** handle_writable(), where the answer is not yes at once. */
int handle_not_writable(struct farkv *kv);
static inline bool handle_writable_at_once(const struct farkv *kv)
{
	return !kv->link.readonly &
	       (index_versions_left(kv->link.index) >= HANDLE_VERSIONS);
}
/**
 * Before writing: FARKV_EPERM on a read-only handle; sees to versions. If they do not come
 * at once (above) the gate is left meanwhile: what was known of the index may be no more.
 */
static inline int handle_writable(struct farkv *kv)
{
	return __builtin_expect(handle_writable_at_once(kv), 1) ?
		       0 :
		       handle_not_writable(kv);
}
/** Enough versions for a write; asks for more if not. Never waits. */
bool handle_has_versions(struct farkv *kv);
/** They did not come in time: FARKV_ETIMEDOUT, and its line. */
int handle_no_versions(void);

/** Why handle_key() does not take a key. */
int handle_key_refuse(const struct farkv *kv, const void *key, size_t len);
/** handle_key() of a key that it takes; else false. Outside of a call, too, with a link. */
static inline bool handle_key_at_once(const struct farkv *kv, const void *key, size_t len,
				      struct index_key *out)
{
	const struct superblock *sb = kv->link.sb;

	if (__builtin_expect(!key | (len - 1 >= sb->max_key), 0))
		return false;
	out->data = key;
	out->len = (uint16_t)len;
	out->hash = hash_key(sb->hash_seed, key, len);
	return true;
}
/**
 * Check a key against the store's limits and hash it. FARKV_EINVAL,
 * FARKV_ETOOLARGE with a detail that names the limit; then *out is the empty key.
 * Inside begin and end.
 */
static inline int handle_key(const struct farkv *kv, const void *key, size_t len,
			     struct index_key *out)
{
	if (handle_key_at_once(kv, key, len, out))
		return 0;
	*out = (struct index_key){.data = ""};
	return handle_key_refuse(kv, key, len);
}
/** Why handle_value() does not take a value. */
int handle_value_refuse(const struct farkv *kv, const void *value, size_t len);
/** As handle_key() for a value. */
static inline int handle_value(const struct farkv *kv, const void *value, size_t len)
{
	if (__builtin_expect(((len > 0) & !value) | (len > UINT32_MAX) |
			     (len > kv->link.sb->max_value), 0))
		return handle_value_refuse(kv, value, len);
	return 0;
}

/**
 * Drive operations until each is final. Waits for blocks, migrations and growth
 * until the call's deadline. `began_ns`: as index_run().
 */
void handle_run(struct farkv *kv, struct index_op *const *ops, size_t n,
		uint64_t began_ns);

/**
 * After a mutation: hints, requests ahead of need, housekeeping. No waiting. The link may
 * have gone with the lane that carried it.
 */
void handle_after_in_full(struct farkv *kv, const struct index_op *op);
/** False: that is not to be put off, after a mutation that left plenty of its class. */
static inline bool handle_after_at_once(struct farkv *kv, bool plenty, uint8_t cls)
{
	const struct link *l = &kv->link;

	kv->mutations++;
	return plenty && kv->mutations % HANDLE_HOUSEKEEPING != 0 && !l->unsent[cls] &&
	       !l->denied[cls];
}
static inline void handle_after(struct farkv *kv, const struct index_op *op)
{
	if (!handle_after_at_once(kv, op->plenty, op->cls))
		handle_after_in_full(kv, op);
}

/** What the handle has asked for since it was opened; `size` is not set. */
void handle_counters(const struct farkv *kv, struct farkv_counters *out);

/** Before a link goes: keep its counts. */
void handle_counters_keep(struct farkv *kv);

/**
 * A lane that broke by itself takes the session along: nothing more is told to the
 * server, and it hears of no block as free, since what is still under way may yet write
 * to any. Before the gate is left, where that can be.
 */
void handle_look_at_lane(struct farkv *kv);

/** See that the line describes `err`, the result of an operation. */
void handle_line(struct farkv *kv, int err);
/** The same for a result that the caller is about to be told; returns it. */
int handle_result(struct farkv *kv, int err);

/* ---- relink.c: links that break ------------------------------------------------ */

/** Make the first link, or another; 0 or the errors of farkv_open(). */
int relink_up(struct farkv *kv, uint64_t deadline_ns);
/** Let the link go; operations' buffers go with it. Fine without a link. */
void relink_down(struct farkv *kv);

/** A handle that is closed: nobody tries any more. Waits until `until_ns` at most for an attempt
 * under way. True: that brought a link, which is the handle's. */
bool relink_stop(struct farkv *kv, uint64_t until_ns);

/**
 * Begin a call on a handle whose link broke or is gone: connect anew, until the
 * call's deadline if what is in the way may pass. 0: there is a link, and what
 * the caller knows of the store still holds. FARKV_EDISCONNECTED once if it does
 * not (the server was restarted), and as long as nobody answers.
 */
int relink(struct farkv *kv);
/**
 * The same without waiting. 0 from relink_begin(): when dial_is_over(kv->dial), call
 * relink_end(), which returns what relink() would. Until then there is no link.
 */
int relink_begin(struct farkv *kv, uint64_t until_ns);
int relink_end(struct farkv *kv);

/** Has the lane or the session broken under these operations? */
bool relink_needed(const struct farkv *kv, struct index_op *const *ops,
		   size_t n);

/**
 * In the middle of a call, inside the gate: connect anew and make the operations
 * that the break touched go on. False if that cannot be; their results are
 * final then, and there may be no link.
 */
bool relink_ops(struct farkv *kv, struct index_op *const *ops, size_t n);
/**
 * The same without waiting. The first leaves no link, nor a gate to be inside of. True: a
 * link is being made; when dial_is_over(kv->dial) relink_ops_end() goes on with the
 * operations (fewer, if some have ended meanwhile), inside the new gate. False: none
 * will be, and relink_ops_end() ends them. A result is FARKV_EDISCONNECTED in between, if
 * nothing was changed, or FARKV_EMAYBE.
 */
bool relink_ops_begin(struct farkv *kv, struct index_op *const *ops, size_t n,
		      uint64_t until_ns);
bool relink_ops_end(struct farkv *kv, struct index_op *const *ops, size_t n, bool dialled);

/* ---- batch.c ----------------------------------------------------------------- */

/** As farkv_mget() and farkv_mput(), arguments checked. */
int batch_get(struct farkv *kv, struct farkv_get_item *items, size_t n);
int batch_put(struct farkv *kv, struct farkv_put_item *items, size_t n);

/* ---- wait.c ------------------------------------------------------------------ */

struct wait_state {
	bool begun;
	bool growing; /* the server said that it enlarges the index */
	bool done;    /* ... and just now that it has */
	uint64_t backoff_ns;

	bool never_blocks;  /* in: handle_need() must not wait for answers */
	bool hint_out;      /* it awaits one, ... */
	uint64_t hint_page; /* ... about this page, ... */
	uint64_t hint_due_ns; /* ... until then */
};

/**
 * For operations that wait: ask the server for what they need, and end those that
 * cannot go on. Returns when to try the others again, unless there is mail before, or
 * HANDLE_NEVER if none waits any more. Outside the gate, or inside of it with
 * `never_blocks`.
 */
uint64_t handle_need(struct farkv *kv, struct index_op *const *ops, size_t n,
		     struct wait_state *w);

/** Say what an operation lacked that ends with `err` because it waits; nothing if that is
 * not why. Returns `err`. */
int handle_waited(const struct farkv *kv, const struct index_op *op, int err);

/** As handle_need(), then sleep until something may have changed. Outside the gate. */
void handle_wait(struct farkv *kv, struct index_op *const *ops, size_t n,
		 struct wait_state *w);

#endif
