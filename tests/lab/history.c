/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#define FIELDS 9u

static const char *const kinds[] = {"get", "put", "add", "replace", "cas",
				    "delete", "exists", "late", "expire", "gone"};
static const char *const results[] = {"ok", "notfound", "exists", "changed",
				      "unknown", "failed"};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define RESULTS (sizeof(results) / sizeof(results[0]))

uint64_t history_id(uint32_t client, uint64_t n)
{
	return ((uint64_t)client + 1) << 40 | n;
}

const char *history_kind_name(unsigned kind)
{
	return kind < KINDS ? kinds[kind] : "?";
}

const char *history_result_name(unsigned result)
{
	return result < RESULTS ? results[result] : "?";
}

static void reserve(struct history *h, size_t more)
{
	size_t room = h->room ? h->room : 64;

	if (more <= h->room - h->n)
		return;
	while (room - h->n < more)
		room *= 2;
	h->op = realloc(h->op, room * sizeof(*h->op));
	if (!h->op) {
		fprintf(stderr, "no memory for a history of %zu operations\n",
			room);
		abort();
	}
	h->room = room;
}

void history_add(struct history *h, const struct history_op *op)
{
	reserve(h, 1);
	h->op[h->n++] = *op;
}

void history_join(struct history *h, const struct history *from)
{
	if (!from->n)
		return;
	reserve(h, from->n);
	memcpy(h->op + h->n, from->op, from->n * sizeof(*h->op));
	h->n += from->n;
}

void history_free(struct history *h)
{
	free(h->op);
	*h = (struct history){0};
}

/* ---- text ------------------------------------------------------------------ */

static int write_op(const struct history_op *op, FILE *f)
{
	char responded[24] = "-";

	if (op->responded != HISTORY_OPEN)
		snprintf(responded, sizeof(responded), "%" PRIu64,
			 op->responded);
	return fprintf(f, "%u %u %s %" PRIu64 " %s %s %" PRIu64 " %" PRIu64
		       " %" PRIu64 "\n", op->client, op->key,
		       history_kind_name(op->kind), op->invoked, responded,
		       history_result_name(op->result), op->value,
		       op->expected, op->version);
}

int history_write(const struct history *h, FILE *f)
{
	if (fputs("# client key kind invoked responded result value expected "
		  "version\n", f) < 0)
		return -1;
	for (size_t i = 0; i < h->n; i++)
		if (write_op(&h->op[i], f) < 0)
			return -1;
	return fflush(f) ? -1 : 0;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end && *out <= max;
}

static bool parse_name(const char *text, const char *const *names, unsigned n,
		       uint8_t *out)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (uint8_t)i;
			return true;
		}
	return false;
}

static unsigned split(char *line, char *field[FIELDS + 1])
{
	unsigned n = 0;
	char *rest = NULL, *at = strtok_r(line, " \t\r\n", &rest);

	for (; at && n <= FIELDS; at = strtok_r(NULL, " \t\r\n", &rest))
		field[n++] = at;
	return n;
}

static bool result_fits(const struct history_op *op)
{
	switch (op->result) {
	case HISTORY_NOTFOUND:
		return op->kind != HISTORY_PUT && op->kind != HISTORY_ADD &&
		       op->kind != HISTORY_LATE && op->kind < HISTORY_EXPIRE;
	case HISTORY_EXISTS:
		return op->kind == HISTORY_ADD;
	case HISTORY_CHANGED:
		return op->kind == HISTORY_CAS;
	default:
		return true;
	}
}

/* The inconsistency of an operation, or NULL. */
static const char *nonsense(const struct history_op *op)
{
	bool found = op->kind == HISTORY_GET && op->result == HISTORY_OK;
	bool writes = history_kind_writes(op->kind), ends = op->kind >= HISTORY_EXPIRE;

	if (!result_fits(op))
		return "an operation of that kind has no such result";
	if (op->responded == HISTORY_OPEN && op->result != HISTORY_UNKNOWN)
		return "without a response its result is 'unknown'";
	if (op->responded < op->invoked)
		return "the response comes before the invocation";
	if ((found || writes) && op->value == HISTORY_ABSENT)
		return "0 is the id of no value";
	if (!found && !writes && op->value != HISTORY_ABSENT)
		return "it has no value: 0";
	if (op->kind != HISTORY_CAS && !ends && op->expected != HISTORY_ABSENT)
		return "only a cas expects a value: 0";
	if (ends && op->expected == HISTORY_ABSENT)
		return "what expires is a value";
	if (op->kind == HISTORY_CAS && op->result == HISTORY_OK &&
	    op->expected == HISTORY_ABSENT)
		return "a cas that succeeds expects a value";
	return NULL;
}

/* The error of the line, or NULL; splits the line. */
static const char *parse_op(char *line, struct history_op *op)
{
	char *field[FIELDS + 1];
	uint64_t client, key;

	if (split(line, field) != FIELDS)
		return "not the 9 fields CLIENT KEY KIND INVOKED RESPONDED "
		       "RESULT VALUE EXPECTED VERSION";
	if (!parse_number(field[0], UINT32_MAX, &client))
		return "CLIENT is not a number below 2^32";
	if (!parse_number(field[1], UINT32_MAX, &key))
		return "KEY is not a number below 2^32";
	op->client = (uint32_t)client;
	op->key = (uint32_t)key;
	if (!parse_name(field[2], kinds, KINDS, &op->kind))
		return "KIND is none of get, put, add, replace, cas, delete, exists, "
		       "late, expire, gone";
	if (!parse_number(field[3], UINT64_MAX - 1, &op->invoked))
		return "INVOKED is not a number of nanoseconds";
	op->responded = HISTORY_OPEN;
	if (strcmp(field[4], "-") != 0 &&
	    !parse_number(field[4], UINT64_MAX - 1, &op->responded))
		return "RESPONDED is neither a number of nanoseconds nor -";
	if (!parse_name(field[5], results, RESULTS, &op->result))
		return "RESULT is none of ok, notfound, exists, changed, "
		       "unknown, failed";
	if (!parse_number(field[6], UINT64_MAX - 1, &op->value))
		return "VALUE is not a number";
	if (!parse_number(field[7], UINT64_MAX - 1, &op->expected))
		return "EXPECTED is not a number";
	if (!parse_number(field[8], UINT64_MAX, &op->version))
		return "VERSION is not a number";
	return nonsense(op);
}

int history_read(struct history *h, FILE *f, const char *name)
{
	size_t number = 0, room = 0, before = h->n;
	const char *wrong = NULL;
	char *line = NULL;

	while (!wrong && getline(&line, &room, f) >= 0) {
		size_t blank = strspn(line, " \t\r\n");
		struct history_op op = {0};

		number++;
		if (!line[blank] || line[blank] == '#')
			continue;
		wrong = parse_op(line, &op);
		if (!wrong)
			history_add(h, &op);
	}
	if (wrong)
		fprintf(stderr, "%s:%zu: %s\n", name, number, wrong);
	else if (ferror(f))
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
	free(line);
	if (!wrong && !ferror(f))
		return 0;
	h->n = before;
	return -1;
}

/* ---- values that expire ----------------------------------------------------- */

/* What an operation knows of CLOCK, and when. */
struct sample {
	uint64_t clock, time;
};

static int by_clock(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->clock < y->clock ? -1 : x->clock > y->clock;
}

struct course {
	struct sample *below; /* CLOCK was at most that until `time`, the latest so far */
	struct sample *above; /* CLOCK is at least that from `time` on, the earliest from here */
	size_t n_below, n_above;
};

static void course_init(struct course *c, const struct history *h)
{
	*c = (struct course){.below = calloc(h->n + 1, sizeof(*c->below)),
			     .above = calloc(h->n + 1, sizeof(*c->above))};
	if (!c->below || !c->above)
		abort();
	for (size_t i = 0; i < h->n; i++) {
		const struct history_op *op = &h->op[i];

		if (op->clock_after && op->responded != HISTORY_OPEN)
			c->below[c->n_below++] =
				(struct sample){op->clock_after, op->responded};
		if (op->clock_before)
			c->above[c->n_above++] =
				(struct sample){op->clock_before, op->invoked};
	}
	qsort(c->below, c->n_below, sizeof(*c->below), by_clock);
	qsort(c->above, c->n_above, sizeof(*c->above), by_clock);
	for (size_t i = 1; i < c->n_below; i++)
		if (c->below[i].time < c->below[i - 1].time)
			c->below[i].time = c->below[i - 1].time;
	for (size_t i = c->n_above; i-- > 1;)
		if (c->above[i - 1].time > c->above[i].time)
			c->above[i - 1].time = c->above[i].time;
}

/* The first sample of at least `clock`. */
static size_t course_find(const struct sample *s, size_t n, uint64_t clock)
{
	size_t from = 0;

	while (from < n) {
		size_t middle = from + (n - from) / 2;

		if (s[middle].clock < clock)
			from = middle + 1;
		else
			n = middle;
	}
	return from;
}

/* CLOCK had not reached it before that time; 0: nothing is known. */
static uint64_t not_before(const struct course *c, uint64_t clock)
{
	size_t i = course_find(c->below, c->n_below, clock);

	return i ? c->below[i - 1].time : 0;
}

/* CLOCK had reached it at that time; HISTORY_OPEN: nothing is known. */
static uint64_t reached_by(const struct course *c, uint64_t clock)
{
	size_t i = course_find(c->above, c->n_above, clock);

	return i < c->n_above ? c->above[i].time : HISTORY_OPEN;
}

static const struct history *sorted; /* of compare() */

/* By key, and by invocation. */
static int compare(const void *a, const void *b)
{
	const struct history_op *x = &sorted->op[*(const size_t *)a];
	const struct history_op *y = &sorted->op[*(const size_t *)b];

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->invoked < y->invoked ? -1 : x->invoked > y->invoked;
}

/* Times of one key's operations, by their beginning. */
struct spans {
	struct span {
		uint64_t from, until; /* the latest end of all up to this one */
	} *at;
	size_t n;
};

static void spans_add(struct spans *s, const struct history_op *op)
{
	uint64_t until = op->responded;

	if (s->n && s->at[s->n - 1].until > until)
		until = s->at[s->n - 1].until;
	s->at[s->n++] = (struct span){op->invoked, until};
}

/* The latest end of those that begin at `time` or before; 0: there is none. */
static uint64_t spans_until(const struct spans *s, uint64_t time)
{
	size_t from = 0, n = s->n;

	while (from < n) {
		size_t middle = from + (n - from) / 2;

		if (s->at[middle].from <= time)
			from = middle + 1;
		else
			n = middle;
	}
	return from ? s->at[from - 1].until : 0;
}

/* A write that decides by a value which it finds. */
static bool decides(const struct history_op *op)
{
	return op->result == HISTORY_OK &&
	       (op->kind == HISTORY_REPLACE || op->kind == HISTORY_CAS || op->kind == HISTORY_DELETE);
}

/*
 * farkv.h: a replace, cas or delete is done even if the value that it found expires before it
 * writes, so that another client may have missed that value before. Such a one, with a miss in its
 * time and after the beginning of an end in its time, becomes one that needs no value: a put, or a
 * late delete.
 */
static void let_be_late(struct history_op *op, const struct spans *misses, const struct spans *ends)
{
	uint64_t missed = spans_until(misses, op->responded);
	uint64_t ended = spans_until(ends, UTIL_MIN(op->responded, missed));

	if (!missed || missed < op->invoked || !ended || ended < op->invoked)
		return;
	op->kind = op->kind == HISTORY_DELETE ? HISTORY_LATE : HISTORY_PUT;
	op->expected = HISTORY_ABSENT;
}

static void let_all_be_late(struct history *h)
{
	size_t *at = calloc(h->n + 1, sizeof(*at)), begin, end;
	struct spans misses = {.at = calloc(h->n + 1, sizeof(*misses.at))};
	struct spans ends = {.at = calloc(h->n + 1, sizeof(*ends.at))};

	if (!at || !misses.at || !ends.at)
		abort();
	for (size_t i = 0; i < h->n; i++)
		at[i] = i;
	sorted = h;
	qsort(at, h->n, sizeof(*at), compare);
	for (begin = 0; begin < h->n; begin = end) {
		misses.n = ends.n = 0;
		for (end = begin; end < h->n && h->op[at[end]].key == h->op[at[begin]].key; end++) {
			const struct history_op *op = &h->op[at[end]];

			if (op->kind == HISTORY_EXPIRE)
				spans_add(&ends, op);
			else if (op->result == HISTORY_NOTFOUND)
				spans_add(&misses, op);
		}
		for (size_t i = begin; i < end; i++)
			if (decides(&h->op[at[i]]))
				let_be_late(&h->op[at[i]], &misses, &ends);
	}
	free(ends.at);
	free(misses.at);
	free(at);
}

void history_expire(struct history *h, uint32_t client, uint32_t early_ms, uint32_t late_ms)
{
	size_t n = h->n;
	struct course c;

	course_init(&c, h);
	for (size_t i = 0; i < n; i++) {
		const struct history_op *op = &h->op[i];
		struct history_op end = {.client = client, .key = op->key,
					 .kind = HISTORY_EXPIRE, .expected = op->value,
					 .responded = HISTORY_OPEN};
		uint64_t from = op->clock_before + op->ttl_ms;

		if (!op->ttl_ms || (op->result != HISTORY_OK && op->result != HISTORY_UNKNOWN))
			continue;
		end.invoked = not_before(&c, from > early_ms ? from - early_ms : 0);
		if (end.invoked < op->invoked)
			end.invoked = op->invoked;
		if (op->result == HISTORY_OK)
			end.responded = reached_by(&c, (uint64_t)op->clock_after + op->ttl_ms +
							       late_ms);
		end.result = end.responded == HISTORY_OPEN ? HISTORY_UNKNOWN : HISTORY_OK;
		history_add(h, &end);
		if (end.result == HISTORY_UNKNOWN)
			continue;
		end.kind = HISTORY_GONE;
		end.invoked = end.responded;
		history_add(h, &end);
	}
	free(c.below);
	free(c.above);
	let_all_be_late(h);
}

/* ---- versions -------------------------------------------------------------- */

/* Of a key: the id seen with a version, or the version seen with an id. */
struct pair {
	uint64_t name;
	uint32_t key;
	uint32_t op; /* number + 1; 0: free */
};

struct pairs {
	struct pair *at;
	size_t n, mask;
};

static struct pair *pairs_slot(const struct pairs *p, uint32_t key,
			       uint64_t name)
{
	uint64_t x = (name ^ (uint64_t)key << 32) *
		     UINT64_C(0x9E3779B97F4A7C15);
	size_t i = (size_t)(x ^ x >> 29) & p->mask;

	while (p->at[i].op && (p->at[i].name != name || p->at[i].key != key))
		i = (i + 1) & p->mask;
	return &p->at[i];
}

static void pairs_grow(struct pairs *p)
{
	struct pairs old = *p;

	p->mask = old.at ? old.mask * 2 + 1 : 1023;
	p->at = calloc(p->mask + 1, sizeof(*p->at));
	if (!p->at) {
		fprintf(stderr, "no memory to compare %zu versions\n", old.n);
		abort();
	}
	for (size_t i = 0; old.at && i <= old.mask; i++)
		if (old.at[i].op)
			*pairs_slot(p, old.at[i].key, old.at[i].name) =
				old.at[i];
	free(old.at);
}

/* The operation that came with this name first, or `op` itself. */
static uint32_t pairs_first(struct pairs *p, uint32_t key, uint64_t name,
			    uint32_t op)
{
	struct pair *slot;

	if (p->n * 2 >= p->mask)
		pairs_grow(p);
	slot = pairs_slot(p, key, name);
	if (slot->op)
		return slot->op - 1;
	*slot = (struct pair){name, key, op + 1};
	p->n++;
	return op;
}

static int disagree(const struct history *h, uint32_t a, uint32_t b,
		    const char *what, FILE *out)
{
	fprintf(out, "key %u: %s:\n  ", h->op[a].key, what);
	write_op(&h->op[a], out);
	fputs("  ", out);
	write_op(&h->op[b], out);
	return -1;
}

static bool tells_version(const struct history_op *op)
{
	return op->version && op->result == HISTORY_OK &&
	       op->value != HISTORY_ABSENT;
}

int history_versions(const struct history *h, FILE *out)
{
	struct pairs by_version = {0}, by_id = {0};
	int err = 0;

	for (uint32_t i = 0; !err && i < h->n; i++) {
		const struct history_op *op = &h->op[i];
		uint32_t first;

		if (!tells_version(op))
			continue;
		first = pairs_first(&by_version, op->key, op->version, i);
		if (h->op[first].value != op->value)
			err = disagree(h, first, i, "one version, two values",
				       out);
		first = pairs_first(&by_id, op->key, op->value, i);
		if (!err && h->op[first].version != op->version)
			err = disagree(h, first, i, "one value, two versions",
				       out);
	}
	free(by_version.at);
	free(by_id.at);
	return err;
}
