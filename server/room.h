/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * room.h - how much memory this machine, and the memory cgroups that this process is in,
 * allow. Asked for before pages are taken: where a limit is passed the kernel does not
 * refuse but kills a process.
 *
 * Of cgroups version 2 (memory.max) and 1 (memory.limit_in_bytes), own and ancestors', as
 * far as they are mounted below /sys/fs/cgroup. What cannot be read limits nothing.
 */
#ifndef SERVER_ROOM_H
#define SERVER_ROOM_H

#include <stddef.h>
#include <stdint.h>

struct room {
	uint64_t total; /* bytes: the smallest of memory and limits */
	uint64_t left;  /* ... that can still be had, page cache and swap included; less
			   some MiB for everything else */
	char what[160]; /* which is that total: "this machine's memory", "the limit ..." */
};

/** `root` is put before /proc and /sys: "" unless a test made a tree. Some 0.1 ms. */
void room_read(const char *root, struct room *out);

#endif
