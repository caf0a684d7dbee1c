/* SPDX-License-Identifier: BSD-3-Clause */
/* Returned blocks, and when they may be granted again: at once, T later (I4), or after a
 * barrier (I5). */
#include "config.h"

#include "slab_priv.h"

#include <stdlib.h>
#include <string.h>

/* Free the oldest block of the grace list. */
static void limbo_pop(struct slab *s)
{
	uint32_t seg, i;

	if (slab_locate(s, s->limbo[s->limbo_at].off, &seg, &i))
		slab_set(s, seg, i, BLOCK_FREE, slab_inc(&s->segments[seg], i));
	s->limbo_at = (s->limbo_at + 1) & (s->limbo_cap - 1);
	s->n_limbo--;
	if (s->limbo_aging)
		s->limbo_aging--;
}

void slab_settle(struct slab *s, uint64_t now)
{
	while (s->n_limbo && s->limbo[s->limbo_at].ready <= now)
		limbo_pop(s);
}

static bool limbo_push(struct slab *s, uint64_t off, uint64_t ready)
{
	if (s->n_limbo == s->limbo_cap) {
		size_t cap = s->limbo_cap ? s->limbo_cap * 2 : 256;
		struct limbo_block *p = malloc(cap * sizeof(*p));

		if (!p)
			return false;
		for (size_t i = 0; i < s->n_limbo; i++)
			p[i] = s->limbo[(s->limbo_at + i) & (s->limbo_cap - 1)];
		free(s->limbo);
		s->limbo = p;
		s->limbo_cap = cap;
		s->limbo_at = 0;
	}
	s->limbo[(s->limbo_at + s->n_limbo++) & (s->limbo_cap - 1)] =
		(struct limbo_block){.off = off, .ready = ready};
	return true;
}

static bool worn_push(struct slab *s, uint64_t off)
{
	if (s->n_worn == s->worn_cap) {
		size_t cap = s->worn_cap ? s->worn_cap * 2 : 64;
		void *p = realloc(s->worn, cap * sizeof(*s->worn));

		if (!p)
			return false;
		s->worn = p;
		s->worn_cap = cap;
	}
	s->worn[s->n_worn++] = off;
	return true;
}

static bool take_back(struct slab *s, struct block_ref ref, enum alloc_state state,
		      uint64_t now)
{
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i))
		return false;
	if (state == ALLOC_FREE)
		slab_set(s, seg, i, BLOCK_FREE, ref.inc);
	else if (state == ALLOC_LIMBO &&
		 limbo_push(s, ref.off, now + s->grace_ns))
		slab_set(s, seg, i, BLOCK_LIMBO, ref.inc);
	else if (state == ALLOC_WORN && worn_push(s, ref.off))
		slab_set(s, seg, i, BLOCK_WORN, ref.inc);
	else
		s->forgotten++;
	return true;
}

bool slab_return(struct slab *s, struct block_ref ref, enum alloc_state state,
		 uint64_t now)
{
	if (!take_back(s, ref, state, now))
		return false;
	slab_came_back(&s->class[ref.cls], 1);
	return true;
}

uint64_t slab_forgotten(const struct slab *s)
{
	return s->forgotten;
}

bool slab_drop(struct slab *s, uint64_t word, uint64_t now)
{
	struct block_ref ref = slot_block(word);
	enum alloc_state state = ALLOC_LIMBO;
	struct slab_class *k;
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i))
		return false;
	k = &s->class[ref.cls];
	if (ref.inc == SLOT_INC_MASK) {
		state = ALLOC_WORN;
	} else {
		ref.inc++;
	}
	if (!take_back(s, ref, state, now))
		return false;
	/* The last search may have counted it already. */
	if (k->dead)
		k->dead--;
	else
		slab_came_back(k, 1);
	return true;
}

bool slab_condemn(struct slab *s, struct block_ref ref)
{
	uint32_t seg, i;

	if (!slab_locate_out(s, ref, &seg, &i) ||
	    s->segments[seg].state[i] & BLOCK_MARK)
		return false;
	(void)slab_return(s, ref, ALLOC_WORN, 0);
	return slab_state(&s->segments[seg], i) == BLOCK_WORN;
}

bool slab_barrier_begin(struct slab *s)
{
	s->n_aging = s->n_worn;
	s->limbo_aging = s->n_limbo;
	return s->n_aging > 0 || s->limbo_aging > 0;
}

void slab_barrier_passed(struct slab *s)
{
	for (size_t w = 0; w < s->n_aging; w++) {
		uint32_t seg, i;

		if (slab_locate(s, s->worn[w], &seg, &i))
			slab_set(s, seg, i, BLOCK_FREE, 0);
	}
	s->n_worn -= s->n_aging;
	if (s->n_worn)
		memmove(s->worn, s->worn + s->n_aging,
			s->n_worn * sizeof(*s->worn));
	s->n_aging = 0;
	while (s->limbo_aging)
		limbo_pop(s);
}
