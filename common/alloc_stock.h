/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * alloc_stock.h - what alloc.c keeps, and the few steps of it that operations by loads
 * take in line (index_direct.h, index_put.h). Everybody else goes by alloc.h, whose
 * functions these are.
 */
#ifndef COMMON_ALLOC_STOCK_H
#define COMMON_ALLOC_STOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc.h"
#include "fetch.h"

struct limbo_item {
	struct block_ref ref;
	uint64_t ready; /* when it may be used again, or STOCK_UNDATED */
};

/* Behind all dates: what is not dated yet is behind what is. */
#define STOCK_UNDATED UINT64_MAX

/* A growing ring: the free list takes from its end, limbo from its front. */
struct class_stock {
	struct block_ref *free;
	struct limbo_item *limbo; /* ring of limbo_cap, oldest at limbo_at */
	uint32_t n_free, free_cap;
	uint32_t n_limbo, limbo_cap, limbo_at;
	uint32_t n_undated; /* of limbo, at its end; fewer if some were given back */
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
	struct block_ref *worn;
	uint32_t n_worn, worn_cap;
	struct class_stock cls[CLASS_COUNT];
};

/*
 * Limbo is long, and each of its items is looked at once in T: its ends are fetched
 * ahead of their use.
 */
#define STOCK_FETCH_AHEAD 16u

/** The `i`th oldest. */
static inline struct limbo_item *limbo_item(const struct class_stock *s,
					    uint32_t i)
{
	return &s->limbo[(s->limbo_at + i) & (s->limbo_cap - 1)];
}

/** The oldest, of some. */
static inline struct block_ref limbo_pop(struct class_stock *s)
{
	struct block_ref ref = s->limbo[s->limbo_at].ref;

	fetch_line(limbo_item(s, STOCK_FETCH_AHEAD));
	s->limbo_at = (s->limbo_at + 1) & (s->limbo_cap - 1);
	s->n_limbo--;
	return ref;
}

/** alloc_take(). */
static inline bool stock_take(struct alloc *a, uint8_t cls, uint64_t now,
			      struct block_ref *ref_out)
{
	struct class_stock *s = &a->cls[cls];

	s->used = a->epoch;
	if (s->n_free) {
		*ref_out = s->free[--s->n_free];
		return true;
	}
	if (s->n_limbo && s->limbo[s->limbo_at].ready <= now) {
		*ref_out = limbo_pop(s);
		return true;
	}
	return false;
}

/** alloc_peek(). */
static inline uint64_t stock_peek(const struct alloc *a, uint8_t cls,
				  uint32_t ahead)
{
	const struct class_stock *s = &a->cls[cls];

	if (ahead < s->n_free)
		return s->free[s->n_free - 1 - ahead].off;
	ahead -= s->n_free;
	return ahead < s->n_limbo ? limbo_item(s, ahead)->ref.off : 0;
}

/** Nothing is to be asked for (alloc_low()), and no block is worn. */
static inline bool stock_plenty(const struct alloc *a, uint8_t cls, uint64_t now)
{
	const struct class_stock *s = &a->cls[cls];

	return !a->n_worn &&
	       (s->n_free > s->last_grant / 4 ||
		(s->n_limbo && s->limbo[s->limbo_at].ready <= now));
}

/** So many have come in by alloc_gain() that alloc_surplus_due() is going to say so. */
static inline bool stock_gained(const struct alloc *a)
{
	return a->gained >= a->hoard_bytes / ALLOC_GAIN_SHARE;
}

/** Its next use has the next incarnation; there may be none before a barrier. */
static inline bool stock_wears_out(struct block_ref *ref)
{
	if (ref->inc + 1u >= INC_COUNT)
		return true;
	ref->inc++;
	return false;
}

/** Behind all others in limbo, where there is room. */
static inline void stock_push(struct alloc *a, struct class_stock *s,
			      struct block_ref ref, uint64_t ready)
{
	struct limbo_item *item = limbo_item(s, s->n_limbo);

	fetch_line_to_write(limbo_item(s, s->n_limbo + STOCK_FETCH_AHEAD));
	s->n_limbo++;
	*item = (struct limbo_item){.ref = ref, .ready = ready};
	if (ready == STOCK_UNDATED && s->n_undated++ == 0)
		a->undated[a->n_undated++] = ref.cls;
}

/** alloc_retire_undated(), where nothing is out of the ordinary; else false. */
static inline bool stock_retire(struct alloc *a, struct block_ref ref)
{
	struct class_stock *s = &a->cls[ref.cls];

	if (a->journal || s->n_limbo == s->limbo_cap || stock_wears_out(&ref))
		return false;
	stock_push(a, s, ref, STOCK_UNDATED);
	return true;
}

/** As if the last stock_retire(), of a block of this class, had not been. */
static inline void stock_unretire(struct alloc *a, uint8_t cls)
{
	struct class_stock *s = &a->cls[cls];

	s->n_limbo--;
	if (--s->n_undated == 0)
		a->n_undated--;
}

#endif
