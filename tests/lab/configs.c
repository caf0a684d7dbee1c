/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "configs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More are looked up by hash. */
#define LINEAR_MAX 8u

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "no memory for configurations\n");
		abort();
	}
	return p;
}

void configs_clear(struct configs *set, unsigned stride)
{
	set->n = 0;
	set->stride = stride;
	set->room = set->words / stride;
	set->hashed = false;
}

void configs_cut(struct configs *set, size_t n)
{
	set->n = n;
}

void configs_fini(struct configs *set)
{
	free(set->word);
	free(set->slot);
}

static size_t hash(const struct configs *set, const uint64_t *c)
{
	uint64_t x = 0;

	for (unsigned i = 0; i < set->stride; i++) {
		x = (x ^ c[i]) * UINT64_C(0x9E3779B97F4A7C15);
		x ^= x >> 32;
	}
	return (size_t)x & set->mask;
}

static bool same(const struct configs *set, size_t i, const uint64_t *c)
{
	return memcmp(configs_at(set, i), c, set->stride * sizeof(*c)) == 0;
}

/* The slot that names it, or the free one where it belongs. */
static uint32_t *find(const struct configs *set, const uint64_t *c)
{
	size_t at = hash(set, c);

	while (set->slot[at] && !same(set, set->slot[at] - 1, c))
		at = (at + 1) & set->mask;
	return &set->slot[at];
}

static void rehash(struct configs *set)
{
	size_t size = 64;

	while (size < set->n * 4)
		size *= 2;
	/* A table that is much too large would cost time, since all of it is cleared. */
	if (size > set->mask + 1 || size * 16 < set->mask + 1) {
		free(set->slot);
		set->slot = must(malloc(size * sizeof(*set->slot)));
		set->mask = size - 1;
	}
	memset(set->slot, 0, (set->mask + 1) * sizeof(*set->slot));
	for (size_t i = 0; i < set->n; i++)
		*find(set, configs_at(set, i)) = (uint32_t)i + 1;
	set->hashed = true;
}

bool configs_add(struct configs *set, const uint64_t *c)
{
	uint32_t *slot = NULL;

	if (set->n < LINEAR_MAX) {
		for (size_t i = 0; i < set->n; i++)
			if (same(set, i, c))
				return false;
	} else {
		if (!set->hashed || set->n * 2 > set->mask)
			rehash(set);
		slot = find(set, c);
		if (*slot)
			return false;
	}
	if (set->n == set->room) {
		set->words = (set->words + set->stride * 16) * 2;
		set->word = must(realloc(set->word,
					 set->words * sizeof(*set->word)));
		set->room = set->words / set->stride;
	}
	memcpy(configs_at(set, set->n++), c, set->stride * sizeof(*c));
	if (slot)
		*slot = (uint32_t)set->n;
	return true;
}
