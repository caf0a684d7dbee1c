/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "uri.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"

#define URI_FORM \
	"write shm:///path/to/socket, a path with a '/', or kv://host:port"
/* Bytes of a bad address that a message shows. */
#define URI_SHOWN 120

/* The address in printable form: control characters become '?'. */
static const char *uri_show(const char *text, char buf[URI_SHOWN + 4])
{
	size_t n = 0;

	for (; n < URI_SHOWN && text[n]; n++) {
		unsigned char c = (unsigned char)text[n];

		buf[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
	}
	strcpy(buf + n, text[n] ? "..." : "");
	return buf;
}

/* Report a bad `text`; `at` points to the place in it. */
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
 * Length of "name" if the text starts with "name:", a scheme as in RFC 3986; otherwise 0. A path
 * may contain colons, too, but only after its first slash.
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

/* Read one character of a path at `*p`; -1 after an error was reported. */
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
		uri_bad(text, at, c == '?' ? "only one '?' may stand here; in a name "
					     "it is written %3F" :
					     "'#' is written %23");
		return -1;
	}
	if (c < 0x20 || c == 0x7f) {
		uri_bad(text, at, "control characters are not allowed");
		return -1;
	}
	return c;
}

static int path_parse(const char *text, const char *from, const char *end,
		      bool escapes, struct uri *out)
{
	char path[SOCKPATH_MAX];
	const char *p = from;
	size_t n = 0;

	while (p < end) {
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
	if (n > 0 && path[n - 1] == '/')
		return uri_bad(text, p, "this names a directory, not a socket");
	memcpy(out->path, path, n + 1);
	return 0;
}

static int options_parse(const char *text, const char *p, struct uri *out);

static int shm_parse(const char *text, const char *rest, struct uri *out)
{
	const char *end;
	struct uri u = {0};
	int err;

	if (strncmp(rest, "//", 2) != 0)
		return uri_bad(text, rest, "'//' must follow 'shm:'");
	rest += 2;
	if (*rest == '\0')
		return uri_bad(text, rest, "the path is missing");
	if (*rest != '/')
		return uri_bad(text, rest, "the path must be absolute: three "
					   "slashes, and no host name");
	end = rest + strcspn(rest, "?");
	err = path_parse(text, rest, end, true, &u);
	if (!err && *end)
		err = options_parse(text, end + 1, &u);
	if (!err)
		*out = u;
	return err;
}

/* ---- ?NAME=VALUE&... --------------------------------------------------------------- */

/* Parse `len` characters as a number of at most `max`; false if they are none. */
static bool number(const char *p, size_t len, unsigned long max,
		   unsigned long *out)
{
	unsigned long v = 0;

	if (len == 0 || len > 6)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(p[i]))
			return false;
		v = v * 10 + (unsigned long)(p[i] - '0');
	}
	*out = v;
	return v <= max;
}

/* A part of an address, for errors that name the place. */
struct part {
	const char *text, *from, *end;
};

/* Copy; with `escapes` decode %XX. 0, or an error was reported. */
static int decode(struct part part, bool escapes, char *buf, size_t cap)
{
	size_t n = 0;

	for (const char *p = part.from; p < part.end;) {
		int c = path_char(part.text, &p, escapes);

		if (c < 0)
			return FARKV_EURI;
		if (n + 1 >= cap)
			return uri_bad(part.text, part.from, "too long");
		buf[n++] = (char)c;
	}
	buf[n] = '\0';
	return 0;
}

static bool name_is(const char *p, size_t len, const char *name)
{
	return strlen(name) == len && strncmp(p, name, len) == 0;
}

/* keys=FILE or key=NAME, whose value begins at `from`. */
static int credential(const char *text, const char *from, const char *end,
		      char *buf, size_t cap)
{
	/* An empty shell variable must not pass for a given key. */
	if (from == end)
		return uri_bad(text, from, "a name must follow '='");
	return decode((struct part){text, from, end}, true, buf, cap);
}

/* One NAME=VALUE. */
static int option_parse(const char *text, const char *p, const char *end,
			struct uri *out)
{
	const char *eq = memchr(p, '=', (size_t)(end - p));
	size_t len = eq ? (size_t)(eq - p) : 0;
	unsigned long v = 0;
	bool ack = name_is(p, len, "ack-timeout"), tos = name_is(p, len, "tos");

	if (name_is(p, len, "keys"))
		return credential(text, eq + 1, end, out->keys,
				  sizeof(out->keys));
	if (name_is(p, len, "key"))
		return credential(text, eq + 1, end, out->key,
				  sizeof(out->key));
	if (out->path[0])
		return uri_bad(text, p, "what may follow '?' is keys=FILE and "
					"key=NAME, with '&' between them; in a "
					"path '?' is written %3F");
	if (!ack && !tos)
		return uri_bad(text, p, "what may follow '?' is keys=FILE, "
					"key=NAME, ack-timeout=N and tos=N, "
					"with '&' between them");
	/* A device would take 0 as "wait forever". */
	if (!number(eq + 1, (size_t)(end - eq - 1),
		    ack ? VERBS_ACK_TIMEOUT_MAX : 255, &v) || (ack && v == 0))
		return uri_bad(text, eq + 1,
			       ack ? "ack-timeout is a number from 1 to 31" :
				     "tos is a number from 0 to 255");
	if (ack)
		out->ack_timeout = (uint8_t)v;
	else
		out->tos = (uint8_t)v;
	return 0;
}

static int options_parse(const char *text, const char *p, struct uri *out)
{
	int err = 0;

	while (!err && *p) {
		const char *end = p + strcspn(p, "&");

		err = option_parse(text, p, end, out);
		p = *end ? end + 1 : end;
	}
	return err;
}

/* ---- kv://HOST:PORT ------------------------------------------------------------------ */

/*
 * An IPv6 address in brackets. The scope of a link-local one follows '%', which RFC 6874 writes
 * as %25; other programs print it bare.
 */
static int v6_host(const char *text, const char *host, const char *end,
		   struct uri *out)
{
	const char *scope = memchr(host, '%', (size_t)(end - host));
	bool escaped;
	size_t n;
	int err;

	if (!scope)
		return decode((struct part){text, host, end}, true, out->host,
			      sizeof(out->host));
	err = decode((struct part){text, host, scope}, true, out->host,
		     sizeof(out->host) - 1);
	if (err)
		return err;
	n = strlen(out->host);
	escaped = end - scope > 3 && memcmp(scope, "%25", 3) == 0;
	scope += escaped ? 3 : 1;
	if (scope == end)
		return uri_bad(text, scope, "the name of an interface must "
					    "follow '%'");
	out->host[n] = '%';
	return decode((struct part){text, scope, end}, escaped, out->host + n + 1,
		      sizeof(out->host) - n - 1);
}

/* Print the host in a form that the program accepts. */
static void show_host(const struct uri *u, bool v6, char *buf, size_t cap)
{
	int len = (int)strcspn(u->host, v6 ? "%" : "");
	const char *scope = u->host + len;

	if (!v6)
		snprintf(buf, cap, "kv://%.60s:%s", u->host, u->port);
	else if (*scope)
		snprintf(buf, cap, "kv://[%.*s%%25%.20s]:%s", UTIL_MIN(len, 60),
			 u->host, scope + 1, u->port);
	else
		snprintf(buf, cap, "kv://[%.60s]:%s", u->host, u->port);
}

/* Parse the port, if there is one, and advance *at. */
static int kv_port(const char *text, const char **at, struct uri *out)
{
	const char *p = *at;
	unsigned long port;
	size_t len;

	strcpy(out->port, VERBS_PORT);
	if (*p != ':')
		return 0;
	len = strcspn(++p, "/?#");
	if (!number(p, len, 65535, &port) || port == 0)
		return uri_bad(text, p, "the port is a number from 1 to 65535");
	snprintf(out->port, sizeof(out->port), "%" PRIu16, (uint16_t)port);
	*at = p + len;
	return 0;
}

static int kv_parse(const char *text, const char *rest, struct uri *out)
{
	struct uri u = {.ack_timeout = VERBS_ACK_TIMEOUT};
	const char *host, *end;
	bool v6;
	int err;

	if (strncmp(rest, "//", 2) != 0)
		return uri_bad(text, rest, "'//' must follow 'kv:'");
	host = rest + 2;
	v6 = *host == '[';
	host += v6;
	end = host + strcspn(host, v6 ? "]" : ":/?#");
	if (v6 && *end != ']')
		return uri_bad(text, host - 1, "']' is missing");
	if (end == host)
		return uri_bad(text, host, "the host name is missing");
	err = v6 ? v6_host(text, host, end, &u) :
		   decode((struct part){text, host, end}, true, u.host,
			  sizeof(u.host));
	end += v6;
	if (!err)
		err = kv_port(text, &end, &u);
	if (err)
		return err;
	if (*end == '/')
		end++;
	if (*end == '?')
		err = options_parse(text, end + 1, &u);
	else if (*end)
		err = uri_bad(text, end, "kv:// takes a host, a port and "
					 "options after '?'");
	if (err)
		return err;
	show_host(&u, v6, u.shown, sizeof(u.shown));
	*out = u;
	return 0;
}

static int uri_parse(const char *text, struct uri *out)
{
	size_t scheme = scheme_len(text);

	if (*text == '\0')
		return uri_bad(text, text, "the address is empty");
	if (scheme_is(text, scheme, "shm"))
		return shm_parse(text, text + scheme + 1, out);
	if (scheme_is(text, scheme, "kv"))
		return kv_parse(text, text + scheme + 1, out);
	if (scheme > 0)
		return uri_bad(text, text,
			       "unknown scheme (a path with a colon is written "
			       "./like:this)");
	if (!strchr(text, '/'))
		return uri_bad(text, text, "neither a scheme nor a '/' in it "
					   "(a file here is written ./name)");
	return path_parse(text, text, text + strlen(text), false, out);
}

/* The default without an address. */
static int uri_default(struct uri *out)
{
	const char *text = getenv("FARKV_URI");

	if (text && *text)
		return uri_parse(text, out);
	return sockpath_client_default(out->path, sizeof(out->path));
}

int uri_resolve(const char *text, struct uri *out)
{
	struct uri u = {0};
	int err = text ? uri_parse(text, &u) : uri_default(&u);

	if (err)
		return err;
	if (u.path[0])
		snprintf(u.shown, sizeof(u.shown), "%s", u.path);
	*out = u;
	return 0;
}

/* ---- lists --------------------------------------------------------------------------- */

/* The longest text of one address of a list. */
#define ITEM_MAX (3 * (SOCKPATH_MAX + URI_FILE_MAX + URI_KEY_MAX) + URI_HOST_MAX)

struct list {
	struct uri *uri;
	size_t n;
};

static int list_add(struct list *l, const char *text)
{
	if (l->n == URI_LIST_MAX)
		return err_set(FARKV_EURI, "the list has more than %u addresses", URI_LIST_MAX);
	return uri_resolve(text, &l->uri[l->n++]);
}

/* "kv://", one of the hosts from `host` to `hosts_end`, and what follows all of them. */
static int list_add_hosts(struct list *l, const char *from, const char *hosts_end, const char *end)
{
	const char *host = from + strlen("kv://");
	char item[ITEM_MAX];
	int err = 0;

	while (!err && host <= hosts_end) {
		size_t n = strcspn(host, ",");

		n = UTIL_MIN(n, (size_t)(hosts_end - host));
		snprintf(item, sizeof(item), "%.5s%.*s%.*s", from, (int)n, host,
			 (int)(end - hosts_end), hosts_end);
		err = list_add(l, item);
		host += n + 1;
	}
	return err;
}

static bool scheme_follows(const char *text)
{
	size_t n = scheme_len(text);

	return scheme_is(text, n, "kv") || scheme_is(text, n, "shm");
}

/* The end of the first address in `text`. */
static const char *item_end(const char *text)
{
	while (*text && !(*text == ',' && scheme_follows(text + 1)))
		text++;
	return text;
}

static int list_parse(struct list *l, const char *text)
{
	char item[ITEM_MAX];
	int err = 0;

	for (const char *at = text; !err; at++) {
		const char *end = item_end(at), *hosts_end;
		bool kv = strncasecmp(at, "kv://", 5) == 0;

		if ((size_t)(end - at) >= sizeof(item))
			return uri_bad(text, at, "too long");
		hosts_end = at + (kv ? 5 + strcspn(at + 5, "/?#") : 0);
		hosts_end = UTIL_MIN(hosts_end, end);
		if (kv && memchr(at, ',', (size_t)(hosts_end - at))) {
			err = list_add_hosts(l, at, hosts_end, end);
		} else {
			snprintf(item, sizeof(item), "%.*s", (int)(end - at), at);
			err = list_add(l, item);
		}
		at = end;
		if (!*at)
			break;
	}
	return err;
}

int uri_resolve_list(const char *text, struct uri **list_out, size_t *n_out)
{
	struct list l = {.uri = calloc(URI_LIST_MAX, sizeof(struct uri))};
	const char *given = text ? text : getenv("FARKV_URI");
	int err;

	if (!l.uri)
		return err_set(FARKV_ENOMEM, "no memory for addresses");
	if (given && scheme_follows(given))
		err = list_parse(&l, given);
	else
		err = uri_resolve(text, &l.uri[l.n++]);
	if (err) {
		free(l.uri);
		return err;
	}
	*list_out = l.uri;
	*n_out = l.n;
	return 0;
}
