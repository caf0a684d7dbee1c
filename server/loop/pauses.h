/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * pauses.h - the longest times for which the event loop did one thing and answered nobody.
 *
 * Single calls, gets and puts above all, do not notice them; requests for blocks and for
 * statistics, and new clients, do. Event loop only.
 */
#ifndef SERVER_LOOP_PAUSES_H
#define SERVER_LOOP_PAUSES_H

#include <stdint.h>

#include "common/proto/msg.h"

#define PAUSES_MAX 32u

struct pause {
	uint64_t ns;     /* how long */
	uint64_t end_ns; /* clock_now_ns() */
	enum msg_pause_kind kind;
};

/** Limits of the histograms: each is ten times the one before it. */
#define PAUSES_BUCKETS 6u
#define PAUSES_BUCKET_NS UINT64_C(10000) /* the first one's */

/** All of one kind, however short. */
struct pause_sum {
	uint64_t ns;
	uint64_t n[PAUSES_BUCKETS + 1]; /* by their bucket; the last one is for longer ones */
};

/** Zeroed: none yet. */
struct pauses {
	struct pause_sum sum[MSG_PAUSE_KIND_END]; /* by their kind */
	struct pause longest[PAUSES_MAX]; /* the longest first */
	uint32_t n;
};

/** What began at `since_ns` (clock_now_ns()) has just ended; kept if it is one of the longest. */
void pauses_add(struct pauses *p, enum msg_pause_kind kind, uint64_t since_ns);

#endif
