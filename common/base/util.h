/* SPDX-License-Identifier: BSD-3-Clause */
/** util.h - small arithmetic and parsing helpers. Leaf: libc only. */
#ifndef COMMON_BASE_UTIL_H
#define COMMON_BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define UTIL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define UTIL_MAX(a, b) ((a) > (b) ? (a) : (b))

/** Inlined into every caller, so that constant arguments cost nothing. */
#define IN_LINE static inline __attribute__((always_inline))

/** Round up to a multiple of `to`, a power of two. */
static inline uint64_t util_align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

/**
 * Parse a size: decimal digits, then an optional k, m, g or t (powers of 1024, either case,
 * optionally followed by "b" or "ib"). A bare number counts in `unit` bytes. False on
 * anything else, and on overflow of 64 bits.
 */
bool util_parse_size(const char *text, uint64_t unit, uint64_t *bytes_out);

/**
 * Parse a duration: decimal digits, then ms, s, m, h or d; a bare number counts seconds. False on
 * anything else, and on overflow of 64 bits.
 */
bool util_parse_duration(const char *text, uint64_t *ms_out);

/** Parse an unsigned decimal number that is the whole text. */
bool util_parse_u64(const char *text, uint64_t *value_out);

/** "1.5 GiB" into buf of at least 16 bytes; returns buf. */
char *util_format_size(uint64_t bytes, char *buf, size_t cap);

/**
 * Make `text` one line that is safe for a terminal: each byte of a control character, those
 * of UTF-8 too, becomes '?'. Returns text.
 */
char *util_one_line(char *text);

/** Length of the UTF-8 character at `text`, or 0 if it is none. */
size_t util_utf8_len(const char *text);

/**
 * `text` as one word for a POSIX shell, quoted if needed, into buf of `cap` bytes (at least
 * 4); "..." if it does not fit. Returns buf.
 */
const char *util_shell_word(const char *text, char *buf, size_t cap);

/**
 * Open those of the descriptors 0 to 2 that are closed, in a way that using them fails; otherwise
 * the next file or socket would get the number and receive stdout's or stderr's output. Call first
 * in main(). Ends the process on failure.
 */
void util_occupy_standard_fds(void);

/**
 * True if a write to `fd` would not block; false, with EAGAIN, if it would. Signals do not
 * interrupt it.
 */
bool util_writable(int fd);

/** True if `sig` is ignored, as set by nohup or a script's `&`, and must stay so. */
bool util_signal_ignored(int sig);

/**
 * End the process by `sig`'s default action, so that its parent sees the signal. Does
 * nothing if it is ignored.
 */
void util_end_by_signal(int sig);

/**
 * True if `fd` is a terminal that takes escape sequences: TERM is not dumb and NO_COLOR is
 * unset or empty.
 */
bool util_takes_escapes(int fd);

#endif
