/* SPDX-License-Identifier: BSD-3-Clause */
/** util.h - small arithmetic and parsing helpers. Leaf: libc only. */
#ifndef COMMON_UTIL_H
#define COMMON_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define UTIL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define UTIL_MAX(a, b) ((a) > (b) ? (a) : (b))

/** For each of its callers anew: what one of them knows, or does not want, costs nothing. */
#define IN_LINE static inline __attribute__((always_inline))

/** Round up to a multiple of `to`, a power of two. */
static inline uint64_t util_align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

/**
 * Parse a human size: decimal digits, then an optional k, m, g or t (powers of
 * 1024, either case, with an optional "b" or "ib" behind). A bare number counts in
 * `unit` bytes. Returns false on anything else, and on overflow of 64 bits.
 */
bool util_parse_size(const char *text, uint64_t unit, uint64_t *bytes_out);

/** Parse an unsigned decimal number that fills the whole text. */
bool util_parse_u64(const char *text, uint64_t *value_out);

/** "1.5 GiB" into buf of at least 16 bytes; returns buf. */
char *util_format_size(uint64_t bytes, char *buf, size_t cap);

/** Make `text` one line that no terminal obeys: '?' for each byte of a control
 * character, those of UTF-8 too. Returns text. */
char *util_one_line(char *text);

/**
 * `text` as one word that a POSIX shell takes as it stands, in quotes if it needs any, into
 * buf of `cap` bytes (at least 4); returns buf. Where there is no room: "...".
 */
const char *util_shell_word(const char *text, char *buf, size_t cap);

/**
 * Open those of the descriptors 0 to 2 that are closed, so that reading and writing them
 * fails: otherwise the next file or socket gets the number, and what is meant for stdout
 * or stderr. Call it first in main(). Ends the process if it cannot.
 */
void util_occupy_standard_fds(void);

/** Whether `sig` is ignored, as nohup or a script's `&` asked for: it stays so. */
bool util_signal_ignored(int sig);

/** End the process as `sig` does by default, so that whoever waits for it sees why. Does
 * nothing for one that is ignored. */
void util_end_by_signal(int sig);

/**
 * Whether `fd` is a terminal whose lines may be rewritten by escape sequences: TERM=dumb
 * and a NO_COLOR that is not empty say no.
 */
bool util_takes_escapes(int fd);

#endif
