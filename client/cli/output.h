/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * output.h - print the result for one key, plain or as one JSON object a line.
 *
 * JSON strings hold Unicode; bytes that are not UTF-8 appear in base64 under the same name
 * with "_base64" appended.
 */
#ifndef CLIENT_CLI_OUTPUT_H
#define CLIENT_CLI_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

struct cli;

/** Print a field of comma-separated values (RFC 4180), in double quotes. */
void output_csv(const void *p, size_t len);

/**
 * Print bytes readably: in double quotes, with \n \r \t \a \b \" \\ and \xHH for what a terminal
 * would not show, in the syntax of words.h. UTF-8 is printed unchanged.
 */
void output_quoted(const void *p, size_t len);

/**
 * Print a key or a value in the format that `cli` selects: output_csv(), output_quoted(), or
 * unchanged.
 */
void output_text(const struct cli *cli, const void *p, size_t len);

/** Set `name` (or `name`_base64) of `o` to these bytes. */
void output_bytes(json_t *o, const char *name, const void *p, size_t len);
/** Set `name` of `o` to a number. */
void output_count(json_t *o, const char *name, uint64_t n);
/** Set "ttl_ms" and "user" of `o`, those that are not 0. */
void output_ttl(json_t *o, uint64_t ttl_ms, uint32_t user);

/**
 * {"key": ..., "result": `result`}, to be extended. Never NULL: if out of memory the
 * program ends with a line on stderr.
 */
json_t *output_object(const void *key, size_t key_len, const char *result);

/** Print one line on stdout; frees `o`. */
void output_print(json_t *o);

/** The uint64_t that lies `offset` bytes into a struct: tables of figures name fields so. */
static inline uint64_t output_field(const void *from, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)from + offset, sizeof(v));
	return v;
}

#endif
