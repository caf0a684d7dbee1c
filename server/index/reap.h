/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * reap.h - expired values of one subtable become tombstones, so that a compaction frees them.
 *
 * A value's word W is swapped for W with the dead mark and without the blind one (R0): the write
 * is the server's own, and no client's put may be absorbed by it. The CAS finds W, so the header
 * that was read is that of W's block (I2), and CLOCK had been written before that look.
 *
 * One subtable at a time, in the event loop's thread. Swaps by the lane of the migrations. Reads
 * the header of a value when its word is new, when its time is over, and every minute. In between
 * it hashes a line's words, to find out whether there is a new one: 1 ns for each. It keeps 10 KiB
 * for each subtable, in memory of the server's own.
 */
#ifndef SERVER_INDEX_REAP_H
#define SERVER_INDEX_REAP_H

#include <stdbool.h>
#include <stdint.h>

#include <farkv.h>

#include "common/xport/xport.h"
#include "server/memory/region.h"

struct reaper;

/** What is in the subtable. */
struct reap_counts {
	uint32_t live, dead; /* dead: those of `expired`, too */
	uint32_t expired;    /* values that this reaper has removed */
	uint32_t by_size[FARKV_SIZES]; /* of the expired, by class_octave() */
	uint64_t dead_bytes; /* of the blocks of the dead */
};

enum reap_state {
	REAP_MORE, /* call again */
	REAP_DONE,
	REAP_LOST, /* the lane broke; begin again later */
};

/** The arguments stay the caller's. NULL if out of memory. */
struct reaper *reaper_new(const struct region *r, struct xport_lane *lane);
/** No request of it may be in flight on a lane that works. NULL is allowed. */
void reaper_free(struct reaper *p);

/**
 * Begin with the subtable that the directory's entry names. It must not be under migration. A
 * migration of it may begin later: its requests follow on the same lane, so that the page is
 * retired after the reaper's are over.
 */
void reaper_begin(struct reaper *p, uint64_t entry);

/**
 * Continue until `until_ns` (clock_now_ns()); `clock_ms` is what CLOCK holds, not 0.
 */
enum reap_state reaper_step(struct reaper *p, uint64_t clock_ms, uint64_t until_ns);

/** After REAP_DONE: values that it has removed since reaper_begin(). */
uint32_t reaper_expired(const struct reaper *p);
/** After REAP_DONE. Looks at all slots. */
struct reap_counts reaper_counts(const struct reaper *p);

#endif
