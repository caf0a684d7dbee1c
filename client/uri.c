/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "uri.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <farkv.h>

#include "common/err.h"

#define URI_FORM "write shm:///path/to/socket, or a path with a '/'"
/* As much of a bad address as a message shows. */
#define URI_SHOWN 120

/* The address as it can be printed: control characters become '?'. */
static const char *uri_show(const char *text, char buf[URI_SHOWN + 4])
{
	size_t n = 0;

	for (; text[n] && n < URI_SHOWN; n++) {
		unsigned char c = (unsigned char)text[n];

		buf[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
	}
	strcpy(buf + n, text[n] ? "..." : "");
	return buf;
}

/* Refuse `text`; `at` points into it, where reading stopped. */
static int uri_bad(const char *text, const char *at, const char *what)
{
	char shown[URI_SHOWN + 4];

	return err_set(FARKV_EURI, "address '%s', character %zu: %s; %s",
		       uri_show(text, shown), (size_t)(at - text) + 1, what,
		       URI_FORM);
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Length of "name" if the text starts with "name:" as RFC 3986 spells a scheme,
 * otherwise 0. A path may hold colons too, but only behind its first slash.
 */
static size_t scheme_len(const char *text)
{
	size_t n = 0;

	if (!is_alpha(text[0]))
		return 0;
	while (is_alpha(text[n]) || is_digit(text[n]) || text[n] == '+' ||
	       text[n] == '-' || text[n] == '.')
		n++;
	return text[n] == ':' ? n : 0;
}

static bool scheme_is(const char *text, size_t len, const char *name)
{
	return strlen(name) == len && strncasecmp(text, name, len) == 0;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* One character of a path, from `*p` on; -1 after an error was reported. */
static int path_char(const char *text, const char **p, bool escapes)
{
	const char *at = *p;
	int c = (unsigned char)*at;

	*p = at + 1;
	if (escapes && c == '%') {
		int hi = hex_digit(at[1]);
		int lo = hi < 0 ? -1 : hex_digit(at[2]);

		if (lo < 0) {
			uri_bad(text, at, "'%' needs two hexadecimal digits");
			return -1;
		}
		c = hi * 16 + lo;
		*p = at + 3;
	} else if (escapes && (c == '?' || c == '#')) {
		uri_bad(text, at, "shm:// takes a path and nothing else "
				  "('?' is written %3F, '#' is written %23)");
		return -1;
	}
	if (c < 0x20 || c == 0x7f) {
		uri_bad(text, at, "control characters are not allowed");
		return -1;
	}
	return c;
}

static int path_parse(const char *text, const char *from, bool escapes,
		      struct uri *out)
{
	char path[SOCKPATH_MAX];
	const char *p = from;
	size_t n = 0;

	while (*p) {
		const char *at = p;
		int c = path_char(text, &p, escapes);

		if (c < 0)
			return FARKV_EURI;
		if (n == sizeof(path) - 1)
			return uri_bad(text, at, "a socket's path has at most "
						 "107 bytes");
		path[n++] = (char)c;
	}
	path[n] = '\0';
	if (path[n - 1] == '/')
		return uri_bad(text, p, "this names a directory, not a socket");
	memcpy(out->path, path, n + 1);
	return 0;
}

static int shm_parse(const char *text, const char *rest, struct uri *out)
{
	if (strncmp(rest, "//", 2) != 0)
		return uri_bad(text, rest, "'//' must follow 'shm:'");
	rest += 2;
	if (*rest == '\0')
		return uri_bad(text, rest, "the path is missing");
	if (*rest != '/')
		return uri_bad(text, rest, "the path must be absolute: three "
					   "slashes, and no host name");
	return path_parse(text, rest, true, out);
}

/* A port number 1..65535 that ends the text. */
static bool port_ok(const char *p)
{
	unsigned long port = 0;
	size_t n = 0;

	for (; is_digit(p[n]) && n < 6; n++)
		port = port * 10 + (unsigned long)(p[n] - '0');
	return n > 0 && p[n] == '\0' && port >= 1 && port <= 65535;
}

/*
 * kv:// is read in full, so that a typing error is not answered with "build
 * another library".
 */
static int kv_parse(const char *text, const char *rest)
{
	char shown[URI_SHOWN + 4];
	const char *host, *end;

	if (strncmp(rest, "//", 2) != 0)
		return uri_bad(text, rest, "'//' must follow 'kv:'");
	host = rest + 2;
	if (*host == '[') {
		end = strchr(host, ']');
		if (!end)
			return uri_bad(text, host, "']' is missing");
		end++;
	} else {
		end = host + strcspn(host, ":/?#");
	}
	if (end == host)
		return uri_bad(text, host, "the host name is missing");
	if (*end != ':' || !port_ok(end + 1))
		return uri_bad(text, end,
			       "kv://HOST:PORT takes a port from 1 to 65535");
	return err_set(FARKV_ENOTSUP,
		       "address '%s': this build has no RDMA transport; on the "
		       "server's own machine use shm:///path/to/socket",
		       uri_show(text, shown));
}

static int uri_parse(const char *text, struct uri *out)
{
	size_t scheme = scheme_len(text);

	if (*text == '\0')
		return uri_bad(text, text, "the address is empty");
	if (scheme_is(text, scheme, "shm"))
		return shm_parse(text, text + scheme + 1, out);
	if (scheme_is(text, scheme, "kv"))
		return kv_parse(text, text + scheme + 1);
	if (scheme > 0)
		return uri_bad(text, text,
			       "unknown scheme (a path with a colon is written "
			       "./like:this)");
	if (!strchr(text, '/'))
		return uri_bad(text, text, "neither a scheme nor a '/' in it "
					   "(a file here is written ./name)");
	return path_parse(text, text, false, out);
}

int uri_resolve(const char *text, struct uri *out)
{
	if (!text) {
		text = getenv("FARKV_URI");
		if (!text || *text == '\0')
			return sockpath_client_default(out->path,
						       sizeof(out->path));
	}
	return uri_parse(text, out);
}
