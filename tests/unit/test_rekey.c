/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGHUP: the file of keys is read again, with sessions of each kind there. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/proto/auth.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/proto/keyfile.h"
#include "server/loop/dispatch.h"
#include "server/loop/rekey.h"
#include "server/loop/welcome.h"
#include "tests/rig/cases.h"
#include "tests/rig/control_rig.h"

#define HEX1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX2 "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define ALICE "alice rw " HEX1 "\n"
#define BOB "bob rw " HEX1 "\n"

static char path[] = "/tmp/farkv-rekey-XXXXXX";
static struct keyfile *keys;
static struct msg last; /* as sent to bob, without the data that msg.h points to */
static uint8_t nonce[MSG_NONCE_BYTES];

static void write_keys(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void hang_up(void)
{
	ck_assert_int_eq(raise(SIGHUP), 0);
	turn();
}

static void hear(struct peer *p, const struct msg *m)
{
	(void)p;
	last = *m;
	if (m->type == MSG_CHALLENGE)
		memcpy(nonce, m->challenge.nonce, sizeof(nonce));
}

static void setup(void)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	write_keys(ALICE BOB, 0600);
	rig_begin(4096);
	log_init("test", LOG_LEVEL_INFO);
	ck_assert_int_eq(keyfile_load(path, &keys), 0);
	c->cfg.keys = keys;
	c->cfg.keys_on_socket = true;
	alice.session->key = keyfile_find(keys, "alice", 5);
}

static void teardown(void)
{
	rig_end();
	keyfile_free(keys);
	unlink(path);
}

static void bob_joins(const struct conn_ops *port)
{
	join(&bob, port, getpid());
	bob.session->key = keyfile_find(keys, "bob", 3);
	bob.heard = hear;
}

static void alice_stays(void)
{
	ck_assert_ptr_nonnull(alice.session);
	ck_assert_uint_eq(alice.fenced, 0);
	/* Its key is that of the file as it is now. */
	ck_assert_ptr_eq(alice.session->key, keyfile_find(keys, "alice", 5));
	ck_assert_str_eq(alice.session->key->name, "alice");
}

/* ---- sessions -------------------------------------------------------------------- */

static const struct {
	const char *text, *says;
} edits[] = {
	{ALICE, "keys removed: bob\n"},
	{ALICE "bob rw " HEX2 "\n", "keys changed: bob\n"},
	{"bob ro " HEX1 "\n" ALICE, "keys changed: bob\n"},
	{ALICE "bobby rw " HEX1 "\n", "keys added: bobby\n"},
};

static void check_end_of_bob(const struct conn_ops *port, int i)
{
	bob_joins(port);
	write_keys(edits[i].text, 0600);
	hang_up();
	ck_assert_ptr_null(bob.session);
	ck_assert_uint_eq(bob.fenced, 1);
	ck_assert_int_eq(last.type, MSG_REFUSE);
	ck_assert_int_eq(last.refuse.reason, MSG_REASON_PERMISSION);
	ck_assert_uint_eq(log_count(edits[i].says), 1);
	ck_assert_uint_eq(log_count("sessions ended: 1\n"), 1);
	ck_assert_uint_eq(log_count("can use the memory that they have mapped"),
			  !port->remote);
	alice_stays();
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST_EACH(rekey_of_a_removed_or_changed_key_fences_its_remote_session, edits)
{
	check_end_of_bob(&rig_remote, _i);
}

TEST_EACH(rekey_of_a_removed_or_changed_key_ends_its_local_session_with_a_warning, edits)
{
	check_end_of_bob(&rig_local, _i);
}

TEST(rekey_of_the_same_keys_in_another_order_keeps_all_sessions)
{
	bob_joins(&rig_remote);
	write_keys("# moved\n" BOB "carol ro " HEX2 "\n" ALICE, 0600);
	hang_up();
	hang_up();
	alice_stays();
	ck_assert_ptr_nonnull(bob.session);
	ck_assert_uint_eq(bob.fenced, 0);
	ck_assert_ptr_eq(bob.session->key, keyfile_find(keys, "bob", 3));
	ck_assert_uint_eq(log_count("keys added: carol\n"), 1);
	ck_assert_uint_eq(log_count("1 added, 0 removed, 0 changed; sessions ended: 0"), 1);
	ck_assert_uint_eq(log_count("0 added, 0 removed, 0 changed; sessions ended: 0"), 1);
}

/* ---- in the middle of the handshake ------------------------------------------------ */

/*
 * HELLO, and AUTH by a key of that name and the secret of HEX1, after the file was
 * changed to `between`. True if bob was welcomed.
 */
static bool shake_hands(const char *name, const char *between)
{
	struct msg m = {.type = MSG_HELLO, .req = 1, .hello = {.role = MSG_ROLE_RW}};
	struct key key = {.name_len = (uint8_t)strlen(name)};
	uint8_t hello[MSG_MAX_BYTES], own[MSG_NONCE_BYTES] = {1};
	struct auth_client in = {.server_nonce = nonce,
				 .client_nonce = own,
				 .name = name,
				 .name_len = key.name_len,
				 .hello = hello + MSG_HEADER_BYTES,
				 .role = MSG_ROLE_RW};
	size_t len;

	memset(&bob, 0, sizeof(bob));
	bob.heard = hear;
	bob.session = session_new(c, &rig_local, &bob);
	bob.session->pid = getpid();
	welcome_begin(bob.session);
	ck_assert_int_eq(msg_encode(&m, NULL, hello, sizeof(hello), &len), 0);
	in.hello_len = (uint16_t)(len - MSG_HEADER_BYTES);
	ck_assert(dispatch_packet(bob.session, hello, len));
	ck_assert_int_eq(last.type, MSG_CHALLENGE);

	write_keys(between, 0600);
	hang_up();
	ck_assert_ptr_nonnull(bob.session);
	for (unsigned i = 0; i < KEY_BYTES; i++)
		key.secret[i] = (uint8_t)i;
	memcpy(key.name, name, key.name_len);
	m = (struct msg){.type = MSG_AUTH, .req = 1};
	auth_client_tag(&key, &in, m.auth.tag);
	memcpy(m.auth.nonce, own, sizeof(own));
	m.auth.name = (const uint8_t *)name;
	m.auth.name_len = key.name_len;
	return say(&bob, &m, NULL);
}

TEST(rekey_between_challenge_and_auth_uses_the_new_file)
{
	ck_assert(shake_hands("bob", ALICE BOB));
	ck_assert_int_eq(last.type, MSG_WELCOME);
	ck_assert_ptr_eq(bob.session->key, keyfile_find(keys, "bob", 3));
	session_end(bob.session);
	ck_assert(!shake_hands("bob", ALICE));
	ck_assert_int_eq(last.refuse.reason, MSG_REASON_AUTH);
	ck_assert(!shake_hands("bob", ALICE "bob rw " HEX2 "\n"));
	ck_assert_int_eq(last.refuse.reason, MSG_REASON_AUTH);
	/* A key that was just added. */
	ck_assert(shake_hands("carol", ALICE "carol rw " HEX1 "\n"));
	ck_assert_int_eq(last.type, MSG_WELCOME);
	session_end(bob.session);
}

/* ---- invalid files ------------------------------------------------------------------- */

TEST(rekey_of_a_bad_file_keeps_keys_and_sessions_with_one_line)
{
	static const struct {
		const char *text, *says;
		mode_t mode;
	} bad[] = {
		{ALICE "bob rx " HEX1 "\n", ":2: the role", 0600},
		{"", "has no key in it", 0600},
		{ALICE, "is open to others (mode 0640); chmod 600", 0640},
		{"\xff\xfe" "a", "this is UTF-16 text", 0600},
		{NULL, "No such file", 0},
	};

	bob_joins(&rig_remote);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t lines = log_count("\n");

		if (bad[i].text)
			write_keys(bad[i].text, bad[i].mode);
		else
			unlink(path);
		hang_up();
		ck_assert_uint_eq(log_count("\n"), lines + 1);
		ck_assert_msg(log_count(bad[i].says) == 1, "%s", bad[i].says);
		ck_assert_uint_eq(log_count("error: SIGHUP: the keys stay as they are: "),
				  i + 1);
		alice_stays();
		ck_assert_ptr_nonnull(bob.session);
		ck_assert_ptr_eq(bob.session->key, keyfile_find(keys, "bob", 3));
	}
	write_keys(ALICE BOB, 0600); /* it can be mended */
	hang_up();
	ck_assert_uint_eq(log_count("0 removed, 0 changed"), 1);
}

TEST(rekey_of_many_keys_names_each)
{
	static char text[64 * 1024];
	size_t n = 0;
	char name[64];

	n += (size_t)sprintf(text, ALICE BOB);
	for (unsigned i = 0; i < 100; i++)
		n += (size_t)sprintf(text + n, "%060u rw " HEX1 "\n", i);
	write_keys(text, 0600);
	hang_up();
	for (unsigned i = 0; i < 100; i++) {
		sprintf(name, " %060u", i);
		ck_assert_uint_eq(log_count(name), 1);
	}
	ck_assert_uint_eq(log_count("100 added, 0 removed"), 1);
}

TEST(rekey_of_a_server_without_keys_is_reported)
{
	c->cfg.keys = NULL;
	hang_up();
	ck_assert_uint_eq(log_count("\n"), 1);
	ck_assert_uint_eq(log_count("SIGHUP: nothing to read again"), 1);
	ck_assert_ptr_nonnull(alice.session);
}

TEST_SUITE("rekey")
