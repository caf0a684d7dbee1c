/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/alloc_inline.h - the allocator's inline part: what alloc.c keeps, and the few steps of it
 * that index/shm.h takes in line. All other callers use alloc.h.
 *
 * A block is kept as the word that names it: that of a slot without fingerprint and marks.
 */
#ifndef COMMON_INDEX_ALLOC_INLINE_H
#define COMMON_INDEX_ALLOC_INLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc.h"
#include "common/region/layout.h"

struct deferred_item {
	uint64_t word;
	uint64_t ready; /* when it may be used again, or ALLOC_UNDATED */
};

/* After all dates: undated items stand after the dated ones. */
#define ALLOC_UNDATED UINT64_MAX

/* The free list is a stack; deferred blocks stand in a ring, oldest first. */
struct alloc_class {
	uint64_t *free;
	struct deferred_item *deferred; /* ring of deferred_cap, a power of two, from head to tail */
	uint32_t n_free, free_cap;
	uint32_t head, tail, deferred_cap; /* head and tail count on and on */
	uint32_t n_undated; /* at the ring's end; fewer if some were given back */
	uint32_t peak;      /* the most that rested at once, not long ago: */
	uint64_t peak_age;  /* so much time in use ago, or since it was halved */
	uint64_t seen_ns;   /* when that was looked at last */
	uint32_t last_grant;
	uint32_t used; /* alloc.epoch when one was last taken or granted */
	bool asking;
};

struct alloc {
	uint64_t grace_ns;
	struct journal *journal; /* NULL but while a sweep is on */
	uint64_t hoard_bytes;
	uint64_t gained; /* by alloc_gain() since a look was due */
	uint8_t undated[CLASS_COUNT]; /* classes that may have some */
	uint32_t n_undated;
	uint32_t epoch; /* grants and looks at surplus so far */
	uint64_t *exhausted;
	uint32_t n_exhausted, exhausted_cap;
	struct alloc_class cls[CLASS_COUNT];
};

static inline uint32_t alloc_class_deferred(const struct alloc_class *s)
{
	return s->tail - s->head;
}

/** The item that `at` counts, from head to tail - 1. */
static inline struct deferred_item *deferred_item(const struct alloc_class *s, uint32_t at)
{
	return &s->deferred[at & (s->deferred_cap - 1)];
}

/** The oldest, of some. */
static inline uint64_t deferred_pop(struct alloc_class *s)
{
	return deferred_item(s, s->head++)->word;
}

/** Is the oldest ready? */
static inline bool deferred_is_ready(const struct alloc_class *s, uint64_t now)
{
	return s->head != s->tail && deferred_item(s, s->head)->ready <= now;
}

/** alloc_take(), but the block is a word; 0: none is at hand. */
static inline uint64_t alloc_class_take(struct alloc *a, struct alloc_class *s, uint64_t now)
{
	s->used = a->epoch;
	if (__builtin_expect(s->n_free != 0, 0))
		return s->free[--s->n_free];
	return deferred_is_ready(s, now) ? deferred_pop(s) : 0;
}

/** alloc_peek(), but the block is a word. */
static inline uint64_t alloc_class_peek(const struct alloc_class *s, uint32_t ahead)
{
	if (__builtin_expect(ahead < s->n_free, 0))
		return s->free[s->n_free - 1 - ahead];
	ahead -= s->n_free;
	return ahead < alloc_class_deferred(s) ? deferred_item(s, s->head + ahead)->word : 0;
}

/** Nothing is to be asked for (alloc_low()), and no block's incarnation is exhausted. */
static inline bool alloc_class_has_spare(const struct alloc *a, const struct alloc_class *s,
				uint64_t now)
{
	return !a->n_exhausted && (s->n_free > s->last_grant / 4 || deferred_is_ready(s, now));
}

/** So many have come in by alloc_gain() that alloc_surplus_due() is going to say so. */
static inline bool alloc_gained_many(const struct alloc *a)
{
	return a->gained >= a->hoard_bytes / ALLOC_GAIN_SHARE;
}

/** Has the block that a word names had its last incarnation? There is none before a barrier. */
static inline bool alloc_is_last_inc(uint64_t word)
{
	return slot_inc(word) == INC_COUNT - 1;
}

/** The block's next incarnation. */
static inline uint64_t alloc_next_inc(uint64_t word)
{
	return word + (UINT64_C(1) << SLOT_INC_SHIFT);
}

/** Add to the ring's end, where there is room. */
static inline void alloc_class_push(struct alloc *a, struct alloc_class *s, uint64_t word,
			      uint64_t ready)
{
	struct deferred_item *item = deferred_item(s, s->tail);

	s->tail++;
	*item = (struct deferred_item){.word = alloc_next_inc(word), .ready = ready};
	if (ready == ALLOC_UNDATED && s->n_undated++ == 0)
		a->undated[a->n_undated++] = (uint8_t)(s - a->cls);
}

/** May alloc_class_push() be called, without more ado? */
static inline bool alloc_class_has_room(const struct alloc *a, const struct alloc_class *s,
				  uint64_t word)
{
	return !a->journal && alloc_class_deferred(s) != s->deferred_cap && !alloc_is_last_inc(word);
}

#endif
