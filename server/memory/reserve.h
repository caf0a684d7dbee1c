/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * reserve.h - reserves memory for pages before they are granted.
 *
 * The kernel allocates a page of the region at its first touch, and kills the process that
 * touches one when there is no memory: by SIGBUS (vm.overcommit_memory=2, limits of tmpfs and
 * hugetlb) or by the OOM killer (memory cgroups). So each run of pages is reserved by
 * fallocate(2) when the heap first allocates it. If the kernel refuses, or a limit would be
 * passed (memlimit.h), the client gets "no memory".
 *
 * Event loop only, apart from limits_admit() and limits_taken(). A reserved page stays
 * reserved.
 */
#ifndef SERVER_MEMORY_RESERVE_H
#define SERVER_MEMORY_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

struct reserve;

/**
 * For the file `fd`, which stays the caller's. `bounded`: its memory counts against the limits
 * of memlimit.h. NULL if out of memory.
 */
struct reserve *reserve_new(int fd, bool bounded);
void reserve_free(struct reserve *r);
/** Log failures from now on. Until then the caller reports them. */
void reserve_log(struct reserve *r);

/**
 * Reserve bytes off..off+bytes, and up to `more` after them if possible. Returns the number
 * reserved, or 0 with a detail, then nothing is guaranteed. For 100 ms after a failure it
 * fails without asking. Logs the first failure and the first success after it
 * (reserve_log()). Time: the kernel's, 0.3 us for 4 KiB.
 */
uint64_t reserve_bytes(struct reserve *r, uint64_t off, uint64_t bytes, uint64_t more);

/**
 * Any thread that is about to take memory: true if the limits of memlimit.h allow `bytes` and leave
 * `spare` more, whatever other threads of this process are just taking. After true the caller takes
 * the bytes, or fails to, and then calls limits_taken().
 */
bool limits_admit(uint64_t bytes, uint64_t spare);
void limits_taken(uint64_t bytes);

/** The number of failures, and whether the last call failed; 0 and false for NULL. */
uint64_t reserve_refused(const struct reserve *r);
bool reserve_failing(const struct reserve *r);

#endif
