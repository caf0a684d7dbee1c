/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "linear_state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Each configuration of a set is compared with each other one, in a large set only when
 * it has become twice as large, in a huge one never.
 */
#define PRUNE_ALWAYS 64u
#define PRUNE_MAX 8192u
/* Sets of more are looked at for names that do not matter any more. */
#define SIMPLE 4u

bool state_suits(const struct search_op *op, uint64_t state)
{
	switch (op->needs) {
	case NEEDS_NOTHING:
		return true;
	case NEEDS_ABSENT:
		return state == HISTORY_ABSENT;
	case NEEDS_PRESENT:
		return state != HISTORY_ABSENT;
	case NEEDS_VALUE:
		return state == op->value;
	case NEEDS_OTHER:
		return state != HISTORY_ABSENT && state != op->value;
	case NEEDS_GONE:
		return state != op->value;
	default:
		return false;
	}
}

/* Place operations that do not write and suit the state; true if there was any. */
static bool place_reads(const struct search_memory *m, uint64_t *c)
{
	bool any = false;

	for (unsigned i = 0; i < m->top; i++) {
		const struct search_op *op = m->place[i];

		if (!op || op->writes || bit(spent(m, c), i) ||
		    !state_suits(op, c[0]))
			continue;
		any |= !bit(paid(m, c), i);
		set_bit(paid(m, c), i);
		set_bit(spent(m, c), i);
	}
	return any;
}

static bool reads_from(const struct search_op *read, const struct search_op *put)
{
	return read && !read->writes && read->needs == NEEDS_VALUE &&
	       read->value == put->leaves;
}

/*
 * A read of a put that may have been overwritten may precede that; at its
 * response the put has happened.
 */
static void pay_readers(const struct search_memory *m, uint64_t *c,
			const struct search_op *put)
{
	for (unsigned i = 0; i < m->top; i++)
		if (reads_from(m->place[i], put))
			set_bit(paid(m, c), i);
}

void state_settle_reader(const struct search_memory *m, uint64_t *c,
			 const struct search_op *read)
{
	for (unsigned i = 0; i < m->top; i++)
		if (m->place[i] && m->place[i]->writes &&
		    bit(paid(m, c), i) && reads_from(read, m->place[i]))
			set_bit(spent(m, c), i);
}

/* Puts that `op` overwrites, and after which it is possible, are not owed any more. */
static void absorb_puts(const struct search_memory *m, uint64_t *c,
			const struct search_op *op)
{
	if (op->needs != NEEDS_NOTHING && op->needs != NEEDS_PRESENT)
		return;
	for (unsigned i = 0; i < m->top; i++) {
		const struct search_op *p = m->place[i];

		if (!p || p == op || !p->writes || p->needs != NEEDS_NOTHING ||
		    bit(spent(m, c), i))
			continue;
		set_bit(paid(m, c), i);
		pay_readers(m, c, p);
	}
}

/* The state after `op`; true if something was waiting for it. */
bool state_apply(const struct search_memory *m, uint64_t *c,
		 const struct search_op *op)
{
	if (!op->writes)
		return false;
	absorb_puts(m, c, op);
	c[0] = op->leaves;
	return place_reads(m, c);
}

/* ---- sets of them ---------------------------------------------------------- */

/* Same state, owes no more and can do no less: `a` does whatever `b` does. */
static bool covers(const struct search_memory *m, uint64_t *a, uint64_t *b)
{
	uint64_t worse = a[0] ^ b[0];

	for (unsigned i = 0; i < m->words; i++)
		worse |= (paid(m, b)[i] & ~paid(m, a)[i]) |
			 (spent(m, a)[i] & ~spent(m, b)[i]);
	for (unsigned i = 0; i < m->u_words; i++)
		worse |= used(m, a)[i] & ~used(m, b)[i];
	return worse == 0;
}

static void prune(struct search_memory *m, struct configs *set)
{
	size_t kept = 0;

	if (set->n < 2 || set->n > PRUNE_MAX ||
	    (set->n > PRUNE_ALWAYS && set->n < m->pruned * 2))
		return;
	for (size_t i = 0; i < set->n; i++) {
		uint64_t *c = configs_at(set, i);
		bool covered = false;

		for (size_t j = 0; !covered && j < kept; j++)
			covered = covers(m, configs_at(set, j), c);
		for (size_t j = i + 1; !covered && j < set->n; j++)
			covered = covers(m, configs_at(set, j), c);
		if (!covered)
			memmove(configs_at(set, kept++), c,
				set->stride * sizeof(*c));
	}
	configs_cut(set, kept);
	m->pruned = kept;
}

/*
 * Values that no operation looks for any more are equivalent, and so are the
 * unknown operations of one kind.
 */
static void forget_names(struct search_memory *m, uint64_t *c, uint64_t now)
{
	const struct asked *a = unknown_asked(m->asked, m->n_asked, c[0]);

	if (c[0] != HISTORY_ABSENT && (!a || a->last < now))
		c[0] = SEARCH_ANY_VALUE;
	for (unsigned i = 0; i < m->begun; i++)
		m->unknown[m->unknown[i].kind].first = 0;
	for (unsigned i = 0; i < m->begun; i++) {
		unsigned *first = &m->unknown[m->unknown[i].kind].first;

		if (m->unknown[i].asked >= now || !bit(used(m, c), i))
			continue;
		while (*first < i && (m->unknown[*first].asked >= now ||
				      m->unknown[*first].kind !=
					      m->unknown[i].kind ||
				      bit(used(m, c), *first)))
			++*first;
		clear_bit(used(m, c), i);
		set_bit(used(m, c), *first);
	}
}

static void simplify(struct search_memory *m, struct configs *set, uint64_t now)
{
	struct configs swap = m->seen;

	if (set->n <= SIMPLE || !m->n_unknown)
		return;
	configs_clear(&swap, set->stride);
	for (size_t i = 0; i < set->n; i++) {
		forget_names(m, configs_at(set, i), now);
		(void)configs_add(&swap, configs_at(set, i));
	}
	m->seen = *set;
	*set = swap;
}

void state_reduce(struct search_memory *m, struct configs *set, uint64_t now)
{
	simplify(m, set, now);
	prune(m, set);
}
