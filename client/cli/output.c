/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

#include "cli.h"

static void need(const void *p)
{
	if (p)
		return;
	log_error("no memory for JSON output");
	exit(CLI_FAILED);
}

static char *base64(const uint8_t *p, size_t len)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
				    "qrstuvwxyz0123456789+/";
	char *text = malloc((len + 2) / 3 * 4 + 1), *t = text;

	need(text);
	for (size_t i = 0; i < len; i += 3) {
		unsigned left = len - i < 3 ? (unsigned)(len - i) : 3;
		unsigned v = (unsigned)p[i] << 16 |
			     (left > 1 ? (unsigned)p[i + 1] << 8 : 0) |
			     (left > 2 ? p[i + 2] : 0);

		*t++ = digit[v >> 18];
		*t++ = digit[v >> 12 & 63];
		*t++ = left > 1 ? digit[v >> 6 & 63] : '=';
		*t++ = left > 2 ? digit[v & 63] : '=';
	}
	*t = '\0';
	return text;
}

void output_bytes(json_t *o, const char *name, const void *p, size_t len)
{
	json_t *s = json_stringn(len ? p : "", len);
	char *text, other[32];

	if (s) {
		json_object_set_new(o, name, s);
		return;
	}
	text = base64(p, len);
	snprintf(other, sizeof(other), "%s_base64", name);
	s = json_string_nocheck(text);
	need(s);
	json_object_set_new(o, other, s);
	free(text);
}

void output_count(json_t *o, const char *name, uint64_t n)
{
	json_object_set_new(o, name, json_integer((json_int_t)n));
}

/* ---- text ------------------------------------------------------------------------ */

void output_csv(const void *p, size_t len)
{
	const char *text = p;

	putchar('"');
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"')
			putchar('"');
		putchar(text[i]);
	}
	putchar('"');
}

/*
 * The length of the UTF-8 character at `p`, 2 to 4, or 0 if there is none or a terminal could take
 * it for a command (U+0080 to U+009F).
 */
static size_t utf8_length(const uint8_t *p, size_t len)
{
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	uint32_t c = p[0] & (0x7fu >> n);
	static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};

	if (p[0] < 0xc2 || p[0] > 0xf4 || len < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

static void put_escaped(uint8_t c)
{
	static const char bytes[] = "\n\r\t\a\b\"\\", names[] = "nrtab\"\\";
	const char *byte = c ? strchr(bytes, c) : NULL;

	if (byte)
		printf("\\%c", names[byte - bytes]);
	else if (c < ' ' || c > '~')
		printf("\\x%02x", c);
	else
		putchar(c);
}

void output_quoted(const void *p, size_t len)
{
	const uint8_t *at = p, *end = at + len;

	putchar('"');
	while (at < end) {
		size_t n = utf8_length(at, (size_t)(end - at));

		if (n)
			fwrite(at, 1, n, stdout);
		else
			put_escaped(*at);
		at += n ? n : 1;
	}
	putchar('"');
}

void output_text(const struct cli *cli, const void *p, size_t len)
{
	if (cli->csv)
		output_csv(p, len);
	else if (cli->pretty)
		output_quoted(p, len);
	else
		fwrite(p, 1, len, stdout);
}

/* ---- JSON ------------------------------------------------------------------------ */

void output_ttl(json_t *o, uint64_t ttl_ms, uint32_t user)
{
	if (ttl_ms)
		output_count(o, "ttl_ms", ttl_ms);
	if (user)
		output_count(o, "user", user);
}

json_t *output_object(const void *key, size_t key_len, const char *result)
{
	json_t *o = json_object();

	need(o);
	output_bytes(o, "key", key, key_len);
	json_object_set_new(o, "result", json_string(result));
	return o;
}

void output_print(json_t *o)
{
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}
