/* SPDX-License-Identifier: BSD-3-Clause */
/** stats.h - the figures behind STATS; items are counted by a scan of the index. */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include <stdint.h>

#include "common/msg.h"
#include "region.h"
#include "slab.h"

struct stats {
	uint64_t started_ns;
	uint64_t sessions, sessions_total;
	uint64_t grants, hints, protocol_errors;
	uint64_t scanned_ns; /* when the items were last counted; 0 never */
	uint64_t items, dead, item_bytes;
};

/** Fill in a STATS message; scans the slots at most once a second. */
void stats_fill(struct stats *st, const struct region *r,
		const struct slab *slab, struct msg *m_out);

#endif
