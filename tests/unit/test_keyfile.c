/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: what is read, what is refused with which message, and that no message shows
 * a secret.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/keyfile.h"
#include "tests/rig/cases.h"
#include "tests/rig/entries.h"

/* The key of the bytes 0 to 31, in each spelling. */
#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX_UPPER                                                              \
	"000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"
#define BARE "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define BASE64 BARE "="

static char dir[64], path[128];
static unsigned fds_before;
static struct keyfile *const poison = (struct keyfile *)(void *)dir;

static void setup(void)
{
	strcpy(dir, "/tmp/test_keyfile.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/keys", dir);
	/* libsodium may keep a descriptor for random numbers. */
	ck_assert_int_eq(keyfile_crypto_start(), 0);
	fds_before = entries(ENTRIES_FDS);
}

static void teardown(void)
{
	ck_assert_uint_eq(entries(ENTRIES_FDS), fds_before);
	(void)unlink(path);
	(void)rmdir(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

static void write_bytes(const void *p, size_t len, mode_t mode)
{
	int fd;

	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, len), (ssize_t)len);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void write_text(const char *text)
{
	write_bytes(text, strlen(text), 0600);
}

static struct keyfile *load(void)
{
	struct keyfile *kf = poison;
	int err = keyfile_load(path, &kf);

	ck_assert_msg(err == 0, "%s", err_detail());
	ck_assert_ptr_ne(kf, poison);
	return kf;
}

static void check_refused(int want, const char *says)
{
	struct keyfile *kf = poison;

	err_clear();
	ck_assert_int_eq(keyfile_load(path, &kf), want);
	ck_assert_ptr_eq(kf, poison);
	ck_assert_msg(strstr(err_detail(), says) != NULL, "'%s' lacks '%s'",
		      err_detail(), says);
	ck_assert_ptr_nonnull(strstr(err_detail(), path));
	ck_assert_ptr_null(strchr(err_detail(), '\n'));
	ck_assert_ptr_null(strstr(err_detail(), "AAECAw"));
	ck_assert_ptr_null(strstr(err_detail(), "00010203"));
}

static void check_key(const struct keyfile *kf, const char *name, int role)
{
	const struct key *key = keyfile_find(kf, name, strlen(name));

	ck_assert_ptr_nonnull(key);
	ck_assert_str_eq(key->name, name);
	ck_assert_uint_eq(key->name_len, strlen(name));
	ck_assert_int_eq(key->role, role);
	for (unsigned i = 0; i < KEY_BYTES; i++)
		ck_assert_uint_eq(key->secret[i], i);
}

/* ---- what a key file says ------------------------------------------------ */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(keyfile_load_every_spelling_gives_name_role_and_key)
{
	static const char longest[] = "0123456789-abcdefghijklmnopqrstuvwxyz._"
				      "ABCDEFGHIJKLMNOPQRSTUVWX";
	struct keyfile *kf;

	ck_assert_uint_eq(strlen(longest), KEY_NAME_MAX);
	write_text("# keys of the example\n"
		   "\n"
		   "alice rw " HEX "\n"
		   "bob\tro\t" HEX_UPPER "\n"
		   "  c  \t rw " BASE64 " \t\n"
		   "#alice ro nothing\n"
		   "d.d ro " BASE64 "\r\n"
		   " \t \r\n"
		   "e rw " BASE64 " # of the backup\n"
		   "0123456789-abcdefghijklmnopqrstuvwxyz._"
		   "ABCDEFGHIJKLMNOPQRSTUVWX ro " HEX "\n"
		   "last rw " BASE64);
	kf = load();
	check_key(kf, "alice", KEY_RW);
	check_key(kf, "bob", KEY_RO);
	check_key(kf, "c", KEY_RW);
	check_key(kf, "d.d", KEY_RO);
	check_key(kf, "e", KEY_RW);
	check_key(kf, longest, KEY_RO);
	check_key(kf, "last", KEY_RW);
	keyfile_free(kf);
	keyfile_free(NULL);
}

TEST(keyfile_find_other_names_gives_null)
{
	static const char *const others[] = {"alic", "alicee", "Alice", "",
					     "al ice", "a",    "zz",    "bo"};
	struct keyfile *kf;

	write_text("bob ro " HEX "\nalice rw " HEX "\n");
	kf = load();
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		ck_assert_ptr_null(
			keyfile_find(kf, others[i], strlen(others[i])));
	/* The length counts, not a NUL. */
	ck_assert_ptr_null(keyfile_find(kf, "alice\0", 6));
	ck_assert_ptr_nonnull(keyfile_find(kf, "alice2", 5));
	keyfile_free(kf);
}

TEST(keyfile_first_gives_the_only_key_and_asks_for_a_name_among_several)
{
	const struct key *key = (const struct key *)(const void *)dir;
	struct keyfile *kf;

	write_text("alice rw " HEX "\n");
	kf = load();
	ck_assert_int_eq(keyfile_first(kf, &key), 0);
	ck_assert_str_eq(key->name, "alice");
	keyfile_free(kf);
	write_text("alice rw " HEX "\nbob rw " HEX "\n");
	kf = load();
	key = (const struct key *)(const void *)dir;
	ck_assert_int_eq(keyfile_first(kf, &key), FARKV_EINVAL);
	ck_assert_ptr_eq(key, (const struct key *)(const void *)dir);
	ck_assert_ptr_nonnull(strstr(err_detail(), "holds 2 keys"));
	ck_assert_ptr_nonnull(strstr(err_detail(), "name"));
	keyfile_free(kf);
}

TEST(keyfile_load_thousands_of_keys_finds_each)
{
	const unsigned N = test_rounds(10000);
	size_t cap = KEYFILE_BYTES_MAX, len = 0;
	char *text = malloc(cap), name[32];
	struct keyfile *kf;

	/* Neither in order nor in reverse. */
	for (unsigned i = 0; i < N; i++)
		len += (size_t)snprintf(text + len, cap - len,
					"key%u rw " BASE64 "\n", i * 7919 % N);
	write_bytes(text, len, 0600);
	kf = load();
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "key%u", i);
		check_key(kf, name, KEY_RW);
	}
	ck_assert_ptr_null(keyfile_find(kf, "key10000", 8));
	keyfile_free(kf);
	free(text);
}

/* ---- what is wrong in it --------------------------------------------------- */

#define GOOD "alice rw " HEX "\n"
static const struct {
	const char *text, *says;
} malformed[] = {
	{"", "no key in it"},
	{"\n\n", "no key in it"},
	{"# alice rw " HEX, "no key in it"},
	{"alice\n", "keys:1: a line has three words"},
	{"alice rw\n", "keys:1: a line has three words"},
	{GOOD "\n#\nalice2 rw", "keys:4: a line has three words"},
	{"alice rw # " HEX "\n", "one has fewer"},
	{"alice rw " HEX " more\n", "one has more"},
	{"alice rw " HEX " more and more\n", "one has more"},
	{HEX " rw " HEX "\n", "keys:1: the name"},
	{"al!ce rw " HEX "\n", "the name"},
	{"al\xC3\xAF"
	 "ce rw " HEX "\n",
	 "the name"},
	{"alice rx " HEX "\n", "keys:1: the role"},
	{"alice RW " HEX "\n", "the role"},
	{"alice r " HEX "\n", "the role"},
	{"alice rwx " HEX "\n", "the role"},
	{"alice " HEX " rw\n", "the role"},
	{GOOD "bob ro " BARE "==\n", "keys:2: the key"},
	{GOOD "bob ro " BARE "\n", "keys:2: the key"},
	{GOOD "bob ro AAECAw==\n", "keys:2: the key"},
	{"alice rw 0x" HEX "\n", "the key"},
	{"alice rw " HEX "00\n", "the key"},
	{"alice rw 00010203\n", "the key"},
	/* An invalid digit, first and last. */
	{"alice rw g00102030405060708090a0b0c0d0e0f"
	 "101112131415161718191a1b1c1d1e1f\n",
	 "the key"},
	{"alice rw 000102030405060708090a0b0c0d0e0f"
	 "101112131415161718191a1b1c1d1e1g\n",
	 "the key"},
	/* Base64 of another length in the right number of characters. */
	{"alice rw AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8A\n", "the key"},
	{"alice rw AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==\n", "the key"},
	/* Bits after the last byte; characters of another alphabet. */
	{"alice rw AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=\n", "the key"},
	{"alice rw _AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "the key"},
	{"alice rw AAECAwQFBgcICQoLDA0ODxAREhM\tUFRYXGBkaGxwdHh8=\n",
	 "one has more"},
	{GOOD "alice ro " BASE64 "\n", "keys:2: the same name as in line 1"},
	{"\n" GOOD "#\nbob rw " HEX "\nzoe rw " HEX "\nbob ro " HEX "\n"
	 "alice ro " HEX "\n",
	 "keys:6: the same name as in line 4"},
	{GOOD GOOD GOOD, "keys:2: the same name as in line 1"},
};

TEST_EACH(keyfile_load_malformed_line_is_named_without_its_secret, malformed)
{
	write_text(malformed[_i].text);
	check_refused(FARKV_EINVAL, malformed[_i].says);
}

TEST(keyfile_load_nul_bytes_are_not_blanks)
{
	static const char in_name[] = "al\0ce rw " HEX "\n";
	static const char in_key[] = "alice rw " BARE "\0\n";

	write_bytes(in_name, sizeof(in_name) - 1, 0600);
	check_refused(FARKV_EINVAL, "keys:1: the name");
	write_bytes(in_key, sizeof(in_key) - 1, 0600);
	check_refused(FARKV_EINVAL, "keys:1: the key");
}

/* Cut at any byte: a file either has its first key whole or is refused. */
TEST(keyfile_load_cut_anywhere_is_refused_or_whole)
{
	static const char text[] = "alice rw " HEX;

	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		write_bytes(text, len, 0600);
		check_refused(FARKV_EINVAL, len ? "keys:1:" : "no key");
	}
}

TEST(keyfile_load_windows_text_is_read)
{
	struct keyfile *kf;

	write_text("\xEF\xBB\xBF" "alice rw " HEX "\r\nbob ro " HEX "\r\n");
	kf = load();
	check_key(kf, "alice", KEY_RW);
	check_key(kf, "bob", KEY_RO);
	keyfile_free(kf);
	/*
	 * A BOM in the middle, as cat(1) leaves it, is not a blank; lines count from the
	 * first line of the file.
	 */
	write_text("\xEF\xBB\xBF" GOOD "\xEF\xBB\xBF" "bob ro " HEX "\n");
	check_refused(FARKV_EINVAL, "keys:2: the name");
	write_text("\xEF\xBB\xBF" GOOD GOOD);
	check_refused(FARKV_EINVAL, "keys:2: the same name as in line 1");
}

TEST(keyfile_load_other_kinds_of_file_are_named)
{
	static const char utf16[] = "\xff\xfe" "a\0l\0i\0c\0e\0";

	write_bytes(utf16, sizeof(utf16) - 1, 0600);
	check_refused(FARKV_EINVAL, "this is UTF-16 text; convert it first: iconv");
	write_bytes("\x1f\x8b\x08\x00\x00", 5, 0600);
	check_refused(FARKV_EINVAL, "this is a gzip file; decompress it first: zcat");
}

/* ---- read again --------------------------------------------------------------- */

TEST(keyfile_reload_gives_the_new_keys_and_hands_out_the_old)
{
	struct keyfile *kf, *old = poison;
	const struct key *alice, *bob;

	write_text("bob ro " HEX "\nalice rw " HEX "\n");
	kf = load();
	alice = keyfile_find(kf, "alice", 5);
	bob = keyfile_find(kf, "bob", 3);
	write_text("carol rw " HEX "\nbob ro " HEX "\n");
	ck_assert_int_eq(keyfile_reload(kf, &old), 0);
	ck_assert_ptr_ne(old, poison);
	/* The old keys stay until the old file is ended. */
	ck_assert_ptr_eq(keyfile_find(old, "alice", 5), alice);
	ck_assert_str_eq(alice->name, "alice");
	ck_assert_ptr_null(keyfile_find(kf, "alice", 5));
	check_key(kf, "carol", KEY_RW);
	check_key(kf, "bob", KEY_RO);
	ck_assert(keyfile_same_key(bob, keyfile_find(kf, "bob", 3)));
	keyfile_free(old);
	/* And again. */
	ck_assert_int_eq(keyfile_reload(kf, &old), 0);
	keyfile_free(old);
	keyfile_free(kf);
}

TEST(keyfile_reload_bad_file_keeps_the_keys)
{
	struct keyfile *kf, *old = poison;

	write_text(GOOD);
	kf = load();
	write_text("alice rx " HEX "\n");
	ck_assert_int_eq(keyfile_reload(kf, &old), FARKV_EINVAL);
	write_bytes(GOOD, sizeof(GOOD) - 1, 0640);
	ck_assert_int_eq(keyfile_reload(kf, &old), FARKV_EPERM);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(keyfile_reload(kf, &old), FARKV_EINVAL);
	ck_assert_ptr_eq(old, poison);
	check_key(kf, "alice", KEY_RW);
	keyfile_free(kf);
}

TEST(keyfile_same_key_compares_name_role_and_every_bit_of_the_secret)
{
	struct keyfile *kf;
	struct key a, b;

	write_text("bob ro " HEX "\nalice rw " HEX "\nal rw " HEX "\n");
	kf = load();
	ck_assert_str_eq(keyfile_at(kf, 0)->name, "al");
	ck_assert_str_eq(keyfile_at(kf, 1)->name, "alice");
	ck_assert_str_eq(keyfile_at(kf, 2)->name, "bob");
	ck_assert_ptr_null(keyfile_at(kf, 3));
	ck_assert_int_lt(keyfile_compare(keyfile_at(kf, 0), keyfile_at(kf, 1)), 0);
	ck_assert_int_gt(keyfile_compare(keyfile_at(kf, 2), keyfile_at(kf, 1)), 0);
	a = b = *keyfile_at(kf, 1);
	ck_assert(keyfile_same_key(&a, &b));
	ck_assert(!keyfile_same_key(&a, keyfile_at(kf, 0)));
	b.role = KEY_RO;
	ck_assert(!keyfile_same_key(&a, &b));
	for (unsigned bit = 0; bit < 8 * KEY_BYTES; bit++) {
		b = a;
		b.secret[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!keyfile_same_key(&a, &b));
	}
	keyfile_free(kf);
}

/* ---- whose it is -------------------------------------------------------------- */

TEST(keyfile_load_open_to_others_is_refused)
{
	char remedy[160];

	snprintf(remedy, sizeof(remedy), "chmod 600 %s", path);
	for (unsigned bit = 1; bit <= 040; bit <<= 1) {
		write_bytes(GOOD, sizeof(GOOD) - 1, 0600 | bit);
		check_refused(FARKV_EPERM, remedy);
	}
	write_bytes(GOOD, sizeof(GOOD) - 1, 0400);
	keyfile_free(load());
	write_bytes(GOOD, sizeof(GOOD) - 1, 0700);
	keyfile_free(load());
}

TEST(keyfile_load_of_another_user_is_refused)
{
	write_text(GOOD);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 12345, 0), 0);
		check_refused(FARKV_EPERM, "belongs to user 12345");
	} else {
		ck_assert_int_eq(chmod(path, 0), 0);
		check_refused(FARKV_EPERM, "Permission denied");
	}
}

TEST(keyfile_load_of_a_path_that_is_no_regular_file_is_refused)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct keyfile *kf = poison;
	int fd;

	check_refused(FARKV_EINVAL, "No such file");
	ck_assert_int_eq(mkdir(path, 0700), 0);
	check_refused(FARKV_EINVAL, "not a regular file");
	ck_assert_int_eq(rmdir(path), 0);
	/* Nobody writes to this pipe, and nobody waits for it. */
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	check_refused(FARKV_EINVAL, "not a regular file");
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink("keys", path), 0);
	check_refused(FARKV_EINVAL, "symbolic links");
	ck_assert_int_eq(unlink(path), 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	strcpy(a.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	check_refused(FARKV_EINVAL, "cannot open");
	close(fd);
	ck_assert_int_eq(keyfile_load("/dev/null", &kf), FARKV_EINVAL);
	ck_assert_int_eq(keyfile_load("", &kf), FARKV_EINVAL);
	ck_assert_ptr_eq(kf, poison);
}

TEST(keyfile_load_through_a_symlink_checks_the_file)
{
	char target[140];

	snprintf(target, sizeof(target), "%s/target", dir);
	write_text(GOOD);
	ck_assert_int_eq(rename(path, target), 0);
	ck_assert_int_eq(symlink(target, path), 0);
	keyfile_free(load());
	ck_assert_int_eq(chmod(target, 0644), 0);
	check_refused(FARKV_EPERM, "chmod 600");
	ck_assert_int_eq(unlink(target), 0);
}

TEST(keyfile_load_one_mebibyte_is_read_and_one_byte_more_is_not)
{
	char *text = malloc(KEYFILE_BYTES_MAX + 1);

	memset(text, '#', KEYFILE_BYTES_MAX + 1);
	memcpy(text, GOOD, sizeof(GOOD) - 1);
	write_bytes(text, KEYFILE_BYTES_MAX, 0600);
	keyfile_free(load());
	write_bytes(text, KEYFILE_BYTES_MAX + 1, 0600);
	check_refused(FARKV_EINVAL, "larger than 1 MiB");
	free(text);
}

/* ---- new keys ----------------------------------------------------------------- */

TEST(keyfile_make_line_loads_and_is_new_each_time)
{
	static const char name[] = "0123456789-abcdefghijklmnopqrstuvwxyz._"
				   "ABCDEFGHIJKLMNOPQRSTUVWX";
	char line[2][KEYFILE_LINE_MAX], text[3 * KEYFILE_LINE_MAX];
	const struct key *a, *b;
	struct keyfile *kf;

	ck_assert_int_eq(
		keyfile_make_line(name, KEY_RW, line[0], sizeof(line[0])), 0);
	ck_assert_int_eq(
		keyfile_make_line("b", KEY_RO, line[1], sizeof(line[1])), 0);
	snprintf(text, sizeof(text), "%s\n%s\n", line[0], line[1]);
	write_text(text);
	kf = load();
	a = keyfile_find(kf, name, strlen(name));
	b = keyfile_find(kf, "b", 1);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_nonnull(b);
	ck_assert_int_eq(a->role, KEY_RW);
	ck_assert_int_eq(b->role, KEY_RO);
	ck_assert_mem_ne(a->secret, b->secret, KEY_BYTES);
	keyfile_free(kf);
}

TEST(keyfile_make_line_bad_name_or_small_buffer_changes_nothing)
{
	static const char longer[] = "0123456789-abcdefghijklmnopqrstuvwxyz._"
				     "ABCDEFGHIJKLMNOPQRSTUVWXY";
	static const char *const bad[] = {"",    "a b", "a\n",    "#a",
					  "a/b", longer, "\xC3\xA4"};
	char line[KEYFILE_LINE_MAX], same[KEYFILE_LINE_MAX];

	memset(line, 0xA5, sizeof(line));
	memcpy(same, line, sizeof(same));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(keyfile_make_line(bad[i], KEY_RW, line,
						   sizeof(line)),
				 FARKV_EINVAL);
	ck_assert_int_eq(keyfile_make_line("a", KEY_RW, line, sizeof(line) - 1),
			 FARKV_EINVAL);
	ck_assert_mem_eq(line, same, sizeof(line));
}

TEST_SUITE("keyfile")
