/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "tests/lab/linear_search.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lab/configs.h"

/*
 * Each configuration of a set is compared with each other one, in a large set only when
 * it has become twice as large, in a huge one never.
 */
#define PRUNE_ALWAYS 64u
#define PRUNE_MAX 8192u
/* Sets of more are looked at for names that do not matter any more. */
#define SIMPLE 4u

/*
 * Words of a configuration: the state; a bit for each place of an operation with a
 * response, set if it is not owed any more; one if it cannot happen any more; and that
 * bit for each operation of unknown outcome. While the operations are looked for that
 * come before another, two words more: how the next one is bound, and the state before
 * the last.
 */
enum bound {
	BOUND_FREE,
	BOUND_NEEDY,     /* the next must be impossible in the state before */
	BOUND_OVERWRITE  /* ... or write */
};

/*
 * An operation without response. Behind the last response of those that look for its
 * value all of one kind can do the same.
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
	const struct search_op **place; /* under way, or NULL */
	unsigned places, busy, top;     /* room in `place`; taken; behind the last */
	size_t pruned;                  /* what the last prune() left */
	struct unknown *unknown;
	unsigned n_unknown, begun, room_unknown;
	uint64_t *scratch, *popped;
	unsigned room_scratch;
};

static void *grown(void *p, size_t n, size_t size)
{
	p = realloc(p, n * size);
	if (!p) {
		fprintf(stderr, "no memory to search %zu operations\n", n);
		abort();
	}
	return p;
}

struct search_memory *search_new(void)
{
	struct search_memory *m = grown(NULL, 1, sizeof(*m));

	*m = (struct search_memory){0};
	return m;
}

void search_free(struct search_memory *m)
{
	configs_fini(&m->now);
	configs_fini(&m->next);
	configs_fini(&m->seen);
	free(m->place);
	free(m->unknown);
	free(m->asked);
	free(m->scratch);
	free(m->popped);
	free(m);
}

/* ---- what an operation says ------------------------------------------------ */

static enum search_needs needs_of(const struct history_op *op)
{
	bool ok = op->result == HISTORY_OK || op->result == HISTORY_UNKNOWN;

	switch (op->kind) {
	case HISTORY_GET:
		if (op->result == HISTORY_OK && op->value != HISTORY_ABSENT)
			return NEEDS_VALUE;
		break;
	case HISTORY_PUT:
		return ok ? NEEDS_NOTHING : NEEDS_WONDER;
	case HISTORY_ADD:
		if (op->result == HISTORY_EXISTS)
			return NEEDS_PRESENT;
		return ok ? NEEDS_ABSENT : NEEDS_WONDER;
	case HISTORY_CAS:
		if (op->result == HISTORY_CHANGED)
			return NEEDS_OTHER;
		if (ok && op->expected != HISTORY_ABSENT)
			return NEEDS_VALUE;
		break;
	default: /* replace, delete */
		if (ok)
			return NEEDS_PRESENT;
	}
	return op->result == HISTORY_NOTFOUND ? NEEDS_ABSENT : NEEDS_WONDER;
}

bool search_reduce(const struct history_op *op, uint32_t from,
		   struct search_op *out)
{
	bool unknown = op->result == HISTORY_UNKNOWN;
	bool get = op->kind == HISTORY_GET;

	if (op->result == HISTORY_FAILED || (unknown && get))
		return false;
	*out = (struct search_op){
		.invoked = op->invoked,
		/* With a result it has to happen, if only at the very end. */
		.responded = unknown ? HISTORY_OPEN
			     : op->responded < HISTORY_OPEN
				     ? op->responded : HISTORY_OPEN - 1,
		.value = get ? op->value : op->expected,
		.leaves = op->kind == HISTORY_DELETE ? HISTORY_ABSENT
						     : op->value,
		.from = from,
		.needs = (uint8_t)needs_of(op),
		.writes = !get && (unknown || op->result == HISTORY_OK),
	};
	return true;
}

static bool suits(const struct search_op *op, uint64_t state)
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
	default:
		return false;
	}
}

/* ---- a configuration ------------------------------------------------------- */

static uint64_t *paid(const struct search_memory *m, uint64_t *c)
{
	(void)m;
	return c + 1;
}

static uint64_t *spent(const struct search_memory *m, uint64_t *c)
{
	return c + 1 + m->words;
}

static uint64_t *used(const struct search_memory *m, uint64_t *c)
{
	return c + 1 + 2 * m->words;
}

static unsigned stride(const struct search_memory *m)
{
	return 1 + 2 * m->words + m->u_words;
}

static bool bit(const uint64_t *w, unsigned i)
{
	return w[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *w, unsigned i)
{
	w[i / 64] |= UINT64_C(1) << i % 64;
}

static void clear_bit(uint64_t *w, unsigned i)
{
	w[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Place what does not write and suits the state; true if there was any. */
static bool place_reads(const struct search_memory *m, uint64_t *c)
{
	bool any = false;

	for (unsigned i = 0; i < m->top; i++) {
		const struct search_op *op = m->place[i];

		if (!op || op->writes || bit(spent(m, c), i) ||
		    !suits(op, c[0]))
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
 * Who reads a put that may have been overwritten may have done so before; at its
 * response the put has happened.
 */
static void pay_readers(const struct search_memory *m, uint64_t *c,
			const struct search_op *put)
{
	for (unsigned i = 0; i < m->top; i++)
		if (reads_from(m->place[i], put))
			set_bit(paid(m, c), i);
}

static void settle_reader(const struct search_memory *m, uint64_t *c,
			  const struct search_op *read)
{
	for (unsigned i = 0; i < m->top; i++)
		if (m->place[i] && m->place[i]->writes &&
		    bit(paid(m, c), i) && reads_from(read, m->place[i]))
			set_bit(spent(m, c), i);
}

/* Puts that `op` overwrites, and that it is possible behind, are not owed any more. */
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
static bool apply(const struct search_memory *m, uint64_t *c,
		  const struct search_op *op)
{
	if (!op->writes)
		return false;
	absorb_puts(m, c, op);
	c[0] = op->leaves;
	return place_reads(m, c);
}

static int by_value(const void *a, const void *b)
{
	const struct asked *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

static struct asked *asked_at(struct asked *v, size_t n, uint64_t value)
{
	struct asked want = {.value = value};

	return value ? bsearch(&want, v, n, sizeof(*v), by_value) : NULL;
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
 * By now some values may be looked for by nobody any more: then it does not matter which
 * of them is there, nor which one of a kind of unknown ones was used.
 */
static void forget_names(struct search_memory *m, uint64_t *c, uint64_t now)
{
	const struct asked *a = asked_at(m->asked, m->n_asked, c[0]);

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

/* It has been placed, and its response is here: the place becomes free. */
static void emit(struct search_memory *m, uint64_t *c, unsigned at)
{
	clear_bit(paid(m, c), at);
	clear_bit(spent(m, c), at);
	m->s->configurations += configs_add(&m->next, c);
}

static bool fits(const struct search_op *op, const uint64_t *c, uint64_t bound,
		 uint64_t before)
{
	if (!suits(op, c[0]))
		return false;
	return bound == BOUND_FREE || !suits(op, before) ||
	       (bound == BOUND_OVERWRITE && op->writes);
}

/* After `op`, which is not in a place, or in place `at` which is marked already. */
static void visit(struct search_memory *m, const struct search_op *op,
		  enum bound then)
{
	uint64_t *c = m->scratch, before = c[0];
	unsigned n = stride(m);

	if (apply(m, c, op))
		then = BOUND_FREE;
	c[n] = then;
	c[n + 1] = then == BOUND_FREE ? 0 : before;
	m->s->configurations += configs_add(&m->seen, c);
}

static void copy(struct search_memory *m, const uint64_t *c)
{
	memcpy(m->scratch, c, stride(m) * sizeof(*c));
}

static void visit_places(struct search_memory *m, uint64_t *c, unsigned due)
{
	unsigned n = stride(m);

	for (unsigned i = 0; i < m->top; i++) {
		const struct search_op *op = m->place[i];
		bool owed;

		if (!op || i == due || !op->writes || bit(spent(m, c), i) ||
		    !fits(op, c, c[n], c[n + 1]))
			continue;
		owed = !bit(paid(m, c), i) && op->needs != NEEDS_NOTHING;
		copy(m, c);
		set_bit(paid(m, m->scratch), i);
		set_bit(spent(m, m->scratch), i);
		visit(m, op, owed ? BOUND_OVERWRITE : BOUND_NEEDY);
	}
}

/* How much else it could do: of two that can do the same here, the other is left. */
static unsigned range(const struct search_op *op)
{
	return op->needs == NEEDS_NOTHING ? 2 : op->needs == NEEDS_PRESENT;
}

static void use(struct search_memory *m, uint64_t *c, unsigned i, uint64_t now)
{
	struct search_op op = *m->unknown[i].op;

	if (m->unknown[i].asked < now && op.leaves != HISTORY_ABSENT)
		op.leaves = SEARCH_ANY_VALUE;
	copy(m, c);
	set_bit(used(m, m->scratch), i);
	visit(m, &op, BOUND_NEEDY);
}

static void visit_unknown(struct search_memory *m, uint64_t *c, uint64_t now)
{
	unsigned n = stride(m);
	int best[2] = {-1, -1}; /* a delete, any value */

	for (unsigned i = 0; i < m->begun; i++) {
		const struct search_op *op = m->unknown[i].op;
		int *b = &best[op->leaves != HISTORY_ABSENT];

		if (bit(used(m, c), i) || !fits(op, c, c[n], c[n + 1]))
			continue;
		if (m->unknown[i].asked >= now)
			use(m, c, i, now);
		else if (*b < 0 || range(op) < range(m->unknown[*b].op))
			*b = (int)i;
	}
	for (unsigned k = 0; k < 2; k++)
		if (best[k] >= 0)
			use(m, c, (unsigned)best[k], now);
}

static bool others_owed(struct search_memory *m, uint64_t *c, unsigned due)
{
	for (unsigned i = 0; i < m->top; i++)
		if (m->place[i] && i != due && !bit(paid(m, c), i))
			return true;
	return false;
}

/* Everything that can come before the operation in place `due`, and then that. */
static void explore(struct search_memory *m, unsigned due)
{
	const struct search_op *op = m->place[due];
	unsigned n = stride(m);

	for (size_t i = 0; i < m->seen.n; i++) {
		uint64_t *c = m->popped;

		memcpy(c, configs_at(&m->seen, i), (n + 2) * sizeof(*c));
		if (bit(spent(m, c), due)) {
			emit(m, c, due);
			continue;
		}
		if (fits(op, c, c[n], c[n + 1])) {
			copy(m, c);
			set_bit(paid(m, m->scratch), due);
			set_bit(spent(m, m->scratch), due);
			(void)apply(m, m->scratch, op);
			emit(m, m->scratch, due);
			if (!others_owed(m, c, due))
				continue;
		}
		if (m->s->limit && m->s->configurations > m->s->limit)
			return;
		visit_places(m, c, due);
		visit_unknown(m, c, op->responded);
	}
}

/* The response of the operation in place `due`; false if it cannot be placed. */
static bool respond(struct search_memory *m, unsigned due)
{
	unsigned n = stride(m);
	struct configs swap;

	configs_clear(&m->next, n);
	configs_clear(&m->seen, n + 2);
	for (size_t i = 0; i < m->now.n; i++) {
		uint64_t *c = configs_at(&m->now, i);

		if (bit(paid(m, c), due)) {
			copy(m, c);
			if (!bit(spent(m, c), due))
				settle_reader(m, m->scratch, m->place[due]);
			emit(m, m->scratch, due);
		}
		if (bit(spent(m, c), due))
			continue;
		/* Not owed, but this is the last moment at which it can happen. */
		copy(m, c);
		m->scratch[n] = BOUND_FREE;
		m->scratch[n + 1] = 0;
		(void)configs_add(&m->seen, m->scratch);
	}
	explore(m, due);
	if (m->next.n == 0)
		return false;
	simplify(m, &m->next, m->place[due]->responded);
	prune(m, &m->next);
	swap = m->now;
	m->now = m->next;
	m->next = swap;
	m->place[due] = NULL;
	m->busy--;
	while (m->top && !m->place[m->top - 1])
		m->top--;
	return true;
}

/* ---- events ---------------------------------------------------------------- */

static void invoke(struct search_memory *m, const struct search_op *op)
{
	unsigned at = 0;

	while (m->place[at])
		at++;
	m->place[at] = op;
	m->busy++;
	if (at >= m->top)
		m->top = at + 1;
	if (op->writes && !op->may)
		return;
	for (size_t i = 0; i < m->now.n; i++) {
		uint64_t *c = configs_at(&m->now, i);

		if (op->may || suits(op, c[0]))
			set_bit(paid(m, c), at);
		if (!op->writes && suits(op, c[0]))
			set_bit(spent(m, c), at);
	}
}

/* The place whose operation responds first, before `limit`; -1: none. */
static int first_due(const struct search_memory *m, uint64_t limit)
{
	uint64_t first = limit;
	int at = -1;

	for (unsigned i = 0; i < m->top; i++)
		if (m->place[i] && m->place[i]->responded < first) {
			first = m->place[i]->responded;
			at = (int)i;
		}
	return at;
}

/* Nothing else is under way from its invocation to its response. */
static bool alone(const struct search_memory *m, size_t i)
{
	const struct search *s = m->s;

	return m->busy == 0 && m->begun == 0 && m->now.n == 1 &&
	       !s->op[i].may &&
	       (i + 1 == s->n || s->op[i].responded < s->op[i + 1].invoked);
}

static enum linear_verdict flush(struct search_memory *m, uint64_t until)
{
	int due;

	while ((due = first_due(m, until)) >= 0) {
		if (!respond(m, (unsigned)due)) {
			m->s->culprit = (size_t)(m->place[due] - m->s->op);
			return m->s->limit && m->s->configurations >
				       m->s->limit ? LINEAR_GAVE_UP : LINEAR_NO;
		}
		if (m->s->limit && m->s->configurations > m->s->limit)
			return LINEAR_GAVE_UP;
	}
	return LINEAR_YES;
}

static enum linear_verdict walk(struct search_memory *m)
{
	const struct search *s = m->s;

	for (size_t i = 0; i < s->n; i++) {
		const struct search_op *op = &s->op[i];
		enum linear_verdict v = LINEAR_YES;

		if (m->busy)
			v = flush(m, op->invoked);
		if (v != LINEAR_YES)
			return v;
		if (op->responded == HISTORY_OPEN) {
			m->begun += op->writes;
		} else if (alone(m, i)) {
			m->s->configurations++;
			m->s->culprit = i;
			if (!suits(op, *configs_at(&m->now, 0)))
				return LINEAR_NO;
			if (op->writes)
				*configs_at(&m->now, 0) = op->leaves;
		} else {
			invoke(m, op);
		}
	}
	return flush(m, HISTORY_OPEN);
}

/* ---- before it begins ------------------------------------------------------ */

/* The most operations with a response that are under way at once, at most `cap`. */
static unsigned most_at_once(struct search_memory *m, const struct search *s)
{
	unsigned most = 1, n = 0;

	/* `place` holds those under way, in no order. */
	for (size_t i = 0; i < s->n; i++) {
		if (s->op[i].responded == HISTORY_OPEN)
			continue;
		for (unsigned j = 0; j < n;)
			if (m->place[j]->responded < s->op[i].invoked)
				m->place[j] = m->place[--n];
			else
				j++;
		if (n + 1 > m->places) {
			m->places = m->places ? m->places * 2 : 64;
			m->place = grown((void *)m->place, m->places,
					 sizeof(*m->place));
		}
		m->place[n++] = &s->op[i];
		if (n > most)
			most = n;
	}
	return most;
}

/*
 * When each value was looked for last, sorted. Returns their number. Who may not have
 * happened looks for a value only if somebody looks for its own.
 */
static size_t find_asked(const struct search *s, struct asked *v)
{
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->op[i].responded != HISTORY_OPEN &&
		    (s->op[i].needs == NEEDS_VALUE ||
		     s->op[i].needs == NEEDS_OTHER))
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
	struct asked *mine = asked_at(v, *n, cas->leaves), *its;

	if (cas->needs != NEEDS_VALUE || !mine)
		return false;
	its = asked_at(v, *n, cas->value);
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
	struct asked *v = grown(m->asked, s->n + m->n_unknown, sizeof(*v));
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

		found = asked_at(v, n, u->op->leaves);
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

static void find_unknown(struct search_memory *m, const struct search *s)
{
	m->n_unknown = 0;
	m->begun = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->op[i].responded != HISTORY_OPEN || !s->op[i].writes)
			continue;
		if (m->n_unknown == m->room_unknown) {
			m->room_unknown = m->room_unknown * 2 + 16;
			m->unknown = grown(m->unknown, m->room_unknown,
					   sizeof(*m->unknown));
		}
		m->unknown[m->n_unknown++].op = &s->op[i];
	}
	if (m->n_unknown)
		sort_unknown(m, s);
}

enum linear_verdict search_run(struct search_memory *m, struct search *s)
{
	unsigned most;

	s->configurations = 0;
	s->culprit = 0;
	m->s = s;
	most = most_at_once(m, s);
	m->words = (most + 63) / 64;
	m->places = m->words * 64;
	m->place = grown((void *)m->place, m->places, sizeof(*m->place));
	memset((void *)m->place, 0, m->places * sizeof(*m->place));
	m->busy = 0;
	m->top = 0;
	m->pruned = 0;
	find_unknown(m, s);
	m->u_words = (m->n_unknown + 63) / 64;
	if (stride(m) + 2 > m->room_scratch) {
		m->room_scratch = stride(m) + 2;
		m->scratch = grown(m->scratch, m->room_scratch,
				   sizeof(*m->scratch));
		m->popped = grown(m->popped, m->room_scratch,
				  sizeof(*m->popped));
	}
	configs_clear(&m->now, stride(m));
	memset(m->scratch, 0, stride(m) * sizeof(*m->scratch));
	(void)configs_add(&m->now, m->scratch);
	return walk(m);
}
