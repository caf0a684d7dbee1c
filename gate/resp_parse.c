/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "resp_parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)64 << 10)
#define WORDS_MAX ((int64_t)1 << 20)
#define UNTRUSTED_WORDS 10
#define UNTRUSTED_BYTES 16384

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of a word in double quotes, which begins with a backslash at *at. */
static char unescape(const char **at, const char *end)
{
	static const char names[] = "n\nr\rt\tb\ba\a";
	const char *p = *at + 1, *found;

	if (*p == 'x' && end - p > 2 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
		*at = p + 3;
		return (char)(hex(p[1]) << 4 | hex(p[2]));
	}
	*at = p + 1;
	for (found = names; *found; found += 2)
		if (*found == *p)
			return found[1];
	return *p;
}

/* A word in quotes at `p`, after the quote; decoded to *to. What follows it, or NULL. */
static const char *quoted(const char *p, const char *end, char quote, char **to)
{
	while (p < end && *p != quote) {
		bool escape = *p == '\\' && p + 1 < end;

		if (escape && quote == '"')
			*(*to)++ = unescape(&p, end);
		else if (escape && p[1] == '\'')
			*(*to)++ = *(p += 2, p - 1);
		else
			*(*to)++ = *p++;
	}
	if (p >= end || (p + 1 < end && !isspace((unsigned char)p[1])))
		return NULL;
	return p + 1;
}

/* Split a line into words, as a shell would: 'a b', "a\n\x00". False if a quote is not closed
 * or is followed by more than a blank. Decodes in place. */
static bool split_line(char *line, size_t len, struct args *args)
{
	const char *p = line, *end = line + len;

	for (;;) {
		char *word, *to;

		while (p < end && isspace((unsigned char)*p))
			p++;
		if (p == end)
			return true;
		word = to = line + (p - line);
		while (p && p < end && !isspace((unsigned char)*p)) {
			if (*p == '"' || *p == '\'')
				p = quoted(p + 1, end, *p, &to);
			else
				*to++ = *p++;
		}
		if (!p || !args_add(args, word, (size_t)(to - word)))
			return false;
	}
}

static enum resp_state parse_line(struct resp_parser *p, char *data, size_t len,
				  const char **error_out)
{
	char *end = memchr(data + p->pos, '\n', len - p->pos);
	size_t line = end ? (size_t)(end - data) : len;

	if (line > LINE_MAX_BYTES) {
		*error_out = "Protocol error: too big inline request";
		return RESP_BAD;
	}
	p->pos = line + (end != NULL);
	if (!end)
		return RESP_MORE;
	if (line && data[line - 1] == '\r')
		line--;
	if (split_line(data, line, &p->args))
		return RESP_REQUEST;
	*error_out = "Protocol error: unbalanced quotes in request";
	return RESP_BAD;
}

/* The number of a line "*3\r\n" at `pos`. RESP_REQUEST: *out is set, `pos` after the line. */
static enum resp_state header(struct resp_parser *p, const char *data, size_t len, int64_t *out)
{
	const char *at = data + p->pos + 1;
	const char *end = memchr(data + p->pos, '\r', len - p->pos);

	if ((size_t)((end ? end : data + len) - at) > LINE_MAX_BYTES)
		return RESP_BAD;
	if (!end)
		return RESP_MORE;
	if (end + 1 == data + len)
		return RESP_MORE;
	p->pos = (size_t)(end + 2 - data);
	if (!slice_i64((struct slice){at, (size_t)(end - at)}, out))
		return RESP_BAD;
	return RESP_REQUEST;
}

static enum resp_state array_header(struct resp_parser *p, const char *data, size_t len,
				    const struct resp_limits *limits, const char **error_out)
{
	int64_t n;
	enum resp_state state = header(p, data, len, &n);

	if (state == RESP_MORE)
		return state;
	*error_out = len > LINE_MAX_BYTES && p->pos == 0 ?
			     "Protocol error: too big mbulk count string" :
			     "Protocol error: invalid multibulk length";
	if (state == RESP_BAD || n > WORDS_MAX)
		return RESP_BAD;
	if (!limits->trusted && n > UNTRUSTED_WORDS) {
		*error_out = "Protocol error: unauthenticated multibulk length";
		return RESP_BAD;
	}
	p->left = n > 0 ? (uint64_t)n : 0;
	p->in_array = true;
	return RESP_REQUEST;
}

static enum resp_state bulk_header(struct resp_parser *p, const char *data, size_t len,
				   const struct resp_limits *limits, const char **error_out)
{
	static _Thread_local char expected[64];
	size_t start = p->pos;
	enum resp_state state;
	int64_t n;

	if (p->pos == len)
		return RESP_MORE;
	if (data[p->pos] != '$') {
		snprintf(expected, sizeof(expected), "Protocol error: expected '$', got '%c'",
			 isprint((unsigned char)data[p->pos]) ? data[p->pos] : '?');
		*error_out = expected;
		return RESP_BAD;
	}
	state = header(p, data, len, &n);
	if (state == RESP_MORE)
		return state;
	*error_out = p->pos == start ? "Protocol error: too big bulk count string" :
				       "Protocol error: invalid bulk length";
	if (state == RESP_BAD || n < 0 || (uint64_t)n > limits->max_request ||
	    (uint64_t)n + p->pos > limits->max_request)
		return RESP_BAD;
	if (!limits->trusted && n > UNTRUSTED_BYTES) {
		*error_out = "Protocol error: unauthenticated bulk length";
		return RESP_BAD;
	}
	p->bulk = (uint64_t)n;
	p->in_bulk = true;
	return RESP_REQUEST;
}

/* The words were found at another address. */
static void follow(struct resp_parser *p, const char *data)
{
	if (p->base != data)
		for (size_t i = 0; i < p->args.n; i++)
			p->args.v[i].p = data + (p->args.v[i].p - p->base);
	p->base = data;
}

enum resp_state resp_parse(struct resp_parser *p, char *data, size_t len,
			   const struct resp_limits *limits, const char **error_out)
{
	enum resp_state state;

	if (!len)
		return RESP_MORE;
	if (data[0] != '*')
		return parse_line(p, data, len, error_out);
	follow(p, data);
	if (!p->in_array && (state = array_header(p, data, len, limits, error_out)) != RESP_REQUEST)
		return state;
	while (p->left) {
		if (!p->in_bulk &&
		    (state = bulk_header(p, data, len, limits, error_out)) != RESP_REQUEST)
			return state;
		if (len - p->pos < p->bulk + 2)
			return RESP_MORE;
		if (!args_add(&p->args, data + p->pos, p->bulk)) {
			*error_out = "out of memory";
			return RESP_BAD;
		}
		p->pos += p->bulk + 2;
		p->in_bulk = false;
		p->left--;
	}
	return RESP_REQUEST;
}
