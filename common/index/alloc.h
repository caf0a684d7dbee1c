/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * alloc.h - a session's own blocks: free lists, deferred blocks, and how many to ask for.
 *
 * The server grants blocks, and the session writes values into them. A session owns each block that
 * its CAS unlinks. An unlinked block is deferred: it waits for the grace period T (I4), then is
 * free again under the next incarnation. So steady overwriting needs no server. No system call;
 * memory grows with the number of blocks held.
 *
 * No locks: one thread at a time. In a session this is the handle's thread inside the critical
 * section, or, while that thread is outside, the holder of the inventory's lock
 * (client/inventory.h).
 */
#ifndef COMMON_INDEX_ALLOC_H
#define COMMON_INDEX_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "common/region/layout.h"

struct alloc;

/** `grace_ns` is T. NULL if out of memory. */
struct alloc *alloc_new(uint64_t grace_ns);
void alloc_free(struct alloc *a);

/**
 * Bound the unused blocks by the region's size: free blocks above the lesser of ALLOC_HOARD_BYTES
 * and 1/ALLOC_HOARD_SHARE of the region are surplus, and only a class's first request may ask for
 * more than half of that. Without this call the bound is ALLOC_HOARD_BYTES.
 */
void alloc_set_region(struct alloc *a, uint64_t region_bytes);

/**
 * Add every block held to `j`, and each block that is retired later, until the journal is off. `j`
 * is the caller's and must outlive the allocator.
 */
void alloc_record(struct alloc *a, struct journal *j);

/**
 * Take a block of class `cls`: a free one, or the oldest deferred one if T has passed at `now`.
 * False if there is none.
 */
bool alloc_take(struct alloc *a, uint8_t cls, uint64_t now,
		struct block_ref *ref_out);

/**
 * Offset of the block that alloc_take() will return after `ahead` others, if nothing else happens;
 * 0 if unknown. For prefetching.
 */
uint64_t alloc_peek(const struct alloc *a, uint8_t cls, uint32_t ahead);

/** Put back a block whose content was never published: it is free at once. FARKV_ENOMEM. */
int alloc_put(struct alloc *a, struct block_ref ref);

/**
 * alloc_put() of a block that was written. Its next content gets the next incarnation, so that no
 * slot word can name the unpublished content.
 */
int alloc_put_written(struct alloc *a, struct block_ref ref);

/**
 * Own and defer a block that this session's CAS, completed at `now`, has unlinked. Its next
 * incarnation is ref.inc + 1. FARKV_ENOMEM leaks the block; the sweep finds it.
 */
int alloc_retire(struct alloc *a, struct block_ref ref, uint64_t now);

/**
 * alloc_retire() without a clock reading: the block's T begins at the next alloc_date() or
 * alloc_retire().
 */
int alloc_retire_undated(struct alloc *a, struct block_ref ref);

/** Begin T of all undated blocks at `now`. */
void alloc_date(struct alloc *a, uint64_t now);

/** Number of deferred blocks of `cls`, including undated and ready ones. */
uint32_t alloc_deferred_count(const struct alloc *a, uint8_t cls);

/**
 * Time at which the oldest deferred block of `cls` becomes free; 0 if there is none, UINT64_MAX if
 * it is undated.
 */
uint64_t alloc_next_ready(const struct alloc *a, uint8_t cls);

/** Number of exhausted blocks, which must be given back. */
uint32_t alloc_exhausted(const struct alloc *a);

/** Number of free blocks of a class, without deferred ones. */
uint32_t alloc_count(const struct alloc *a, uint8_t cls);

/** True if alloc_request() would ask for blocks of `cls`. */
bool alloc_low(const struct alloc *a, uint8_t cls, uint64_t now,
	       uint32_t needed);

/**
 * How many blocks of `cls` to ask the server for. 0 if a request is outstanding, if a deferred
 * block is ready at `now`, or if after subtracting `needed` more than three eighths of the last
 * grant are free. Starts at 2, so that a value can be overwritten without the server (I7), and
 * doubles with each request, up to ALLOC_GRANT_MAX blocks and ALLOC_GRANT_BYTES bytes (but at least
 * 1 block). A result other than 0 marks the request as outstanding.
 */
uint32_t alloc_request(struct alloc *a, uint8_t cls, uint64_t now,
		    uint32_t needed);

/**
 * The server answered the request for `cls` with `n` blocks; 0: it is out of memory. FARKV_ENOMEM.
 */
int alloc_granted(struct alloc *a, uint8_t cls, const struct block_ref *refs,
		size_t n);

/** True while a request for `cls` is outstanding. */
bool alloc_asking(const struct alloc *a, uint8_t cls);

/**
 * Take out up to `cap` blocks that should go back. Returns their number; all share *state_out. In
 * this order:
 *
 *   - exhausted blocks;
 *   - free blocks of a class above ALLOC_SURPLUS times its last grant and above the most that
 *     were deferred at once (halved after 32 T with fewer; the time between two calls counts as
 *     T at most);
 *   - free blocks above the bound of alloc_set_region() over all classes, first of the class that
 *     has not been used for longest.
 *
 * Deferred blocks that are ready count as free.
 */
size_t alloc_surplus(struct alloc *a, uint64_t now, struct block_ref *refs,
		     size_t cap, enum return_kind *state_out);

/**
 * Note that a block of `cls` was retired in exchange for one of another class, as when a DELETE
 * exchanges a large value's block for a small one. `cls` may soon have too many.
 */
void alloc_gain(struct alloc *a, uint8_t cls);

/**
 * True if alloc_surplus() is due: alloc_gain() has noted ALLOC_GAIN_BLOCKS blocks, or
 * 1/ALLOC_GAIN_SHARE of the bound of alloc_set_region() in bytes. True restarts the count. Blocks
 * taken in the meantime are not subtracted.
 */
bool alloc_surplus_due(struct alloc *a);

/** Take out up to `cap` deferred blocks of `cls`, ready or not; all are RETURN_DEFERRED. */
size_t alloc_give_deferred(struct alloc *a, uint8_t cls, struct block_ref *refs,
			size_t cap);

/**
 * Like alloc_surplus(), but for all blocks held: call until it returns 0. For closing, and when
 * other sessions lack memory. Later requests start small again.
 */
size_t alloc_drain(struct alloc *a, uint64_t now, struct block_ref *refs,
		   size_t cap, enum return_kind *state_out);

#define ALLOC_GRANT_MAX 1024u
#define ALLOC_GRANT_BYTES (4u << 20)
#define ALLOC_SURPLUS 4u
#define ALLOC_HOARD_BYTES (UINT64_C(64) << 20)
#define ALLOC_HOARD_SHARE 16u
#define ALLOC_GAIN_SHARE 8u
#define ALLOC_GAIN_BLOCKS 128u

/*
 * ---- inline, for index/shm.h and publish.h ----------------------------------------------
 *
 * A block is kept as the word that names it: a slot word without fingerprint and marks.
 */

struct deferred_item {
	uint64_t word;
	uint64_t ready; /* when it may be used again, or ALLOC_UNDATED */
};

/* Later than any time; undated items are at the ring's end. */
#define ALLOC_UNDATED UINT64_MAX

/* Free blocks are a stack, deferred blocks a ring, oldest first. */
struct alloc_class {
	uint64_t *free;
	struct deferred_item *deferred; /* ring of deferred_cap (a power of two) items */
	uint32_t n_free, free_cap;
	uint32_t head, tail, deferred_cap; /* head and tail are counters, not indices */
	uint32_t n_undated; /* at the ring's end; may be too high after returns */
	uint32_t peak;      /* most blocks deferred at once recently: peak_update() */
	uint64_t peak_age;  /* time in use since it was reached or halved */
	uint64_t seen_ns;   /* time of the last peak_update() */
	uint32_t last_grant;
	uint32_t used; /* alloc.epoch when a block was last taken or granted */
	bool asking;
};

struct alloc {
	uint64_t grace_ns;
	struct journal *journal; /* NULL except during a sweep */
	uint64_t hoard_bytes;
	uint64_t gained; /* bytes noted by alloc_gain() */
	uint8_t undated[CLASS_COUNT]; /* classes that may have undated items */
	uint32_t n_undated;
	uint32_t epoch; /* counts grants and calls of alloc_surplus() */
	uint64_t *exhausted;
	uint32_t n_exhausted, exhausted_cap;
	struct alloc_class cls[CLASS_COUNT];
};

static inline uint32_t alloc_class_deferred(const struct alloc_class *s)
{
	return s->tail - s->head;
}

/** The item with counter `at`, which is in [head, tail). */
static inline struct deferred_item *deferred_item(const struct alloc_class *s, uint32_t at)
{
	return &s->deferred[at & (s->deferred_cap - 1)];
}

/** Take out the oldest item; there must be one. */
static inline uint64_t deferred_pop(struct alloc_class *s)
{
	return deferred_item(s, s->head++)->word;
}

/** True if there is an item and the oldest is ready. */
static inline bool deferred_is_ready(const struct alloc_class *s, uint64_t now)
{
	return s->head != s->tail && deferred_item(s, s->head)->ready <= now;
}

/** alloc_take(), but returns the block as a word; 0: there is none. */
static inline uint64_t alloc_class_take(struct alloc *a, struct alloc_class *s, uint64_t now)
{
	s->used = a->epoch;
	if (__builtin_expect(s->n_free != 0, 0))
		return s->free[--s->n_free];
	return deferred_is_ready(s, now) ? deferred_pop(s) : 0;
}

/** alloc_peek(), but returns the block as a word. */
static inline uint64_t alloc_class_peek(const struct alloc_class *s, uint32_t ahead)
{
	if (__builtin_expect(ahead < s->n_free, 0))
		return s->free[s->n_free - 1 - ahead];
	ahead -= s->n_free;
	return ahead < alloc_class_deferred(s) ? deferred_item(s, s->head + ahead)->word : 0;
}

/** True if there is no need to ask for blocks (alloc_low()), and no block is exhausted. */
static inline bool alloc_class_has_spare(const struct alloc *a, const struct alloc_class *s,
				uint64_t now)
{
	return !a->n_exhausted && (s->n_free > s->last_grant * 3 / 8 || deferred_is_ready(s, now));
}

/** True if the next alloc_surplus_due() returns true. */
static inline bool alloc_gained_many(const struct alloc *a)
{
	return a->gained >= a->hoard_bytes / ALLOC_GAIN_SHARE;
}

/** True if this is the block's last incarnation before a barrier. */
static inline bool alloc_is_last_inc(uint64_t word)
{
	return slot_inc(word) == INC_COUNT - 1;
}

/** The word of the block's next incarnation. */
static inline uint64_t alloc_next_inc(uint64_t word)
{
	return word + (UINT64_C(1) << SLOT_INC_SHIFT);
}

/** Add to the ring's end; there must be room (alloc_class_has_room()). */
static inline void alloc_class_push(struct alloc *a, struct alloc_class *s, uint64_t word,
			      uint64_t ready)
{
	struct deferred_item *item = deferred_item(s, s->tail);

	s->tail++;
	*item = (struct deferred_item){.word = alloc_next_inc(word), .ready = ready};
	if (ready == ALLOC_UNDATED && s->n_undated++ == 0)
		a->undated[a->n_undated++] = (uint8_t)(s - a->cls);
}

/** True if alloc_class_push() may be called: there is room, no journal, and another incarnation. */
static inline bool alloc_class_has_room(const struct alloc *a, const struct alloc_class *s,
				  uint64_t word)
{
	return !a->journal && alloc_class_deferred(s) != s->deferred_cap &&
	       !alloc_is_last_inc(word);
}

#endif
