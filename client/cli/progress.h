/* SPDX-License-Identifier: BSD-3-Clause */
/** progress.h - a transfer's progress as one line on a terminal. */
#ifndef CLIENT_CLI_PROGRESS_H
#define CLIENT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;       /* stderr is a terminal with escapes, and not quiet */
	uint64_t total;   /* bytes, 0: unknown */
	uint64_t start_ns, next_ns;
};

void progress_begin(struct progress *p, bool quiet, uint64_t total);
/** Show `bytes` done, at most ten times a second. */
void progress_show(struct progress *p, uint64_t bytes, uint64_t records);
/** progress_show() for a known part, of 1, of an unknown number of bytes; below 0: unknown. */
void progress_show_part(struct progress *p, double part, uint64_t bytes, uint64_t records);
/** Show any text after the part. */
void progress_show_text(struct progress *p, double part, const char *text);
/** Clear the line, if there is one, before a message. */
void progress_wipe(void);
/** Clear the line. Returns the ns since the beginning, at least 1. */
uint64_t progress_end(struct progress *p);

#endif
