/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * log.h - one-line messages to stderr for the programs (never on a data path). The library
 * logs nothing.
 */
#ifndef COMMON_BASE_LOG_H
#define COMMON_BASE_LOG_H

#include <stddef.h>

#define LOG_TEXT_MAX 1000u

enum log_level {
	LOG_LEVEL_OFF = 0,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/**
 * Set the program name that begins every line, and the most verbose level shown. Lines are text
 * without the time until log_set_format() is called.
 */
void log_init(const char *program, enum log_level level);

/** How lines look; see log_set_format(). */
enum log_format {
	LOG_FORMAT_TEXT,   /* "TIME program: level: text" */
	LOG_FORMAT_LOGFMT, /* time=TIME level=info program=kvserver msg="text" */
	LOG_FORMAT_JSON,   /* {"time":"TIME","level":"info","program":"kvserver","msg":"text"} */
};

/**
 * Choose the format of the lines, for programs that run for long. From then on lines have the time,
 * in UTC and milliseconds, unless stderr is journald's ($JOURNAL_STREAM): then "<N>" precedes each
 * line, with syslog's number of its level. Any thread.
 */
void log_set_format(enum log_format format);

/** Change the level. Any thread. */
void log_set_level(enum log_level level);

/** The current level. Any thread. */
enum log_level log_get_level(void);

/**
 * From now on no line waits for its reader: a line that does not fit into stderr's pipe, socket or
 * terminal (full, or stopped by Ctrl-S) is dropped, and the number of dropped lines precedes the
 * next one that fits. Call before threads are started.
 *
 * A pipe or terminal is opened a second time, through /proc, because O_NONBLOCK on stderr would
 * affect every process that shares it. Where that is impossible (no /proc, no permission) the pipe
 * is only polled for space, and a line waits if another process uses that space first. A line for a
 * regular file waits for the disk.
 */
void log_never_wait(void);

/**
 * Write at most 4096 bytes to `fd` under the rules of log_never_wait(). Returns 0 or an
 * errno: EAGAIN if it would have to wait.
 */
int log_put(int fd, const char *text, size_t len);

/**
 * Write one line "program: level: text\n", or as log_set_format() says, by one write(2); at most
 * LOG_TEXT_MAX bytes of the text, in which control characters become '?'. Any thread.
 */
void log_msg(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
