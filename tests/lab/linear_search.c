/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "linear_search.h"

#include <stdlib.h>
#include <string.h>

#include "linear_state.h"

/* How the next operation before a response is bound. */
enum bound {
	BOUND_FREE,
	BOUND_NEEDY,     /* the next must be impossible in the state before */
	BOUND_OVERWRITE  /* ... or write */
};

void *search_grown(void *p, size_t n, size_t size)
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
	struct search_memory *m = search_grown(NULL, 1, sizeof(*m));

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
	case HISTORY_EXPIRE:
		return ok ? NEEDS_VALUE : NEEDS_WONDER;
	case HISTORY_GONE:
		return ok ? NEEDS_GONE : NEEDS_WONDER;
	default: /* replace, delete, late, exists */
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
	bool may = op->kind == HISTORY_EXPIRE || op->kind == HISTORY_LATE;
	bool reads = get || op->kind == HISTORY_ASK || op->kind == HISTORY_GONE;

	if (op->result == HISTORY_FAILED || (unknown && reads))
		return false;
	*out = (struct search_op){
		.invoked = op->invoked,
		/* With a result it has to happen, if only at the very end. */
		.responded = unknown ? HISTORY_OPEN
			     : op->responded < HISTORY_OPEN
				     ? op->responded : HISTORY_OPEN - 1,
		.value = get ? op->value : op->expected,
		.leaves = op->kind == HISTORY_DELETE || may ? HISTORY_ABSENT : op->value,
		.from = from,
		.needs = (uint8_t)needs_of(op),
		.writes = !reads && (unknown || op->result == HISTORY_OK),
		.may = may && !unknown,
	};
	return true;
}

/* ---- what comes before a response ------------------------------------------- */

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
	if (!state_suits(op, c[0]))
		return false;
	return bound == BOUND_FREE || !state_suits(op, before) ||
	       (bound == BOUND_OVERWRITE && op->writes);
}

/* After `op`, which is not in a place, or in place `at` which is marked already. */
static void visit(struct search_memory *m, const struct search_op *op,
		  enum bound then)
{
	uint64_t *c = m->scratch, before = c[0];
	unsigned n = stride(m);

	if (state_apply(m, c, op))
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

/* How much else it could do: of two that are equal here, the other remains. */
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

/* All that can precede the operation in place `due`, and then that. */
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
			(void)state_apply(m, m->scratch, op);
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
				state_settle_reader(m, m->scratch, m->place[due]);
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
	state_reduce(m, &m->next, m->place[due]->responded);
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

		if (op->may || state_suits(op, c[0]))
			set_bit(paid(m, c), at);
		if (!op->writes && state_suits(op, c[0]))
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

/* No other operation is open from its invocation to its response. */
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
			if (!state_suits(op, *configs_at(&m->now, 0)))
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

/* The most operations with a response that are open at once, at most `cap`. */
static unsigned most_at_once(struct search_memory *m, const struct search *s)
{
	unsigned most = 1, n = 0;

	/* `place` holds the open ones, in no order. */
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
			m->place = search_grown((void *)m->place, m->places,
					 sizeof(*m->place));
		}
		m->place[n++] = &s->op[i];
		if (n > most)
			most = n;
	}
	return most;
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
	m->place = search_grown((void *)m->place, m->places, sizeof(*m->place));
	memset((void *)m->place, 0, m->places * sizeof(*m->place));
	m->busy = 0;
	m->top = 0;
	m->pruned = 0;
	unknown_find(m, s);
	m->u_words = (m->n_unknown + 63) / 64;
	if (stride(m) + 2 > m->room_scratch) {
		m->room_scratch = stride(m) + 2;
		m->scratch = search_grown(m->scratch, m->room_scratch,
				   sizeof(*m->scratch));
		m->popped = search_grown(m->popped, m->room_scratch,
				  sizeof(*m->popped));
	}
	configs_clear(&m->now, stride(m));
	memset(m->scratch, 0, stride(m) * sizeof(*m->scratch));
	(void)configs_add(&m->now, m->scratch);
	return walk(m);
}
