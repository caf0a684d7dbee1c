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
