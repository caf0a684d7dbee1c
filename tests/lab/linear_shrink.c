/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A counterexample without unnecessary operations.
 *
 * A smaller one may be wrong for another reason: without the put of a value, a read of it
 * seems to have read what nobody wrote. So operations are left out only while
 *
 * - the kept ones cannot be ordered whichever of the writes left out happened. Then
 *   neither can the whole;
 * - the kept ones can be ordered without the culprit, the operation for which the search
 *   found no place. So the history is wrong for that one reason;
 * - the writer of each value that is looked for is kept.
 *
 * Only operations that began until the culprit's response count; one without a response
 * by then may have happened or not.
 *
 * If several operations respond in that moment, the search found the first that it
 * looked at, and another may need fewer. So each one that has no place even before
 * the others respond is tried; if there is none, some of them have a place each, but not
 * together.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "linear_search.h"

/* Operations looked at, in all attempts; then the rest is small enough. */
#define WORK_MAX UINT64_C(30000000)
/* Tried of those that respond in one moment. */
#define CULPRITS_MAX 8u
/* Configurations of one attempt. */
#define LIMIT UINT64_C(1000000)

struct shrink {
	struct search_memory *memory;
	const struct search_op *given;
	struct search_op *op;   /* as given, but open at the deadline */
	size_t n, culprit;
	uint64_t deadline;      /* the culprit's response */
	bool *kept, *best;
	size_t n_best;
	struct search_op *part;
	uint64_t *asked;
	size_t *at;
	uint64_t work;
};

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Can the kept ones without the culprit be ordered? */
static bool rest_is_fine(struct shrink *k)
{
	struct search s = {.op = k->part, .limit = LIMIT};

	for (size_t i = 0; i < k->n; i++) {
		if (!k->kept[i] || i == k->culprit)
			continue;
		k->part[s.n++] = k->op[i];
	}
	k->work += k->n + s.n;
	return search_run(k->memory, &s) == LINEAR_YES;
}

static bool asks(const struct search_op *op)
{
	return op->needs == NEEDS_VALUE || op->needs == NEEDS_OTHER || op->needs == NEEDS_GONE;
}

/* The values that the kept ones look for, sorted. Returns their number. */
static size_t find_asked(struct shrink *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		if (k->kept[i] && asks(&k->op[i]))
			k->asked[n++] = k->op[i].value;
	qsort(k->asked, n, sizeof(*k->asked), by_value);
	return n;
}

static bool is_asked(const struct shrink *k, size_t n_asked, uint64_t value)
{
	return bsearch(&value, k->asked, n_asked, sizeof(*k->asked),
		       by_value) != NULL;
}

/*
 * Add the values that operations left out look for in order to remove them, or to leave a value
 * that is looked for. Otherwise they replace one value that nobody looks for by another.
 */
static size_t add_passed_on(struct shrink *k, size_t n)
{
	size_t before;

	do {
		before = n;
		for (size_t i = 0; i < k->n; i++) {
			const struct search_op *op = &k->op[i];

			if (k->kept[i] || !op->writes || !asks(op) || is_asked(k, n, op->value) ||
			    (op->leaves != HISTORY_ABSENT && !is_asked(k, n, op->leaves)))
				continue;
			k->asked[n++] = op->value;
			qsort(k->asked, n, sizeof(*k->asked), by_value);
		}
	} while (n > before);
	return n;
}

/* Are the kept ones impossible whichever of the other writes happened? */
static bool is_wrong(struct shrink *k)
{
	struct search s = {.op = k->part, .limit = LIMIT};
	size_t n_asked = add_passed_on(k, find_asked(k));

	for (size_t i = 0; i < k->n; i++) {
		struct search_op *op = &k->part[s.n];

		if (!k->kept[i] && !k->op[i].writes)
			continue;
		*op = k->op[i];
		op->may = (op->may || !k->kept[i]) && op->responded != HISTORY_OPEN;
		if (op->writes && op->leaves != HISTORY_ABSENT &&
		    !is_asked(k, n_asked, op->leaves))
			op->leaves = SEARCH_ANY_VALUE;
		s.n++;
	}
	k->work += s.n;
	return search_run(k->memory, &s) == LINEAR_NO;
}

enum which { READS, ALL };

static size_t candidates(const struct shrink *k, enum which which, size_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		if (k->kept[i] && i != k->culprit &&
		    (which == ALL || !k->op[i].writes))
			out[n++] = i;
	return n;
}

static void keep(struct shrink *k, const size_t *at, size_t n, bool kept)
{
	for (size_t i = 0; i < n; i++)
		k->kept[at[i]] = kept;
}

/*
 * A writer of a value that is looked for comes back, and may look for something
 * itself. Returns how many stay left out.
 */
static size_t keep_asked(struct shrink *k, const size_t *at, size_t n)
{
	size_t left, before;

	for (left = n, before = n + 1; left < before;) {
		size_t n_asked = find_asked(k);

		before = left;
		for (size_t i = 0; i < n; i++) {
			if (k->kept[at[i]] || !k->op[at[i]].writes ||
			    !is_asked(k, n_asked, k->op[at[i]].leaves))
				continue;
			k->kept[at[i]] = true;
			left--;
		}
	}
	return left;
}

/* Leave out `chunk` of the kept ones at a time, from the first on. */
static bool sweep(struct shrink *k, size_t chunk, enum which which)
{
	size_t n = candidates(k, which, k->at);
	bool any = false;

	for (size_t i = 0; i < n && k->work < WORK_MAX; i += chunk) {
		size_t some = n - i < chunk ? n - i : chunk;

		keep(k, k->at + i, some, false);
		if (keep_asked(k, k->at + i, some) && rest_is_fine(k) &&
		    is_wrong(k))
			any = true;
		else
			keep(k, k->at + i, some, true);
	}
	return any;
}

static void shrink(struct shrink *k)
{
	for (enum which which = READS; which <= ALL; which++)
		for (size_t chunk = k->n / 2; chunk > 1; chunk /= 2)
			(void)sweep(k, chunk, which);
	while (sweep(k, 1, ALL))
		;
}

static void *room(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		fprintf(stderr, "no memory to shrink %zu operations\n", n);
		abort();
	}
	return p;
}

/* ---- whose fault it is ----------------------------------------------------- */

static bool responds_last(const struct shrink *k, size_t i)
{
	return k->given[i].responded == k->deadline;
}

/* Everything that began until the deadline, with the responses until then. */
static void begin(struct shrink *k)
{
	for (size_t i = 0; i < k->n; i++) {
		k->kept[i] = true;
		k->op[i] = k->given[i];
		if (k->op[i].responded > k->deadline)
			k->op[i].responded = HISTORY_OPEN;
	}
}

/* Is the culprit wrong even if no other one has responded in its moment? */
static bool is_wrong_alone(struct shrink *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (i != k->culprit && responds_last(k, i))
			k->op[i].responded = HISTORY_OPEN;
	return is_wrong(k);
}

/* Only those of them have responded without which the culprit has a place. */
static void find_accomplices(struct shrink *k)
{
	for (size_t i = 0; i < k->n; i++) {
		if (i == k->culprit || !responds_last(k, i))
			continue;
		k->op[i].responded = HISTORY_OPEN;
		if (!is_wrong(k))
			k->op[i].responded = k->deadline;
	}
}

/* The last of the kept ones has responded: another one may be enough then. */
static void polish(struct shrink *k)
{
	bool any;

	for (size_t i = 0; i < k->n; i++)
		if (k->kept[i] && responds_last(k, i))
			k->op[i].responded = k->deadline;
	do {
		any = false;
		for (size_t i = 0; i < k->n; i++) {
			if (!k->kept[i] || !responds_last(k, i))
				continue;
			k->culprit = i;
			while (sweep(k, 1, ALL))
				any = true;
		}
	} while (any);
}

static void keep_best(struct shrink *k)
{
	size_t n = 0;

	shrink(k);
	polish(k);
	for (size_t i = 0; i < k->n; i++)
		n += k->kept[i];
	if (n >= k->n_best)
		return;
	k->n_best = n;
	memcpy(k->best, k->kept, k->n * sizeof(*k->best));
}

static void try_all(struct shrink *k, size_t found)
{
	unsigned tried = 0;

	for (size_t i = 0; i < k->n && tried < CULPRITS_MAX; i++) {
		if (!responds_last(k, i))
			continue;
		k->culprit = i;
		begin(k);
		if (is_wrong_alone(k)) {
			keep_best(k);
			tried++;
		}
	}
	if (tried)
		return;
	k->culprit = found;
	begin(k);
	find_accomplices(k);
	keep_best(k);
}

void search_shrink(struct search_memory *m, const struct history *h,
		   const struct search *failed, struct history *out)
{
	struct shrink k = {.memory = m, .given = failed->op,
			   .n_best = SIZE_MAX,
			   .deadline = failed->op[failed->culprit].responded};

	while (k.n < failed->n && k.given[k.n].invoked <= k.deadline)
		k.n++;
	k.op = room(k.n, sizeof(*k.op));
	k.kept = room(k.n, sizeof(*k.kept));
	k.best = room(k.n, sizeof(*k.best));
	k.part = room(k.n, sizeof(*k.part));
	k.asked = room(k.n, sizeof(*k.asked));
	k.at = room(k.n, sizeof(*k.at));
	try_all(&k, failed->culprit);
	for (size_t i = 0; i < k.n; i++)
		if (k.best[i])
			history_add(out, &h->op[k.given[i].from]);
	free(k.op);
	free(k.kept);
	free(k.best);
	free(k.part);
	free(k.asked);
	free(k.at);
}
