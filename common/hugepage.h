/* SPDX-License-Identifier: BSD-3-Clause */
/** hugepage.h - shared memory in pages of 2 MiB, also where the system's default is none. */
#ifndef COMMON_HUGEPAGE_H
#define COMMON_HUGEPAGE_H

#include <stdbool.h>
#include <stdint.h>

#define HUGEPAGE_BYTES (UINT64_C(2) << 20)

/**
 * `bytes` of the file from its start, shared and read-write, at an address where its pages
 * can be huge ones. MAP_FAILED with errno otherwise.
 */
void *hugepage_map(int fd, uint64_t bytes);

/**
 * Make [at, at + bytes) of such a mapping huge pages, here and for whoever maps them later;
 * both are multiples of HUGEPAGE_BYTES. What stands there stays. Linux 6.1 and later does
 * it for a memfd whatever /sys/kernel/mm/transparent_hugepage/shmem_enabled says, but
 * "deny" (madvise(2), MADV_COLLAPSE). 0.2 ms for each 2 MiB of nothing, 2 to 4 ms if all of
 * it has been written before, or a virtual machine's host has to find the memory. False
 * with errno if it was not done for all; EAGAIN may pass.
 */
bool hugepage_collapse(void *at, uint64_t bytes);

#endif
