/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * reserve.h - pages are there before anybody is given them.
 *
 * A page of the region is taken from the kernel when it is first touched, and a process
 * that touches one that cannot be had is killed: by SIGBUS (vm.overcommit_memory=2, limits
 * of tmpfs and hugetlb) or by the OOM killer (memory cgroups). So each run of pages is reserved, by
 * fallocate(2), when the heap deals it out first; what the kernel does not give, and
 * what would pass a limit (room.h), is "no memory".
 *
 * The control thread's. A page that was reserved stays.
 */
#ifndef SERVER_RESERVE_H
#define SERVER_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

struct reserve;

/**
 * For the file `fd`, which stays the caller's. `bounded`: it takes memory that room.h
 * counts. NULL if out of memory.
 */
struct reserve *reserve_new(int fd, bool bounded);
void reserve_free(struct reserve *r);
/** From now on failures are logged. Before that they are the caller's to report. */
void reserve_log(struct reserve *r);

/**
 * Bytes off..off+bytes are there, and up to `more` after them if they can be had:
 * returns how many, or 0 with a detail: nothing is promised then. For 100 ms after a
 * "no" the next one is given without asking. Logs a line when it begins to fail and one
 * when it works again (reserve_log()). Time: what the kernel takes, 0.3 us for 4 KiB.
 */
uint64_t reserve_bytes(struct reserve *r, uint64_t off, uint64_t bytes, uint64_t more);

/** How often it said no, and whether it did so last; never, of NULL. */
uint64_t reserve_refused(const struct reserve *r);
bool reserve_failing(const struct reserve *r);

#endif
