/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gen_discrete.h"

bool gen_discrete_init(struct gen_discrete *g, const double *weight, unsigned n)
{
	double sum = 0.0, so_far = 0.0;

	g->n = 0;
	for (unsigned i = 0; i < n; i++)
		sum += weight[i];
	for (unsigned i = 0; i < n; i++) {
		if (weight[i] <= 0.0)
			continue;
		so_far += weight[i];
		/* The last bound may round to 2^64 and is never read. */
		g->below[g->n] = so_far / sum >= 1.0
					 ? UINT64_MAX
					 : (uint64_t)(so_far / sum * 0x1p64);
		g->choice[g->n++] = i;
	}
	return g->n > 0;
}
