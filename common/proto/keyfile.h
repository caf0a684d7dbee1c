/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * keyfile.h - the file of keys by which client and server authenticate each other.
 *
 * Text, one key a line: `NAME ROLE KEY`, separated by spaces or tabs.
 *   NAME  1..63 of A-Z a-z 0-9 . _ -, unique in the file
 *   ROLE  rw or ro: the most that a session with this key may do
 *   KEY   32 bytes, as 64 hexadecimal digits or in base64 (RFC 4648, section 4:
 *         44 characters, = at the end)
 * A word that begins with # starts a comment up to the end of the line. Empty lines are
 * skipped. Lines may end in CR LF, and a UTF-8 byte order mark may precede the first.
 * Servers and clients use the same format: a server's file holds the keys of all its
 * clients, a client's file its own.
 *
 * No error message quotes the file: a misplaced word may be the secret. Not thread-safe
 * while loading or freeing; any number of threads may read a loaded file. Leaf: libc
 * and libsodium.
 */
#ifndef COMMON_PROTO_KEYFILE_H
#define COMMON_PROTO_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES 32u
#define KEY_NAME_MAX 63u
#define KEYFILE_BYTES_MAX (1u << 20)
/** Size of a line of keyfile_make_line() with its NUL. */
#define KEYFILE_LINE_MAX 128u

/** As the roles in HELLO and WELCOME. */
enum key_role { KEY_RW = 0, KEY_RO = 1 };

struct key {
	char name[KEY_NAME_MAX + 1]; /* terminated */
	uint8_t name_len;
	uint8_t role; /* enum key_role */
	uint8_t secret[KEY_BYTES];
};

struct keyfile;

/**
 * Start libsodium; later calls do nothing. FARKV_ESYS if the system has no random numbers.
 * Functions here and in auth.h that need it call it themselves.
 */
int keyfile_crypto_start(void);

/** True if these bytes are a valid key name. Need not be terminated. */
bool keyfile_name_ok(const void *name, size_t len);

/**
 * Read the keys of the file at `path`: a regular file of at most 1 MiB that belongs to the
 * effective user or to root, without permissions for group or others. The opened file is
 * checked, so that nobody can replace it in between. The caller frees *out with
 * keyfile_free().
 *
 * FARKV_EPERM: wrong owner, open to others, or not readable; FARKV_EINVAL: no such file,
 * not regular, too large, without a key, compressed or UTF-16, or a syntax error
 * (`path:line: what`); FARKV_ENOMEM; FARKV_ESYS. *out is set on success only; after an
 * error nothing of the file stays in memory. The keys lie in locked memory as far as
 * RLIMIT_MEMLOCK allows, and not in core dumps. Reads a disk: not for a hot path.
 */
int keyfile_load(const char *path, struct keyfile **out);

/**
 * Load the file of `kf` again, by the same path and rules. `kf` then holds the new keys,
 * and *old_out the previous ones: the caller frees it after the last use of a key in it. On
 * failure, as keyfile_load(), `kf` is unchanged.
 */
int keyfile_reload(struct keyfile *kf, struct keyfile **old_out);

/** The `i`-th key by name; NULL after the last. */
const struct key *keyfile_at(const struct keyfile *kf, size_t i);

/** True if name, role and secret are equal. Constant time in the secrets. */
bool keyfile_same_key(const struct key *a, const struct key *b);

/**
 * True if `text` is the key's secret as written in a key file, in hexadecimal digits or base64.
 * Constant time in the secret.
 */
bool keyfile_secret_is(const struct key *k, const char *text, size_t len);

/** Compare names in the order of keyfile_at(): less than, equal to or greater than 0. */
int keyfile_compare(const struct key *a, const struct key *b);

/**
 * The key with that name, or NULL. It lives as long as the file. Binary search: names are
 * not secret.
 */
const struct key *keyfile_find(const struct keyfile *kf, const char *name,
			       size_t len);

/**
 * The only key of a file, for a client without a configured name. FARKV_EINVAL with a
 * detail if there are several; *out is then unchanged.
 */
int keyfile_first(const struct keyfile *kf, const struct key **out);

/** Wipe the keys and free everything. NULL is allowed. */
void keyfile_free(struct keyfile *kf);

/**
 * Make a line of a key file with a new random key, terminated, without a newline.
 * FARKV_EINVAL for an invalid name or if `cap` is less than KEYFILE_LINE_MAX; the buffer is
 * then unchanged. The caller wipes it.
 */
int keyfile_make_line(const char *name, enum key_role role, char *line,
		      size_t cap);

#endif
