/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/scan.h - list the keys of one subtable after another, in the order of their hashes.
 *
 * A cursor is a hash position: all keys whose hash is smaller have been listed. A scan has no other
 * state, so it survives splits, compactions and reconnects. doc/protocol.md, "Scan", has the rule
 * and its proof.
 */
#ifndef COMMON_INDEX_SCAN_H
#define COMMON_INDEX_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

struct index;
struct index_scan;

/** Bytes of keys that one call returns, at most. More than WINDOW_SLOTS of the longest keys. */
#define SCAN_KEYS_BYTES ((size_t)8 << 20)

/** Memory for the results of scans, some 400 KiB. NULL if out of memory. */
struct index_scan *index_scan_new(void);
/** NULL is allowed. */
void index_scan_free(struct index_scan *s);

/**
 * List the keys from *cursor on, up to `max` of them (FARKV_SCAN_MIN or more), but not beyond the
 * end of the subtable that the position lies in; sets the new cursor, which is 0 after the last
 * key. index_scan_items() has the keys; there may be none.
 *
 * A key that has a value from the first call with cursor 0 to the last is listed exactly once. Any
 * other key is listed at most once, if it had a value at a moment during the call that lists it.
 * Version, length and time to live are those of such a moment. An expired value does not count.
 *
 * Inside the critical section. Spins on the lane, until `deadline_ns` (clock_now_ns()) at most.
 * FARKV_ECORRUPT: some blocks of the subtable cannot be read; all else is as after 0. After the
 * following there are no keys, and the cursor is unchanged: FARKV_EDISCONNECTED, FARKV_EPERM,
 * FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_EFORMAT (the directory is damaged).
 *
 * Cost: one round trip for the subtable and one for each 128 of its keys, whatever `max` is: the
 * hash is in the block, so the heads of all blocks must be READ to find the first keys.
 */
int index_scan(struct index *ix, struct index_scan *s, uint64_t *cursor, size_t max,
	       uint64_t deadline_ns);

/** The keys that the last index_scan() found. They and the array are valid until the next one. */
const struct farkv_scan_item *index_scan_items(const struct index_scan *s, size_t *n_out);

#endif
