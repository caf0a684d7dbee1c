/* SPDX-License-Identifier: BSD-3-Clause */
/** nearest.h - "did you mean": the known name nearest to a mistyped word. */
#ifndef COMMON_BASE_NEAREST_H
#define COMMON_BASE_NEAREST_H

struct nearest {
	const char *word; /* set by the caller; the rest is zero */
	const char *name; /* the nearest so far; NULL: none is near enough */
	unsigned distance;
};

/**
 * Compare `name`, which must live as long as *n. Near is one letter left out, added,
 * changed, or swapped with the next; two of these in a word of five or more letters.
 */
void nearest_offer(struct nearest *n, const char *name);

#endif
