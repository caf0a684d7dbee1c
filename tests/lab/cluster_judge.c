/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cluster_judge.h"

#include <inttypes.h>
#include <stdlib.h>

#include "linear.h"

/* ---- ids ----------------------------------------------------------------------------------- */

struct ids {
	uint64_t *id;
	size_t n;
};

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The ids that some operation found: each get's value, and what a cas that was done expected. */
static struct ids ids_found(const struct history *h)
{
	struct ids s = {.id = calloc(h->n + 1, sizeof(*s.id))};

	if (!s.id)
		abort();
	for (size_t i = 0; i < h->n; i++) {
		const struct history_op *op = &h->op[i];

		if (op->result != HISTORY_OK)
			continue;
		if (op->kind == HISTORY_GET)
			s.id[s.n++] = op->value;
		else if (op->kind == HISTORY_CAS)
			s.id[s.n++] = op->expected;
	}
	qsort(s.id, s.n, sizeof(*s.id), by_id);
	return s;
}

static bool ids_has(const struct ids *s, uint64_t id)
{
	return s->n && bsearch(&id, s->id, s->n, sizeof(id), by_id);
}

/* ---- before -------------------------------------------------------------------------------- */

void cluster_judge_prepare(struct history *h)
{
	for (size_t i = 0; i < h->n; i++) {
		h->op[i].version = 0;
		if (h->op[i].result == HISTORY_CHANGED)
			h->op[i].result = HISTORY_FAILED;
	}
}

/* Writes of unknown outcome that were seen, and have ended, happened before their response. */
static struct history settled(const struct history *h)
{
	struct ids found = ids_found(h);
	struct history s = {0};

	history_join(&s, h);
	for (size_t i = 0; i < s.n; i++) {
		struct history_op *op = &s.op[i];

		if (op->result == HISTORY_UNKNOWN && op->responded != HISTORY_OPEN &&
		    history_kind_writes(op->kind) && ids_has(&found, op->value))
			op->result = HISTORY_OK;
	}
	free(found.id);
	return s;
}

static int by_response(const void *a, const void *b)
{
	const struct history_op *x = a, *y = b;

	return x->responded < y->responded ? -1 : x->responded > y->responded;
}

static bool is_answer(const struct history_op *op)
{
	return op->result < HISTORY_UNKNOWN;
}

struct gap {
	uint64_t ns, at;
};

/* `gaps` stay in order, the longest first. */
static void insert(struct gap *gaps, struct gap g)
{
	for (unsigned i = 0; i < CLUSTER_JUDGE_GAPS; i++)
		if (g.ns > gaps[i].ns) {
			struct gap shorter = gaps[i];

			gaps[i] = g;
			g = shorter;
		}
}

void cluster_judge_loss(const struct history *h, bool (*lost)(void *arg, uint32_t key), void *arg,
			uint64_t at_out[CLUSTER_JUDGE_GAPS])
{
	struct gap gaps[CLUSTER_JUDGE_GAPS] = {0};
	struct history answers = {0};

	for (size_t i = 0; i < h->n; i++)
		if (is_answer(&h->op[i]) && lost(arg, h->op[i].key))
			history_add(&answers, &h->op[i]);
	if (answers.n)
		qsort(answers.op, answers.n, sizeof(*answers.op), by_response);
	for (size_t i = 1; i < answers.n; i++) {
		uint64_t from = answers.op[i - 1].responded, ns = answers.op[i].responded - from;

		insert(gaps, (struct gap){.ns = ns, .at = from + ns / 2});
	}
	for (unsigned i = 0; i < CLUSTER_JUDGE_GAPS; i++)
		at_out[i] = gaps[i].at;
	history_free(&answers);
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* `out`: NULL, or where the reason goes. */
static bool is_linear(const struct history *h, FILE *out)
{
	struct history s = settled(h);
	struct linear_report report;
	bool yes;

	linear_check(&s, 0, &report);
	history_free(&s);
	yes = report.verdict == LINEAR_YES;
	if (!yes && out)
		linear_print(&report, out);
	history_free(&report.witness);
	return yes;
}

bool cluster_judge_strict(const struct history *h, FILE *out)
{
	return is_linear(h, out);
}

/* An operation that was under way at the loss has its answer from afterwards. */
static struct history part(const struct history *h, uint64_t at, bool after)
{
	struct history p = {0};

	for (size_t i = 0; i < h->n; i++) {
		struct history_op op = h->op[i];
		bool late = op.responded > at; /* or never */

		if (after ? late : op.invoked <= at && (!late || history_kind_writes(op.kind) ||
							 op.kind == HISTORY_DELETE)) {
			if (late && !after)
				op.result = op.result == HISTORY_FAILED ? HISTORY_FAILED : HISTORY_UNKNOWN;
			if (op.result == HISTORY_UNKNOWN && !after)
				op.responded = HISTORY_OPEN;
			history_add(&p, &op);
		}
	}
	return p;
}

/* Is it linearizable if the key has that value at first? */
static bool begins_with(const struct history *after, uint64_t id, FILE *out)
{
	struct history_op first = {.kind = HISTORY_PUT, .result = HISTORY_OK, .value = id,
				   .responded = 1, .client = UINT32_MAX};
	struct history h = {0};
	bool yes;

	if (id != HISTORY_ABSENT && after->n) {
		first.key = after->op[0].key;
		history_add(&h, &first);
	}
	history_join(&h, after);
	yes = is_linear(&h, out);
	history_free(&h);
	return yes;
}

/* The value after the loss is one that was written before it, or none. */
static bool follows(const struct history *before, const struct history *after, FILE *out)
{
	struct ids found = ids_found(after);
	bool yes = begins_with(after, HISTORY_ABSENT, NULL), tried_unseen = false;

	for (size_t i = 0; !yes && i < before->n; i++) {
		const struct history_op *op = &before->op[i];
		bool seen = ids_has(&found, op->value);

		if (!history_kind_writes(op->kind) || (!seen && tried_unseen) ||
		    (op->result != HISTORY_OK && op->result != HISTORY_UNKNOWN))
			continue;
		tried_unseen |= !seen;
		yes = begins_with(after, op->value, NULL);
	}
	free(found.id);
	if (!yes && out)
		(void)begins_with(after, HISTORY_ABSENT, out);
	return yes;
}

static bool judge_key(const struct history *h, uint64_t at, size_t *rolled_back, FILE *out)
{
	struct history before, after;
	bool yes;

	if (is_linear(h, NULL))
		return true;
	++*rolled_back;
	before = part(h, at, false);
	after = part(h, at, true);
	yes = is_linear(&before, out) && follows(&before, &after, out);
	history_free(&before);
	history_free(&after);
	return yes;
}

static int by_key(const void *a, const void *b)
{
	const struct history_op *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->invoked < y->invoked ? -1 : x->invoked > y->invoked;
}

/* All keys; `h` is sorted by them. */
static bool judge_keys(const struct history *h, uint64_t at, size_t *rolled_back, FILE *out)
{
	size_t begin = 0;

	*rolled_back = 0;
	for (size_t i = 1; i <= h->n; i++) {
		struct history key = {.op = h->op + begin, .n = i - begin};

		if (i < h->n && h->op[i].key == h->op[begin].key)
			continue;
		if (!judge_key(&key, at, rolled_back, out))
			return false;
		begin = i;
	}
	return true;
}

bool cluster_judge_lost(const struct history *h, const uint64_t at[CLUSTER_JUDGE_GAPS],
			size_t *rolled_back_out, FILE *out)
{
	struct history sorted = {0};
	bool yes = false;

	history_join(&sorted, h);
	if (sorted.n)
		qsort(sorted.op, sorted.n, sizeof(*sorted.op), by_key);
	for (unsigned i = 0; i < CLUSTER_JUDGE_GAPS && at[i] && !yes; i++)
		yes = judge_keys(&sorted, at[i], rolled_back_out, NULL);
	if (!yes)
		(void)judge_keys(&sorted, at[0], rolled_back_out, out);
	history_free(&sorted);
	return yes;
}
