/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gate.h"

#include "common/base/atomic.h"

struct gate_counts gate_totals(struct gate *g)
{
	struct gate_counts t = {0};
	uint64_t *sum = (uint64_t *)&t;

	for (uint64_t w = 0; w < g->n_workers; w++) {
		const uint64_t *of = (const uint64_t *)&g->counts[w];

		for (size_t i = 0; i < sizeof(t) / sizeof(*sum); i++)
			sum[i] += atom_load_relaxed(&of[i]);
	}
	return t;
}
