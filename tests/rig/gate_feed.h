/* SPDX-License-Identifier: BSD-3-Clause */
/** gate_feed.h - bytes that reach kvgate's parsers in pieces, and what they make of them. */
#ifndef TESTS_RIG_GATE_FEED_H
#define TESTS_RIG_GATE_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/buf.h"

/**
 * Parse `data`, of which `first` bytes arrive at once and then `rest` (not 0) at a time, each time
 * in memory of exactly their number. Writes one line for each request, "<GET> <key>", with the
 * data block of a request of memcached after a '|', and "BAD <text>" for the end.
 */
typedef void gate_feed(const void *data, size_t len, size_t first, size_t rest,
		       struct buf *trace);
gate_feed gate_feed_resp, gate_feed_mc;

/**
 * True if the bytes after the first two read the same in one piece as in pieces, which those two
 * describe.
 */
bool gate_feed_same(gate_feed *feed, const uint8_t *data, size_t size);

/** The limits that both use. */
#define GATE_FEED_REQUEST_MAX 100000
#define GATE_FEED_VALUE_MAX 1000

#endif
