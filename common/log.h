/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * log.h - one-line messages to stderr for the programs (never on a data path).
 * The library logs nothing.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

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
 * Write one line "program: level: text\n" by a single write(2); at most 1023
 * bytes, control characters in the text become '?'.
 */
void log_msg(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
