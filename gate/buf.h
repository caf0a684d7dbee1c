/* SPDX-License-Identifier: BSD-3-Clause */
/** buf.h - a growing array of bytes, for replies and for requests that are incomplete. Leaf. */
#ifndef GATE_BUF_H
#define GATE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** All zero is an empty one. One thread at a time. */
struct buf {
	char *p;
	size_t len;
	size_t cap;
	bool failed; /**< out of memory: bytes are missing, so the connection must end */
};

/** The slow path of buf_room(). */
char *buf_grow(struct buf *b, size_t more);

/** Free the memory; `b` is empty then. */
void buf_free(struct buf *b);

/** Forget the first `n` bytes; the others move to the front. */
void buf_drop(struct buf *b, size_t n);

/** Room for `more` bytes after the content, for the caller to fill and then count in `len`; NULL,
 * with `failed` set, if out of memory. */
static inline char *buf_room(struct buf *b, size_t more)
{
	return b->p && b->cap - b->len >= more ? b->p + b->len : buf_grow(b, more);
}

static inline void buf_add(struct buf *b, const void *data, size_t len)
{
	char *to = len ? buf_room(b, len) : NULL;

	if (to) {
		memcpy(to, data, len);
		b->len += len;
	}
}

static inline void buf_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

/** Digits of a number. */
void buf_u64(struct buf *b, uint64_t n);
void buf_i64(struct buf *b, int64_t n);

/** As printf(3), at most 1023 bytes. */
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
