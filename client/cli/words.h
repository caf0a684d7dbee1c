/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * words.h - a line of text as words, with the quotes of redis-cli:
 *
 *   "..."  \n \r \t \b \a \xHH stand for these bytes, \ before another byte for that byte
 *   '...'  \' stands for '
 *
 * A word ends with its quote. Outside of quotes every byte but blanks stands for itself.
 */
#ifndef CLIENT_CLI_WORDS_H
#define CLIENT_CLI_WORDS_H

#include <stddef.h>

struct words {
	char **v;    /* n words, each with a NUL after it, and a NULL */
	size_t *len; /* their lengths: a word may hold NUL bytes */
	size_t n;
	char *text;  /* the memory of the words */
};

/**
 * Split `line`. Returns NULL, or what is wrong; *out is then unchanged. The caller frees *out with
 * words_free().
 */
const char *words_split(const char *line, size_t len, struct words *out);

/** Copies of `n` words that end with their first NUL. NULL, or "out of memory". */
const char *words_copy(char *const *v, size_t n, struct words *out);

void words_free(struct words *w);

/** The length of `arg`, which may be one of `w`; `w` may be NULL. */
size_t words_length(const struct words *w, const char *arg);

#endif
