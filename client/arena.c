/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#define CHUNK_BYTES ((size_t)256 << 10)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, cap;
	uint8_t bytes[];
};

/* Every chunk in the spare list has the usual size. */
static struct arena_chunk *take_spare(struct arena *a, size_t cap)
{
	struct arena_chunk *c = cap == CHUNK_BYTES ? a->spare : NULL;

	if (c) {
		a->spare = c->next;
		a->spare_bytes -= cap;
	}
	return c;
}

static struct arena_chunk *chunk_new(struct arena *a, size_t len)
{
	size_t cap = UTIL_MAX(len, CHUNK_BYTES);
	struct arena_chunk *c = take_spare(a, cap);

	if (!c)
		c = malloc(sizeof(*c) + cap);
	if (!c)
		return NULL;
	c->used = 0;
	c->cap = cap;
	/* A chunk made for one large copy must not displace one that is half empty. */
	if (len > CHUNK_BYTES && a->chunks) {
		c->next = a->chunks->next;
		a->chunks->next = c;
	} else {
		c->next = a->chunks;
		a->chunks = c;
	}
	return c;
}

void *arena_copy(struct arena *a, const void *src, size_t len)
{
	size_t room = util_align_up(len ? len : 1, 8);
	struct arena_chunk *c = a->chunks;
	void *p;

	if (!c || c->cap - c->used < room)
		c = chunk_new(a, room);
	if (!c)
		return NULL;
	p = c->bytes + c->used;
	c->used += room;
	if (len)
		memcpy(p, src, len);
	return p;
}

void arena_age(struct arena *a)
{
	a->old = a->chunks;
	a->chunks = NULL;
}

void arena_drop_old(struct arena *a)
{
	while (a->old) {
		struct arena_chunk *c = a->old;

		a->old = c->next;
		if (c->cap != CHUNK_BYTES || a->spare_bytes + c->cap > ARENA_KEEP) {
			free(c);
			continue;
		}
		c->next = a->spare;
		a->spare = c;
		a->spare_bytes += c->cap;
	}
}

void arena_reset(struct arena *a)
{
	arena_drop_old(a);
	arena_age(a);
	arena_drop_old(a);
}

void arena_fini(struct arena *a)
{
	arena_reset(a);
	while (a->spare) {
		struct arena_chunk *next = a->spare->next;

		free(a->spare);
		a->spare = next;
	}
	a->spare_bytes = 0;
}
