/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * keyfile.h - the file of keys by which clients prove who they are.
 *
 * Text, one key a line: `NAME ROLE KEY`, separated by spaces or tabs.
 *   NAME  1..63 of A-Z a-z 0-9 . _ -, once in a file
 *   ROLE  rw or ro: the most that a session with this key may do
 *   KEY   32 bytes, as 64 hexadecimal digits or in base64 (RFC 4648, section 4:
 *         44 characters, = at the end)
 * A word that begins with # starts a comment, up to the end of the line. Lines
 * without words are passed over. Lines may end in CR LF, and a UTF-8 byte order mark
 * may precede the first. The same format on both sides: a server's file holds the
 * keys of all its clients, a client's file its own.
 *
 * No function here puts a part of the file into a message: a slip of the editor
 * may have put the secret in any place. Not thread-safe while loading or
 * freeing; a loaded file may be read by any number of threads. Leaf: libc and
 * libsodium.
 */
#ifndef COMMON_KEYFILE_H
#define COMMON_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES 32u
#define KEY_NAME_MAX 63u
#define KEYFILE_BYTES_MAX (1u << 20)
/** Room for a line of keyfile_make_line() with its NUL. */
#define KEYFILE_LINE_MAX 128u

/** The numbers are those of the roles in HELLO and WELCOME. */
enum key_role { KEY_RW = 0, KEY_RO = 1 };

struct key {
	char name[KEY_NAME_MAX + 1]; /* terminated */
	uint8_t name_len;
	uint8_t role; /* enum key_role */
	uint8_t secret[KEY_BYTES];
};

struct keyfile;

/**
 * Start libsodium; further calls only look. FARKV_ESYS if the system has no random
 * numbers. The functions here and of auth.h that need it call it themselves.
 */
int keyfile_crypto_start(void);

/** Is this a name for a key? Any bytes; need not be terminated. */
bool keyfile_name_ok(const void *name, size_t len);

/**
 * Read the keys of the file at `path`. It must be a regular file of at most 1
 * MiB that belongs to the effective user or to root, with no permission for
 * group or others; what is looked at is the opened file, so that nobody can
 * exchange it in between. *out is to be ended by keyfile_free().
 *
 * FARKV_EPERM: not ours, open to others, or not readable; FARKV_EINVAL: no such
 * file, no regular one, too large, without a key, compressed or UTF-16, or
 * `path:line: what` is wrong in it; FARKV_ENOMEM; FARKV_ESYS. *out is set on success only, and nothing of
 * the file stays in memory otherwise. The keys lie in locked memory as far as
 * RLIMIT_MEMLOCK allows, out of core dumps. Reads a disk: not for a hot path.
 */
int keyfile_load(const char *path, struct keyfile **out);

/**
 * Read the file again that `kf` was loaded from, by the same path and rules. `kf` then
 * holds the keys that are there now, and *old_out those it held before: the caller
 * ends it, after the last use of a key in it. On failure, as keyfile_load(), `kf` is
 * unchanged.
 */
int keyfile_reload(struct keyfile *kf, struct keyfile **old_out);

/** The `i`-th key in the order of names, or NULL after the last. */
const struct key *keyfile_at(const struct keyfile *kf, size_t i);

/** Have two keys the same name, role and secret? Takes as long for any two secrets. */
bool keyfile_same_key(const struct key *a, const struct key *b);

/** Compare by name, in the order of keyfile_at(): less than, equal to or above 0. */
int keyfile_compare(const struct key *a, const struct key *b);

/**
 * The key of that name, or NULL. The key lives as long as the file. Binary
 * search by name: names are no secrets.
 */
const struct key *keyfile_find(const struct keyfile *kf, const char *name,
			       size_t len);

/**
 * For who was told a file and no name: its only key. FARKV_EINVAL with a detail
 * if it holds several; *out is then unchanged.
 */
int keyfile_first(const struct keyfile *kf, const struct key **out);

/** Wipe the keys and free everything. NULL is allowed. */
void keyfile_free(struct keyfile *kf);

/**
 * A line of a key file with a fresh key from the system's random numbers,
 * terminated and without a newline. FARKV_EINVAL for a name that is none, and
 * if `cap` is less than KEYFILE_LINE_MAX; the buffer is then unchanged. The
 * caller wipes it.
 */
int keyfile_make_line(const char *name, enum key_role role, char *line,
		      size_t cap);

#endif
