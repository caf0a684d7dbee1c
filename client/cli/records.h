/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * records.h - keys and values in files, for load and dump. Every format carries
 * any byte:
 *
 *   tsv  key TAB value NEWLINE; \t \n \r \0 \\ and \xHH stand for those bytes. As other
 *        systems write text: a byte order mark may precede it, a carriage return each
 *        newline, and the last newline may be missing
 *   cdb  +klen,vlen:key->value NEWLINE for each record, then an empty line
 *   nul  key NUL value NUL; only for records without NUL bytes
 *
 * cdb is the format of cdbmake(1). It is the one in which a file that was cut
 * off is always noticed; in nul not if the cut is between two records; in tsv not if it
 * is behind a key's TAB, but see `unended`.
 *
 * A file that is compressed or UTF-16 is refused as what it is, in each format.
 */
#ifndef CLIENT_CLI_RECORDS_H
#define CLIENT_CLI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <farkv.h>

enum record_format { RECORD_TSV, RECORD_CDB, RECORD_NUL };

/** One record; its memory is the caller's and is used again and again. */
struct record {
	uint8_t *buf; /* key, then value */
	size_t cap;
	size_t key_len, value_len;
	uint64_t number; /* where it stands: see reader_unit() */
};

struct reader {
	FILE *in;
	const char *name; /* for messages */
	enum record_format format;
	bool keys_only;   /* tsv, cdb: pass over values; nul: there are none */
	uint64_t records; /* read so far */
	uint64_t line;    /* of the record read last, tsv */
	uint64_t offset;  /* bytes read so far */
	bool begun;       /* its first bytes have been looked at */
	bool unended;     /* tsv: the record read last had no newline */
	uint64_t max_value; /* longer ones are refused unread */
	/*
	 * Called once, before a value of more than a MiB is taken in: may lower
	 * max_value to what the store takes. May be NULL.
	 */
	void (*ask)(struct reader *r, void *arg);
	void *ask_arg;
};

/** The format that a file name suggests: .cdb, .nul; anything else is tsv. */
enum record_format record_format_of(const char *path);

/**
 * Begin to read `path` ("-" is stdin). 0, or FARKV_ESYS with a detail. `name`
 * and so `path` must stay. One reader at a time; end with reader_close().
 */
int reader_open(struct reader *r, const char *path, enum record_format format,
		bool keys_only);
void reader_close(struct reader *r);

/**
 * The next record. *got_out false at the end. FARKV_EINVAL for a malformed or
 * cut-off record, and for another kind of file, FARKV_ESYS, FARKV_ENOMEM, each with a detail that names file,
 * record, and line or byte.
 */
int reader_next(struct reader *r, struct record *rec, bool *got_out);

/** What a record's number counts, for messages: "line" (tsv) or "record". */
const char *reader_unit(const struct reader *r);

/** Release the record's memory if it is larger than `keep` bytes. */
void record_trim(struct record *rec, size_t keep);

/** Write one record; output errors show in ferror(out). False: not possible in
 * this format (nul with a NUL byte inside, or a key that another kind of file begins
 * with), nothing was written. */
bool record_write(FILE *out, enum record_format format,
		  const struct farkv_put_item *record);
/** Write what ends a file of this format. */
void record_write_end(FILE *out, enum record_format format);

#endif
