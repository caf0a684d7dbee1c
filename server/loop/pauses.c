/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "pauses.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/util.h"

void pauses_add(struct pauses *p, enum msg_pause_kind kind, uint64_t since_ns)
{
	uint64_t now = clock_now_ns(), ns = now - since_ns;
	struct pause_sum *sum = &p->sum[kind];
	uint32_t at = p->n, bucket = 0;

	for (uint64_t most = PAUSES_BUCKET_NS; bucket < PAUSES_BUCKETS && ns > most; most *= 10)
		bucket++;
	sum->ns += ns;
	sum->n[bucket]++;
	while (at > 0 && p->longest[at - 1].ns < ns)
		at--;
	if (at == PAUSES_MAX)
		return;
	p->n = UTIL_MIN(p->n + 1, PAUSES_MAX);
	memmove(&p->longest[at + 1], &p->longest[at], (p->n - 1 - at) * sizeof(p->longest[0]));
	p->longest[at] = (struct pause){ns, now, kind};
}
