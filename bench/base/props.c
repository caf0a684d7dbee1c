/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "props.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/base/textfile.h"
#include "common/base/util.h"

static int no_memory(void)
{
	return err_set(FARKV_ENOMEM, "no memory for the properties");
}

void props_free(struct props *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].key);
		free(p->v[i].value);
		free(p->v[i].where);
	}
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

static struct prop *find(const struct props *p, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->v[i].key, key))
			return &p->v[i];
	return NULL;
}

const struct prop *props_find(const struct props *p, const char *key)
{
	return find(p, key);
}

static int add(struct props *p, const char *key, struct prop **out)
{
	struct prop *grown = realloc(p->v, (p->n + 1) * sizeof(*grown));

	if (!grown)
		return no_memory();
	p->v = grown;
	p->v[p->n] = (struct prop){.key = strdup(key)};
	if (!p->v[p->n].key)
		return no_memory();
	*out = &p->v[p->n++];
	return 0;
}

int props_set(struct props *p, const char *key, const char *value,
	      const char *where)
{
	struct prop *e = find(p, key);
	char *v = strdup(value), *w = strdup(where);
	int err = 0;

	if (!v || !w)
		err = no_memory();
	else if (!e)
		err = add(p, key, &e);
	if (err) {
		free(v);
		free(w);
		return err;
	}
	free(e->value);
	free(e->where);
	e->value = v;
	e->where = w;
	e->in_file = false;
	return 0;
}

int props_set_arg(struct props *p, const char *arg)
{
	const char *eq = strchr(arg, '=');
	char *key;
	int err;

	if (!eq || eq == arg)
		return err_set(FARKV_EINVAL,
			       "-p %s: expected key=value, as in -p "
			       "recordcount=1000", arg);
	key = strndup(arg, (size_t)(eq - arg));
	if (!key)
		return no_memory();
	err = props_set(p, key, eq + 1, "-p");
	free(key);
	return err;
}

/* ---- files ---- */

/* A property file being read. */
struct reader {
	const char *path;
	const char *at, *end;
	unsigned line; /* of `at` */
};

static int bad(const struct reader *r, unsigned line, const char *what)
{
	return err_set(FARKV_EINVAL, "%s:%u: %s", r->path, line, what);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

/* True at the end of a line (\n, \r or both); skips it. */
static bool at_eol(struct reader *r)
{
	if (r->at + 1 < r->end && r->at[0] == '\r' && r->at[1] == '\n')
		r->at++;
	if (r->at == r->end || (*r->at != '\n' && *r->at != '\r'))
		return false;
	r->at++;
	r->line++;
	return true;
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end && is_blank(*r->at))
		r->at++;
}

/* Skip to the first line that is neither blank nor a comment; false at the end. */
static bool find_line(struct reader *r)
{
	for (;;) {
		skip_blanks(r);
		if (r->at == r->end)
			return false;
		if (*r->at == '#' || *r->at == '!') {
			while (r->at < r->end && !at_eol(r))
				r->at++;
		} else if (!at_eol(r)) {
			return true;
		}
	}
}

/*
 * Copy the next logical line: lines joined, escapes unchanged. `out` has space for the
 * whole file. False at the end.
 */
static bool next_line(struct reader *r, char *out, unsigned *line_out)
{
	size_t n = 0;

	if (!find_line(r))
		return false;
	*line_out = r->line;
	while (r->at < r->end && !at_eol(r)) {
		if (*r->at == '\\') {
			r->at++;
			if (at_eol(r)) {
				skip_blanks(r);
				continue;
			}
			out[n++] = '\\';
			if (r->at == r->end)
				break;
		}
		out[n++] = *r->at++;
	}
	out[n] = '\0';
	return true;
}

/* The four digits after \u; 0 if invalid. */
static unsigned unit_at(const char *hex)
{
	unsigned u = 0;

	for (int i = 0; i < 4; i++) {
		if (!isxdigit((unsigned char)hex[i]))
			return 0;
		u = u * 16 + (unsigned)(isdigit((unsigned char)hex[i])
						? hex[i] - '0'
						: (hex[i] | 32) - 'a' + 10);
	}
	return u;
}

static void put_utf8(unsigned u, char **to)
{
	static const unsigned char mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
	int n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
	char *at = *to;

	at[0] = (char)(n == 1 ? u : mark[n] | u >> 6 * (n - 1));
	for (int i = 1; i < n; i++)
		at[i] = (char)(0x80 | (u >> 6 * (n - 1 - i) & 63));
	*to = at + n;
}

/*
 * Convert \uXXXX at *from, or a surrogate pair, to UTF-8. False if it is no character, or
 * 0, which would end the text.
 */
static bool put_unicode(const char **from, char **to)
{
	const char *at = *from;
	unsigned u = unit_at(at + 2), low;

	*from += 6;
	if (u >= 0xd800 && u < 0xdc00 && at[6] == '\\' && at[7] == 'u') {
		low = unit_at(at + 8);
		if (low < 0xdc00 || low >= 0xe000)
			return false;
		u = 0x10000 + (u - 0xd800) * 0x400 + (low - 0xdc00);
		*from += 6;
	}
	if (!u || (u >= 0xd800 && u < 0xe000))
		return false;
	put_utf8(u, to);
	return true;
}

/* Resolve escapes in place; the text never grows. */
static bool unescape(char *text)
{
	static const char letters[] = "tnrf", controls[] = "\t\n\r\f";
	const char *from = text, *f;
	char *to = text;

	while (*from) {
		if (*from != '\\') {
			*to++ = *from++;
		} else if (from[1] == 'u') {
			if (!put_unicode(&from, &to))
				return false;
		} else if (from[1]) {
			f = strchr(letters, from[1]);
			*to++ = f ? controls[f - letters] : from[1];
			from += 2;
		} else {
			from++;
		}
	}
	*to = '\0';
	return true;
}

/* Split a logical line into key and value as java.util.Properties does. */
static void split(char *line, char **key, char **value)
{
	char *p = line;

	while (*p && *p != '=' && *p != ':' && !is_blank(*p))
		p += *p == '\\' && p[1] ? 2 : 1;
	*key = line;
	*value = p;
	if (!*p)
		return;
	while (is_blank(**value))
		(*value)++;
	if (**value == '=' || **value == ':')
		(*value)++;
	while (is_blank(**value))
		(*value)++;
	*p = '\0';
}

static int parse(struct props *p, struct reader *r, char *line)
{
	char where[512], *key, *value;
	unsigned number;
	int err;

	while (next_line(r, line, &number)) {
		if (!*line) /* joined empty lines */
			continue;
		split(line, &key, &value);
		if (!unescape(key) || !unescape(value))
			return bad(r, number,
				   "\\u needs the four hexadecimal digits of a "
				   "character");
		if (!*key)
			return bad(r, number, "no property name before the "
					      "'=' or ':'");
		snprintf(where, sizeof(where), "%s:%u", r->path, number);
		err = props_set(p, key, value, where);
		if (err)
			return err;
		find(p, key)->in_file = true;
	}
	return 0;
}

static int slurp(const char *path, char *buf, size_t cap, size_t *len_out)
{
	FILE *f = fopen(path, "re");
	int err = 0;

	if (!f)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot open the property file %s", path);
	*len_out = fread(buf, 1, cap, f);
	if (ferror(f))
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot read the property file %s", path);
	else if (*len_out == cap)
		err = err_set(FARKV_EINVAL,
			      "%s: longer than 1 MiB, not a property file",
			      path);
	else
		err = textfile_check(path, buf, *len_out, NULL);
	if (!err && memchr(buf, '\0', *len_out))
		err = err_set(FARKV_EINVAL,
			      "%s: contains zero bytes, not a property file",
			      path);
	fclose(f);
	return err;
}

int props_load(struct props *p, const char *path)
{
	char *buf = malloc(2 * PROPS_FILE_MAX);
	struct reader r = {.path = path, .line = 1};
	size_t len = 0;
	int err;

	if (!buf)
		return no_memory();
	err = slurp(path, buf, PROPS_FILE_MAX, &len);
	if (!err) {
		r.at = buf;
		r.end = buf + len;
		/* Skip a byte order mark, which is not part of the first name. */
		r.at += textfile_mark(buf, len);
		err = parse(p, &r, buf + PROPS_FILE_MAX);
	}
	free(buf);
	return err;
}

/* ---- typed ---- */

static int complain(const struct prop *e, const char *name, const char *text)
{
	if (!e)
		return err_set(FARKV_EINVAL, "%s: %s", name, text);
	return err_set(FARKV_EINVAL, "%s: %s: %s", e->where, name, text);
}

int props_error(const struct props *p, const char *name, const char *text)
{
	return complain(find(p, name), name, text);
}

static int complain_value(const struct prop *e, const struct prop_spec *s,
			  const char *text, const char *what)
{
	char line[384];

	snprintf(line, sizeof(line), "'%.100s' is not %s", text, what);
	return complain(e, s->name, line);
}

static int out_of_range(const struct prop *e, const struct prop_spec *s,
			const char *text)
{
	char what[96];

	if (s->max > 0.0)
		snprintf(what, sizeof(what), "between %.15g and %.15g", s->min,
			 s->max);
	else
		snprintf(what, sizeof(what), "%.15g or more", s->min);
	return complain_value(e, s, text, what);
}

static bool in_range(const struct prop_spec *s, double v)
{
	return v >= s->min && (s->max <= 0.0 || v <= s->max);
}

static int read_u64(const struct prop *e, const struct prop_spec *s,
		    const char *text, uint64_t *out)
{
	uint64_t v;

	if (!util_parse_u64(text, &v))
		return complain_value(e, s, text,
				      "a whole number below 2^64");
	if (!in_range(s, (double)v))
		return out_of_range(e, s, text);
	*out = v;
	return 0;
}

/* strtod() limited to decimal numbers. */
static int read_double(const struct prop *e, const struct prop_spec *s,
		       const char *text, double *out)
{
	char *end;
	double v;

	if (!*text || text[strspn(text, "0123456789+-.eE")])
		return complain_value(e, s, text, "a number");
	v = strtod(text, &end);
	if (end == text || *end || !isfinite(v))
		return complain_value(e, s, text, "a number");
	if (!in_range(s, v))
		return out_of_range(e, s, text);
	*out = v;
	return 0;
}

static int read_bool(const struct prop *e, const struct prop_spec *s,
		     const char *text, bool *out)
{
	if (!strcasecmp(text, "true"))
		*out = true;
	else if (!strcasecmp(text, "false"))
		*out = false;
	else
		return complain_value(e, s, text, "true or false");
	return 0;
}

static int read_enum(const struct prop *e, const struct prop_spec *s,
		     const char *text, int *out)
{
	char all[256];
	size_t n = 0;

	for (int i = 0; s->choices[i]; i++) {
		if (!strcmp(text, s->choices[i])) {
			*out = i;
			return 0;
		}
		if (n < sizeof(all))
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s",
					      i ? ", " : "one of ",
					      s->choices[i]);
	}
	return complain_value(e, s, text, all);
}

static int read_one(const struct prop *e, const struct prop_spec *s,
		    const char *text, void *out)
{
	switch (s->type) {
	case PROP_BOOL:
		return read_bool(e, s, text, out);
	case PROP_U64:
		return read_u64(e, s, text, out);
	case PROP_DOUBLE:
		return read_double(e, s, text, out);
	case PROP_ENUM:
		return read_enum(e, s, text, out);
	case PROP_STR:
	default:
		*(const char **)out = text;
		return 0;
	}
}

/* Java keeps blanks at the end of a value; here they are dropped. */
static void trim(char *text)
{
	size_t len = strlen(text);

	while (len && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
}

int props_read(struct props *p, const struct prop_spec *specs, size_t n,
	       void *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct prop_spec *s = &specs[i];
		struct prop *e = find(p, s->name);
		const char *text = s->deflt;
		int err;

		if (e) {
			e->used = true;
			trim(e->value);
			text = e->value;
		}
		if (!text)
			continue;
		err = read_one(e, s, text, (char *)out + s->offset);
		if (err)
			return err;
	}
	return 0;
}
