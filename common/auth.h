/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * auth.h - how client and server prove to each other that they have one key,
 * without saying it. No transport, no messages: bytes in, bytes out.
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
 *               HELLO's body as it was sent
 *   server tag: "farkv server 1", client nonce, server nonce, u8 granted role,
 *               u32 session, u64[2] region id
 * The labels are 14 bytes each, so neither tag can be taken for the other.
 * Every part has a fixed length or is led by its length, so no two inputs have
 * the same bytes. Each side's nonce is fresh, so an old tag proves nothing.
 *
 * What this proves is who opened the session, in which role and to which
 * region. It does not protect what is said afterwards: see doc/security.md.
 *
 * All functions are thread-safe, none blocks after the first, none allocates.
 */
#ifndef COMMON_AUTH_H
#define COMMON_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "keyfile.h"

#define AUTH_NONCE_BYTES 32u
#define AUTH_TAG_BYTES 32u
#define AUTH_TOKEN_BYTES 16u

/** What the client's tag speaks of. */
struct auth_client {
	const uint8_t *server_nonce; /* AUTH_NONCE_BYTES */
	const uint8_t *client_nonce; /* AUTH_NONCE_BYTES */
	const char *name;            /* of the key, as AUTH has it */
	const void *hello;           /* HELLO's body: what follows the header */
	uint16_t name_len;
	uint16_t hello_len;
	uint8_t role;                /* that HELLO asks for */
};

/** What the server's tag speaks of. */
struct auth_server {
	const uint8_t *client_nonce; /* AUTH_NONCE_BYTES */
	const uint8_t *server_nonce; /* AUTH_NONCE_BYTES */
	const uint64_t *region_id;   /* 2 */
	uint32_t session;
	uint8_t role;                /* that WELCOME grants */
};

/**
 * 32 random bytes. Each side makes one for every HELLO, and uses it once.
 * FARKV_ESYS if the system has no random numbers; the output is then unchanged.
 */
int auth_nonce(uint8_t nonce_out[AUTH_NONCE_BYTES]);

/** As auth_nonce(), 16 bytes: the token of a session. */
int auth_token(uint8_t token_out[AUTH_TOKEN_BYTES]);

/** What the client sends, and what the server expects. Under a microsecond. */
void auth_client_tag(const struct key *key, const struct auth_client *in,
		     uint8_t tag_out[AUTH_TAG_BYTES]);

/** What the server sends, and what the client expects. */
void auth_server_tag(const struct key *key, const struct auth_server *in,
		     uint8_t tag_out[AUTH_TAG_BYTES]);

/** Are two tags the same? Takes as long for any two. */
bool auth_equal(const uint8_t a[AUTH_TAG_BYTES],
		const uint8_t b[AUTH_TAG_BYTES]);

/**
 * A key that nobody has, random for each process, with an empty name and the
 * role KEY_RO. A server that does not know a name computes the tag with this
 * one, so that an unknown name takes as long as a wrong key; and it refuses
 * whatever the comparison says. NULL if the system has no random numbers.
 */
const struct key *auth_dummy_key(void);

#endif
