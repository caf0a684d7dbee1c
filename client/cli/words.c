/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char no_memory[] = "out of memory";

struct split {
	const char *p, *end;
	char *to;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of the escape at s->p, which follows its backslash. */
static char escaped(struct split *s)
{
	static const char names[] = "nrtba", bytes[] = "\n\r\t\b\a";
	char c = *s->p++;
	const char *name = c ? strchr(names, c) : NULL;

	if (name)
		return bytes[name - names];
	if (c == 'x' && s->end - s->p >= 2 && hex_digit(s->p[0]) >= 0 && hex_digit(s->p[1]) >= 0) {
		c = (char)(hex_digit(s->p[0]) << 4 | hex_digit(s->p[1]));
		s->p += 2;
	}
	return c;
}

static const char *quoted(struct split *s)
{
	char quote = *s->p++;

	while (s->p < s->end && *s->p != quote) {
		bool escape = *s->p == '\\' && s->end - s->p >= 2;

		if (escape && quote == '"') {
			s->p++;
			*s->to++ = escaped(s);
			continue;
		}
		if (escape && s->p[1] == '\'')
			s->p++;
		*s->to++ = *s->p++;
	}
	if (s->p == s->end)
		return "a quote is not closed";
	s->p++;
	return s->p == s->end || isspace((unsigned char)*s->p) ?
		       NULL :
		       "a blank is missing after a closing quote";
}

static const char *one_word(struct split *s)
{
	const char *wrong = NULL;

	while (!wrong && s->p < s->end && !isspace((unsigned char)*s->p)) {
		if (*s->p == '"' || *s->p == '\'')
			wrong = quoted(s);
		else
			*s->to++ = *s->p++;
	}
	return wrong;
}

/* An upper bound of the number of words. */
static size_t count_starts(const char *line, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += !isspace((unsigned char)line[i]) &&
		     (i == 0 || isspace((unsigned char)line[i - 1]));
	return n;
}

/* Room for `n` words with `bytes` bytes and a NUL after each word. */
static bool make_room(struct words *w, size_t n, size_t bytes)
{
	w->v = calloc(n + 1, sizeof(*w->v));
	w->len = calloc(n + 1, sizeof(*w->len));
	w->text = malloc(bytes + n);
	return w->v && w->len && w->text;
}

const char *words_split(const char *line, size_t len, struct words *out)
{
	struct split s = {.p = line, .end = line + len};
	struct words w = {0};
	const char *wrong = NULL;

	if (!make_room(&w, count_starts(line, len), len + 1))
		wrong = no_memory;
	s.to = w.text;
	while (!wrong) {
		while (s.p < s.end && isspace((unsigned char)*s.p))
			s.p++;
		if (s.p == s.end)
			break;
		w.v[w.n] = s.to;
		wrong = one_word(&s);
		w.len[w.n] = (size_t)(s.to - w.v[w.n]);
		w.n++;
		*s.to++ = '\0';
	}
	if (wrong)
		words_free(&w);
	else
		*out = w;
	return wrong;
}

const char *words_copy(char *const *v, size_t n, struct words *out)
{
	struct words w = {.n = n};
	size_t bytes = 0;
	char *to;

	for (size_t i = 0; i < n; i++)
		bytes += strlen(v[i]);
	if (!make_room(&w, n, bytes)) {
		words_free(&w);
		return no_memory;
	}
	to = w.text;
	for (size_t i = 0; i < n; i++) {
		w.len[i] = strlen(v[i]);
		w.v[i] = memcpy(to, v[i], w.len[i] + 1);
		to += w.len[i] + 1;
	}
	*out = w;
	return NULL;
}

void words_free(struct words *w)
{
	free(w->v);
	free(w->len);
	free(w->text);
	*w = (struct words){0};
}

size_t words_length(const struct words *w, const char *arg)
{
	for (size_t i = 0; w && i < w->n; i++)
		if (w->v[i] == arg)
			return w->len[i];
	return strlen(arg);
}
