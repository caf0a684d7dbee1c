/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * textfile.h - detect files that should be UTF-8 text and are not, and the byte order mark.
 * Leaf: libc only. Thread-safe.
 */
#ifndef COMMON_BASE_TEXTFILE_H
#define COMMON_BASE_TEXTFILE_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes that suffice to recognize every kind of file and mark. */
#define TEXTFILE_HEAD 10u

/**
 * Refuse a file that is compressed, UTF-16 or the like. `head` holds its first `len` bytes:
 * TEXTFILE_HEAD, or all of a shorter file. 0, or FARKV_EINVAL with a detail that names the
 * kind and the command that converts it, such as "data.tsv: this is a gzip file; decompress
 * it first: zcat data.tsv | kvcli load -". `path` NULL is stdin; `reader` is the command
 * that reads the text from stdin, or NULL.
 */
int textfile_check(const char *path, const void *head, size_t len,
		   const char *reader);

/**
 * True if the result depends on bytes after these `len` first ones: whether the file is refused, or
 * begins with a byte order mark. For a reader that must not wait for bytes it does not need.
 */
bool textfile_undecided(const void *head, size_t len);

/**
 * True if a reader would refuse text that begins with these bytes, or would remove a byte order
 * mark. For writers of such text.
 */
bool textfile_foreign(const void *head, size_t len);

/** Length of the UTF-8 byte order mark (EF BB BF) at `head`: 3, or 0 if there is none. */
size_t textfile_mark(const void *head, size_t len);

#endif
