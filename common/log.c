/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "atomic.h"
#include "util.h"

static char log_program[32] = "farkv";
static enum log_level log_level_now = LOG_LEVEL_OFF;

void log_init(const char *program, enum log_level level)
{
	snprintf(log_program, sizeof(log_program), "%s", program);
	atom_store_relaxed(&log_level_now, level);
}

enum log_level log_get_level(void)
{
	return atom_load_relaxed(&log_level_now);
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	static const char *const words[] = {"", "error: ", "warning: ", "",
					    "debug: "};
	char line[1024];
	va_list ap;
	int at;

	if (level > log_get_level() || level == LOG_LEVEL_OFF)
		return;
	at = snprintf(line, sizeof(line), "%s: %s", log_program, words[level]);
	va_start(ap, fmt);
	at += vsnprintf(line + at, sizeof(line) - (size_t)at, fmt, ap);
	va_end(ap);
	util_one_line(line);
	at = UTIL_MIN(at, (int)sizeof(line) - 2);
	line[at++] = '\n';
	/* One write: lines of several threads and processes do not mix. */
	(void)!write(STDERR_FILENO, line, (size_t)at);
}
