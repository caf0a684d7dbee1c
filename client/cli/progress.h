/* SPDX-License-Identifier: BSD-3-Clause */
/** progress.h - one line on a terminal that says how far a transfer is. */
#ifndef CLIENT_CLI_PROGRESS_H
#define CLIENT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;       /* stderr is a terminal with escapes, not quiet */
	uint64_t total;   /* bytes, 0: unknown */
	uint64_t start_ns, next_ns;
};

void progress_begin(struct progress *p, bool quiet, uint64_t total);
/** Show `bytes` done, ten times a second at most. */
void progress_show(struct progress *p, uint64_t bytes, uint64_t records);
/** Wipe the line, if one stands there, so that a message can take its place. */
void progress_wipe(void);
/** Wipe the line. Returns the nanoseconds since the beginning, at least 1. */
uint64_t progress_end(struct progress *p);

#endif
