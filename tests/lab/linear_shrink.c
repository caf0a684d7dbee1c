/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A counterexample without what it does not need.
 *
 * Less may be wrong for another reason: without the put of a value, who read it seems to
 * have read what nobody wrote. So operations are left out only while
 *
 * - what is kept cannot be ordered even if the writes that are left out happened as
 *   often as one likes, whenever one likes after they began. Then neither can the whole;
 * - what is kept can be ordered but for the culprit, the operation for which the search
 *   found no place. So it is wrong for that one reason.
 *
 * Only what began until the culprit's response counts; what had no response by then may
 * have happened or not.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lab/linear_search.h"

/* Operations looked at, all attempts together; then what is left is good enough. */
#define WORK_MAX UINT64_C(50000000)
/* Configurations of one attempt. */
#define LIMIT UINT64_C(1000000)

struct shrink {
	struct search_memory *memory;
	const struct search_op *op;
	size_t n, culprit;
	uint64_t deadline;      /* the culprit's response */
	uint8_t *kept;
	struct search_op *part;
	struct search_supply *supply;
	uint64_t *asked;
	size_t *at;
	uint64_t work;
};

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_definite(const struct shrink *k, size_t i)
{
	return k->op[i].responded <= k->deadline;
}

/* Can what is kept, but for the culprit, be ordered? */
static bool rest_is_fine(struct shrink *k)
{
	struct search s = {.op = k->part, .limit = LIMIT};

	for (size_t i = 0; i < k->n; i++) {
		if (!k->kept[i] || i == k->culprit)
			continue;
		k->part[s.n] = k->op[i];
		if (!is_definite(k, i))
			k->part[s.n].responded = HISTORY_OPEN;
		s.n++;
	}
	k->work += k->n + s.n;
	return search_run(k->memory, &s) == LINEAR_YES;
}

/* What writes that are not kept, or whose response is out, can leave. */
static size_t find_supply(struct shrink *k, size_t n_asked)
{
	uint64_t absent = UINT64_MAX, any = UINT64_MAX;
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++) {
		const struct search_op *op = &k->op[i];

		if (!op->writes || (k->kept[i] && is_definite(k, i)))
			continue;
		if (op->leaves == HISTORY_ABSENT)
			absent = op->invoked < absent ? op->invoked : absent;
		else if (bsearch(&op->leaves, k->asked, n_asked,
				 sizeof(*k->asked), by_value))
			k->supply[n++] = (struct search_supply){op->leaves,
								op->invoked};
		else
			any = op->invoked < any ? op->invoked : any;
	}
	if (absent != UINT64_MAX)
		k->supply[n++] = (struct search_supply){HISTORY_ABSENT, absent};
	if (any != UINT64_MAX)
		k->supply[n++] = (struct search_supply){SEARCH_ANY_VALUE, any};
	return n;
}

/* Is what is kept impossible, whatever the other writes did? */
static bool is_wrong(struct shrink *k)
{
	struct search s = {.op = k->part, .supply = k->supply, .limit = LIMIT};
	size_t n_asked = 0;

	for (size_t i = 0; i < k->n; i++) {
		const struct search_op *op = &k->op[i];

		if (!k->kept[i] || !is_definite(k, i))
			continue;
		k->part[s.n++] = *op;
		if (op->needs == NEEDS_VALUE || op->needs == NEEDS_OTHER)
			k->asked[n_asked++] = op->value;
	}
	qsort(k->asked, n_asked, sizeof(*k->asked), by_value);
	s.n_supply = find_supply(k, n_asked);
	k->work += k->n + s.n;
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

/* Leave out `chunk` of the kept ones at a time, from the first on. */
static bool sweep(struct shrink *k, size_t chunk, enum which which)
{
	size_t n = candidates(k, which, k->at);
	bool any = false;

	for (size_t i = 0; i < n && k->work < WORK_MAX; i += chunk) {
		size_t some = n - i < chunk ? n - i : chunk;

		keep(k, k->at + i, some, false);
		if (rest_is_fine(k) && is_wrong(k))
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

void search_shrink(struct search_memory *m, const struct history *h,
		   const struct search *failed, struct history *out)
{
	struct shrink k = {.memory = m, .op = failed->op,
			   .culprit = failed->culprit,
			   .deadline = failed->op[failed->culprit].responded};

	while (k.n < failed->n && k.op[k.n].invoked <= k.deadline)
		k.n++;
	k.kept = room(k.n, 1);
	k.part = room(k.n, sizeof(*k.part));
	k.supply = room(k.n + 2, sizeof(*k.supply));
	k.asked = room(k.n, sizeof(*k.asked));
	k.at = room(k.n, sizeof(*k.at));
	memset(k.kept, 1, k.n);
	shrink(&k);
	for (size_t i = 0; i < k.n; i++)
		if (k.kept[i])
			history_add(out, &h->op[k.op[i].from]);
	free(k.kept);
	free(k.part);
	free(k.supply);
	free(k.asked);
	free(k.at);
}
