/* SPDX-License-Identifier: BSD-3-Clause */
/** proc.h - identify a process by PID and start time, and wait for its end. */
#ifndef COMMON_BASE_PROC_H
#define COMMON_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Field 22 of /proc/PID/stat, in clock ticks since boot; 0 if it is unknown or there is no such
 * process.
 */
uint64_t proc_start_time(pid_t pid);

/**
 * Wait until process `pid` that started at `start_time` has ended: its files are closed then and
 * the queue pairs of its devices destroyed. True at once if there is no such process, or the PID
 * now belongs to another one. False after `timeout_ms`.
 */
bool proc_await_end(pid_t pid, uint64_t start_time, int timeout_ms);

/**
 * True if process `pid` has ended or does not exist; false if it runs or that is unknown. Never
 * waits.
 */
bool proc_has_ended(pid_t pid);

#endif
