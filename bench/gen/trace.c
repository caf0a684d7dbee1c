/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "trace.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "values.h"

/* Highest time: 2^40 s in us fits. */
#define TIME_MAX (UINT64_C(1) << 40)

struct reader {
	struct trace *t;
	const char *path;
	size_t line;
	uint32_t *table; /* numbers of keys + 1 by hash; 0: free */
	size_t slots;    /* a power of two, at most half of it in use */
};

static int bad(const struct reader *r, const char *what)
{
	return err_set(FARKV_EINVAL, "%s:%zu: %s", r->path, r->line, what);
}

static int no_memory(const struct reader *r)
{
	return err_set(FARKV_ENOMEM, "%s: no memory for a trace of this length",
		       r->path);
}

/* ---- growing arrays ---------------------------------------------------------------- */

static bool reserve(void *array, size_t *room, size_t needed, size_t bytes)
{
	size_t more = *room ? *room : 64;
	void *old, *grown;

	if (needed <= *room)
		return true;
	while (more < needed)
		more *= 2;
	memcpy(&old, array, sizeof(old));
	grown = realloc(old, more * bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*room = more;
	return true;
}

static int add_request(struct reader *r, struct trace_request q)
{
	struct trace *t = r->t;

	if (!reserve(&t->requests, &t->room, t->n + 1, sizeof(*t->requests)))
		return no_memory(r);
	t->requests[t->n++] = q;
	t->size_max = UTIL_MAX(t->size_max, q.size);
	return 0;
}

/* ---- keys -------------------------------------------------------------------------- */

static size_t first_slot(const struct reader *r, const char *key, size_t len)
{
	return (size_t)value_hash(key, len) & (r->slots - 1);
}

static bool grow_table(struct reader *r)
{
	const struct trace *t = r->t;
	size_t was = r->slots;

	r->slots = was ? 2 * was : 1024;
	free(r->table);
	r->table = calloc(r->slots, sizeof(*r->table));
	for (size_t i = 0; r->table && i < t->n_keys; i++) {
		size_t at = first_slot(r, t->text + t->keys[i].at,
				       t->keys[i].len);

		while (r->table[at])
			at = (at + 1) & (r->slots - 1);
		r->table[at] = (uint32_t)i + 1;
	}
	return r->table != NULL;
}

/* The number of the key, which is a new one if it did not occur before. */
static int find_key(struct reader *r, const char *key, size_t len,
		    uint32_t *out)
{
	struct trace *t = r->t;
	size_t at;

	if ((2 * (t->n_keys + 1) > r->slots && !grow_table(r)) || !r->table)
		return no_memory(r);
	for (at = first_slot(r, key, len); r->table[at];
	     at = (at + 1) & (r->slots - 1)) {
		const struct trace_key *k = &t->keys[r->table[at] - 1];

		if (k->len == len && !memcmp(t->text + k->at, key, len)) {
			*out = r->table[at] - 1;
			return 0;
		}
	}
	if (t->n_keys == UINT32_MAX - 1 ||
	    !reserve(&t->keys, &t->keys_room, t->n_keys + 1, sizeof(*t->keys)) ||
	    !reserve(&t->text, &t->text_room, t->text_len + len, 1))
		return no_memory(r);
	memcpy(t->text + t->text_len, key, len);
	t->keys[t->n_keys] = (struct trace_key){t->text_len, (uint32_t)len};
	t->text_len += len;
	t->key_len_max = UTIL_MAX(t->key_len_max, len);
	*out = (uint32_t)t->n_keys++;
	r->table[at] = *out + 1;
	return 0;
}

/* ---- numbers ------------------------------------------------------------------------ */

/* "12" or "12.345" in units of 10^-digits, to *end; NULL if it is no such number. */
static const char *read_decimal(const char *at, unsigned digits, uint64_t *out)
{
	uint64_t v = 0;
	unsigned after = 0;

	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at); at++) {
		v = v * 10 + (uint64_t)(*at - '0');
		if (v > TIME_MAX)
			return NULL;
	}
	if (*at == '.')
		for (at++; isdigit((unsigned char)*at); at++)
			if (after < digits) {
				v = v * 10 + (uint64_t)(*at - '0');
				after++;
			}
	for (; after < digits; after++)
		v *= 10;
	*out = v;
	return at;
}

/* ---- CSV ---------------------------------------------------------------------------- */

enum field { TIME, KEY, SIZE, OP, TTL, FIELDS };

/* Cut at commas, without blanks around; the number of fields, FIELDS + 1 for more. */
static size_t split(char *line, char *field[FIELDS])
{
	size_t n = 0;

	for (char *next = line; next; n++) {
		char *at = next, *end;

		if (n == FIELDS)
			return n + 1;
		next = strchr(at, ',');
		end = next ? next : at + strlen(at);
		if (next)
			*next++ = '\0';
		while (isspace((unsigned char)*at))
			at++;
		while (end > at && isspace((unsigned char)end[-1]))
			*--end = '\0';
		field[n] = at;
	}
	return n;
}

static bool key_is_plain(const char *key)
{
	for (; *key; key++)
		if ((unsigned char)*key <= ' ' || *key == 0x7f)
			return false;
	return true;
}

static int read_op(const struct reader *r, const char *text, uint32_t *out)
{
	static const char *const ops[] = {"get", "set", "delete"};

	for (uint32_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcasecmp(text, ops[i]) || (i == TRACE_GET && !*text)) {
			*out = i;
			return 0;
		}
	return bad(r, "the fourth field is the operation: get, set or delete");
}

static int read_u32(const struct reader *r, const char *text, const char *what,
		    uint32_t *out)
{
	uint64_t v;

	if (!util_parse_u64(text, &v) || v > UINT32_MAX)
		return bad(r, what);
	*out = (uint32_t)v;
	return 0;
}

static int csv_line(struct reader *r, char *line)
{
	struct trace_request q = {.op = TRACE_GET};
	char *f[FIELDS];
	size_t n;
	const char *end;
	int err = 0;

	if (*line == '#' || (r->line == 1 && !strncasecmp(line, "time,", 5)))
		return 0;
	n = split(line, f);
	if (n < 3 || n > FIELDS)
		return bad(r, "expected time,key,size[,op[,ttl]]");
	end = read_decimal(f[TIME], 6, &q.time_us);
	if (!end || *end)
		return bad(r, "the first field is the time in seconds, as in 12.5");
	if (!*f[KEY] || strlen(f[KEY]) > TRACE_KEY_MAX || !key_is_plain(f[KEY]))
		return bad(r, "the second field is the key: 1 to 250 bytes without "
			      "blanks and control characters");
	err = read_u32(r, f[SIZE], "the third field is the size in bytes, below "
				   "2^32", &q.size);
	if (!err && n > OP)
		err = read_op(r, f[OP], &q.op);
	if (!err && n > TTL && *f[TTL])
		err = read_u32(r, f[TTL], "the fifth field is the ttl in whole "
					  "seconds, below 2^32", &q.ttl_s);
	if (!err)
		err = find_key(r, f[KEY], strlen(f[KEY]), &q.key);
	if (q.ttl_s && !r->t->ttl_line)
		r->t->ttl_line = r->line;
	return err ? err : add_request(r, q);
}

/* ---- JSON --------------------------------------------------------------------------- */

static const char *blanks(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

/* After a string at `at`, which begins with its quote; NULL: it has no end. */
static const char *skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : NULL;
}

/* After a value of any kind but an object and an array; NULL: it is no such value. */
static const char *skip_scalar(const char *at)
{
	size_t n = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");

	if (*at == '"')
		return skip_string(at);
	return n ? at + n : NULL;
}

#define NO_HASHES "hash_ids: expected an array of whole numbers"

/* A number, and blanks after it. */
static int add_block(struct reader *r, const char **at_io)
{
	struct trace *t = r->t;
	size_t len = strspn(*at_io, "0123456789");
	uint32_t key;
	int err;

	if (!len || len > TRACE_KEY_MAX)
		return bad(r, NO_HASHES);
	err = find_key(r, *at_io, len, &key);
	if (err)
		return err;
	if (t->n_blocks == UINT32_MAX ||
	    !reserve(&t->blocks, &t->blocks_room, t->n_blocks + 1, sizeof(key)))
		return no_memory(r);
	t->blocks[t->n_blocks++] = key;
	*at_io = blanks(*at_io + len);
	return 0;
}

/* "[1, 2]": the keys of the blocks. */
static int read_hashes(struct reader *r, const char **at_io,
		       struct trace_request *q)
{
	struct trace *t = r->t;
	const char *at = *at_io;

	if (*at != '[')
		return bad(r, NO_HASHES);
	q->key = (uint32_t)t->n_blocks;
	at = blanks(at + 1);
	for (bool more = *at != ']'; more;) {
		int err = add_block(r, &at);

		if (err)
			return err;
		q->size++;
		more = *at == ',';
		if (!more && *at != ']')
			return bad(r, NO_HASHES);
		at = more ? blanks(at + 1) : at;
	}
	*at_io = at + 1;
	return 0;
}

/* The name of a member and its colon: true for the name `name`. */
static bool is_member(const char *at, size_t len, const char *name)
{
	return len == strlen(name) + 2 && !memcmp(at + 1, name, len - 2);
}

/* "name": value; sets the bit of what it was in *seen. */
static int read_member(struct reader *r, const char **at_io,
		       struct trace_request *q, unsigned *seen)
{
	const char *name = *at_io, *at = *name == '"' ? skip_string(name) : NULL;
	size_t len = at ? (size_t)(at - name) : 0;

	at = at ? blanks(at) : NULL;
	if (!at || *at != ':')
		return bad(r, "expected \"name\": value");
	at = *at_io = blanks(at + 1);
	if (is_member(name, len, "hash_ids")) {
		if (*seen & 1)
			return bad(r, "hash_ids stands twice");
		*seen |= 1;
		return read_hashes(r, at_io, q);
	}
	if (is_member(name, len, "timestamp")) {
		*seen |= 2;
		at = read_decimal(at, 3, &q->time_us);
		if (!at)
			return bad(r, "timestamp: expected a number of "
				      "milliseconds");
	} else {
		at = skip_scalar(at);
		if (!at)
			return bad(r, "a member that is neither a number nor "
				      "text, and is not called hash_ids");
	}
	*at_io = at;
	return 0;
}

static int json_line(struct reader *r, const char *line)
{
	struct trace_request q = {.op = TRACE_GET};
	const char *at = blanks(line);
	unsigned seen = 0;
	int err;

	if (*at != '{')
		return bad(r, "expected an object: {\"timestamp\": 0, ..., "
			      "\"hash_ids\": [1, 2]}");
	do {
		at = blanks(at + 1);
		err = read_member(r, &at, &q, &seen);
		if (err)
			return err;
		at = blanks(at);
	} while (*at == ',');
	if (*at != '}' || *blanks(at + 1))
		return bad(r, "expected a comma, or } and the end of the line");
	if (seen != 3)
		return bad(r, seen & 1 ? "timestamp is missing"
				       : "hash_ids is missing");
	return add_request(r, q);
}

/* ---- files --------------------------------------------------------------------------- */

static int read_line(struct reader *r, char *line, size_t len)
{
	if (strlen(line) != len)
		return bad(r, "a byte 0: this is no text");
	while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		line[--len] = '\0';
	if (!*blanks(line))
		return bad(r, "the line is empty");
	if (r->line == 1)
		r->t->has_blocks = *blanks(line) == '{';
	return r->t->has_blocks ? json_line(r, line) : csv_line(r, line);
}

int trace_load(const char *path, struct trace *out)
{
	struct reader r = {.t = out, .path = path};
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int err = 0;

	*out = (struct trace){.n = 0};
	if (!f)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot open the trace %s", path);
	while (!err && (len = getline(&line, &room, f)) >= 0) {
		r.line++;
		err = read_line(&r, line, (size_t)len);
	}
	if (!err && ferror(f))
		err = err_set_errno(FARKV_ESYS, errno, "cannot read %s", path);
	if (!err && !out->n)
		err = err_set(FARKV_EINVAL, "%s: there is no request in it",
			      path);
	if (!err && !out->n_keys)
		err = err_set(FARKV_EINVAL, "%s: there is no block in it", path);
	fclose(f);
	free(line);
	free(r.table);
	if (err)
		trace_free(out);
	return err;
}

void trace_free(struct trace *t)
{
	free(t->requests);
	free(t->blocks);
	free(t->keys);
	free(t->text);
	*t = (struct trace){.n = 0};
}
