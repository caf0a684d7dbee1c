/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/util.h"

#define KEPT_WORDS 256

bool args_add(struct args *a, const char *p, size_t len)
{
	if (a->n == a->cap) {
		size_t cap = UTIL_MAX(a->cap * 2, (size_t)16);
		struct slice *v = realloc(a->v, cap * sizeof(*v));

		if (!v)
			return false;
		a->v = v;
		a->cap = cap;
	}
	a->v[a->n++] = (struct slice){p, len};
	return true;
}

void args_clear(struct args *a)
{
	if (a->cap > KEPT_WORDS)
		args_free(a);
	a->n = 0;
}

void args_free(struct args *a)
{
	free(a->v);
	*a = (struct args){0};
}

bool slice_is(struct slice s, const char *text)
{
	return s.len == strlen(text) && strncasecmp(s.p, text, s.len) == 0;
}

bool slice_same(struct slice s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

bool slice_u64(struct slice s, uint64_t *out)
{
	uint64_t n = 0;

	if (!s.len)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		unsigned digit = (unsigned char)s.p[i] - (unsigned)'0';

		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return false;
	}
	*out = n;
	return true;
}

bool slice_i64(struct slice s, int64_t *out)
{
	bool minus = s.len && s.p[0] == '-';
	struct slice digits = {s.p + minus, s.len - minus};
	uint64_t n;

	if (!slice_u64(digits, &n) || (digits.p[0] == '0' && (digits.len > 1 || minus)) ||
	    n > (uint64_t)INT64_MAX + minus)
		return false;
	*out = minus ? (int64_t)-n : (int64_t)n;
	return true;
}

bool slice_float(struct slice s, long double *out)
{
	char text[SLICE_FLOAT_MAX + 1], *end;
	long double n;

	if (!s.len || s.len > SLICE_FLOAT_MAX || isspace((unsigned char)s.p[0]) ||
	    memchr(s.p, '\0', s.len))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	errno = 0;
	n = strtold(text, &end);
	if (*end || isnan(n) || (errno == ERANGE && (isinf(n) || n == 0)))
		return false;
	*out = n;
	return true;
}
