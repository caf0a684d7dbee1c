/* SPDX-License-Identifier: BSD-3-Clause */
/** rdma_sysfs.h - for the probe: small files of the kernel, below rdma_probe_root. */
#ifndef COMMON_RDMA_SYSFS_H
#define COMMON_RDMA_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/** Is there anything under that path? */
bool sysfs_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * The first line of a file without its end, cut to `cap`. Returns false, buf as it
 * was, if there is none or it is empty.
 */
bool sysfs_line(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The last part of what a symbolic link leads to; false as above. */
bool sysfs_link(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Call fn for every name in a folder, hidden ones left out, until it returns
 * non-zero; returns that, or 0, also for a folder that is not there.
 */
int sysfs_each(const char *folder, int (*fn)(void *arg, const char *name),
	       void *arg);

/**
 * Does a list of modules of that kernel ("modules.dep") name one? *known_out
 * becomes true if there is such a list at all.
 */
bool sysfs_module(const char *kernel, const char *list, const char *module,
		  bool *known_out);

#endif
