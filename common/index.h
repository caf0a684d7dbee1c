/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index.h - the protocol: GET, PUT, ADD, REPLACE, CAS and DELETE over a lane.
 *
 * Every operation is a small state machine (struct index_op) that posts chains
 * and continues when they complete. Those of one strand are driven together, one
 * doorbell per stage: index_run() drives some to their ends, index_submit() and
 * index_reap() keep them under way between calls. Nothing here names a transport, talks to
 * the server or sleeps: an operation that needs a block, a larger index or the
 * end of a migration stops in state INDEX_WAIT with the reason, holding no
 * reference to the region (I5) and no block, and is resumed by its caller.
 *
 * One struct index belongs to one thread.
 */
#ifndef COMMON_INDEX_H
#define COMMON_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "block.h"
#include "kept.h"
#include "layout.h"
#include "location.h"
#include "xport.h"

enum index_kind {
	INDEX_GET,
	INDEX_PUT,
	INDEX_ADD,
	INDEX_REPLACE,
	INDEX_CAS,
	INDEX_DELETE,
};

enum index_wait {
	INDEX_WAIT_NONE,
	/*
	 * Needs a block of op->cls. A DELETE of a large value asks once, for a
	 * small tombstone: run it again without a block and it does without.
	 */
	INDEX_WAIT_BLOCK,
	INDEX_WAIT_FROZEN, /* its subtable is being migrated: try again soon */
	INDEX_WAIT_FULL,   /* its window has no EMPTY slot: HINT page and gen */
};

struct index_key {
	const void *data;
	uint64_t hash; /* hash_key(); tests may force it */
	uint16_t len;  /* 1..65535 */
};

struct index; /* one handle's view of one region */

/**
 * `sb` is verified and copied. The lane, the allocator (NULL on a read-only
 * lane) and the version counter stay the caller's. Reads the directory, until
 * `deadline_ns` (clock_now_ns()) at most.
 * Returns 0, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_EDISCONNECTED, FARKV_ETIMEDOUT.
 */
int index_open(const struct superblock *sb, struct xport_lane *lane,
	       struct alloc *alloc, uint64_t deadline_ns,
	       struct index **ix_out);
void index_close(struct index *ix);

/** What struct index begins with: the last version that was written. */
struct index_versions {
	uint32_t prefix;
	uint32_t counter;
};

/**
 * Versions written from now on: prefix << 32 | 1, 2, ... The server never gives
 * a prefix twice. Call again with a fresh one when index_versions_left() is low;
 * an operation that finds none left ends with FARKV_EDISCONNECTED.
 */
void index_set_prefix(struct index *ix, uint32_t prefix);

/** Versions that are left of the prefix. */
static inline uint32_t index_versions_left(const struct index *ix)
{
	return UINT32_MAX - ((const struct index_versions *)(const void *)ix)->counter;
}

/**
 * Forget the cached directory, locations and windows: the next operation reads them
 * anew. For the barrier (I5); no operation may be running.
 */
void index_drop_cache(struct index *ix);

/**
 * Remember where keys are, `entries` of them, and some windows: operations on them
 * take one round trip. For lanes that are not mapped; before the first operation.
 * FARKV_ENOMEM: then nothing is remembered. 0 entries: nothing is, as before the call.
 */
int index_remember(struct index *ix, size_t entries);

/**
 * Keep values, too, in `bytes` of memory, KEPT_BYTES_MIN to KEPT_BYTES_MAX (kept.h), of
 * keys whose places are remembered: after index_remember(). FARKV_ENOMEM: then none are
 * kept.
 */
int index_keep(struct index *ix, size_t bytes);

/** What that was good for since index_open(). */
struct location_counters index_remembered(const struct index *ix);

/** Steps that had to be repeated since index_open(). */
uint64_t index_retries(const struct index *ix);

/** A moment at which its clock was looked at, not long ago for who writes all the time. */
uint64_t index_recent(const struct index *ix);

/** Replace the clock (tests). NULL restores clock_now_ns(). */
void index_set_clock(struct index *ix, uint64_t (*now)(void *arg), void *arg);

/**
 * One operation. The caller owns it, fills the first part by index_op_init()
 * and reads the last part when `result` is final (no longer INDEX_PENDING).
 * Key and value must stay in place until then.
 */
#define INDEX_PENDING 1

struct index_op {
	/* in */
	struct index_key key;
	const void *value;
	uint32_t value_len;
	uint8_t kind;      /* enum index_kind */
	uint64_t expected; /* INDEX_CAS: the version that must be there */
	/*
	 * GET: where the caller wants the value, set after index_op_start(), or NULL.
	 * If the lane knows that memory (xport_mem_known()) it may bring the value
	 * right there; the view says so. Whatever comes of it, these `into_cap` bytes
	 * hold anything then.
	 */
	void *into;
	size_t into_cap;

	/* out */
	uint8_t cls;      /* class of block it used or needs; prefetch this one */
	uint64_t wait_page; /* WAIT_FULL, near_full: the subtable's page and */
	uint32_t wait_gen;  /* ... generation */
	int result;       /* INDEX_PENDING, 0 or an error */
	/* These lie side by side, since each index_op_start() clears them: */
	uint8_t wait;     /* enum index_wait; the operation awaits index_run() */
	bool gave_back;   /* the caller's: for this one all blocks went back once */
	bool near_full;   /* an insert took its window's last slot: HINT */
	bool rivals;      /* others wrote the key between its READ and its CAS, or look */
	bool plenty;      /* a write over a value; the next finds a block, too, and none
			     is to be given back */
	bool unresolved;  /* EMAYBE, and index_op_resume() can find out */
	/* ... these are private to index*.c, as what follows `version` is */
	bool written_by_other; /* the slot held another session's value */
	uint8_t state;      /* enum op_state of index_op.c */
	uint8_t tries;      /* restarts for reasons that should pass soon */
	bool posting;       /* `chain` is ready to be posted */
	bool has_block;     /* `block` is this operation's own; never while it waits */
	uint8_t written;    /* ... and holds its content: enum block_written */
	bool tomb_asked;    /* DELETE: waited for a tombstone block once */
	bool resolving;     /* looks for what became of the lost CAS: */
	bool cold;          /* what was remembered is not to be asked again */
	struct block_view view; /* GET: the value, in memory of `buf` */
	uint64_t version; /* version found (GET) or written (others) */

	/* private to index*.c */
	struct index_op *next; /* of its strand's list */
	uint64_t deadline_ns;
	/* What has been seen of the key; side by side, since op_forget() clears them: */
	bool accept_frozen; /* GET: the entry was re-read after the words */
	bool inserting;     /* the CAS outstanding expects EMPTY */
	bool odd;           /* met an EMPTY word of another generation */
	bool probe_full;    /* probe whole blocks: a key was longer than ours */
	bool skipped;       /* a candidate was another key's, */
	bool settled;       /* ... by a word that was READ twice */
	bool absorbs;       /* a PUT that is done if the slot at hand is its key's */
	bool direct;        /* the slot was found by loads: no window's image */
	bool warm;          /* began at a slot that was remembered: */
	bool imaged;        /* ... or inserts by an image that was */
	bool remembered;    /* the word that its CAS expects was not READ by it */
	bool confirmed;     /* the candidates' words stood after the copy */
	int refusal;        /* how it ends if the window settles */
	uint16_t scan_from; /* where the scan goes on after the candidates */
	/* ... so far. */
	uint16_t slot_at;   /* slot that the scan or the CAS is at */
	uint8_t looks;      /* at a slot that was remembered */
	bool kept;          /* `buf` has the block of warm_word: it was kept */
	bool warm_doubted;  /* the location had been wrong before it was asked */
	uint64_t warm_slot, warm_word, warm_version;
	bool at_once;       /* its swaps need no chain */
	bool lost_remembered; /* `remembered` of a lost CAS */
	bool lost_insert;   /* the lost CAS expected EMPTY, */
	uint32_t lost_gen;  /* ... in a subtable of this generation, */
	uint64_t lost_expect, lost_new; /* ... and would have swapped these */
	uint32_t part_len;  /* of the first candidate, at `into`; or 0 */
	uint8_t n_cand;     /* candidates of the probe outstanding */
	uint8_t cand[4];    /* ... their slots */
	uint64_t dirword, dir_index, entry;
	uint64_t expect_word, new_word, bad_word;
	uint64_t t_start;
	struct block_ref block;
	struct xport_chain chain;
	uint64_t *window; /* lane memory: two images, then scratch words */
	uint8_t *buf;     /* lane memory: block images; grows */
	size_t buf_bytes;
	const char *damage; /* out: what is wrong, if FARKV_ECORRUPT is the result */
};

/**
 * Values from this size on are carried from and to where they lie, in memory that
 * the lane knows; smaller ones are copied, which costs less than a request of several
 * pieces. Nothing touches that memory any more when the operation is final.
 */
#define INDEX_PART_MIN 4096u

/** Prepare `op` for its first use: zeroes it. Its buffers are then reused. */
void index_op_init(struct index_op *op);
/** Release the buffers. */
void index_op_fini(struct index *ix, struct index_op *op);
/**
 * Is this operation's buffer more than is to be kept for the next one? One above
 * INDEX_BUF_KEEP is; and, while those of all operations together are above
 * INDEX_BUFS_KEEP, each but the smallest. Then index_op_shrink(), once its value is not
 * needed any more.
 */
bool index_op_has_more(const struct index *ix, const struct index_op *op);
/** Had it a value, as a GET, that a buffer of that size is for? So may the next one have. */
static inline bool index_op_used_it(const struct index_op *op)
{
	return op->view.value_len >= op->buf_bytes / 4;
}
/** As index_op_fini(), but they stay among the spare ones, if there is room (spare.h), for
 * the next operation that needs such. */
void index_op_shrink(struct index *ix, struct index_op *op);
/** Keep none of these any longer. */
void index_drop_spare(struct index *ix);
/** The same in a child of fork() that does not have the lane's memory. */
void index_abandon_spare(struct index *ix);
#define INDEX_BUF_KEEP (64u << 10)
#define INDEX_BUFS_KEEP (256u << 10)

/** Set up an operation on an op that is not running. Copies nothing. */
static inline void index_op_start(struct index_op *op, enum index_kind kind,
				  const struct index_key *key,
				  const void *value, uint32_t value_len,
				  uint64_t expected)
{
	op->key.data = key->data; /* each for itself: in registers still */
	op->key.hash = key->hash;
	op->key.len = key->len;
	op->value = value;
	op->value_len = value_len;
	op->kind = (uint8_t)kind;
	op->expected = expected;
	op->into = NULL;
	op->result = INDEX_PENDING;
	op->wait = INDEX_WAIT_NONE;
	op->gave_back = false;
	op->near_full = false;
	op->rivals = false;
	op->plenty = false;
	op->written_by_other = false;
	op->state = 0;
	op->tries = 0;
	op->posting = false;
	op->has_block = false;
	op->written = 0;
	op->tomb_asked = false;
	op->bad_word = 0;
	op->version = 0;
	op->unresolved = false;
	op->resolving = false;
	op->cold = false;
}

/**
 * An operation on a key of this hash is about to begin: where the region is mapped, its
 * window is fetched ahead. What it returns is for index_get() or index_put(), before anything
 * else is asked of the index.
 */
const void *index_expect(const struct index *ix, uint64_t hash);

/** A GET that has not begun. */
struct index_want {
	struct index_key key;
	/* Not running; each GET has its own. `into` and `into_cap` are the caller's. */
	struct index_op *op;
};

/**
 * Begin a GET of a key for which index_expect() has just returned `expected`, and try it as
 * index_try() does. True: the operation's result is final, and if that is 0 so are the
 * view's value and length, and the version; nothing else of it may be set. False: it has
 * begun, and index_run() ends it. A GET that fails, or may, has cleared the error's line,
 * unless nothing was expected.
 */
bool index_get(struct index *ix, const struct index_want *want, const void *expected);

/**
 * The same for `n` of them: nothing was asked of the index before, and their windows, and
 * then their blocks, are fetched side by side. True: all are final. False: all have begun,
 * and are to be run together, since the link that some of them wait for may turn out to be
 * another; what the others found has to be read again then (index_op_resume()).
 */
bool index_get_many(struct index *ix, const struct index_want *wants, size_t n);

/**
 * An operation that index_op_start() has set up, on a region that is mapped: a GET by
 * loads; a write by loads and a compare-and-swap, or a few if rivals win. No deadline, no
 * system call; of a clock as much as alloc_retire() needs. A write that loses to rivals
 * spins for some microseconds (backoff.h). True if the operation is final. False if the
 * lane has no mapping, or anything unusual was met: then it is pending, may hold a block,
 * and goes on in index_run() or index_submit(), inside the same gate. Counts retries, no
 * requests. A write that fails has cleared the error's line.
 */
bool index_try(struct index *ix, struct index_op *op);

/**
 * The same for a PUT that was just set up, for whose key index_expect() has just returned
 * `expected`.
 */
bool index_put(struct index *ix, struct index_op *op, const void *expected);

/**
 * An operation of a caller that waits has ended with FARKV_EVERSION: if others write its
 * key just now, spin for a moment, some microseconds at most, so that they get on. Not
 * for who has other requests to see to.
 */
void index_pause(struct index *ix, const struct index_op *op);

/**
 * The same as index_try() for operations that were just set up, ops[0..n-1]: the memory
 * that they need is fetched side by side, in stages (windows, blocks). Those that it
 * could not end are INDEX_PENDING still.
 */
void index_try_many(struct index *ix, struct index_op *const *ops, size_t n);

/**
 * Fetch ahead what operations of any kind, just set up, are going to look at; for who
 * is about to run them. Nothing else comes of it.
 */
void index_fetch_many(const struct index *ix, struct index_op *const *ops,
		      size_t n);

/**
 * Operations under way together. Each is in one list: `ready` to be posted, `flown`
 * in the order in which they were, or `ended`: final, or waiting. All fields are
 * private to index_run.c. Several strands can use one index; who polls the lane for
 * one completes chains of all.
 */
struct index_list {
	struct index_op *first, **end;
};

struct index_strand {
	struct index_list ready, flown, ended;
	struct index_op *last;  /* of `flown` */
	unsigned idle;   /* polls in a row that found nothing done */
	unsigned stages; /* posts since the last look at the clock */
};

void index_strand_init(struct index_strand *s);

/** No operation is ready or flown: the strand holds no reference to the region. */
static inline bool index_strand_rests(const struct index_strand *s)
{
	return !s->ready.first && !s->flown.first;
}

/** The next index_reap() or index_take() has something to do, without the lane's doing
 * anything meanwhile. */
static inline bool index_strand_due(const struct index_strand *s)
{
	return s->ready.first || s->ended.first ||
	       (s->flown.first && s->flown.first->chain.done);
}

/** The first deadline of those that are flown; UINT64_MAX if none is. Looks at each. */
uint64_t index_strand_deadline(const struct index_strand *s);

/**
 * Begin an operation that index_op_start() or index_op_resume() has set up, or that
 * waited: take it as far as it goes without a completion. Then it is ready, and
 * posted by the next index_post() or index_reap(), or it has ended. It belongs to the
 * strand, and key and value stay in place, until index_take() returns it.
 * `deadline_ns` (clock_now_ns()): see index_reap(). Waits for the lane only where the
 * directory must be read.
 */
void index_submit(struct index *ix, struct index_strand *s, struct index_op *op,
		  uint64_t deadline_ns);

/** Post what is ready, with one doorbell. */
void index_post(struct index *ix, struct index_strand *s);

/**
 * Poll the lane once, step the operations whose chains are done, and post what is
 * ready. True if any was stepped. Never waits.
 *
 * Operations past their deadline end with FARKV_ETIMEDOUT where nothing of theirs is
 * in flight. One whose chain is not done, though it was polled for again and again,
 * ends so too, or with FARKV_EMAYBE if a CAS is in the chain, and the lane is broken
 * with it.
 */
bool index_reap(struct index *ix, struct index_strand *s);

/** The next operation that is final or waits; NULL if there is none. */
struct index_op *index_take(struct index_strand *s);

/**
 * Drive ops[0..n-1] until each is final or waits: a strand of their own. Operations
 * that waited are tried again from the start, and take a block again. An operation that
 * index_try() has left waiting waits at once: it has just searched. Spins on the
 * lane, bounded by `deadline_ns` as index_reap() says. `began_ns`: when the caller has
 * just looked at the clock, or 0: I4 counts from there.
 *
 * Results by kind: GET 0, ENOTFOUND, ECORRUPT. PUT 0. ADD 0, EEXISTS.
 * REPLACE 0, ENOTFOUND. CAS 0, EVERSION, ENOTFOUND. DELETE 0, ENOTFOUND.
 * All: ETOOLARGE, EPERM, EDISCONNECTED, EMAYBE, ETIMEDOUT, ENOMEM, ECORRUPT, EFORMAT.
 * Linearizable per key; operations that are under way together are concurrent, and
 * so are two of them on one key.
 * Round trips: see doc/protocol.md, "Budgets".
 */
void index_run(struct index *ix, struct index_op *const *ops, size_t n,
	       uint64_t began_ns, uint64_t deadline_ns);
#define INDEX_RUN_MAX 128

/**
 * Go on with an operation whose lane broke (FARKV_EDISCONNECTED, or FARKV_EMAYBE
 * and `unresolved`, or still pending): call index_run() on the index of a new
 * link to the same region. Its buffers are released (index_op_fini()), the old
 * lane can do nothing any more, and no block of the old session has been used
 * again. Key and value must still be in place.
 *
 * An unknown CAS is resolved by reading the slot: it happened (the operation
 * succeeds), did not (it is done again, with a new block), or nobody can tell
 * (FARKV_EMAYBE). Costs the round trips of a GET.
 */
void index_op_resume(struct index_op *op);

/**
 * Give up an operation that waits: `result` becomes `err`, and `wait` still says what it
 * lacked. Touches neither region nor allocator.
 */
void index_abandon(struct index *ix, struct index_op *op, int err);

#endif
