/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
#include "util.h"

static char log_program[32] = "farkv";
static enum log_level log_level_now = LOG_LEVEL_OFF;
static bool never_wait;
static int stderr_twin = -1; /* see twin_open() */
static enum log_format log_format_now;
static bool stamped, numbered; /* lines begin with the time; with syslog's number */
static uint64_t n_dropped;   /* lines dropped and not yet reported */

void log_init(const char *program, enum log_level level)
{
	snprintf(log_program, sizeof(log_program), "%s", program);
	atom_store_relaxed(&log_level_now, level);
	atom_store_relaxed(&log_format_now, LOG_FORMAT_TEXT);
	atom_store_relaxed(&numbered, false);
	atom_store_relaxed(&stamped, false);
}

void log_set_level(enum log_level level)
{
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

/* ---- lines ------------------------------------------------------------------------ */

/* JSON needs up to two bytes for each byte of the text. */
#define LOG_LINE_MAX (2 * LOG_TEXT_MAX + 200)

static const struct {
	const char *name, *word; /* word: in lines of text */
	int priority;
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", "error: ", LOG_ERR},
	[LOG_LEVEL_WARN] = {"warning", "warning: ", LOG_WARNING},
	[LOG_LEVEL_INFO] = {"info", "", LOG_INFO},
	[LOG_LEVEL_DEBUG] = {"debug", "debug: ", LOG_DEBUG},
};

/* True if stderr is the pipe of which systemd says that journald reads it. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t)dev &&
	       st.st_ino == (ino_t)ino;
}

void log_set_format(enum log_format format)
{
	bool journal = is_journal();

	atom_store_relaxed(&log_format_now, format);
	atom_store_relaxed(&numbered, journal);
	atom_store_relaxed(&stamped, !journal);
}

/* "2026-11-29T12:30:00.123Z" and `after`; empty if lines are not stamped. */
static const char *stamp(char *buf, size_t cap, const char *after)
{
	struct timespec now;
	size_t n = 0;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (atom_load_relaxed(&stamped) && gmtime_r(&now.tv_sec, &tm))
		n = strftime(buf, cap, "%Y-%m-%dT%H:%M:%S", &tm);
	if (n)
		snprintf(buf + n, cap - n, ".%03ldZ%s", now.tv_nsec / 1000000, after);
	else
		buf[0] = '\0';
	return buf;
}

/* The text between double quotes, for JSON and logfmt. Other bytes than UTF-8 become '?'. */
static const char *quote(const char *text, char *buf)
{
	const char *p = text;
	char *at = buf;

	while (*p) {
		size_t n = util_utf8_len(p);

		if (*p == '"' || *p == '\\')
			*at++ = '\\';
		if (n)
			memcpy(at, p, n);
		else
			*at = '?';
		at += n ? n : 1;
		p += n ? n : 1;
	}
	*at = '\0';
	return buf;
}

/* A whole line. Returns its length. */
static size_t format_line(enum log_level level, const char *text, char line[LOG_LINE_MAX])
{
	char when[48], number[8] = "", quoted[2 * LOG_TEXT_MAX + 1];
	const char *name = levels[level].name;
	int n;

	if (atom_load_relaxed(&numbered))
		snprintf(number, sizeof(number), "<%d>", levels[level].priority);
	switch (atom_load_relaxed(&log_format_now)) {
	case LOG_FORMAT_JSON:
		stamp(when, sizeof(when), "\",");
		n = snprintf(line, LOG_LINE_MAX, "%s{%s%s\"level\":\"%s\",\"program\":\"%s\",\"msg\":\"%s\"}\n",
			     number, *when ? "\"time\":\"" : "", when, name, log_program,
			     quote(text, quoted));
		break;
	case LOG_FORMAT_LOGFMT:
		stamp(when, sizeof(when), " ");
		n = snprintf(line, LOG_LINE_MAX, "%s%s%slevel=%s program=%s msg=\"%s\"\n", number,
			     *when ? "time=" : "", when, name, log_program, quote(text, quoted));
		break;
	default:
		n = snprintf(line, LOG_LINE_MAX, "%s%s%s: %s%s\n", number,
			     stamp(when, sizeof(when), " "), log_program, levels[level].word, text);
	}
	return UTIL_MIN((size_t)n, LOG_LINE_MAX - 1);
}

/* Report how many lines were dropped. False if there is still no space. */
static bool report_dropped(void)
{
	uint64_t n = atom_exchange(&n_dropped, UINT64_C(0));
	char text[80], line[LOG_LINE_MAX + 1];
	size_t len;

	if (!n)
		return true;
	snprintf(text, sizeof(text), "%llu %s of the log %s dropped", (unsigned long long)n,
		 n == 1 ? "line" : "lines", n == 1 ? "was" : "were");
	/* A terminal may have taken part of a line: begin a new one. */
	line[0] = '\n';
	len = format_line(LOG_LEVEL_WARN, text, line + 1);
	if (put(STDERR_FILENO, stderr_twin, isatty(STDERR_FILENO) ? line : line + 1,
		isatty(STDERR_FILENO) ? len + 1 : len) == 0)
		return true;
	atom_count(&n_dropped, n);
	return false;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char text[LOG_TEXT_MAX + 1], line[LOG_LINE_MAX];
	size_t len;
	va_list ap;

	if (level > log_get_level() || level == LOG_LEVEL_OFF)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	len = format_line(level, util_one_line(text), line);
	/* A single write, so that lines of threads and processes do not mix. */
	if (!never_wait)
		(void)!write(STDERR_FILENO, line, len);
	else if (!report_dropped() || put(STDERR_FILENO, stderr_twin, line, len))
		atom_count(&n_dropped, 1);
}
