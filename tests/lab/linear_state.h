/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of the search: linear_search.c goes through time,
 * linear_state.c has the configurations, linear_unknown.c prepares operations without
 * response.
 */
#ifndef TESTS_LAB_LINEAR_STATE_H
#define TESTS_LAB_LINEAR_STATE_H

#include "configs.h"
#include "linear_search.h"

/*
 * An operation without response. After the last response of those that look for its
 * value all of one kind are equivalent.
 */
struct unknown {
	const struct search_op *op;
	uint64_t asked;  /* when its value was looked for last; 0: never */
	unsigned kind;   /* the first that needs the same, and leaves as much */
	unsigned first;  /* kind: before it none is unused, see forget_names() */
};

/* A value, and the last response of those that look for it. */
struct asked {
	uint64_t value, last;
};

struct search_memory {
	struct search *s;
	struct configs now, next, seen;
	struct asked *asked; /* if there are unknown ones: by value */
	size_t n_asked;
	unsigned words;   /* for places, each of the two */
	unsigned u_words; /* for those of unknown outcome */
	const struct search_op **place; /* open, or NULL */
	unsigned places, busy, top;     /* room in `place`; taken; one past the last */
	size_t pruned;                  /* configurations left by the last prune() */
	struct unknown *unknown;
	unsigned n_unknown, begun, room_unknown;
	uint64_t *scratch, *popped;
	unsigned room_scratch;
};

/*
 * Words of a configuration: the state; a bit for each place of an operation with a
 * response, set if it is not owed any more; one if it cannot happen any more; and that
 * bit for each operation of unknown outcome. While the operations are looked for that
 * come before another, two words more: how the next one is bound, and the state before
 * the last.
 */
static inline uint64_t *paid(const struct search_memory *m, uint64_t *c)
{
	(void)m;
	return c + 1;
}

static inline uint64_t *spent(const struct search_memory *m, uint64_t *c)
{
	return c + 1 + m->words;
}

static inline uint64_t *used(const struct search_memory *m, uint64_t *c)
{
	return c + 1 + 2 * m->words;
}

static inline unsigned stride(const struct search_memory *m)
{
	return 1 + 2 * m->words + m->u_words;
}

static inline bool bit(const uint64_t *w, unsigned i)
{
	return w[i / 64] >> i % 64 & 1;
}

static inline void set_bit(uint64_t *w, unsigned i)
{
	w[i / 64] |= UINT64_C(1) << i % 64;
}

static inline void clear_bit(uint64_t *w, unsigned i)
{
	w[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/** realloc() that aborts, with a line on stderr. */
void *search_grown(void *p, size_t n, size_t size);

/* ---- linear_state.c -------------------------------------------------------- */

/** Is the operation possible in that state? */
bool state_suits(const struct search_op *op, uint64_t state);

/** The state after `op` in configuration `c`; true if something was waiting for it. */
bool state_apply(const struct search_memory *m, uint64_t *c,
		 const struct search_op *op);

/**
 * `read`, which may have read a put that was overwritten at once, responds: that put
 * has happened.
 */
void state_settle_reader(const struct search_memory *m, uint64_t *c,
			 const struct search_op *read);

/** Forget names that do not matter after `now`, and covered configurations. */
void state_reduce(struct search_memory *m, struct configs *set, uint64_t now);

/* ---- linear_unknown.c ------------------------------------------------------ */

/** Find those without response in m->s. */
void unknown_find(struct search_memory *m, const struct search *s);

/** The last look at `value`, or NULL. */
struct asked *unknown_asked(struct asked *v, size_t n, uint64_t value);

#endif
