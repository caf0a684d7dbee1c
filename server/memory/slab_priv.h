/* SPDX-License-Identifier: BSD-3-Clause */
/** slab_priv.h - what slab_marks.c and evacuate.c use of slab.c. */
#ifndef SERVER_MEMORY_SLAB_PRIV_H
#define SERVER_MEMORY_SLAB_PRIV_H

#include "slab.h"

/*
 * The state of a block, in 16 bits:
 *
 *   15   14     13..12  11..0
 *   -    mark   state   inc
 *
 * inc    FREE: of its next content; OUT: that of its grant or of an earlier return;
 *        only clients know how far it has grown
 * state  FREE -> OUT by a grant; OUT -> FREE, DEFERRED or EXHAUSTED by a return;
 *        DEFERRED -> FREE when T has passed; EXHAUSTED -> FREE, inc 0, after a barrier
 * mark   OUT blocks only: a slot or a session is known to refer to it
 */
#define BLOCK_STATE_SHIFT SLOT_INC_BITS
#define BLOCK_STATE_MASK 3u
#define BLOCK_MARK (1u << (BLOCK_STATE_SHIFT + 2))

enum block_state { BLOCK_FREE, BLOCK_OUT, BLOCK_DEFERRED, BLOCK_EXHAUSTED };
#define BLOCK_STATES 4

/*
 * Segments with free blocks are listed by how full they are: grants come from the fullest
 * quarter, so that the others can become empty.
 */
enum segment_fill {
	FILL_QUARTERS = 4, /* 0..3: that many quarters of its blocks are free */
	FILL_EMPTY = 4,	   /* all blocks are free */
	FILL_LISTS,
	FILL_FULL = FILL_LISTS, /* no block is free: in no list */
};

struct segment {
	uint64_t page;
	uint32_t pages;
	uint32_t blocks;
	uint32_t n_free, n_marked;
	uint32_t hint;	     /* no free block lies below this one */
	uint32_t next, prev; /* in its list; `next` also among unused records */
	uint8_t cls;
	uint8_t fill;	 /* enum segment_fill: its list */
	bool evacuating; /* in no such list; `next` is the next of these */
	bool stuck;	 /* an evacuation has not emptied it, and no block has come back since */
	uint16_t *state; /* per block; NULL: the record is unused */
};

struct deferred_block {
	uint64_t off;
	uint64_t ready;
};

struct slab_class {
	uint32_t list[FILL_LISTS]; /* segments, 0 none */
	uint64_t blocks[BLOCK_STATES];
	uint32_t share; /* one block of this many is kept in reserve */
	uint64_t dead; /* tombstones over its blocks, as last counted */
	int64_t back; /* blocks that came back minus blocks granted for them */
	bool full;    /* no pages were left at the last request */
	bool fresh;   /* blocks came back since the last grant */
	uint64_t shut; /* free blocks of segments that are evacuated */
};

struct slab {
	struct heap *heap;
	uint64_t first, grace_ns;
	uint32_t *segment_at;	  /* per page: index into segments, 0 none */
	struct segment *segments; /* index from 1 */
	uint32_t n_segments, segments_cap;
	uint32_t unused; /* records of retired segments, 0 none */
	uint32_t evacuating; /* the first of these segments, 0 none */
	bool forced;         /* ... whose blocks need not fit elsewhere */
	uint64_t stuck, stuck_bytes; /* segments that are stuck; their free blocks */
	uint64_t place;      /* page of the next place to look at */
	bool no_reserve;
	struct slab_class class[CLASS_COUNT];
	uint64_t pages, bytes_slack; /* of all segments */
	uint64_t small_pages;        /* of segments of the smallest blocks */
	uint64_t empty_pages;        /* of segments with all blocks free */
	struct deferred_block *deferred;   /* grace list: a ring */
	size_t deferred_at, n_deferred, deferred_cap;
	size_t deferred_aging; /* the oldest of them, which the running barrier frees */
	uint64_t forgotten; /* returned blocks for which there was no memory in a list */
	uint64_t *exhausted; /* offsets; the first n_aging wait for the running barrier */
	size_t n_exhausted, n_aging, exhausted_cap;
	struct resets resets;
};

static inline void slab_came_back(struct slab_class *k, uint64_t n)
{
	k->back += (int64_t)n;
	k->fresh = true;
}

static inline enum block_state slab_state(const struct segment *g, uint32_t i)
{
	return (enum block_state)(g->state[i] >> BLOCK_STATE_SHIFT &
				  BLOCK_STATE_MASK);
}

static inline uint16_t slab_inc(const struct segment *g, uint32_t i)
{
	return g->state[i] & SLOT_INC_MASK;
}

static inline struct block_ref slab_ref(const struct segment *g, uint32_t i)
{
	return (struct block_ref){
		.off = g->page * PAGE_BYTES + i * class_bytes(g->cls),
		.cls = g->cls,
		.inc = slab_inc(g, i),
	};
}

/** Bytes of a segment that are too few for another block. */
static inline uint64_t slab_slack(const struct segment *g)
{
	return g->pages * (uint64_t)PAGE_BYTES -
	       g->blocks * class_bytes(g->cls);
}

/* No segment of several blocks of less than 64 KiB is longer. */
#define SLAB_SEGMENT_PAGES_MAX 8u

/* Blocks that some memory is kept for; see slab.c. */
#define SLAB_SMALL_BYTES 128u

static inline bool slab_is_small(uint8_t cls)
{
	return class_bytes(cls) <= SLAB_SMALL_BYTES;
}

/** The segment and index of the block that starts exactly at `off`, or false. */
bool slab_locate(const struct slab *s, uint64_t off, uint32_t *seg_out,
		 uint32_t *i_out);

/** As slab_locate(), for a block that is out, granted with `ref` or earlier. */
bool slab_locate_out(const struct slab *s, struct block_ref ref,
		     uint32_t *seg_out, uint32_t *i_out);

/** The segment may be chosen for evacuation again. */
void slab_unstick(struct slab *s, uint32_t seg);

/** Set a block's state and incarnation, and clear its mark. */
void slab_set(struct slab *s, uint32_t seg, uint32_t i, enum block_state state,
	      uint16_t inc);

/** Which list a segment belongs to. */
enum segment_fill slab_fill(const struct segment *g);

/** Move a segment whose blocks have changed to that list. */
void slab_relist(struct slab *s, uint32_t seg);

/** Free blocks to keep in reserve in a class that has lost `gone` blocks. */
uint64_t slab_reserve_missing(const struct slab *s, const struct slab_class *k, uint64_t gone);

/** Retire the pages of an empty segment. */
void slab_segment_retire(struct slab *s, uint32_t seg);

#endif
