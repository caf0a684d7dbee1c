/* SPDX-License-Identifier: BSD-3-Clause */
/** glob.h - match keys of any bytes against a shell pattern. */
#ifndef CLIENT_CLI_GLOB_H
#define CLIENT_CLI_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/**
 * True if all of `key` matches: * is any bytes, ? one byte, [abc] and [a-z] one of these, [!a-z]
 * and [^a-z] any other, \ before a byte that byte; a [ that is not closed is a plain byte.
 * fnmatch(3) for bytes, which may be NUL.
 */
bool glob_match(const char *pattern, const void *key, size_t len);

#endif
