/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

/* Parse digits at *text and advance it. False if there are none, or on overflow. */
static bool parse_digits(const char **text, uint64_t *value_out)
{
	const char *p = *text;
	uint64_t v = 0;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*text = p;
	*value_out = v;
	return true;
}

bool util_parse_u64(const char *text, uint64_t *value_out)
{
	uint64_t v;

	if (!parse_digits(&text, &v) || *text)
		return false;
	*value_out = v;
	return true;
}

bool util_parse_duration(const char *text, uint64_t *ms_out)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
		     {"d", 86400000}};
	uint64_t v;

	if (!parse_digits(&text, &v))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(text, units[i].name) == 0 &&
		    !__builtin_mul_overflow(v, units[i].ms, &v)) {
			*ms_out = v;
			return true;
		}
	return false;
}

bool util_parse_size(const char *text, uint64_t unit, uint64_t *bytes_out)
{
	static const char letters[] = "kmgt";
	uint64_t v;

	if (!parse_digits(&text, &v))
		return false;
	if (*text) {
		const char *at = strchr(letters, tolower((unsigned char)*text));

		if (!at || !*at)
			return false;
		unit = UINT64_C(1) << (10 * (at - letters + 1));
		text++;
		if (*text && strcasecmp(text, "b") != 0 &&
		    strcasecmp(text, "ib") != 0)
			return false;
	}
	if (__builtin_mul_overflow(v, unit, &v))
		return false;
	*bytes_out = v;
	return true;
}

char *util_format_size(uint64_t bytes, char *buf, size_t cap)
{
	static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t u = 0;

	/* 1024.0 is printed as 1.0 of the next unit. */
	while (v >= (u == 0 ? 1024 : 1023.95) && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	snprintf(buf, cap, u == 0 ? "%.0f %s" : "%.1f %s", v, units[u]);
	return buf;
}

/* Length of the control character at `p`, or 0: C0, DEL, and C1 in UTF-8. */
static size_t control_len(const unsigned char *p)
{
	if (p[0] < ' ' || p[0] == 0x7F)
		return 1;
	return p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0 ? 2 : 0;
}

char *util_one_line(char *text)
{
	for (char *p = text; *p; p++)
		for (size_t n = control_len((unsigned char *)p); n > 0; n--)
			p[n - 1] = '?';
	return text;
}

size_t util_utf8_len(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and code points above U+10FFFF. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

void util_occupy_standard_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		bool closed = fcntl(fd, F_GETFD) < 0 && errno == EBADF;

		if (closed && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd &&
		    open("/", O_PATH) != fd) /* no /dev on this machine */
			_exit(EX_OSERR);
	}
}

bool util_writable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int n;

	do
		n = poll(&p, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = EAGAIN;
	return n == 1;
}

bool util_signal_ignored(int sig)
{
	struct sigaction sa;

	return sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
}

void util_end_by_signal(int sig)
{
	if (util_signal_ignored(sig))
		return;
	signal(sig, SIG_DFL);
	raise(sig);
}

bool util_takes_escapes(int fd)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	return isatty(fd) && !(term && strcmp(term, "dumb") == 0) &&
	       !(no_color && *no_color);
}

/* True if no byte of `text` has a meaning for a shell. */
static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("/._-+=,@:%", *text))
			return false;
	return true;
}

const char *util_shell_word(const char *text, char *buf, size_t cap)
{
	size_t n = 0;

	if (is_plain(text) && strlen(text) < cap)
		return strcpy(buf, text);
	/* Between single quotes only a single quote is special. */
	buf[n++] = '\'';
	for (; *text && n + 6 <= cap; text++) {
		const char *as = *text == '\'' ? "'\\''" : NULL;

		if (as)
			n = (size_t)(stpcpy(buf + n, as) - buf);
		else
			buf[n++] = *text;
	}
	strcpy(buf + n, "'");
	return *text ? strcpy(buf, "...") : buf;
}
