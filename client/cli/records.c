/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/textfile.h"
#include "common/base/util.h"

/* A longer value means that the file is damaged. */
#define VALUE_LEN_MAX (UINT64_C(1) << 30)
#define ASK_BYTES (UINT64_C(1) << 20)
#define READ_BUF_BYTES ((size_t)256 << 10)

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
	static char buf[READ_BUF_BYTES]; /* stdin uses it until the end */
	bool is_stdin = strcmp(path, "-") == 0;

	*r = (struct reader){.name = is_stdin ? "stdin" : path,
			     .format = format,
			     .keys_only = keys_only,
			     .max_value = VALUE_LEN_MAX};
	r->in = is_stdin ? stdin : fopen(path, "re");
	if (!r->in)
		return err_set_errno(FARKV_ESYS, errno, "cannot open %s", path);
	(void)setvbuf(r->in, buf, _IOFBF, sizeof(buf));
	return 0;
}

void reader_close(struct reader *r)
{
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

const char *reader_unit(const struct reader *r)
{
	return r->format == RECORD_TSV ? "line" : "record";
}

/* Report "words.tsv: line 12: " or "pairs.cdb: record 12, byte 3456: " and the text. */
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

static int too_long(const struct reader *r, const char *what, uint64_t most)
{
	char text[80];

	snprintf(text, sizeof(text), "the %s is longer than %llu bytes", what,
		 (unsigned long long)most);
	return malformed(r, text);
}

static int key_check(const struct reader *r, uint64_t len)
{
	if (len == 0)
		return malformed(r, "the key is empty");
	return len > FARKV_KEY_MAX ? too_long(r, "key", FARKV_KEY_MAX) : 0;
}

static int value_check(struct reader *r, uint64_t len)
{
	if (len > ASK_BYTES && r->ask) {
		r->ask(r, r->ask_arg);
		r->ask = NULL;
	}
	return len > r->max_value ? too_long(r, "value", r->max_value) : 0;
}

/* Make space for byte `n`. Values begin at `at`, after the key; keys at 0. */
static int field_room(struct reader *r, struct record *rec, size_t at, size_t n)
{
	int err = 0;

	if (n < rec->cap && n - at < FARKV_KEY_MAX)
		return 0;
	err = at ? value_check(r, n - at + 1) : key_check(r, n + 1);
	if (!err && n >= rec->cap)
		err = record_reserve(rec, n + 1);
	return err;
}

static int next_byte(struct reader *r)
{
	int c = getc_unlocked(r->in);

	if (c != EOF)
		r->offset++;
	return c;
}

/* ---- tsv -------------------------------------------------------------------------- */

static int hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte for the characters after a backslash; -1: invalid. */
static int tsv_unescape(struct reader *r)
{
	int hi, lo;

	switch (next_byte(r)) {
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
		hi = hex_digit(next_byte(r));
		lo = hi < 0 ? -1 : hex_digit(next_byte(r));
		return lo < 0 ? -1 : hi << 4 | lo;
	default:
		return -1;
	}
}

static int tsv_bad_escape(const struct reader *r)
{
	if (feof(r->in))
		return cut_off(r);
	return malformed(r, "unknown escape; a backslash itself is written \\\\");
}

/* After a carriage return: the byte that ends the line; -2 if the line continues. */
static int tsv_after_cr(struct reader *r)
{
	int c = next_byte(r);

	return c == '\n' || c == EOF ? c : -2;
}

static int tsv_bad_byte(const struct reader *r, int c)
{
	return malformed(r, c ? "a carriage return within the line; one that "
				"belongs to the data is written \\r" :
				"a NUL byte: this is not a text file; one that "
				"belongs to the data is written \\0");
}

/*
 * Read a field into rec->buf from `at` on. *stop_out is what ended it: a newline, EOF, or,
 * for a key (at 0), TAB. A carriage return may precede newline and EOF.
 */
static int tsv_field(struct reader *r, struct record *rec, size_t at,
		     size_t *len_out, int *stop_out)
{
	size_t n = at;
	int c;

	while ((c = next_byte(r)) != '\n' && c != EOF && (c != '\t' || at)) {
		int err = field_room(r, rec, at, n);

		if (err)
			return err;
		if (c == '\r' && (c = tsv_after_cr(r)) != -2)
			break;
		if (c == -2 || c == '\0')
			return tsv_bad_byte(r, c);
		if (c == '\\' && (c = tsv_unescape(r)) < 0)
			return tsv_bad_escape(r);
		rec->buf[n++] = (uint8_t)c;
	}
	if (c == EOF && ferror(r->in))
		return malformed(r, "");
	*len_out = n - at;
	*stop_out = c;
	return 0;
}

/* Skip what follows a key when only keys are wanted. */
static int tsv_skip(struct reader *r)
{
	int c;

	do
		c = next_byte(r);
	while (c != '\n' && c != EOF);
	return ferror(r->in) ? malformed(r, "") : 0;
}

static int tsv_value(struct reader *r, struct record *rec)
{
	int stop = EOF;
	int err = tsv_field(r, rec, rec->key_len, &rec->value_len, &stop);

	r->unended = !err && stop == EOF;
	return err;
}

/* Empty lines are skipped. The last line may lack its newline. */
static int tsv_next(struct reader *r, struct record *rec, bool *got_out)
{
	int stop = EOF, err;

	*got_out = false;
	do {
		r->line++;
		err = tsv_field(r, rec, 0, &rec->key_len, &stop);
		if (err || (stop == EOF && rec->key_len == 0))
			return err;
	} while (stop == '\n' && rec->key_len == 0);
	rec->value_len = 0;
	err = key_check(r, rec->key_len);
	if (err)
		return err;
	if (r->keys_only)
		err = stop == '\t' ? tsv_skip(r) : 0;
	else if (stop == '\t')
		err = tsv_value(r, rec);
	else if (stop == EOF)
		err = cut_off(r);
	else
		err = malformed(r, "no TAB between key and value");
	*got_out = err == 0;
	return err;
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

/* Read the value into the buffer, or skip it if only keys are wanted. */
static int cdb_value(struct reader *r, struct record *rec, uint64_t len)
{
	uint8_t waste[4096];
	int err;

	if (!r->keys_only) {
		err = record_reserve(rec, rec->key_len + (size_t)len);
		rec->value_len = (size_t)len;
		return err ? err : cdb_bytes(r, rec->buf + rec->key_len, len);
	}
	for (err = 0; len > 0 && !err;) {
		size_t n = len < sizeof(waste) ? (size_t)len : sizeof(waste);

		err = cdb_bytes(r, waste, n);
		len -= n;
	}
	rec->value_len = 0;
	return err;
}

static int cdb_body(struct reader *r, struct record *rec, uint64_t key_len,
		    uint64_t value_len)
{
	int err = record_reserve(rec, (size_t)key_len);

	if (!err)
		err = cdb_bytes(r, rec->buf, key_len);
	if (!err)
		err = cdb_expect(r, "->", "no -> where the key's length ends");
	rec->key_len = (size_t)key_len;
	if (!err)
		err = cdb_value(r, rec, value_len);
	if (!err)
		err = cdb_expect(r, "\n",
				 "no newline where the value's length ends");
	return err;
}

/* After the empty line: further data would be lost, so it is an error. */
static int cdb_end(struct reader *r)
{
	if (next_byte(r) == EOF)
		return ferror(r->in) ? malformed(r, "") : 0;
	return malformed(r, "more data after the empty line that ends the "
			    "records; cut the file there or remove the line");
}

static int cdb_next(struct reader *r, struct record *rec, bool *got_out)
{
	uint64_t key_len = 0, value_len = 0;
	int c = next_byte(r), err;

	*got_out = false;
	if (c == '\n')
		return cdb_end(r);
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
	if (!err)
		err = value_check(r, value_len);
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
		int err = field_room(r, rec, at, n);

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

/*
 * Recognize other kinds of file by the first bytes, once. The bytes are put back, except a
 * byte order mark.
 */
static int look_at_head(struct reader *r)
{
	uint8_t head[TEXTFILE_HEAD] = {0};
	static const char *const formats[] = {"", "-f cdb ", "-f nul "};
	char command[32];
	size_t n = 0, mark;
	int c, err;

	r->begun = true;
	while (textfile_undecided(head, n) && (c = getc(r->in)) != EOF)
		head[n++] = (uint8_t)c;
	snprintf(command, sizeof(command), "kvcli %s%s -", formats[r->format],
		 r->keys_only ? "dump" : "load");
	err = textfile_check(r->in == stdin ? NULL : r->name, head, n, command);
	if (err)
		return err;
	mark = textfile_mark(head, n);
	if (mark && r->format != RECORD_TSV)
		return err_set(FARKV_EINVAL,
			       "%s: begins with a byte order mark (EF BB BF), "
			       "which this format does not have; remove it",
			       r->name);
	r->offset = mark;
	/* glibc can put back what it has just read; the standard guarantees one byte. */
	while (n > mark)
		(void)ungetc(head[--n], r->in);
	return 0;
}

int reader_next(struct reader *r, struct record *rec, bool *got_out)
{
	int err = r->begun ? 0 : look_at_head(r);

	if (err) {
		*got_out = false;
		return err;
	}
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
	if (!err && *got_out) {
		r->records++;
		rec->number = r->format == RECORD_TSV ? r->line : r->records;
	}
	return err;
}

/* ---- writing ---------------------------------------------------------------------- */

/* The escape letter of a byte that a tsv field may not hold, or 0. */
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

/* True if the output begins here with a key that a reader would take for another kind of file. */
static bool looks_foreign(const struct writer *w, const void *key, size_t len)
{
	uint8_t head[TEXTFILE_HEAD] = {0}; /* nul: a 0 follows the key */

	if (w->begun)
		return false;
	memcpy(head, key, UTIL_MIN(len, sizeof(head)));
	return textfile_foreign(head, UTIL_MIN(len + 1, sizeof(head)));
}

/* Escape the first byte of a first key that looks foreign. */
static void tsv_write_key(const struct writer *w, const uint8_t *p, size_t len)
{
	bool foreign = looks_foreign(w, p, len);

	if (foreign)
		fprintf(w->out, "\\x%02x", p[0]);
	tsv_write(w->out, p + foreign, len - foreign);
}

static void put_bytes(FILE *out, const void *p, size_t len)
{
	if (len)
		fwrite(p, 1, len, out);
}

/* Write bytes that nul can hold. */
static void nul_write(FILE *out, const void *p, size_t len)
{
	put_bytes(out, p, len);
	putc_unlocked('\0', out);
}

static bool nul_holds_key(const struct writer *w, const void *key, size_t len)
{
	return !memchr(key, 0, len) && !looks_foreign(w, key, len);
}

bool writer_put(struct writer *w, const struct farkv_put_item *record)
{
	const void *key = record->key, *value = record->value;
	size_t key_len = record->key_len, value_len = record->value_len;

	switch (w->format) {
	case RECORD_CDB:
		fprintf(w->out, "+%zu,%zu:", key_len, value_len);
		put_bytes(w->out, key, key_len);
		fputs("->", w->out);
		put_bytes(w->out, value, value_len);
		putc_unlocked('\n', w->out);
		break;
	case RECORD_NUL:
		if (!nul_holds_key(w, key, key_len) ||
		    (value_len && memchr(value, 0, value_len)))
			return false;
		nul_write(w->out, key, key_len);
		nul_write(w->out, value, value_len);
		break;
	default:
		tsv_write_key(w, key, key_len);
		putc_unlocked('\t', w->out);
		tsv_write(w->out, value, value_len);
		putc_unlocked('\n', w->out);
		break;
	}
	w->begun = true;
	return true;
}

bool writer_put_key(struct writer *w, const void *key, size_t len)
{
	if (w->format == RECORD_NUL) {
		if (!nul_holds_key(w, key, len))
			return false;
		nul_write(w->out, key, len);
	} else {
		tsv_write_key(w, key, len);
		putc_unlocked('\n', w->out);
	}
	w->begun = true;
	return true;
}

void writer_end(const struct writer *w)
{
	if (w->format == RECORD_CDB)
		putc_unlocked('\n', w->out);
}
