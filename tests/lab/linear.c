/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "linear.h"

#include <stdlib.h>
#include <string.h>

#include "linear_search.h"

#define LIMIT_DEFAULT UINT64_C(10000000)

/* ---- by key, and by invocation --------------------------------------------- */

struct item {
	uint64_t time; /* since the first invocation */
	uint32_t key, from;
};

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* Stable; by the digit at `shift` of the key or of the time. */
static void sort_digit(const struct item *in, struct item *out, size_t n,
		       bool key, unsigned shift)
{
	size_t at[DIGITS] = {0}, sum = 0, count;

#define DIGIT(it) (((key ? (it).key : (it).time) >> shift) & (DIGITS - 1))
	for (size_t i = 0; i < n; i++)
		at[DIGIT(in[i])]++;
	for (unsigned d = 0; d < DIGITS; d++) {
		count = at[d];
		at[d] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		out[at[DIGIT(in[i])]++] = in[i];
#undef DIGIT
}

static void sort_by(struct item **v, struct item **spare, size_t n, bool key,
		    uint64_t largest)
{
	for (unsigned shift = 0; shift < 64 && largest >> shift;
	     shift += DIGIT_BITS) {
		struct item *swap = *v;

		sort_digit(*v, *spare, n, key, shift);
		*v = *spare;
		*spare = swap;
	}
}

static void *must(void *p, size_t n)
{
	if (!p) {
		fprintf(stderr, "no memory to sort %zu operations\n", n);
		abort();
	}
	return p;
}

static struct item *sorted(const struct history *h)
{
	struct item *v = must(malloc((h->n + 1) * sizeof(*v)), h->n);
	struct item *spare = must(malloc((h->n + 1) * sizeof(*v)), h->n);
	uint64_t first = UINT64_MAX, span = 0;
	uint32_t key = 0;

	for (size_t i = 0; i < h->n; i++)
		if (h->op[i].invoked < first)
			first = h->op[i].invoked;
	for (size_t i = 0; i < h->n; i++) {
		const struct history_op *op = &h->op[i];

		v[i] = (struct item){op->invoked - first, op->key,
				     (uint32_t)i};
		span |= v[i].time;
		key |= op->key;
	}
	sort_by(&v, &spare, h->n, false, span);
	sort_by(&v, &spare, h->n, true, key);
	free(spare);
	return v;
}

/* ---- key by key ------------------------------------------------------------ */

struct check {
	const struct history *h;
	struct search_memory *memory;
	struct search_op *op;
	size_t room;
	uint64_t limit;
	struct linear_report *report;
};

static void check_key(struct check *c, const struct item *item, size_t n)
{
	struct linear_report *r = c->report;
	struct search s = {.limit = c->limit};

	if (n > c->room) {
		c->room = n * 2;
		free(c->op);
		c->op = must(malloc(c->room * sizeof(*c->op)), c->room);
	}
	for (size_t i = 0; i < n; i++)
		s.n += search_reduce(&c->h->op[item[i].from], item[i].from,
				     &c->op[s.n]);
	s.op = c->op;
	r->verdict = search_run(c->memory, &s);
	r->key = item->key;
	r->keys++;
	r->ops += n;
	r->configurations += s.configurations;
	if (r->verdict == LINEAR_NO)
		search_shrink(c->memory, c->h, &s, &r->witness);
}

void linear_check(const struct history *h, uint64_t limit,
		  struct linear_report *report)
{
	struct check c = {.h = h, .memory = search_new(), .report = report,
			  .limit = limit ? limit : LIMIT_DEFAULT};
	struct item *item = sorted(h);
	size_t end;

	*report = (struct linear_report){.verdict = LINEAR_YES};
	for (size_t i = 0; i < h->n && report->verdict == LINEAR_YES; i = end) {
		for (end = i + 1; end < h->n && item[end].key == item[i].key;)
			end++;
		check_key(&c, item + i, end - i);
	}
	if (report->verdict == LINEAR_YES)
		report->key = 0;
	free(item);
	free(c.op);
	search_free(c.memory);
}
