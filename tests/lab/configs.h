/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of records of equal length in words, in the order in which they came. While
 * there are few it is searched from end to end.
 */
#ifndef TESTS_LAB_CONFIGS_H
#define TESTS_LAB_CONFIGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct configs {
	uint64_t *word;
	size_t n, room;  /* records */
	size_t words;    /* allocated */
	unsigned stride; /* words of a record */
	uint32_t *slot;  /* hash table of numbers + 1, or without content */
	size_t mask;     /* its size - 1; 0: none yet */
	bool hashed;     /* it has content */
};

/** Empty it, for records of `stride` words. */
void configs_clear(struct configs *set, unsigned stride);

/** False if it was there. `c` is copied; the set may move. */
bool configs_add(struct configs *set, const uint64_t *c);

/** Keep the first `n`; nothing may be added before it is cleared. */
void configs_cut(struct configs *set, size_t n);

void configs_fini(struct configs *set);

static inline uint64_t *configs_at(const struct configs *set, size_t i)
{
	return set->word + i * set->stride;
}

#endif
