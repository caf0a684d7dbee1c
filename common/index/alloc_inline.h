/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/alloc_inline.h - the allocator's inline part: its structures, and the steps that
 * index/shm.h takes in line. All other callers use alloc.h.
 *
 * A block is kept as the word that names it: a slot word without fingerprint and marks.
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

/* After all dates; undated items are at the ring's end. */
#define ALLOC_UNDATED UINT64_MAX

/* Free blocks are a stack, deferred blocks a ring, oldest first. */
struct alloc_class {
	uint64_t *free;
	struct deferred_item *deferred; /* ring of deferred_cap (a power of two) items */
	uint32_t n_free, free_cap;
	uint32_t head, tail, deferred_cap; /* head and tail are counters, not indices */
	uint32_t n_undated; /* at the ring's end; may be too high after returns */
	uint32_t peak;      /* the most that were deferred at once lately: peak_update() */
	uint64_t peak_age;  /* time in use since it was reached or halved */
	uint64_t seen_ns;   /* time of the last peak_update() */
	uint32_t last_grant;
	uint32_t used; /* alloc.epoch when one was last taken or granted */
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

/** The item of counter `at`, head to tail - 1. */
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

/** True if alloc_surplus_due() is going to be true. */
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
