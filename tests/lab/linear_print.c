/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "linear_search.h"

#define COLUMNS 60u
#define TEXT_MAX 96u
/* Not more operations than a reader can look through. */
#define ROWS_MAX 200u

/* ---- in words -------------------------------------------------------------- */

static const char *id_text(uint64_t id, char *out)
{
	if (id >> 40)
		snprintf(out, TEXT_MAX, "%" PRIu64 ".%" PRIu64, (id >> 40) - 1,
			 id & ((UINT64_C(1) << 40) - 1));
	else
		snprintf(out, TEXT_MAX, "%" PRIu64, id);
	return out;
}

static const char *result_text(const struct history_op *op, char *out)
{
	char id[TEXT_MAX];

	if (op->result == HISTORY_UNKNOWN)
		return "outcome unknown";
	if (op->kind == HISTORY_ASK && op->result == HISTORY_OK)
		return "there is a value";
	if (op->kind == HISTORY_GET && op->result == HISTORY_OK) {
		snprintf(out, TEXT_MAX, "found %.40s", id_text(op->value, id));
		return out;
	}
	switch (op->result) {
	case HISTORY_OK:
		return "done";
	case HISTORY_NOTFOUND:
		return op->kind == HISTORY_GET ? "found nothing"
					       : "there is no value";
	case HISTORY_EXISTS:
		return "there is a value";
	case HISTORY_CHANGED:
		return "it has another value";
	default:
		return history_result_name(op->result);
	}
}

static const char *op_text(const struct history_op *op, char *out)
{
	char result[TEXT_MAX], value[TEXT_MAX] = "", expected[TEXT_MAX];

	if (history_kind_writes(op->kind)) {
		value[0] = ' ';
		id_text(op->value, value + 1);
	}
	if (op->kind == HISTORY_CAS)
		snprintf(out, 3 * TEXT_MAX, "cas %.40s ->%.40s: %.48s",
			 id_text(op->expected, expected), value,
			 result_text(op, result));
	else if (op->kind == HISTORY_EXPIRE || op->kind == HISTORY_GONE)
		snprintf(out, 3 * TEXT_MAX, "%.40s %s", id_text(op->expected, expected),
			 op->kind == HISTORY_GONE ? "has expired" : "expires");
	else
		snprintf(out, 3 * TEXT_MAX, "%s%.40s: %.48s",
			 history_kind_name(op->kind), value,
			 result_text(op, result));
	return out;
}

/* ---- the timeline ---------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Moments have equal distances, because only their order counts.
 */
struct moments {
	uint64_t *at;
	size_t n;
};

static void moments_find(struct moments *m, const struct history *w)
{
	m->at = calloc(2 * w->n + 1, sizeof(*m->at));
	if (!m->at)
		abort();
	for (size_t i = 0; i < w->n; i++) {
		m->at[m->n++] = w->op[i].invoked;
		if (w->op[i].responded != HISTORY_OPEN)
			m->at[m->n++] = w->op[i].responded;
	}
	qsort(m->at, m->n, sizeof(*m->at), by_time);
	if (m->n) {
		size_t kept = 1;

		for (size_t i = 1; i < m->n; i++)
			if (m->at[i] != m->at[kept - 1])
				m->at[kept++] = m->at[i];
		m->n = kept;
	}
}

static unsigned column(const struct moments *m, uint64_t time)
{
	const uint64_t *p = bsearch(&time, m->at, m->n, sizeof(*m->at),
				    by_time);
	size_t rank = p ? (size_t)(p - m->at) : 0;
	size_t wide = m->n * 4 <= COLUMNS ? 4 : 0;

	if (wide)
		return (unsigned)(rank * wide);
	return (unsigned)(rank * (COLUMNS - 1) / (m->n - 1));
}

static void bar(const struct moments *m, const struct history_op *op, char *out)
{
	unsigned from = column(m, op->invoked), to = COLUMNS;

	if (op->responded != HISTORY_OPEN)
		to = column(m, op->responded);
	memset(out, ' ', COLUMNS);
	out[COLUMNS] = '\0';
	for (unsigned i = from; i <= to && i < COLUMNS; i++)
		out[i] = '-';
	out[from] = '|';
	if (to < COLUMNS)
		out[to] = '|';
	else
		out[COLUMNS - 1] = '>';
}

static void row(const struct moments *m, const struct history_op *op, bool last,
		FILE *out)
{
	char line[COLUMNS + 1], text[3 * TEXT_MAX], to[24] = "-";
	unsigned wide = m->n * 4 <= COLUMNS ? (unsigned)m->n * 4 : COLUMNS;

	if (op->responded != HISTORY_OPEN)
		snprintf(to, sizeof(to), "%.3f",
			 (double)(op->responded - m->at[0]) / 1e3);
	bar(m, op, line);
	if (op->responded == HISTORY_OPEN)
		line[wide - 1] = '>';
	fprintf(out, "%8u %14.3f %14s  %-*.*s %s%s\n", op->client,
		(double)(op->invoked - m->at[0]) / 1e3, to, (int)wide,
		(int)wide, line, op_text(op, text), last ? "  <--" : "");
}

/* ---- what it could have said ----------------------------------------------- */

/* Could the witness be ordered with that result of `culprit`? */
static bool would_do(struct search_memory *m, const struct history *w,
		     size_t culprit, const struct history_op *said,
		     struct search_op *part)
{
	struct search s = {.op = part, .limit = 1000000};
	uint64_t deadline = said->responded;

	for (size_t i = 0; i < w->n; i++) {
		const struct history_op *op = i == culprit ? said : &w->op[i];

		if (!search_reduce(op, (uint32_t)i, &part[s.n]))
			continue;
		if (part[s.n].responded > deadline)
			part[s.n].responded = HISTORY_OPEN;
		s.n++;
	}
	return search_run(m, &s) == LINEAR_YES;
}

static void say(const struct history_op *op, unsigned *n, FILE *out)
{
	char text[TEXT_MAX];

	fprintf(out, "%s\"%s\"", (*n)++ ? " or " : "It could have said ",
		result_text(op, text));
}

static void alternatives(struct search_memory *m, const struct history *w,
			 size_t culprit, struct search_op *part, FILE *out)
{
	struct history_op said = w->op[culprit];
	unsigned n = 0;

	for (unsigned r = HISTORY_OK; r <= HISTORY_CHANGED; r++) {
		said.result = (uint8_t)r;
		if (said.kind == HISTORY_GET && r == HISTORY_OK)
			continue;
		if (r == w->op[culprit].result)
			continue;
		if (would_do(m, w, culprit, &said, part))
			say(&said, &n, out);
	}
	said.result = HISTORY_OK;
	for (size_t i = 0; said.kind == HISTORY_GET && i < w->n && n < 8; i++) {
		const struct history_op *op = &w->op[i];

		if (!history_kind_writes(op->kind))
			continue;
		said.value = op->value;
		if (would_do(m, w, culprit, &said, part))
			say(&said, &n, out);
	}
	fputs(n ? ".\n" : "\n", out);
}

static void explain(const struct history *w, FILE *out)
{
	struct search_memory *m = search_new();
	struct search_op *part = calloc(w->n + 1, sizeof(*part));
	struct search s = {.op = part, .limit = 1000000};
	struct moments moments = {0};
	size_t culprit = w->n;
	char text[3 * TEXT_MAX];

	if (!part)
		abort();
	for (size_t i = 0; i < w->n; i++)
		s.n += search_reduce(&w->op[i], (uint32_t)i, &part[s.n]);
	if (search_run(m, &s) == LINEAR_NO)
		culprit = part[s.culprit].from;
	moments_find(&moments, w);
	fprintf(out, "%8s %14s %14s\n", "client", "from us", "to us");
	for (size_t i = 0; i < w->n && i < ROWS_MAX; i++)
		row(&moments, &w->op[i], i == culprit, out);
	if (w->n > ROWS_MAX)
		fprintf(out, "  ... and %zu more\n", w->n - ROWS_MAX);
	if (culprit < w->n) {
		fprintf(out, "No order gives client %u's \"%s\". ",
			w->op[culprit].client, op_text(&w->op[culprit], text));
		alternatives(m, w, culprit, part, out);
	}
	free(moments.at);
	free(part);
	search_free(m);
}

void linear_print(const struct linear_report *r, FILE *out)
{
	switch (r->verdict) {
	case LINEAR_YES:
		fprintf(out, "linearizable: %zu operations on %zu keys, %"
			PRIu64 " configurations\n", r->ops, r->keys,
			r->configurations);
		break;
	case LINEAR_GAVE_UP:
		fprintf(out, "undecided: key %u takes more configurations than "
			"the limit, %" PRIu64 " so far\n", r->key,
			r->configurations);
		break;
	default:
		fprintf(out, "not linearizable: key %u, by %zu of its "
			"operations:\n", r->key, r->witness.n);
		explain(&r->witness, out);
	}
}
