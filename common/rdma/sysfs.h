/* SPDX-License-Identifier: BSD-3-Clause */
/** sysfs.h - for the probe: small kernel files under rdma_probe_root. */
#ifndef COMMON_RDMA_SYSFS_H
#define COMMON_RDMA_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

/** Prefix of /sys, /dev and /lib; tests set it at start, otherwise "". */
extern const char *rdma_probe_root;

/** True if the path exists. */
bool sysfs_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * The first line of a file without its newline, cut to `cap`. False, with buf unchanged, if there
 * is no such file or the line is empty.
 */
bool sysfs_line(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** The last component of a symbolic link's target; false as above. */
bool sysfs_link(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Call fn for every visible name in a folder until it returns non-zero; returns that value,
 * or 0, also if there is no such folder.
 */
int sysfs_each(const char *folder, int (*fn)(void *arg, const char *name),
	       void *arg);

/**
 * True if a list of that kernel's modules ("modules.dep") contains one. *known_out is set
 * if there is such a list.
 */
bool sysfs_module(const char *kernel, const char *list, const char *module,
		  bool *known_out);

#endif
