/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/op.h - one operation: request, result, and the phase it is in.
 *
 * The caller owns a struct index_op. It calls index_op_init() once and index_op_start() for each
 * use, and reads the result when it is final. Key and value must stay in place until then.
 */
#ifndef COMMON_INDEX_OP_H
#define COMMON_INDEX_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/block.h"
#include "common/region/layout.h"
#include "common/xport/xport.h"

#include "spare.h"

struct index; /* one handle's view of one region */

enum index_kind {
	INDEX_GET,
	INDEX_PUT,
	INDEX_ADD,
	INDEX_REPLACE,
	INDEX_CAS,
	INDEX_DELETE,
	INDEX_EXISTS,     /* is there a value? */
	INDEX_DELETE_CAS, /* delete the value of one version */
};

/** True if operations of this kind change nothing. */
static inline bool kind_reads(unsigned kind)
{
	return kind == INDEX_GET || kind == INDEX_EXISTS;
}

static inline bool kind_deletes(unsigned kind)
{
	return kind == INDEX_DELETE || kind == INDEX_DELETE_CAS;
}

/** True if operations of this kind write a value. */
static inline bool kind_stores(unsigned kind)
{
	return !kind_reads(kind) && !kind_deletes(kind);
}

/** True if operations of this kind change a value of one version, op->expected, alone. */
static inline bool kind_compares(unsigned kind)
{
	return kind == INDEX_CAS || kind == INDEX_DELETE_CAS;
}

enum index_wait {
	INDEX_WAIT_NONE,
	/*
	 * A block of class op->cls is needed. A DELETE of a large value asks once, for a small
	 * tombstone; if it is run again without a block, it marks the slot instead.
	 */
	INDEX_WAIT_BLOCK,
	INDEX_WAIT_FROZEN, /* the subtable is being migrated: try again soon */
	INDEX_WAIT_FULL,   /* the window has no EMPTY slot: HINT page and generation */
	INDEX_WAIT_CLOCK,  /* the value is to expire, and CLOCK is 0: CLOCK_START */
};

/** State after the lane broke during a CAS, which may or may not have been executed. */
enum index_doubt {
	DOUBT_NONE,
	DOUBT_OPEN,      /* FARKV_EMAYBE, and index_op_resume() can find out */
	DOUBT_RESOLVING, /* the operation only finds out the result of op->lost */
};

struct index_key {
	const void *data;
	uint64_t hash; /* hash_key(); tests may force it */
	uint16_t len;  /* 1..65535 */
};

/**
 * The phases. A phase names the chain that is in flight; when the chain is done, index_op_step()
 * evaluates it and enters the next phase. In OP_START, OP_WAITS and OP_ENDED nothing is in flight.
 *
 *   phase          chain                     what follows when it is done
 *   -------------------------------------------------------------------------------
 *   OP_START       -                         a cached location: LOOK or SWAP;
 *                                            a cached window: SWAP;
 *                                            a write by loads: SWAP; else WINDOW
 *   OP_WINDOW      READ window               walk
 *   OP_PROBE       READ blocks               took longer than T/2: CONFIRM; else compare
 *   OP_CONFIRM     READ window               words unchanged: compare; else START
 *   OP_SETTLE      READ window               words unchanged: walk, or end as refused;
 *                                            else START
 *   OP_MOVED       READ D, entry, D          another entry: START; the same one:
 *                                            a read walks, a writer waits
 *   OP_LOOK        READ [CLOCK,] slot,       the expected word: ENDED, or decide;
 *                  [block]
 *                                            later than T/2: LOOK_AGAIN;
 *                                            another word of the key: LOOK once more,
 *                                            or decide; anything else: START
 *   OP_LOOK_AGAIN  READ slot                 as OP_LOOK, however long it took
 *   OP_CLOCK       READ CLOCK, slot          word unchanged: ENDED, or decide;
 *                                            else START
 *   OP_DATE        READ CLOCK                START, or it waits for CLOCK
 *   OP_SWAP        [WRITE block,] CAS        won: ENDED; lost: absorbed and ENDED,
 *                                            LOOK, decide, walk, or MOVED
 *   OP_WAITS       -                         index_run() reports op->wait: START
 *   OP_ENDED       -
 *
 *   walk      candidates: PROBE; a FROZEN word: MOVED; no slot is the key's: absent
 *   compare   a candidate is the key's: a read has ENDED, a write decides; else walk on
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
 * Any phase can lead to START (something moved; at most a hundred times for a reason that damage
 * could make permanent) and to ENDED (an error).
 */
enum op_phase {
	OP_START, /* not begun, to begin again, or its wait was reported */
	OP_WINDOW,
	OP_PROBE,
	OP_CONFIRM,
	OP_SETTLE,
	OP_MOVED,
	OP_LOOK,
	OP_LOOK_AGAIN,
	OP_CLOCK,
	OP_DATE,
	OP_SWAP,
	OP_WAITS, /* waits as op->wait says, not yet reported by index_run() */
	OP_ENDED, /* op->result is final */
};

/** Candidates fetched by one chain; more are fetched by further chains. */
#define OP_PROBE_MAX 4

/** How the key's slot, or the first EMPTY one, is found. */
enum op_way {
	WAY_WINDOW,   /* op->window was READ */
	WAY_LOADS,    /* by loads; op->window is not set */
	WAY_LOCATION, /* a cached location, op->cached */
	WAY_IMAGE,    /* a cached window; inserts only */
};

/** The operation's own block, which no other session sees yet. */
enum own_block {
	OWN_NONE,    /* always so while it waits */
	OWN_BLANK,   /* op->block, not written */
	OWN_WRITTEN, /* op->block holds key and value */
};

/** What is known of the key; cleared at OP_START. */
struct op_search {
	uint8_t way;        /* enum op_way */
	bool accept_frozen; /* a read: the directory entry was READ again after FROZEN words */
	bool probe_full;    /* READ keys of any length: a candidate's was longer than ours */
	bool skipped;       /* a candidate was another key's */
	bool settled;       /* the words were READ twice, or once is enough */
	bool absorbs;       /* a PUT that is done if the slot at slot_at is its key's */
	bool word_cached;   /* the CAS expects a cached word, which was not READ */
	uint16_t from;      /* slot at which the walk continues */
	uint64_t begun_ns;  /* I4: time before the slot's READ began */
	uint64_t clock_ms;  /* CLOCK, READ before the slot's last READ; 0: unknown */
	uint64_t word, version; /* the word decided upon, and its version; 0: unknown */
	bool dated;         /* its block expires, or may */
	bool marked;        /* heat_write() has decided on this use */
};

/** A cached location; valid until the next OP_START. */
struct op_cached {
	uint64_t slot; /* offset in the region */
	uint64_t version;
	bool doubted;  /* it was wrong before */
	bool dated, marked; /* as struct location's */
};

struct op_swap {
	uint64_t expect, desired; /* an insert expects an EMPTY word */
};

struct index_op {
	/* ---- the request: constant from index_op_start() to the result ---- */
	struct index_key key;
	const void *value;
	uint32_t value_len;
	uint8_t kind;      /* enum index_kind */
	uint64_t expected; /* kind_compares(): the version that must be there */
	/* Of a value that is written. The caller sets these two after index_op_start(). */
	uint64_t ttl_ms;   /* 0: it never expires */
	uint32_t user;     /* 0: none */
	/*
	 * GET: where the caller wants the value, or NULL; set after index_op_start(). If the lane
	 * knows that memory (xport_mem_known()), the value may be READ straight into it; op->view
	 * shows whether it was. The `into_cap` bytes are undefined afterwards in any case.
	 */
	void *into;
	size_t into_cap;

	/* ---- the result, and what a caller needs while it waits ---- */
	uint8_t cls;        /* class of the block it used or needs */
	uint64_t wait_page; /* WAIT_FULL, near_full: the subtable's page ... */
	uint32_t wait_gen;  /* ... and generation */
	int result;         /* INDEX_PENDING, 0 or an error */
	/* The following are cleared by index_op_start(), and so lie side by side. */
	uint8_t wait;       /* enum index_wait */
	bool gave_back;     /* for the caller: it gave all blocks back once */
	bool near_full;     /* an insert took its window's last slot: HINT */
	bool rivals;        /* another writer won between its READ and its CAS */
	bool has_spare;     /* an overwrite after which the class has a block for the next,
				 and no block has to be given back */
	uint8_t doubt;      /* enum index_doubt */
	/* What follows is private to the index, except `view` and `version`. */
	bool written_by_other; /* the slot held a value of another session */
	uint8_t phase;      /* enum op_phase */
	uint8_t own;        /* enum own_block */
	/* Kept across restarts: */
	uint8_t tries;      /* restarts for temporary reasons */
	bool no_cache;      /* the cache was wrong: do not use it again */
	bool tomb_asked;    /* DELETE: it has waited for a tombstone's block */
	struct block_view view; /* GET: the value, in `buf`, `held`, `into` or get_source.to */
	uint64_t version;   /* version found (GET) or written (others) */
	/* GET: time left for the value, or BLOCK_NEVER; 0 if the value found has expired. */
	uint64_t left_ms;
	const char *damage; /* what is wrong, if FARKV_ECORRUPT is the result */

	/* ---- private: what lasts from phase to phase ---- */
	struct index_op *next; /* in a list of its op queue */
	uint64_t deadline_ns;
	uint64_t bad_word;     /* the word whose block last failed its checksum */
	struct block_expiry expires; /* of the operation's block, once it is known */
	/* A word seen before CLOCK was READ, and that CLOCK; word 0: none. Kept across restarts. */
	struct {
		uint64_t word, ms;
		uint64_t at_ns; /* time before the READ was posted */
	} aged;
	uint64_t dirword, dir_index, entry; /* the key's subtable */
	uint16_t slot_at;      /* slot of the window at which the walk or the CAS is */
	struct block_ref block; /* unless OWN_NONE */
	struct op_search search;
	struct op_cached cached; /* WAY_LOCATION */
	struct {
		struct op_swap swap; /* the CAS in doubt */
		bool word_cached;    /* op_search.word_cached of that CAS */
	} lost;

	/* ---- private: of one phase ---- */
	union {
		struct { /* OP_PROBE, OP_CONFIRM */
			uint32_t seg_len; /* bytes of the first block at `into`; or 0 */
			uint8_t n;
			uint8_t slot[OP_PROBE_MAX];
		} probe;
		struct { /* OP_SETTLE */
			int refusal; /* the result if the words are unchanged; 0: walk on */
		} settle;
		struct { /* OP_MOVED */
			bool odd; /* an EMPTY word of another generation was met */
		} moved;
		struct { /* OP_LOOK, OP_LOOK_AGAIN */
			uint64_t word;     /* the word expected in the slot */
			uint32_t seg_len; /* bytes of its block at `into`; or 0 */
			uint8_t nth;       /* number of this look since OP_START */
			bool from_cache;   /* the block was cached, and is in `buf` */
			bool block;        /* its block, or the block's head, is READ, too */
			uint8_t slot_wr;   /* the request that shows the word */
		} look;
		struct op_swap swap; /* OP_SWAP */
	};

	struct xport_chain chain;
	uint64_t *window; /* lane memory: two images, then scratch words */
	uint8_t *buf;     /* lane memory: block images; grows */
	size_t buf_bytes;
	uint8_t *held;    /* memory of the process: see index_op_hold() */
	size_t held_bytes;
};

/**
 * Values from this size on travel from and to their place in memory that the lane knows; smaller
 * ones are copied, which costs less than a request of several segments. That memory is not accessed
 * after the operation is final.
 */
#define INDEX_SEGMENT_MIN 4096u

#define INDEX_PENDING 1

/** Prepare `op` for its first use: zeroes it. Its buffers are reused by later operations. */
void index_op_init(struct index_op *op);
/** Release the lane's memory: window and buffer. The held value remains valid. */
void index_op_fini(struct index *ix, struct index_op *op);

/**
 * Hold the value that a GET has found: it stays unchanged until the next index_op_hold(), whatever
 * this or another operation does, and across index_op_fini(). op->view.value points to it. Over
 * mapped memory this swaps the buffer with the one held before, because both are from malloc(3);
 * the value of another lane is copied. FARKV_ENOMEM.
 */
int index_op_hold(struct index *ix, struct index_op *op);
/**
 * End the hold: unless the memory is small, give it to the spare buffers of `ix` or free it. `ix`
 * may be NULL: there is no connection.
 */
void index_op_release(struct index *ix, struct index_op *op);
/** Free the held memory, after index_op_fini(). */
void index_op_free_held(struct index_op *op);
/**
 * True if the operation's buffer should shrink (index_op_shrink()) once its value is not needed any
 * more: it has more than INDEX_BUF_KEEP bytes, or more than the minimum while the buffers of all
 * operations together have more than INDEX_BUFS_KEEP.
 */
bool index_op_is_oversized(const struct index *ix, const struct index_op *op);
/** True if both the buffer and the held memory have the minimum size or none. */
static inline bool index_op_is_minimal(const struct index_op *op)
{
	return op->buf_bytes <= SPARE_MIN && op->held_bytes <= SPARE_MIN;
}
/** True if the value filled at least a quarter of the buffer: the next value may be as long. */
static inline bool index_op_used_quarter(const struct index_op *op)
{
	return op->view.value_len >= op->buf_bytes / 4;
}
/** index_op_fini(), but the buffers become spare ones (spare.h) if there is room. */
void index_op_shrink(struct index *ix, struct index_op *op);
#define INDEX_BUF_KEEP (64u << 10)
#define INDEX_BUFS_KEEP (192u << 10)
/* Bytes of held memory that the operations of a batch keep for later values, all together. */
#define INDEX_HELD_KEEP (64u << 10)

/**
 * Set up an operation; `op` must not be running. Copies neither key nor value. The caller sets
 * op->expected of a CAS before or after this, and op->into after it, which clears it.
 */
static inline void index_op_start(struct index_op *op, enum index_kind kind,
				  const struct index_key *key,
				  const void *value, uint32_t value_len)
{
	op->key.data = key->data; /* single fields, which are still in registers */
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
	op->ttl_ms = 0;
	op->user = 0;
	op->left_ms = BLOCK_NEVER;
	op->expires.at = 0;
	op->aged.word = 0;
}

/**
 * Continue an operation whose lane broke (FARKV_EDISCONNECTED, or FARKV_EMAYBE with DOUBT_OPEN, or
 * pending): then call index_run() on the index of a new connection to the same region. Release its
 * buffers before (index_op_fini()). The old lane must be unable to do anything more, no block of
 * the old session may have been reused, and key and value must still be in place.
 *
 * An unknown CAS is resolved by reading the slot: it was executed (the operation succeeds), it was
 * not (the operation is done again, with a new block), or the slot does not show it (FARKV_EMAYBE).
 * Costs the round trips of a GET.
 */
void index_op_resume(struct index_op *op);

/**
 * Give up a waiting operation: `result` becomes `err`, and `wait` keeps the reason. Touches neither
 * region nor allocator.
 */
void index_abandon(struct index *ix, struct index_op *op, int err);

/* ---- for the files that carry out operations ----------------------------------- */

/** What to do after a step. */
enum next {
	NEXT_POST,   /* the phase is set and its chain is filled in */
	NEXT_WAIT,   /* wait as op->wait says */
	NEXT_DONE,   /* op->result is final */
	NEXT_AGAIN,  /* start again at OP_START */
	NEXT_WALK,   /* walk the window from op->search.from */
	NEXT_SETTLE, /* READ the window again: op->settle is set */
	NEXT_MOVED,  /* READ the directory's entry again: op->moved is set */
	NEXT_DECIDE, /* decide by op->search.word and .version; the slot is the key's */
	NEXT_ABSENT, /* no slot is the key's; an insert would take op->search.from */
	NEXT_SWAP,   /* OP_SWAP, by a chain or an instruction; op->swap is set */
};

/** End an operation: `err` becomes its result, an unpublished block goes back. */
void index_op_end(struct index *ix, struct index_op *op, int err);
/** index_op_end() and NEXT_DONE. */
enum next op_done(struct index *ix, struct index_op *op, int err);
/** Wait for `why`. The operation puts its unpublished block back. NEXT_WAIT. */
enum next op_wait(struct index *ix, struct index_op *op, enum index_wait why);
/** Start again; counted as a retry. NEXT_AGAIN. */
enum next op_again(struct index *ix, struct index_op *op);
/**
 * op_again() for a reason that damage could make permanent: after a hundred times FARKV_ECORRUPT,
 * described by `what`.
 */
enum next op_again_bounded(struct index *ix, struct index_op *op,
			   const char *what);
/**
 * READ the window again before the operation ends with `refusal`, or as absent (0). NEXT_SETTLE.
 */
static inline enum next next_settle(struct index_op *op, int refusal)
{
	op->settle.refusal = refusal;
	return NEXT_SETTLE;
}
/** A FROZEN word was met, or an EMPTY one of another generation (`odd`). NEXT_MOVED. */
static inline enum next next_moved(struct index_op *op, bool odd)
{
	op->moved.odd = odd;
	return NEXT_MOVED;
}
/**
 * The slot is this key's and held `word` (not FROZEN), whose block has this version (0: unknown).
 * NEXT_DECIDE.
 */
static inline enum next next_decide(struct index_op *op, uint64_t word, uint64_t version)
{
	op->search.word = word;
	op->search.version = version;
	return NEXT_DECIDE;
}

/** Length of the value in the operation's block. */
static inline uint32_t op_value_len(const struct index_op *op)
{
	return kind_deletes(op->kind) ? 0 : op->value_len;
}

/** Bytes of the operation's block: block_room_of() its content. */
static inline uint64_t op_room(const struct index_op *op)
{
	uint64_t user = op->user && !kind_deletes(op->kind) ? BLOCK_USER_BYTES : 0;

	return block_room(op->key.len, op_value_len(op) + user);
}

/** True if the phase has a chain, to be posted or in flight. */
static inline bool op_in_flight(const struct index_op *op)
{
	return op->phase >= OP_WINDOW && op->phase <= OP_SWAP;
}

/**
 * Take a free block of class op->cls, or one whose grace period is over: OWN_BLANK. False if there
 * is none.
 */
bool op_take_ready(struct index *ix, struct index_op *op);
/** Give the operation a block if it writes a value and has none yet. False: there is none. */
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

/** Lane memory for LINE_BYTES / 8 words, after the two images; one of them is heat_write()'s. */
#define HEAT_SCRATCH 7u
static inline uint64_t *op_scratch(struct index_op *op)
{
	return op->window + 2 * WINDOW_SLOTS;
}

/** Offset of the window of a key of this hash, by its directory entry. */
static inline uint64_t window_at(uint64_t entry, uint64_t hash)
{
	return entry_page(entry) * PAGE_BYTES +
	       (uint64_t)hash_home_line(hash) * LINE_BYTES;
}
static inline uint64_t window_off(const struct index_op *op)
{
	return window_at(op->entry, op->key.hash);
}
/** Offset of the operation's slot in the region. */
static inline uint64_t op_slot_off(const struct index_op *op)
{
	if (op->search.way == WAY_LOCATION)
		return op->cached.slot;
	return window_off(op) + (uint64_t)op->slot_at * SLOT_BYTES;
}

/** True if the CAS of OP_SWAP claims an EMPTY slot. */
static inline bool op_inserts(const struct index_op *op)
{
	return slot_is_null(op->swap.expect);
}

/**
 * I4: true if what was READ since op->search.begun_ns was READ within T/2. Later READs may show a
 * reused block.
 */
bool op_span_ok(const struct index *ix, const struct index_op *op);

/** The operation's key, for block_verify_head(). */
struct block_key op_block_key(const struct index *ix, const struct index_op *op);
/** Bytes that a probe READs of the block that `word` names: a GET's all, else header and key. */
uint64_t op_probe_bytes(const struct index_op *op, uint64_t word);
/** Verify a probed block: is it the key's? */
enum block_check op_probe_verify(const struct index *ix, const struct index_op *op,
				 const uint8_t *image, uint64_t word,
				 struct block_view *view_out);
/** Bytes of the block that `word` names that a GET READs straight into op->into; 0 if none. */
uint32_t op_segment_len(const struct index *ix, const struct index_op *op,
		     uint64_t word);
/** Make `seg_len` bytes of that READ a segment at op->into; the rest goes to wr->laddr. */
void op_segment_set(const struct index_op *op, struct xport_wr *wr, uint32_t seg_len);
/** block_verify() of a block whose value was READ as that segment, and the rest to op->buf. */
enum block_check op_segment_verify(const struct index_op *op, uint64_t word,
				uint32_t seg_len, struct block_view *view_out);

/** index_op_reserve() if the buffer is too small. */
int index_op_grow(struct index *ix, struct index_op *op, size_t bytes);

/** Make op->buf at least `bytes` long; contents are lost. */
static inline int index_op_reserve(struct index *ix, struct index_op *op,
				   size_t bytes)
{
	return op->window && bytes <= op->buf_bytes ?
		       0 : index_op_grow(ix, op, bytes);
}

#endif
