/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/util.h"

#define DIGITS_MAX 20

char *buf_grow(struct buf *b, size_t more)
{
	size_t cap;
	char *p;

	cap = UTIL_MAX(b->cap * 2, (size_t)256);
	cap = UTIL_MAX(cap, b->len + more);
	p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return NULL;
	}
	b->p = p;
	b->cap = cap;
	return p + b->len;
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

void buf_drop(struct buf *b, size_t n)
{
	b->len -= n;
	if (b->len)
		memmove(b->p, b->p + n, b->len);
}

void buf_u64(struct buf *b, uint64_t n)
{
	char digits[DIGITS_MAX], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	buf_add(b, at, (size_t)(digits + sizeof(digits) - at));
}

void buf_i64(struct buf *b, int64_t n)
{
	if (n < 0)
		buf_add(b, "-", 1);
	buf_u64(b, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		buf_add(b, line, UTIL_MIN((size_t)n, sizeof(line) - 1));
}
