/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * memlimit.h - memory limits: how much this machine and the memory cgroups of this process allow.
 * Read before pages are taken, because beyond a limit the kernel does not refuse but kills a
 * process.
 *
 * Covers cgroups version 2 (memory.max) and 1 (memory.limit_in_bytes), own and ancestors', as
 * far as mounted below /sys/fs/cgroup. A limit that cannot be read does not count.
 */
#ifndef SERVER_MEMORY_MEMLIMIT_H
#define SERVER_MEMORY_MEMLIMIT_H

#include <stddef.h>
#include <stdint.h>

struct room {
	uint64_t total; /* bytes: the smallest of memory and limits */
	uint64_t left;  /* bytes still available, page cache and swap included, minus
				 some MiB for everything else */
	char what[160]; /* the limit that applies: "this machine's memory", "the limit ..." */
};

/** `root` precedes /proc and /sys: "" except in tests. Takes some 0.1 ms. */
void memlimit_read(const char *root, struct room *out);

#endif
