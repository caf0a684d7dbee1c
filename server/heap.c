/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "heap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct heap {
	uint64_t first, count, used;
	uint64_t lowest; /* no free page lies below this one */
	uint8_t *taken;  /* one byte per page; calloc touches none of it */
};

struct heap *heap_new(uint64_t first, uint64_t count)
{
	struct heap *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->first = first;
	h->count = count;
	h->taken = calloc(count, 1);
	if (!h->taken) {
		free(h);
		return NULL;
	}
	return h;
}

void heap_free(struct heap *h)
{
	if (!h)
		return;
	free(h->taken);
	free(h);
}

uint64_t heap_take(struct heap *h, uint64_t n)
{
	uint64_t run = 0;

	if (n == 0 || n > h->count - h->used)
		return 0;
	while (h->lowest < h->count && h->taken[h->lowest])
		h->lowest++;
	for (uint64_t i = h->lowest; i < h->count; i++) {
		run = h->taken[i] ? 0 : run + 1;
		if (run < n)
			continue;
		memset(&h->taken[i + 1 - n], 1, n);
		h->used += n;
		return h->first + i + 1 - n;
	}
	return 0;
}

void heap_give(struct heap *h, uint64_t page, uint64_t n)
{
	uint64_t at = page - h->first;

	assert(at < h->count && n <= h->count - at);
	memset(&h->taken[at], 0, n);
	h->used -= n;
	if (at < h->lowest)
		h->lowest = at;
}

uint64_t heap_total(const struct heap *h)
{
	return h->count;
}

uint64_t heap_used(const struct heap *h)
{
	return h->used;
}
