/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags of the handshake: compared with another BLAKE2b (Python's hashlib); every covered bit
 * changes them.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/proto/auth.h"
#include "tests/rig/cases.h"

/*
 * Made by hashlib.blake2b(input, key=bytes(range(32)), digest_size=32), the input
 * laid out as auth.h says.
 */
static const char gold_client[] =
	"dc9aabb95550b97eaa083780aeaca56d70320c55910a57ddfe0a140805f63e35";
static const char gold_shortest[] =
	"ad0863a09793b9f87b7696842feadeb6ef9a4627b8ce2e4c91e02bd9717cfe99";
static const char gold_server[] =
	"66233934da8f5cd914a18c8edb618831a9c0dca8a46dab49f22a5da896daca0f";

/* HELLO as in test_msg.c: read-only, pid 4711, in place of session 3, a map, "kvcli". */
static const uint8_t hello_body[] = {
	0x01, 0x67, 0x12, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x88, 0x77,
	0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc,
	0xbb, 0xaa, 0x99, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88,
	0x02, 0x05, 0x00, 0x6b, 0x76, 0x63, 0x6c, 0x69};

static struct key key;
static uint8_t server_nonce[AUTH_NONCE_BYTES], client_nonce[AUTH_NONCE_BYTES];
static uint8_t hello[sizeof(hello_body)];
static uint64_t region_id[2];
static char name[KEY_NAME_MAX + 1];
static struct auth_client client;
static struct auth_server server;

static void tags_setup(void)
{
	for (unsigned i = 0; i < 32; i++) {
		key.secret[i] = (uint8_t)i;
		server_nonce[i] = (uint8_t)(0x80 + i);
		client_nonce[i] = (uint8_t)(0xA0 + i);
	}
	memcpy(hello, hello_body, sizeof(hello));
	strcpy(name, "alice.1");
	region_id[0] = 0x1122334455667788;
	region_id[1] = 0x99AABBCCDDEEFF00;
	client = (struct auth_client){.server_nonce = server_nonce,
				      .client_nonce = client_nonce,
				      .name = name,
				      .name_len = 7,
				      .hello = hello,
				      .hello_len = sizeof(hello),
				      .role = KEY_RO};
	server = (struct auth_server){.client_nonce = client_nonce,
				      .server_nonce = server_nonce,
				      .region_id = region_id,
				      .session = 0x01020304,
				      .role = KEY_RW};
}

static void check_tag(const uint8_t *tag, const char *hex)
{
	for (unsigned i = 0; i < AUTH_TAG_BYTES; i++) {
		unsigned byte;

		ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
		ck_assert_uint_eq(tag[i], byte);
	}
	ck_assert_uint_eq(tag[AUTH_TAG_BYTES], 0xA5);
}

TEST_GROUP(.setup = tags_setup);

TEST(auth_tags_are_those_of_another_implementation)
{
	uint8_t tag[AUTH_TAG_BYTES + 1];

	memset(tag, 0xA5, sizeof(tag));
	auth_client_tag(&key, &client, tag);
	check_tag(tag, gold_client);
	auth_server_tag(&key, &server, tag);
	check_tag(tag, gold_server);
	client.role = KEY_RW;
	client.name = "a";
	client.name_len = 1;
	client.hello = NULL;
	client.hello_len = 0;
	auth_client_tag(&key, &client, tag);
	check_tag(tag, gold_shortest);
}

/* Both tags: which of them each bit of the byte at p must change. */
static void check_flips(void *p, size_t len, bool in_client, bool in_server)
{
	uint8_t c[AUTH_TAG_BYTES], s[AUTH_TAG_BYTES], other[AUTH_TAG_BYTES];
	uint8_t *b = p;

	auth_client_tag(&key, &client, c);
	auth_server_tag(&key, &server, s);
	for (size_t bit = 0; bit < len * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		auth_client_tag(&key, &client, other);
		ck_assert_int_eq(auth_equal(c, other), !in_client);
		auth_server_tag(&key, &server, other);
		ck_assert_int_eq(auth_equal(s, other), !in_server);
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

TEST(auth_tags_change_with_every_covered_bit)
{
	check_flips(key.secret, sizeof(key.secret), true, true);
	check_flips(server_nonce, sizeof(server_nonce), true, true);
	check_flips(client_nonce, sizeof(client_nonce), true, true);
	check_flips(&client.role, sizeof(client.role), true, false);
	check_flips(name, client.name_len, true, false);
	check_flips(hello, sizeof(hello), true, false);
	check_flips(&server.role, sizeof(server.role), false, true);
	check_flips(&server.session, sizeof(server.session), false, true);
	check_flips(region_id, sizeof(region_id), false, true);
}

TEST(auth_client_tag_bytes_moved_from_name_to_hello_change_it)
{
	static const char text[] = "alicehello";
	uint8_t tags[sizeof(text)][AUTH_TAG_BYTES];

	for (uint16_t i = 0; i < sizeof(text); i++) {
		client.name = text;
		client.name_len = i;
		client.hello = text + i;
		client.hello_len = (uint16_t)(sizeof(text) - i);
		auth_client_tag(&key, &client, tags[i]);
		for (uint16_t j = 0; j < i; j++)
			ck_assert(!auth_equal(tags[i], tags[j]));
	}
}

TEST(auth_equal_differs_in_any_bit)
{
	uint8_t a[AUTH_TAG_BYTES] = {0}, b[AUTH_TAG_BYTES] = {0};

	ck_assert(auth_equal(a, b));
	for (unsigned bit = 0; bit < AUTH_TAG_BYTES * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!auth_equal(a, b));
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

TEST(auth_nonce_and_token_fill_their_size_with_new_bytes)
{
	uint8_t a[AUTH_NONCE_BYTES + 1], b[AUTH_NONCE_BYTES + 1];
	uint8_t seen[AUTH_NONCE_BYTES] = {0};

	memset(a, 0xA5, sizeof(a));
	memset(b, 0xA5, sizeof(b));
	ck_assert_int_eq(auth_nonce(a), 0);
	ck_assert_int_eq(auth_nonce(b), 0);
	ck_assert_mem_ne(a, b, AUTH_NONCE_BYTES);
	ck_assert_uint_eq(a[AUTH_NONCE_BYTES], 0xA5);
	/* Every byte is written: in 64 rounds each differs from the poison. */
	for (int round = 0; round < 64; round++) {
		ck_assert_int_eq(auth_nonce(a), 0);
		for (unsigned i = 0; i < AUTH_NONCE_BYTES; i++)
			seen[i] |= a[i] != 0xA5;
	}
	for (unsigned i = 0; i < AUTH_NONCE_BYTES; i++)
		ck_assert(seen[i]);
	memset(a, 0xA5, sizeof(a));
	memset(b, 0xA5, sizeof(b));
	ck_assert_int_eq(auth_token(a), 0);
	ck_assert_int_eq(auth_token(b), 0);
	ck_assert_mem_ne(a, b, AUTH_TOKEN_BYTES);
	for (unsigned i = AUTH_TOKEN_BYTES; i < sizeof(a); i++)
		ck_assert_uint_eq(a[i], 0xA5);
}

TEST(auth_dummy_key_is_one_random_key)
{
	const struct key *d = auth_dummy_key();
	uint8_t a[AUTH_TAG_BYTES], b[AUTH_TAG_BYTES];
	struct key zero = {0};

	ck_assert_ptr_nonnull(d);
	ck_assert_ptr_eq(d, auth_dummy_key());
	ck_assert_uint_eq(d->name_len, 0);
	ck_assert_int_eq(d->role, KEY_RO);
	auth_client_tag(d, &client, a);
	auth_client_tag(&zero, &client, b);
	ck_assert(!auth_equal(a, b));
}

TEST_SUITE("auth")
