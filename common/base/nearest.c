/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "nearest.h"

#include <string.h>

#include "util.h"

#define LEN_MAX 32 /* longest word or name that is compared */

/* Optimal string alignment distance; keeps the last three rows of the table. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][LEN_MAX + 1], *row = rows[0], *last = rows[1],
				       *before = rows[2];
	size_t len_a = strlen(a), len_b = strlen(b);

	for (unsigned k = 0; k <= len_b; k++)
		last[k] = k;
	for (unsigned i = 1; i <= len_a; i++) {
		unsigned *oldest = before;

		row[0] = i;
		for (unsigned k = 1; k <= len_b; k++) {
			unsigned change = last[k - 1] + (a[i - 1] != b[k - 1]);

			row[k] = UTIL_MIN(UTIL_MIN(last[k], row[k - 1]) + 1,
					  change);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] &&
			    a[i - 2] == b[k - 1])
				row[k] = UTIL_MIN(row[k], before[k - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[len_b];
}

void nearest_offer(struct nearest *n, const char *name)
{
	size_t len = strlen(n->word);
	unsigned d, most = len < 2 ? 0 : len < 5 ? 1 : 2;

	if (len > LEN_MAX || strlen(name) > LEN_MAX)
		return;
	d = distance(n->word, name);
	if (d > most || (n->name && d >= n->distance))
		return;
	n->name = name;
	n->distance = d;
}
