/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * expire.h - CLOCK, and the values that nobody asks for after they have expired.
 *
 * CLOCK is 0 until the first session asks for it. From then on it is written every 10 ms, and the
 * reaper (server/index/reap.h) walks over the index every two seconds, for at most a tenth of the
 * time. A subtable half of whose keys are dead, or whose dead keys have a MiB of blocks, is
 * compacted, which frees these blocks. Earlier would cost more: a compaction reads the keys of all
 * living values. Where memory is short grow.h finds the tombstones before that.
 */
#ifndef SERVER_LOOP_EXPIRE_H
#define SERVER_LOOP_EXPIRE_H

#include <stdbool.h>
#include <stdint.h>

struct control;
struct loop_module;
struct session;
struct msg;

/** To be made after grow_module, whose lane it uses. */
extern const struct loop_module expire_module;

/** Handle CLOCK_START; false: the session is gone. */
bool expire_on_start(struct session *s, const struct msg *m);

/** Values that the reaper has removed, ever, by class_octave(). */
const uint64_t *expire_counts(const struct control *c);

#endif
