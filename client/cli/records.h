/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * records.h - keys and values in files, for load and dump. Every format carries any
 * byte:
 *
 *   tsv  key TAB value NEWLINE; \t \n \r \0 \\ and \xHH stand for those bytes. A byte order
 *        mark may precede the text, a carriage return each newline, and the last newline may
 *        be missing
 *   cdb  +klen,vlen:key->value NEWLINE for each record, then an empty line
 *   nul  key NUL value NUL; only for records without NUL bytes
 *
 * cdb is the format of cdbmake(1), and the only one that always shows that a file was
 * cut off. nul does not if the cut is between two records, tsv not if it is after a
 * key's TAB (but see `unended`).
 *
 * Compressed and UTF-16 files are refused and named in each format.
 */
#ifndef CLIENT_CLI_RECORDS_H
#define CLIENT_CLI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <farkv.h>

enum record_format { RECORD_TSV, RECORD_CDB, RECORD_NUL };

/** One record; the caller owns it and reuses its memory. */
struct record {
	uint8_t *buf; /* key, then value */
	size_t cap;
	size_t key_len, value_len;
	uint64_t number; /* position: see reader_unit() */
};

struct reader {
	FILE *in;
	const char *name; /* for messages */
	enum record_format format;
	bool keys_only;   /* tsv, cdb: skip values; nul: there are none */
	uint64_t records; /* read so far */
	uint64_t line;    /* of the record read last, tsv */
	uint64_t offset;  /* bytes read so far */
	bool begun;       /* the first bytes were checked */
	bool unended;     /* tsv: the last record had no newline */
	uint64_t max_value; /* longer values are refused unread */
	/*
	 * Called once, before the first value over 1 MiB: may lower max_value to the
	 * store's limit. May be NULL.
	 */
	void (*ask)(struct reader *r, void *arg);
	void *ask_arg;
};

/** The format for a file name: .cdb, .nul; otherwise tsv. */
enum record_format record_format_of(const char *path);

/**
 * Open `path` ("-" is stdin). 0, or FARKV_ESYS with a detail. `path` must stay valid. One
 * reader at a time; end with reader_close().
 */
int reader_open(struct reader *r, const char *path, enum record_format format,
		bool keys_only);
void reader_close(struct reader *r);

/**
 * Read the next record; *got_out false at the end. FARKV_EINVAL for a malformed or
 * truncated record and for another kind of file, FARKV_ESYS, FARKV_ENOMEM; the detail names
 * file, record, and line or byte.
 */
int reader_next(struct reader *r, struct record *rec, bool *got_out);

/** Unit of a record's number in messages: "line" (tsv) or "record". */
const char *reader_unit(const struct reader *r);

/** Free the record's memory if it is larger than `keep` bytes. */
void record_trim(struct record *rec, size_t keep);

/** Writes records or keys. Set `out` and `format`, and the rest to 0. */
struct writer {
	FILE *out;
	enum record_format format;
	bool begun; /* something was written: later keys cannot look like another kind of file */
};

/**
 * Write one record; write errors show in ferror(out). False, with nothing written, if the
 * format cannot hold it (nul: a NUL byte inside, or a first key that looks like another kind of
 * file; tsv escapes that key's first byte).
 */
bool writer_put(struct writer *w, const struct farkv_put_item *record);
/** Why nul cannot hold a record or key. */
#define RECORD_NOT_NUL                                                                     \
	"key or value holds a NUL byte, or the first key begins like another kind of "     \
	"file, which --format nul cannot carry; use tsv or cdb"
/** Write one key as dump reads it: tsv, a line; nul, with a NUL after it. As writer_put(). */
bool writer_put_key(struct writer *w, const void *key, size_t len);
/** Write the end of a file of this format. */
void writer_end(const struct writer *w);

#endif
