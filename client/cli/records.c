/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/err.h"

/* A value longer than any store takes: the file is damaged. */
#define VALUE_LEN_MAX (UINT64_C(1) << 30)
#define READ_BUF_BYTES ((size_t)1 << 20)

enum record_format record_format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && strcmp(dot, ".cdb") == 0)
		return RECORD_CDB;
	if (dot && strcmp(dot, ".nul") == 0)
		return RECORD_NUL;
	return RECORD_TSV;
}

int reader_open(struct reader *r, const char *path, enum record_format format,
		bool keys_only)
{
	bool is_stdin = strcmp(path, "-") == 0;

	*r = (struct reader){.name = is_stdin ? "stdin" : path,
			     .format = format,
			     .keys_only = keys_only};
	r->in = is_stdin ? stdin : fopen(path, "re");
	if (!r->in)
		return err_set_errno(FARKV_ESYS, errno, "cannot open %s", path);
	(void)setvbuf(r->in, NULL, _IOFBF, READ_BUF_BYTES);
	return 0;
}

void reader_close(struct reader *r)
{
	free(r->text);
	if (r->in && r->in != stdin)
		fclose(r->in);
	*r = (struct reader){0};
}

void record_trim(struct record *rec, size_t keep)
{
	if (rec->cap <= keep)
		return;
	free(rec->buf);
	*rec = (struct record){0};
}

static int record_reserve(struct record *rec, size_t bytes)
{
	size_t cap = rec->cap ? rec->cap : 256;
	uint8_t *p;

	if (bytes <= rec->cap)
		return 0;
	while (cap < bytes)
		cap *= 2;
	p = realloc(rec->buf, cap);
	if (!p)
		return err_set(FARKV_ENOMEM,
			       "no memory for a record of %zu bytes", bytes);
	rec->buf = p;
	rec->cap = cap;
	return 0;
}

/* ---- reading: what all formats need ------------------------------------------- */

/* "words.tsv: line 12: " or "pairs.cdb: record 12, byte 3456: " and the text. */
static int malformed(const struct reader *r, const char *what)
{
	if (ferror(r->in))
		return err_set_errno(FARKV_ESYS, errno, "cannot read %s",
				     r->name);
	if (r->format == RECORD_TSV)
		return err_set(FARKV_EINVAL, "%s: line %llu: %s", r->name,
			       (unsigned long long)r->line, what);
	return err_set(FARKV_EINVAL, "%s: record %llu, byte %llu: %s", r->name,
		       (unsigned long long)r->records + 1,
		       (unsigned long long)r->offset, what);
}

static int cut_off(const struct reader *r)
{
	return malformed(r, "the file ends in the middle of a record");
}

static int key_check(const struct reader *r, size_t len)
{
	if (len == 0)
		return malformed(r, "the key is empty");
	if (len > FARKV_KEY_MAX)
		return malformed(r, "the key is longer than 65535 bytes");
	return 0;
}

static int next_byte(struct reader *r)
{
	int c = getc_unlocked(r->in);

	if (c != EOF)
		r->offset++;
	return c;
}

/* ---- tsv -------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte behind the backslash at *at, which moves behind it; -1: unknown. */
static int unescape(const char **at, const char *end)
{
	const char *p = *at + 1;
	int hi, lo;

	if (p == end)
		return -1;
	*at = p + 1;
	switch (*p) {
	case 't':
		return '\t';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case '0':
		return '\0';
	case '\\':
		return '\\';
	case 'x':
		if (end - p < 3)
			return -1;
		hi = hex_digit(p[1]);
		lo = hex_digit(p[2]);
		*at = p + 3;
		return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
	default:
		return -1;
	}
}

/* Append the field [at, end) to buf[n]; returns the new end, -1: bad escape. */
static ssize_t field_take(uint8_t *buf, size_t n, const char *at,
			  const char *end)
{
	while (at < end) {
		const char *back = memchr(at, '\\', (size_t)(end - at));
		size_t plain = (size_t)((back ? back : end) - at);
		int c;

		memcpy(buf + n, at, plain);
		n += plain;
		at += plain;
		if (!back)
			break;
		c = unescape(&at, end);
		if (c < 0)
			return -1;
		buf[n++] = (uint8_t)c;
	}
	return (ssize_t)n;
}

static int tsv_fields(struct reader *r, const char *line, size_t len,
		      struct record *rec)
{
	static const char bad_escape[] =
		"unknown escape; a backslash itself is written \\\\";
	const char *tab = memchr(line, '\t', len), *end = line + len;
	ssize_t n;
	int err;

	if (!tab && !r->keys_only)
		return malformed(r, "no TAB between key and value");
	if (!tab)
		tab = end;
	err = record_reserve(rec, len);
	if (err)
		return err;
	n = field_take(rec->buf, 0, line, tab);
	if (n < 0)
		return malformed(r, bad_escape);
	rec->key_len = (size_t)n;
	rec->value_len = 0;
	if (r->keys_only)
		return key_check(r, rec->key_len);
	n = field_take(rec->buf, rec->key_len, tab + 1, end);
	if (n < 0)
		return malformed(r, bad_escape);
	rec->value_len = (size_t)n - rec->key_len;
	return key_check(r, rec->key_len);
}

/* Empty lines are passed over; the last line may lack its newline. */
static int tsv_next(struct reader *r, struct record *rec, bool *got_out)
{
	ssize_t n;

	*got_out = false;
	do {
		n = getline(&r->text, &r->text_cap, r->in);
		if (n < 0)
			return ferror(r->in) ? malformed(r, "") : 0;
		r->line++;
		r->offset += (uint64_t)n;
		if (r->text[n - 1] == '\n')
			n--;
	} while (n == 0);
	*got_out = true;
	return tsv_fields(r, r->text, (size_t)n, rec);
}

/* ---- cdb -------------------------------------------------------------------------- */

/* A decimal number that ends at `stop`. */
static int cdb_number(struct reader *r, int stop, uint64_t *out)
{
	uint64_t v = 0;
	unsigned digits = 0;
	int c;

	while ((c = next_byte(r)) >= '0' && c <= '9' && ++digits <= 18)
		v = v * 10 + (uint64_t)(c - '0');
	if (c == EOF)
		return cut_off(r);
	if (c != stop || digits == 0)
		return malformed(r, "expected +klen,vlen:key->value");
	*out = v;
	return 0;
}

static int cdb_bytes(struct reader *r, uint8_t *buf, size_t len)
{
	size_t n = fread(buf, 1, len, r->in);

	r->offset += n;
	return n == len ? 0 : cut_off(r);
}

static int cdb_expect(struct reader *r, const char *text, const char *what)
{
	for (; *text; text++) {
		int c = next_byte(r);

		if (c == EOF)
			return cut_off(r);
		if (c != *text)
			return malformed(r, what);
	}
	return 0;
}

static int cdb_body(struct reader *r, struct record *rec, uint64_t key_len,
		    uint64_t value_len)
{
	int err = record_reserve(rec, (size_t)(key_len + value_len));

	if (!err)
		err = cdb_bytes(r, rec->buf, key_len);
	if (!err)
		err = cdb_expect(r, "->", "no -> where the key's length ends");
	if (!err)
		err = cdb_bytes(r, rec->buf + key_len, value_len);
	if (!err)
		err = cdb_expect(r, "\n",
				 "no newline where the value's length ends");
	if (err)
		return err;
	rec->key_len = (size_t)key_len;
	rec->value_len = (size_t)value_len;
	return 0;
}

static int cdb_next(struct reader *r, struct record *rec, bool *got_out)
{
	uint64_t key_len = 0, value_len = 0;
	int c = next_byte(r), err;

	*got_out = false;
	if (c == '\n')
		return 0;
	if (c == EOF)
		return malformed(r, "the file was cut off: the empty line that "
				    "ends it is missing");
	if (c != '+')
		return malformed(r, "expected +klen,vlen:key->value");
	err = cdb_number(r, ',', &key_len);
	if (!err)
		err = cdb_number(r, ':', &value_len);
	if (!err)
		err = key_check(r, key_len);
	if (!err && value_len > VALUE_LEN_MAX)
		err = malformed(r, "the value is longer than 1 GiB");
	if (!err)
		err = cdb_body(r, rec, key_len, value_len);
	*got_out = err == 0;
	return err;
}

/* ---- nul -------------------------------------------------------------------------- */

/* Append up to the next NUL; *end_out: the file ended before the first byte. */
static int nul_field(struct reader *r, struct record *rec, size_t at,
		     size_t *len_out, bool *end_out)
{
	size_t n = at;
	int c;

	while ((c = next_byte(r)) > 0) {
		int err = n < rec->cap ? 0 : record_reserve(rec, n + 1);

		if (err)
			return err;
		rec->buf[n++] = (uint8_t)c;
	}
	*end_out = c == EOF && n == at;
	*len_out = n - at;
	return c == EOF && (n > at || ferror(r->in)) ? cut_off(r) : 0;
}

static int nul_next(struct reader *r, struct record *rec, bool *got_out)
{
	bool end;
	int err = nul_field(r, rec, 0, &rec->key_len, &end);

	*got_out = false;
	if (err || end)
		return err;
	err = key_check(r, rec->key_len);
	if (err)
		return err;
	rec->value_len = 0;
	if (!r->keys_only) {
		err = nul_field(r, rec, rec->key_len, &rec->value_len, &end);
		if (!err && end)
			err = cut_off(r);
	}
	*got_out = err == 0;
	return err;
}

int reader_next(struct reader *r, struct record *rec, bool *got_out)
{
	int err;

	switch (r->format) {
	case RECORD_CDB:
		err = cdb_next(r, rec, got_out);
		break;
	case RECORD_NUL:
		err = nul_next(r, rec, got_out);
		break;
	default:
		err = tsv_next(r, rec, got_out);
		break;
	}
	if (!err && *got_out)
		r->records++;
	return err;
}

/* ---- writing ---------------------------------------------------------------------- */

/* The letter of a byte that a tsv field may not hold as it is, or 0. */
static char escape_of(uint8_t c)
{
	switch (c) {
	case '\t':
		return 't';
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\0':
		return '0';
	case '\\':
		return '\\';
	default:
		return 0;
	}
}

static void tsv_write(FILE *out, const uint8_t *p, size_t len)
{
	size_t from = 0;

	for (size_t i = 0; i < len; i++) {
		char e = escape_of(p[i]);

		if (!e)
			continue;
		fwrite(p + from, 1, i - from, out);
		putc_unlocked('\\', out);
		putc_unlocked(e, out);
		from = i + 1;
	}
	if (len > from)
		fwrite(p + from, 1, len - from, out);
}

static void put_bytes(FILE *out, const void *p, size_t len)
{
	if (len)
		fwrite(p, 1, len, out);
}

bool record_write(FILE *out, enum record_format format, const void *key,
		  size_t key_len, const void *value, size_t value_len)
{
	switch (format) {
	case RECORD_CDB:
		fprintf(out, "+%zu,%zu:", key_len, value_len);
		put_bytes(out, key, key_len);
		fputs("->", out);
		put_bytes(out, value, value_len);
		putc_unlocked('\n', out);
		return true;
	case RECORD_NUL:
		if (memchr(key, 0, key_len) ||
		    (value_len && memchr(value, 0, value_len)))
			return false;
		put_bytes(out, key, key_len);
		putc_unlocked('\0', out);
		put_bytes(out, value, value_len);
		putc_unlocked('\0', out);
		return true;
	default:
		tsv_write(out, key, key_len);
		putc_unlocked('\t', out);
		tsv_write(out, value, value_len);
		putc_unlocked('\n', out);
		return true;
	}
}

void record_write_end(FILE *out, enum record_format format)
{
	if (format == RECORD_CDB)
		putc_unlocked('\n', out);
}
