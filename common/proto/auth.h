/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * auth.h - how client and server prove to each other that they have one key, without
 * sending it. No transport, no messages: bytes in, bytes out.
 *
 *   HELLO      wanted role, ...
 *   CHALLENGE  server nonce
 *   AUTH       client nonce, name of the key, client tag
 *   WELCOME    ..., server tag
 *
 * A tag is BLAKE2b with the key and 32 bytes of output (libsodium's
 * crypto_generichash), over the fields below in this order, little-endian:
 *   client tag: "farkv client 1", server nonce, client nonce, u8 wanted role,
 *               u16 length of the name, the name, u16 length of HELLO's body,
 *               HELLO's body as sent
 *   server tag: "farkv server 1", client nonce, server nonce, u8 granted role,
 *               u32 session, u64[2] region id
 * The labels differ and have 14 bytes each, so neither tag passes for the other. Every
 * part has a fixed length or is preceded by its length, so no two inputs have the same
 * bytes. Each side's nonce is fresh, so an old tag proves nothing.
 *
 * The tags prove who opened the session, in which role and to which region. They do not
 * protect later messages: see doc/security.md.
 *
 * All functions are thread-safe, none blocks after the first call, none allocates.
 */
#ifndef COMMON_PROTO_AUTH_H
#define COMMON_PROTO_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "keyfile.h"

#define AUTH_NONCE_BYTES 32u
#define AUTH_TAG_BYTES 32u
#define AUTH_TOKEN_BYTES 16u

/** Input of the client's tag. */
struct auth_client {
	const uint8_t *server_nonce; /* AUTH_NONCE_BYTES */
	const uint8_t *client_nonce; /* AUTH_NONCE_BYTES */
	const char *name;            /* of the key, as in AUTH */
	const void *hello;           /* HELLO's body, without header */
	uint16_t name_len;
	uint16_t hello_len;
	uint8_t role;                /* that HELLO asks for */
};

/** Input of the server's tag. */
struct auth_server {
	const uint8_t *client_nonce; /* AUTH_NONCE_BYTES */
	const uint8_t *server_nonce; /* AUTH_NONCE_BYTES */
	const uint64_t *region_id;   /* 2 */
	uint32_t session;
	uint8_t role;                /* that WELCOME grants */
};

/**
 * 32 random bytes, to be used for one HELLO only. FARKV_ESYS if the system has no random
 * numbers; the output is then unchanged.
 */
int auth_nonce(uint8_t nonce_out[AUTH_NONCE_BYTES]);

/** A session's token: 16 bytes, otherwise as auth_nonce(). */
int auth_token(uint8_t token_out[AUTH_TOKEN_BYTES]);

/** The tag that the client sends and the server expects. Under a microsecond. */
void auth_client_tag(const struct key *key, const struct auth_client *in,
		     uint8_t tag_out[AUTH_TAG_BYTES]);

/** The tag that the server sends and the client expects. */
void auth_server_tag(const struct key *key, const struct auth_server *in,
		     uint8_t tag_out[AUTH_TAG_BYTES]);

/** True if the tags are equal. Constant time. */
bool auth_equal(const uint8_t a[AUTH_TAG_BYTES],
		const uint8_t b[AUTH_TAG_BYTES]);

/**
 * A random key of this process that nobody has, with an empty name and the role KEY_RO. For
 * an unknown name a server computes the tag with this key, so that it takes as long as for
 * a wrong key, and refuses whatever the result. NULL if the system has no random numbers.
 */
const struct key *auth_dummy_key(void);

#endif
