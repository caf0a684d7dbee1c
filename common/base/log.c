/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "util.h"

static char log_program[32] = "farkv";
static enum log_level log_level_now = LOG_LEVEL_OFF;
static bool never_wait;
static int stderr_twin = -1; /* see twin_open() */
static uint64_t n_dropped;   /* lines dropped and not yet reported */

void log_init(const char *program, enum log_level level)
{
	snprintf(log_program, sizeof(log_program), "%s", program);
	atom_store_relaxed(&log_level_now, level);
}

enum log_level log_get_level(void)
{
	return atom_load_relaxed(&log_level_now);
}

/* ---- writing without waiting ------------------------------------------------------ */

/*
 * A second, non-blocking descriptor of `fd`'s pipe or terminal; -1 if it is neither, or
 * cannot be opened.
 */
static int twin_open(int fd)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) || !(S_ISFIFO(st.st_mode) || isatty(fd)))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static ssize_t write_now(int fd, int twin, const char *text, size_t len)
{
	ssize_t n = send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0 || errno == EAGAIN || errno == EPIPE)
		return n;
	if (twin >= 0)
		return write(twin, text, len);
	return util_writable(fd) ? write(fd, text, len) : -1;
}

static int put(int fd, int twin, const char *text, size_t len)
{
	ssize_t n = write_now(fd, twin, text, len);

	if (n < 0)
		return errno;
	return (size_t)n == len ? 0 : EAGAIN;
}

int log_put(int fd, const char *text, size_t len)
{
	int twin = twin_open(fd);
	int errnum = put(fd, twin, text, len);

	if (twin >= 0)
		close(twin);
	return errnum;
}

void log_never_wait(void)
{
	if (never_wait)
		return;
	never_wait = true;
	stderr_twin = twin_open(STDERR_FILENO);
}

/* Report how many lines were dropped. False if there is still no space. */
static bool tell_dropped(void)
{
	uint64_t n = atom_exchange(&n_dropped, UINT64_C(0));
	char line[128];
	int len;

	if (!n)
		return true;
	/* A terminal may have taken part of a line: begin a new one. */
	len = snprintf(line, sizeof(line),
		       "%s%s: warning: %llu %s of the log %s dropped\n",
		       isatty(STDERR_FILENO) ? "\n" : "", log_program,
		       (unsigned long long)n, n == 1 ? "line" : "lines",
		       n == 1 ? "was" : "were");
	if (put(STDERR_FILENO, stderr_twin, line, (size_t)len) == 0)
		return true;
	atom_count(&n_dropped, n);
	return false;
}

/* ---- lines ------------------------------------------------------------------------ */

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
	/* A single write, so that lines of threads and processes do not mix. */
	if (!never_wait)
		(void)!write(STDERR_FILENO, line, (size_t)at);
	else if (!tell_dropped() ||
		 put(STDERR_FILENO, stderr_twin, line, (size_t)at))
		atom_count(&n_dropped, 1);
}
