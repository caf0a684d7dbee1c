/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/op.h - one operation: what is asked, what came of it, and the phase that it is in.
 *
 * The caller owns a struct index_op, sets it up by index_op_init() once and by
 * index_op_start() for each use, and reads the result when it is final. Key and value
 * must stay in place until then.
 */
#ifndef COMMON_INDEX_OP_H
#define COMMON_INDEX_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/block.h"
#include "common/region/layout.h"
#include "common/xport/xport.h"

struct index; /* one handle's view of one region */

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

/** A CAS whose lane broke may have happened or not. */
enum index_doubt {
	DOUBT_NONE,
	DOUBT_OPEN,      /* FARKV_EMAYBE, and index_op_resume() can find out */
	DOUBT_RESOLVING, /* the operation only looks for what became of op->lost */
};

struct index_key {
	const void *data;
	uint64_t hash; /* hash_key(); tests may force it */
	uint16_t len;  /* 1..65535 */
};

/**
 * The phases. A phase names the chain that is in flight; when the chain is done,
 * index_op_step() concludes from it and enters the next phase. In OP_START, OP_WAITS
 * and OP_ENDED nothing is in flight.
 *
 *   phase          chain                     what follows when it is done
 *   -------------------------------------------------------------------------------
 *   OP_START       -                         a cached location: LOOK or SWAP;
 *                                            a cached window: SWAP;
 *                                            a write by loads: SWAP; else WINDOW
 *   OP_WINDOW      READ window               walk
 *   OP_PROBE       READ blocks               took longer than T/2: CONFIRM; else compare
 *   OP_CONFIRM     READ window               the words stand: compare; else START
 *   OP_SETTLE      READ window               the words stand: walk, or end as refused;
 *                                            else START
 *   OP_MOVED       READ D, entry, D          another entry: START; the same one:
 *                                            a GET walks, a writer waits
 *   OP_LOOK        READ slot, READ block     the cached word: ENDED, or decide;
 *                                            later than T/2: LOOK_AGAIN;
 *                                            another word of the key: LOOK once more,
 *                                            or decide; anything else: START
 *   OP_LOOK_AGAIN  READ slot                 as OP_LOOK, however long it took
 *   OP_SWAP        [WRITE block,] CAS        won: ENDED; lost: absorbed and ENDED,
 *                                            decide, walk, or MOVED
 *   OP_WAITS       -                         index_run() tells why: START
 *   OP_ENDED       -
 *
 *   walk      candidates: PROBE; a FROZEN word: MOVED; no slot is the key's: absent
 *   compare   a candidate is the key's: a GET has ENDED, a write decides; else walk on
 *   absent    a torn word may have hidden it: SETTLE; a put or add: SWAP for the first
 *             EMPTY slot, or it waits for growth; else ENDED
 *   decide    SWAP; or it is refused: ENDED, SETTLE first where words tear
 *
 *   START --> WINDOW --> walk --> PROBE --> compare --> decide --> SWAP --> ENDED
 *     |                  ^  |      |  ^                   ^ ^        |
 *     |                  |  v      v  |                   | |        |
 *     |            MOVED, SETTLE  CONFIRM                 | |        |
 *     |                  ^                                | |        |
 *     |                  '--------------------------------|-+-- lost-'
 *     '-----> LOOK <--> LOOK_AGAIN -----------------------'
 *
 * Any phase can lead to START (something moved; a hundred times at most for a
 * reason that damage could make permanent) and to ENDED (an error).
 */
enum op_phase {
	OP_START, /* it has not begun, begins again, or waits and the caller knows */
	OP_WINDOW,
	OP_PROBE,
	OP_CONFIRM,
	OP_SETTLE,
	OP_MOVED,
	OP_LOOK,
	OP_LOOK_AGAIN,
	OP_SWAP,
	OP_WAITS, /* as op->wait says; index_run() has not said so yet */
	OP_ENDED, /* op->result is final */
};

/** Candidates fetched by one chain; more are fetched by further chains. */
#define OP_PROBE_MAX 4

/** How the key's slot, or the first EMPTY one, is found. */
enum op_way {
	WAY_WINDOW,   /* op->window was READ */
	WAY_LOADS,    /* by loads; op->window holds nothing */
	WAY_LOCATION, /* a cached location, op->cached */
	WAY_IMAGE,    /* a cached window; of an insert */
};

/** The operation's own block, which nobody else sees. */
enum own_block {
	OWN_NONE,    /* always, while it waits */
	OWN_BLANK,   /* op->block, not written yet */
	OWN_WRITTEN, /* op->block holds key and value */
};

/** What is known of the key since OP_START; cleared there. */
struct op_search {
	uint8_t way;        /* enum op_way */
	bool accept_frozen; /* GET: the entry was READ again after the FROZEN words */
	bool probe_full;    /* probe whole blocks: a key was longer than ours */
	bool skipped;       /* a candidate was another key's, ... */
	bool settled;       /* ... by a word that was READ twice */
	bool absorbs;       /* a PUT that is done if the slot at hand is its key's */
	bool word_cached;    /* the word that the CAS expects was not READ since */
	uint16_t from;      /* slot where the walk goes on */
	uint64_t begun_ns;  /* I4: when the slot's READ was begun, or earlier */
	uint64_t word, version; /* what is decided upon; version 0: unknown */
};

/** A cached location, from OP_START to the next one. */
struct op_cached {
	uint64_t slot; /* off in the region */
	uint64_t version;
	bool doubted;  /* it had been wrong before */
};

struct op_swap {
	uint64_t expect, desired; /* an insert expects EMPTY, which has no pointer */
};

struct index_op {
	/* ---- the request: constant from index_op_start() to the result ---- */
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

	/* ---- the result, and what a caller that waits needs to know ---- */
	uint8_t cls;        /* class of block it used or needs; prefetch this one */
	uint64_t wait_page; /* WAIT_FULL, near_full: the subtable's page and */
	uint32_t wait_gen;  /* ... generation */
	int result;         /* INDEX_PENDING, 0 or an error */
	/* These lie side by side, since each index_op_start() clears them: */
	uint8_t wait;       /* enum index_wait; the operation awaits index_run() */
	bool gave_back;     /* the caller's: for this one all blocks went back once */
	bool near_full;     /* an insert took its window's last slot: HINT */
	bool rivals;        /* others wrote the key between its READ and its CAS, or look */
	bool has_spare;        /* a write over a value; the next finds a block, too, and none
			       is to be given back */
	uint8_t doubt;      /* enum index_doubt */
	/* ... what follows is private to index*.c, but for `view` and `version` ... */
	bool written_by_other; /* the slot held another session's value */
	uint8_t phase;      /* enum op_phase */
	uint8_t own;        /* enum own_block */
	/* Since index_op_start(), whatever it begins again for: */
	uint8_t tries;      /* restarts for reasons that should pass soon */
	bool no_cache;      /* what is cached has misled it */
	bool tomb_asked;    /* DELETE: waited for a tombstone block once */
	struct block_view view; /* GET: the value, in memory of `buf` */
	uint64_t version;   /* version found (GET) or written (others) */
	const char *damage; /* what is wrong, if FARKV_ECORRUPT is the result */

	/* ---- private: what lasts from phase to phase ---- */
	struct index_op *next; /* of its op queue's list */
	uint64_t deadline_ns;
	uint64_t bad_word;     /* whose block failed its checksum last */
	uint64_t dirword, dir_index, entry; /* the key's subtable */
	uint16_t slot_at;      /* slot of the window that the walk or the CAS is at */
	struct block_ref block; /* unless OWN_NONE */
	struct op_search search;
	struct op_cached cached; /* WAY_LOCATION */
	struct {
		struct op_swap swap; /* the CAS that is in doubt */
		bool word_cached;     /* its op_search's */
	} lost;

	/* ---- private: of one phase ---- */
	union {
		struct { /* OP_PROBE, OP_CONFIRM */
			uint32_t seg_len; /* of the first one's, at `into`; or 0 */
			uint8_t n;
			uint8_t slot[OP_PROBE_MAX];
		} probe;
		struct { /* OP_SETTLE */
			int refusal; /* how it ends if the words stand; 0: walk on */
		} settle;
		struct { /* OP_MOVED */
			bool odd; /* met an EMPTY word of another generation */
		} moved;
		struct { /* OP_LOOK, OP_LOOK_AGAIN */
			uint64_t word;     /* that is expected there */
			uint32_t seg_len; /* of its block's, at `into`; or 0 */
			uint8_t nth;       /* look since OP_START */
			bool from_cache;   /* `buf` has the block: it was cached */
		} look;
		struct op_swap swap; /* OP_SWAP */
	};

	struct xport_chain chain;
	uint64_t *window; /* lane memory: two images, then scratch words */
	uint8_t *buf;     /* lane memory: block images; grows */
	size_t buf_bytes;
};

/**
 * Values from this size on are carried from and to where they lie, in memory that
 * the lane knows; smaller ones are copied, which costs less than a request of several
 * pieces. Nothing touches that memory any more when the operation is final.
 */
#define INDEX_SEGMENT_MIN 4096u

#define INDEX_PENDING 1

/** Prepare `op` for its first use: zeroes it. Its buffers are then reused. */
void index_op_init(struct index_op *op);
/** Release the buffers. */
void index_op_fini(struct index *ix, struct index_op *op);
/**
 * Is this operation's buffer larger than what the next one should find? One above
 * INDEX_BUF_KEEP is; and, while those of all operations together are above
 * INDEX_BUFS_KEEP, each but the smallest. Then index_op_shrink(), once its value is not
 * needed any more.
 */
bool index_op_has_more(const struct index *ix, const struct index_op *op);
/** Had the GET a value that fills a good part of its buffer? The next one may, too. */
static inline bool index_op_used_it(const struct index_op *op)
{
	return op->view.value_len >= op->buf_bytes / 4;
}
/** As index_op_fini(), but the buffers become spare ones, if there is room (spare.h), for
 * the next operation that needs such. */
void index_op_shrink(struct index *ix, struct index_op *op);
#define INDEX_BUF_KEEP (64u << 10)
#define INDEX_BUFS_KEEP (256u << 10)

/** Set up an operation on an op that is not running. Copies nothing. op->expected of a CAS
 * is the caller's, before or after; op->into is cleared, to be set afterwards. */
static inline void index_op_start(struct index_op *op, enum index_kind kind,
				  const struct index_key *key,
				  const void *value, uint32_t value_len)
{
	op->key.data = key->data; /* each for itself: in registers still */
	op->key.hash = key->hash;
	op->key.len = key->len;
	op->value = value;
	op->value_len = value_len;
	op->kind = (uint8_t)kind;
	op->into = NULL;
	op->result = INDEX_PENDING;
	op->wait = INDEX_WAIT_NONE;
	op->gave_back = false;
	op->near_full = false;
	op->rivals = false;
	op->has_spare = false;
	op->doubt = DOUBT_NONE;
	op->written_by_other = false;
	op->phase = OP_START;
	op->own = OWN_NONE;
	op->tries = 0;
	op->no_cache = false;
	op->tomb_asked = false;
	op->bad_word = 0;
	op->version = 0;
}

/**
 * Go on with an operation whose lane broke (FARKV_EDISCONNECTED, or FARKV_EMAYBE
 * and DOUBT_OPEN, or still pending): call index_run() on the index of a new
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

/* ---- for the files that carry operations on ----------------------------------- */

/** What a step of a phase leads to. */
enum next {
	NEXT_POST,   /* the phase is set and its chain is filled in */
	NEXT_WAIT,   /* op->wait says for what */
	NEXT_DONE,   /* op->result is final */
	NEXT_AGAIN,  /* from OP_START */
	NEXT_WALK,   /* the window, from op->search.from */
	NEXT_SETTLE, /* READ the window again: op->settle is set */
	NEXT_MOVED,  /* READ the directory's entry again: op->moved is set */
	NEXT_DECIDE, /* by op->search.word and .version: the slot is the key's */
	NEXT_ABSENT, /* no slot is the key's; op->search.from is where it would go */
	NEXT_SWAP,   /* OP_SWAP, by a chain or without one; op->swap is set */
};

/** End an operation: `err` becomes its result, an unpublished block goes back. */
void index_op_end(struct index *ix, struct index_op *op, int err);
/** index_op_end() and NEXT_DONE. */
enum next op_done(struct index *ix, struct index_op *op, int err);
/** Stop, holding nothing, for this reason: an unpublished block goes back. */
enum next op_wait(struct index *ix, struct index_op *op, enum index_wait why);
/** From the start; counted as a retry. */
enum next op_again(struct index *ix, struct index_op *op);
/** The same for a reason that damage could make permanent: FARKV_ECORRUPT after a
 * hundred times, `what` says of which kind. */
enum next op_again_bounded(struct index *ix, struct index_op *op,
			   const char *what);
/** Before it ends refused, or as absent: `refusal`, or 0. NEXT_SETTLE. */
static inline enum next next_settle(struct index_op *op, int refusal)
{
	op->settle.refusal = refusal;
	return NEXT_SETTLE;
}
/** A FROZEN word was met, or one of another generation (`odd`). NEXT_MOVED. */
static inline enum next next_moved(struct index_op *op, bool odd)
{
	op->moved.odd = odd;
	return NEXT_MOVED;
}
/** The slot is this key's and held `word` (not FROZEN), whose block is of this version
 * (0: unknown). NEXT_DECIDE. */
static inline enum next next_decide(struct index_op *op, uint64_t word, uint64_t version)
{
	op->search.word = word;
	op->search.version = version;
	return NEXT_DECIDE;
}

/** What its block holds after the key. */
static inline uint32_t op_value_len(const struct index_op *op)
{
	return op->kind == INDEX_DELETE ? 0 : op->value_len;
}

/** Does it wait for the completion of a chain, which is to be posted or in flight? */
static inline bool op_in_flight(const struct index_op *op)
{
	return op->phase >= OP_WINDOW && op->phase <= OP_SWAP;
}

/** Take a block of class op->cls: OWN_BLANK. False: none is at hand. */
bool op_take_ready(struct index *ix, struct index_op *op);
/** If the operation writes a value, and has no block yet, give it one to write it to.
 * False: none is at hand. */
bool op_take_block(struct index *ix, struct index_op *op);

/** Begin the chain of a phase. */
static inline void op_chain_begin(struct index_op *op, enum op_phase phase)
{
	op->chain.n = 0;
	op->chain.status = 0;
	op->chain.begun_ns = 0;
	op->phase = (uint8_t)phase;
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

/** Lane memory for a few words, after the two images. */
static inline uint64_t *op_scratch(struct index_op *op)
{
	return op->window + 2 * WINDOW_SLOTS;
}

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
/** Where in the region the slot of the operation lies. */
static inline uint64_t op_slot_off(const struct index_op *op)
{
	if (op->search.way == WAY_LOCATION)
		return op->cached.slot;
	return window_off(op) + (uint64_t)op->slot_at * SLOT_BYTES;
}

/** Does the CAS of OP_SWAP claim an EMPTY slot? */
static inline bool op_inserts(const struct index_op *op)
{
	return slot_is_null(op->swap.expect);
}

/** I4: was what was READ since op->search.begun_ns READ within T/2? What took longer may
 * have read a block after its reuse. */
bool op_span_ok(const struct index *ix, const struct index_op *op);

/** The operation's key, for block_verify_head(). */
struct block_key op_block_key(const struct index *ix, const struct index_op *op);
/** What a probe READs of the block that `word` names: all, or header and key. */
uint64_t op_probe_bytes(const struct index_op *op, uint64_t word);
/**
 * How much of the block that `word` names a GET brings right to where the caller wants
 * the value; 0 if it is not to go there.
 */
uint32_t op_segment_len(const struct index *ix, const struct index_op *op,
		     uint64_t word);
/** Give the READ of that block its part, if any. The rest of it goes to `laddr`. */
void op_segment_set(const struct index_op *op, struct xport_wr *wr, uint32_t seg_len);
/** As block_verify() of a block that was READ so, the rest of it at op->buf. */
enum block_check op_segment_verify(const struct index_op *op, uint64_t word,
				uint32_t seg_len, struct block_view *view_out);

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
