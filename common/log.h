/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * log.h - one-line messages to stderr for the programs (never on a data path).
 * The library logs nothing, and writes to neither stdout nor stderr.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stddef.h>

enum log_level {
	LOG_LEVEL_OFF = 0,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/** Set the program name that starts every line, and the highest level shown. */
void log_init(const char *program, enum log_level level);

/** The level in force. Safe from any thread. */
enum log_level log_get_level(void);

/**
 * From now on no line waits for its reader: one that does not fit into stderr's pipe,
 * socket or terminal (full, or stopped by Ctrl-S) is dropped and counted, and the next
 * line that there is room for is preceded by one that says how many were. For programs that must go on whether or
 * not anybody reads their log; without this call lines wait, as those of other programs
 * do. Before threads are started.
 *
 * A pipe or terminal is opened a second time, through /proc, to be written without
 * waiting: O_NONBLOCK on stderr itself would change it for every process that shares it.
 * Where that is not possible (no /proc, no permission) the pipe is only asked whether it
 * has room, and a line waits if another process takes that room in between. A regular file
 * waits for its disk.
 */
void log_never_wait(void);

/**
 * Write `len` bytes to `fd`, at most 4096, under the rules of log_never_wait().
 * Returns 0 or an errno: EAGAIN if they would have had to wait.
 */
int log_put(int fd, const char *text, size_t len);

/**
 * Write one line "program: level: text\n" by a single write(2); at most 1023
 * bytes, control characters in the text become '?'. Safe from any thread.
 */
void log_msg(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
