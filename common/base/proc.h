/* SPDX-License-Identifier: BSD-3-Clause */
/** proc.h - which process is meant by a number: its start time, and waiting for its end. */
#ifndef COMMON_BASE_PROC_H
#define COMMON_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Field 22 of /proc/PID/stat, in clock ticks since boot; 0: unknown, or no such process. */
uint64_t proc_start_time(pid_t pid);

/**
 * Wait until process `pid` that started at `start_time` has ended: then its files are closed and
 * the queue pairs of its devices are destroyed. True at once if it is another process now, or none.
 * False after `timeout_ms`.
 */
bool proc_await_end(pid_t pid, uint64_t start_time, int timeout_ms);

/** True if process `pid` has ended, or there is none; false if that cannot be told. Never waits. */
bool proc_has_ended(pid_t pid);

#endif
