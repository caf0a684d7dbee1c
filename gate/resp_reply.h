/* SPDX-License-Identifier: BSD-3-Clause */
/** resp_reply.h - replies in RESP, of the version that the client has chosen. */
#ifndef GATE_RESP_REPLY_H
#define GATE_RESP_REPLY_H

#include "client.h"

void reply_ok(struct client *c);
/** "+text"; without line breaks. */
void reply_simple(struct client *c, const char *text);
/** "-text", as in "ERR syntax error"; line breaks become blanks. */
void reply_error(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The error of a call of farkv.h. */
void reply_store_error(struct client *c, int err);
void reply_int(struct client *c, int64_t n);
void reply_bulk(struct client *c, const void *data, size_t len);
void reply_text(struct client *c, const char *text);
void reply_null(struct client *c);
/** Then `n` replies follow. */
void reply_array(struct client *c, size_t n);
/** Then `n` pairs follow: in RESP2 an array of 2n. */
void reply_map(struct client *c, size_t n);
/** Text of many lines: INFO, CLIENT LIST. */
void reply_lines(struct client *c, const void *data, size_t len);

/** The error that many commands have. */
void reply_syntax_error(struct client *c);

/** The two arguments for "%.*s" of an error line: a word's first 100 bytes. */
#define REPLY_WORD(s) ((s).len < 100 ? (int)(s).len : 100), (s).p

/** True if the replies since length `before` exceed --max-output; an error stands for them then. */
bool reply_too_long(struct client *c, size_t before);

/** Read a number, or answer with the error. */
bool reply_or_i64(struct client *c, struct slice s, int64_t *out);

#endif
