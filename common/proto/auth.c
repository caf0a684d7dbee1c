/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "auth.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include <sodium.h>

#include "common/base/wire.h"

#define LABEL_BYTES 14u

static const char client_label[] = "farkv client 1";
static const char server_label[] = "farkv server 1";

static_assert(sizeof(client_label) == LABEL_BYTES + 1 &&
		      sizeof(server_label) == LABEL_BYTES + 1,
	      "labels of one length: neither begins the other's input");
static_assert(KEY_BYTES >= crypto_generichash_KEYBYTES_MIN &&
		      KEY_BYTES <= crypto_generichash_KEYBYTES_MAX &&
		      AUTH_TAG_BYTES <= crypto_generichash_BYTES_MAX,
	      "BLAKE2b takes these sizes");

static struct key dummy;
static int dummy_err;
static pthread_once_t dummy_once = PTHREAD_ONCE_INIT;

static int random_fill(void *buf, size_t len)
{
	int err = keyfile_crypto_start();

	if (!err)
		randombytes_buf(buf, len);
	return err;
}

int auth_nonce(uint8_t nonce_out[AUTH_NONCE_BYTES])
{
	return random_fill(nonce_out, AUTH_NONCE_BYTES);
}

int auth_token(uint8_t token_out[AUTH_TOKEN_BYTES])
{
	return random_fill(token_out, AUTH_TOKEN_BYTES);
}

/* ---- tags ---------------------------------------------------------------- */

/* Label and nonces, the beginning of both tags. */
static void tag_begin(crypto_generichash_state *st, const struct key *key,
		      const char *label, const uint8_t *first_nonce,
		      const uint8_t *second_nonce)
{
	crypto_generichash_init(st, key->secret, KEY_BYTES, AUTH_TAG_BYTES);
	crypto_generichash_update(st, (const uint8_t *)label, LABEL_BYTES);
	crypto_generichash_update(st, first_nonce, AUTH_NONCE_BYTES);
	crypto_generichash_update(st, second_nonce, AUTH_NONCE_BYTES);
}

static void tag_end(crypto_generichash_state *st, uint8_t *tag_out)
{
	crypto_generichash_final(st, tag_out, AUTH_TAG_BYTES);
	/* The state begins with the key. */
	sodium_memzero(st, sizeof(*st));
}

static void tag_blob(crypto_generichash_state *st, const void *p, uint16_t len)
{
	uint8_t le[2];
	struct wire w = wire_writer(le, sizeof(le));

	wire_put_u16(&w, len);
	crypto_generichash_update(st, le, sizeof(le));
	crypto_generichash_update(st, p, len);
}

void auth_client_tag(const struct key *key, const struct auth_client *in,
		     uint8_t tag_out[AUTH_TAG_BYTES])
{
	crypto_generichash_state st;

	tag_begin(&st, key, client_label, in->server_nonce, in->client_nonce);
	crypto_generichash_update(&st, &in->role, sizeof(in->role));
	tag_blob(&st, in->name, in->name_len);
	tag_blob(&st, in->hello, in->hello_len);
	tag_end(&st, tag_out);
}

void auth_server_tag(const struct key *key, const struct auth_server *in,
		     uint8_t tag_out[AUTH_TAG_BYTES])
{
	crypto_generichash_state st;
	uint8_t rest[1 + 4 + 16];
	struct wire w = wire_writer(rest, sizeof(rest));

	wire_put_u8(&w, in->role);
	wire_put_u32(&w, in->session);
	wire_put_u64(&w, in->region_id[0]);
	wire_put_u64(&w, in->region_id[1]);
	tag_begin(&st, key, server_label, in->client_nonce, in->server_nonce);
	crypto_generichash_update(&st, rest, sizeof(rest));
	tag_end(&st, tag_out);
}

bool auth_equal(const uint8_t a[AUTH_TAG_BYTES],
		const uint8_t b[AUTH_TAG_BYTES])
{
	return sodium_memcmp(a, b, AUTH_TAG_BYTES) == 0;
}

/* ---- the dummy key ------------------------------------------------------- */

static void dummy_make(void)
{
	dummy.role = KEY_RO;
	dummy_err = random_fill(dummy.secret, sizeof(dummy.secret));
}

const struct key *auth_dummy_key(void)
{
	pthread_once(&dummy_once, dummy_make);
	return dummy_err ? NULL : &dummy;
}
