/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "linear_state.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
	const struct asked *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

struct asked *unknown_asked(struct asked *v, size_t n, uint64_t value)
{
	struct asked want = {.value = value};

	return value ? bsearch(&want, v, n, sizeof(*v), by_value) : NULL;
}

/*
 * True if it makes a difference which value this operation finds. One that may not have happened
 * looks for a value only if another looks for its own, or if it removes the value.
 */
static bool asks(const struct search_op *op)
{
	return (op->responded != HISTORY_OPEN || op->leaves == HISTORY_ABSENT) &&
	       (op->needs == NEEDS_VALUE || op->needs == NEEDS_OTHER || op->needs == NEEDS_GONE);
}

/* When each value was looked for last, sorted. Returns their number. */
static size_t find_asked(const struct search *s, struct asked *v)
{
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (asks(&s->op[i]))
			v[n++] = (struct asked){s->op[i].value,
						s->op[i].responded};
	qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 1; i < n; i++)
		if (v[i].value != v[kept].value)
			v[++kept] = v[i];
		else if (v[i].last > v[kept].last)
			v[kept].last = v[i].last;
	return n ? kept + 1 : 0;
}

/* True if somebody's last look at what `cas` expects became later. */
static bool pass_on(const struct search_op *cas, struct asked *v, size_t *n)
{
	struct asked *mine = unknown_asked(v, *n, cas->leaves), *its;

	if (cas->needs != NEEDS_VALUE || !mine)
		return false;
	its = unknown_asked(v, *n, cas->value);
	if (its && its->last >= mine->last)
		return false;
	if (its) {
		its->last = mine->last;
	} else {
		v[(*n)++] = (struct asked){cas->value, mine->last};
		qsort(v, *n, sizeof(*v), by_value);
	}
	return true;
}

static void sort_unknown(struct search_memory *m, const struct search *s)
{
	struct asked *v = search_grown(m->asked, s->n + m->n_unknown, sizeof(*v));
	size_t n = find_asked(s, v);
	struct asked *found;
	bool any;

	do {
		any = false;
		for (unsigned i = 0; i < m->n_unknown; i++)
			any |= pass_on(m->unknown[i].op, v, &n);
	} while (any);
	for (unsigned i = 0; i < m->n_unknown; i++) {
		struct unknown *u = &m->unknown[i];

		found = unknown_asked(v, n, u->op->leaves);
		u->asked = found ? found->last : 0;
		for (u->kind = 0; u->kind < i; u->kind++) {
			const struct search_op *o = m->unknown[u->kind].op;

			if (o->needs == u->op->needs &&
			    o->value == u->op->value &&
			    !o->leaves == !u->op->leaves)
				break;
		}
	}
	m->asked = v;
	m->n_asked = n;
}

void unknown_find(struct search_memory *m, const struct search *s)
{
	m->n_unknown = 0;
	m->begun = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->op[i].responded != HISTORY_OPEN || !s->op[i].writes)
			continue;
		if (m->n_unknown == m->room_unknown) {
			m->room_unknown = m->room_unknown * 2 + 16;
			m->unknown = search_grown(m->unknown, m->room_unknown,
					   sizeof(*m->unknown));
		}
		m->unknown[m->n_unknown++].op = &s->op[i];
	}
	if (m->n_unknown)
		sort_unknown(m, s);
}
