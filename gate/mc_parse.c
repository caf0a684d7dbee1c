/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "mc_parse.h"

#include <limits.h>
#include <string.h>

#include "common/base/util.h"

/* Only a get of many keys has a longer line. */
#define LINE_MAX_BYTES 2048u

/* The word that has the length of the data block, counted from 0, and how many words there are. */
static const struct {
	const char *name;
	size_t at, min, max;
} bodies[] = {
	{"set", 4, 5, 6},     {"add", 4, 5, 6},	    {"replace", 4, 5, 6},
	{"append", 4, 5, 6},  {"prepend", 4, 5, 6}, {"cas", 4, 6, 7},
	{"ms", 2, 3, SIZE_MAX},
};

/* 0: no data block comes. */
static size_t body_word(const struct args *a)
{
	for (size_t i = 0; a->n && i < ARRAY_SIZE(bodies); i++)
		if (slice_same(a->v[0], bodies[i].name) && a->n >= bodies[i].min &&
		    a->n <= bodies[i].max)
			return bodies[i].at;
	return 0;
}

static bool may_be_long(const char *line, size_t len)
{
	static const char *const commands[] = {"get ", "gets ", "gat ", "gats "};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (len >= strlen(commands[i]) &&
		    memcmp(line, commands[i], strlen(commands[i])) == 0)
			return true;
	return false;
}

static bool split(const char *line, size_t len, struct args *args)
{
	const char *p = line, *end = line + len;

	while (p < end) {
		const char *space = memchr(p, ' ', (size_t)(end - p));
		const char *stop = space ? space : end;

		if (stop > p && !args_add(args, p, (size_t)(stop - p)))
			return false;
		p = stop + 1;
	}
	return true;
}

static enum mc_state find_line(struct mc_parser *p, const char *data, size_t len,
			       const struct mc_limits *limits, const char **error_out)
{
	const char *end = memchr(data + p->pos, '\n', len - p->pos);
	size_t line = end ? (size_t)(end - data) : len;

	if (line > LINE_MAX_BYTES && (line > limits->max_request || !may_be_long(data, len))) {
		*error_out = "CLIENT_ERROR line too long";
		return MC_BAD;
	}
	p->pos = line;
	if (!end)
		return MC_MORE;
	p->line = line + 1;
	return MC_REQUEST;
}

/* How long the data block of the request is, if one comes. */
static void find_body(struct mc_parser *p, const struct mc_limits *limits)
{
	size_t at = body_word(&p->args);
	uint64_t n;

	p->body_due = at && slice_u64(p->args.v[at], &n) && n <= INT_MAX - 2;
	p->body = p->body_due ? (size_t)n + 2 : 0;
	p->too_large = p->body_due && n > limits->max_value;
	if (p->too_large) {
		p->skip = p->body;
		p->body = 0;
	}
}

static enum mc_state skip(struct mc_parser *p, size_t len)
{
	p->pos = UTIL_MIN(p->skip, len);
	p->skip -= p->pos;
	return p->pos ? MC_SKIPPED : MC_MORE;
}

enum mc_state mc_parse(struct mc_parser *p, const char *data, size_t len,
		       const struct mc_limits *limits, const char **error_out)
{
	bool first = !p->line;
	enum mc_state state;
	size_t text;

	if (p->skip)
		return skip(p, len);
	if (first && (state = find_line(p, data, len, limits, error_out)) != MC_REQUEST)
		return state;
	if (!first && len - p->line < p->body)
		return MC_MORE;
	text = p->line - 1;
	if (text && data[text - 1] == '\r')
		text--;
	args_clear(&p->args);
	if (!split(data, text, &p->args)) {
		*error_out = "SERVER_ERROR out of memory";
		return MC_BAD;
	}
	if (first)
		find_body(p, limits);
	if (len - p->line < p->body)
		return MC_MORE;
	p->pos = p->line + p->body;
	if (p->body) {
		p->data = (struct slice){data + p->line, p->body - 2};
		p->bad_body = memcmp(data + p->pos - 2, "\r\n", 2) != 0;
	}
	return MC_REQUEST;
}

void mc_parser_next(struct mc_parser *p)
{
	struct args args = p->args;
	uint64_t skip = p->skip;

	args_clear(&args);
	*p = (struct mc_parser){.args = args, .skip = skip};
}
