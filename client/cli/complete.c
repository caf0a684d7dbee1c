/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "complete.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#include "options.h"
#include "run.h"

/* Add text that was malloc'ed; frees it if it cannot. */
static void offer(struct completions *out, char *text)
{
	char **v = text ? realloc(out->v, (out->n + 1) * sizeof(*v)) : NULL;

	if (!v) {
		free(text);
		return;
	}
	out->v = v;
	v[out->n++] = text;
}

static bool begins(const char *text, const char *word, size_t len)
{
	return strncmp(text, word, len) == 0;
}

static void offer_commands(struct completions *out, const char *word, size_t len)
{
	static const char *const others[] = {"help", "quit"};

	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (c->name[0] != '-' && begins(c->name, word, len))
			offer(out, strdup(c->name));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (begins(others[i], word, len))
			offer(out, strdup(others[i]));
}

/* The options that not every command accepts. */
static void offer_options(struct completions *out, const struct cli_command *c, const char *word,
			  size_t len)
{
	for (size_t i = 0; c && i < cli_spec.n_opts; i++) {
		const struct opt *o = &cli_spec.opts[i];
		char text[64];

		snprintf(text, sizeof(text), "--%s", o->name);
		if (run_is_one_of(o->name, c->options) && begins(text, word, len))
			offer(out, strdup(text));
	}
}

/* ---- keys ------------------------------------------------------------------------- */

/* The key as a word of a line; NULL if out of memory. */
static char *word_of(const uint8_t *key, size_t len, bool quote)
{
	char *text = malloc(4 * len + 3), *to = text;

	for (size_t i = 0; i < len && !quote; i++)
		quote = key[i] <= ' ' || key[i] > '~' || strchr("\"'#", key[i]);
	quote = quote || key[0] == '-';
	if (!text)
		return NULL;
	if (quote)
		*to++ = '"';
	for (size_t i = 0; i < len; i++) {
		if (quote && (key[i] < ' ' || key[i] > '~')) {
			to += sprintf(to, "\\x%02x", key[i]);
			continue;
		}
		if (quote && (key[i] == '"' || key[i] == '\\'))
			*to++ = '\\';
		*to++ = (char)key[i];
	}
	if (quote)
		*to++ = '"';
	*to = '\0';
	return text;
}

static void offer_keys(struct completions *out, const struct cli *base, const char *word,
		       size_t len)
{
	struct cli cli = {.conn = base->conn, .no_write = true, .timeout_ms = base->timeout_ms};
	bool quote = len && *word == '"';
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n;

	word += quote;
	len -= quote;
	if (cli_open(&cli))
		return;
	for (unsigned part = 0; part < COMPLETE_PARTS && (part == 0 || cursor); part++) {
		if (farkv_scan(cli.kv, &cursor, SIZE_MAX, &items, &n))
			return;
		for (size_t i = 0; i < n && out->n < COMPLETE_KEYS; i++)
			if (items[i].key_len >= len && memcmp(items[i].key, word, len) == 0)
				offer(out, word_of(items[i].key, items[i].key_len, quote));
	}
}

/* True if argument `nth` of the command, from 0 on, is a key. */
static bool takes_key(const struct cli_command *c, unsigned nth)
{
	return c && strncmp(c->args, "KEY", 3) == 0 && (nth == 0 || c->args[3] == '.');
}

/* ---- words ------------------------------------------------------------------------ */

/* Count the words before the last one, and find where that begins. Quotes hide blanks. */
static unsigned find_last(const char *line, size_t len, size_t *start_out)
{
	unsigned words = 0;
	bool in_word = false;
	char quote = 0;

	*start_out = len;
	for (size_t i = 0; i < len; i++) {
		bool blank = !quote && isspace((unsigned char)line[i]);

		if (!blank && !in_word)
			*start_out = i;
		if (blank && in_word)
			words++;
		in_word = !blank;
		if (quote && line[i] == '\\')
			i++;
		else if (quote)
			quote = line[i] == quote ? 0 : quote;
		else if (line[i] == '"' || line[i] == '\'')
			quote = line[i];
	}
	if (!in_word)
		*start_out = len;
	return words;
}

static const struct cli_command *first_word(const char *line, size_t len)
{
	char name[32];
	size_t n = 0;

	while (len && isspace((unsigned char)*line))
		line++, len--;
	while (n < len && n < sizeof(name) - 1 && !isspace((unsigned char)line[n]))
		n++;
	snprintf(name, sizeof(name), "%.*s", (int)n, line);
	return run_find(name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void complete_word(void *arg, const char *line, size_t len, struct completions *out)
{
	unsigned words = find_last(line, len, &out->start);
	const char *word = line + out->start;
	size_t n = len - out->start;
	const struct cli_command *c = words ? first_word(line, len) : NULL;

	if (words == 0 || (words == 1 && begins(line, "help ", 5)))
		offer_commands(out, word, n);
	else if (n >= 2 && begins(word, "--", 2))
		offer_options(out, c, word, n);
	else if (takes_key(c, words - 1))
		offer_keys(out, arg, word, n);
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), by_name);
}
