/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index_priv.h - what index.c (directory), index_run.c (driver), index_op.c and
 * index_swap.c (steps), index_try.c and index_shm.c (by loads: index_direct.h,
 * index_shm.h), and index_warm.c (by what is remembered) share.
 */
#ifndef COMMON_INDEX_PRIV_H
#define COMMON_INDEX_PRIV_H

#include "backoff.h"
#include "clock.h"
#include "index.h"
#include "location.h"
#include "spare.h"
#include "util.h"

struct warm;

struct index {
	struct index_versions versions; /* first: index_versions_left() */
	struct superblock sb;
	struct xport_lane *lane;
	struct alloc *alloc;
	struct warm *warm; /* what is remembered of keys; NULL: nothing */
	size_t buf_bytes; /* of all operations' buffers */
	struct spare spare; /* ... and what they have given back */

	uint64_t dirword;  /* D under which `entries` was read; 0: none */
	uint64_t *entries; /* lane memory, 2^depth words of any age (I5) */
	size_t entries_bytes;
	uint64_t *dir_scratch; /* lane memory, two words */

	uint64_t (*now)(void *arg); /* NULL: clock_now_ns() */
	void *now_arg;
	uint64_t recent_ns; /* on the clock, some time ago */
	uint64_t told_ns;   /* ... when index_run() began; 0: look at it */
	uint32_t undated;   /* blocks retired since one was dated at once */
	uint64_t retries;
	uint32_t usual_len; /* of the values that a GET by loads expects: as long as the last */
	struct backoff backoff;
};
static_assert(offsetof(struct index, versions) == 0, "index_versions_left() looks there");

/** Candidates fetched by one chain; more are fetched by further chains. */
#define OP_PROBE_MAX 4

/** Where the window of an operation's key lies, by its directory entry. */
static inline uint64_t window_at(uint64_t entry, uint64_t hash)
{
	return entry_page(entry) * PAGE_BYTES +
	       (uint64_t)hash_home_line(hash) * LINE_BYTES;
}
static inline uint64_t window_off(const struct index_op *op)
{
	return window_at(op->entry, op->key.hash);
}

static inline uint64_t index_now(const struct index *ix)
{
	return ix->now ? ix->now(ix->now_arg) : clock_now_ns();
}

/** A compare-and-swap by loads was lost: let the winner go on. */
static inline void index_backoff(struct index *ix)
{
	backoff_wait(&ix->backoff, ix->versions.counter, ix->versions.prefix);
}

/** When what is READ now will have been begun: this moment, or one shortly before. */
static inline uint64_t index_begin_ns(const struct index *ix)
{
	return ix->told_ns ? ix->told_ns : index_now(ix);
}

/**
 * Read D and the array it names. Waits for the lane; rare. 0,
 * FARKV_EDISCONNECTED, FARKV_ENOMEM, FARKV_EFORMAT, FARKV_ETIMEDOUT.
 */
int index_refill(struct index *ix, uint64_t deadline_ns);

/**
 * Take an operation as far as it goes without waiting: afterwards it has a
 * chain to post (op->posting), waits, or is final.
 */
void index_op_step(struct index *ix, struct index_op *op, uint64_t deadline_ns);

/** End an operation: `err` becomes its result, an unpublished block goes back. */
void index_op_end(struct index *ix, struct index_op *op, int err);

/* ---- the steps: index_op.c up to the decision, index_swap.c from there on --------- */

enum op_state {
	OP_START,
	OP_WINDOW,
	OP_PROBE,
	OP_CONFIRM,
	OP_SETTLE,
	OP_SWAP,
	OP_MOVED,
	OP_LOOK
};

/* What a step leads to. */
enum next {
	NEXT_POST, /* the chain is filled in */
	NEXT_WAIT, /* op->wait says for what */
	NEXT_DONE, /* op->result is final */
	NEXT_AGAIN /* from OP_START */
};

/** End the operation: index_op_end() and NEXT_DONE. */
enum next op_done(struct index *ix, struct index_op *op, int err);
/** Stop, holding nothing, for this reason: an unpublished block goes back. */
enum next op_wait(struct index *ix, struct index_op *op, enum index_wait why);
/** From the start; counted as a retry. */
enum next op_again(struct index *ix, struct index_op *op);
/** The same for a reason that damage could make permanent: FARKV_ECORRUPT after a
 * hundred times, `what` says of which kind. */
enum next op_again_bounded(struct index *ix, struct index_op *op,
			   const char *what);

/** Take a block of class op->cls, and that alone. False: none is at hand. */
bool op_take_rested(struct index *ix, struct index_op *op);
/** If the operation writes a value, give it a block to write it to. False: none is at
 * hand. */
bool op_take_block(struct index *ix, struct index_op *op);
/** Nothing has been seen of the key yet. */
void op_forget(struct index_op *op);

/** Is the operation's block written? */
enum block_written { NOT_WRITTEN, WRITTEN };

/** Begin the chain whose completion is handled in `state`. */
static inline void op_chain_begin(struct index_op *op, enum op_state state)
{
	op->chain.n = 0;
	op->chain.status = 0;
	op->chain.begun_ns = 0;
	op->state = (uint8_t)state;
}
static inline struct xport_wr *op_chain_add(struct index_op *op,
					    enum xport_opcode code, uint64_t off,
					    void *laddr, uint64_t len)
{
	struct xport_wr *wr = &op->chain.wr[op->chain.n++];

	*wr = (struct xport_wr){.opcode = (uint8_t)code,
				.off = off,
				.laddr = laddr,
				.len = (uint32_t)len};
	return wr;
}
/** Where slot op->slot_at lies in the region. */
uint64_t op_slot_off(const struct index_op *op);

/** Lane memory for a few words, behind the two images. */
static inline uint64_t *op_scratch(struct index_op *op)
{
	return op->window + 2 * WINDOW_SLOTS;
}

/** I4: was what was READ since op->t_start READ within T/2? What took longer may have
 * read a block after its reuse. */
static inline bool op_span_ok(const struct index *ix, const struct index_op *op)
{
	atom_fence_copy_done();
	return index_now(ix) - op->t_start <= ix->sb.grace_ns / 2;
}

/**
 * How much of the block that `word` names a GET brings right to where the caller wants
 * the value: op->part_len; 0 if it is not to go there.
 */
uint32_t op_part_len(const struct index *ix, const struct index_op *op,
		     uint64_t word);
/** Give the READ of that block its part, if any. The rest of it goes to `laddr`. */
void op_part_set(const struct index_op *op, struct xport_wr *wr);
/** As block_verify() of a block that was READ so, the rest of it at op->buf. */
enum block_check op_part_verify(const struct index_op *op, uint64_t word,
				struct block_view *view_out);

/** Walk the window image from op->scan_from. */
enum next op_scan(struct index *ix, struct index_op *op);
enum next op_settle(struct index_op *op);
/** A FROZEN word was met: READ the entry again. */
enum next op_check_moved(struct index *ix, struct index_op *op);

/** No slot is bound to the key; op->scan_from is where it would go. */
enum next op_absent(struct index *ix, struct index_op *op);
/**
 * The slot is this key's and held `word` (not FROZEN). `version` is that of its
 * block; only a CAS looks at it.
 */
enum next op_decide(struct index *ix, struct index_op *op, uint64_t word,
		    uint64_t version);
/**
 * The slot held another word than the one that was decided upon, `found`: the CAS lost,
 * or it is not tried any more.
 */
enum next op_lost(struct index *ix, struct index_op *op, uint64_t found);
/** The chain with the CAS is done. */
enum next op_swap_done(struct index *ix, struct index_op *op);
/** The CAS of op->new_word for op->expect_word found this word. */
enum next op_swap_result(struct index *ix, struct index_op *op, uint64_t found);
/**
 * The image of the operation's block, of its next version: in op->buf, or where it
 * belongs, if that is mapped and the better place. NEXT_POST; or the operation has ended.
 */
enum next op_block_image(struct index *ix, struct index_op *op,
			 uint8_t **image_out);
/** A lost CAS is looked up: the key's slot holds `word`, or there is none. */
enum next op_resolve(struct index *ix, struct index_op *op, uint64_t word);
enum next op_resolve_absent(struct index *ix, struct index_op *op);
/** The lane broke under the chain. */
enum next op_broken(struct index *ix, struct index_op *op);

/** What a writer READs of a block of so many bytes: header and key, in whole lines. */
static inline uint64_t head_bytes(uint64_t key_len, uint64_t bytes)
{
	uint64_t head = (BLOCK_HEADER_BYTES + key_len + LINE_BYTES - 1) &
			~(uint64_t)(LINE_BYTES - 1);

	return UTIL_MIN(head, bytes);
}
/** What a probe READs of the block that `word` names: all, or header and key. */
uint64_t op_probe_bytes(const struct index_op *op, uint64_t word);

/**
 * A writer's search by loads, in place of READs of its window and candidates; for
 * lanes with XPORT_DIRECT_STORE. True: *next_out is what op_decide() or op_absent()
 * said. False if anything unusual was met: nothing has happened. The counters show what
 * a card would see.
 */
bool index_try_write(struct index *ix, struct index_op *op, enum next *next_out);

/* ---- index_warm.c: operations that begin where their key was when last seen ------- */

/** NULL if out of memory; of a cache of so many locations. */
struct warm *warm_new(size_t entries);
void warm_free(struct warm *w);
/** Keep values in so many bytes; see index_keep(). False if out of memory. */
bool warm_keep(struct warm *w, size_t bytes);
/** Forget everything: a barrier. */
void warm_drop(struct warm *w);
const struct location_counters *warm_counters(const struct warm *w);

/**
 * Begin a GET by what is remembered. False if nothing is, or it is not to be used: then
 * nothing has happened. Asks for no directory.
 */
bool warm_get(struct index *ix, struct index_op *op, enum next *next_out);
/** The same of the others. The operation has its directory's entry, and its block. */
bool warm_start(struct index *ix, struct index_op *op, enum next *next_out);
/** The chain of OP_LOOK is done. */
enum next warm_looked(struct index *ix, struct index_op *op);
/** What was remembered is of no use: forget it, and search. */
enum next warm_leave(struct index *ix, struct index_op *op);
/**
 * A CAS was lost to `found`. True if what was remembered leads no further; false if
 * it is another word of the same key, to be decided upon.
 */
bool warm_lost(struct index *ix, struct index_op *op, uint64_t found,
	       enum next *next_out);

/** Remember; without a cache these do nothing. */
/** The operation's slot held `word`, whose block is of this version (0: unknown). */
void warm_store(struct index *ix, const struct index_op *op, uint64_t word,
		uint64_t version);
/** op->window is the operation's window. */
void warm_image(struct index *ix, const struct index_op *op);
/** The slot of an insert, op->slot_at, holds `word` now. */
void warm_claimed(struct index *ix, const struct index_op *op, uint64_t word);
/** The operation's CAS succeeded. */
void warm_swapped(struct index *ix, struct index_op *op);

/** index_op_reserve() where it is not long enough. */
int index_op_grow(struct index *ix, struct index_op *op, size_t bytes);

/** Make op->buf at least `bytes` long; contents are lost. */
static inline int index_op_reserve(struct index *ix, struct index_op *op,
				   size_t bytes)
{
	return op->window && bytes <= op->buf_bytes ?
		       0 : index_op_grow(ix, op, bytes);
}

#endif
