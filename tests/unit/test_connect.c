/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_open() with any listener: the call ends in time with one clear error, and no
 * descriptor stays open.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/entries.h"
#include "tests/rig/fake_server.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
/* Deadline of an immediate answer on a busy machine. */
#define LONG_MS 20000u

static struct fake_server srv;
static unsigned fds_before;
static bool started;

static void setup(void)
{
	fake_server_init(&srv, SEALS);
	started = false;
}

static void start(void)
{
	fake_server_start(&srv);
	started = true;
	fds_before = entries(ENTRIES_FDS);
}

static void teardown(void)
{
	if (started)
		fake_server_fini(&srv);
}

/* Open with a short timeout; a failure leaves nothing open. */
static int try_open(unsigned timeout_ms, uint32_t flags)
{
	struct farkv *kv = (struct farkv *)(void *)&srv; /* poison */
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.connect_timeout_ms = timeout_ms;
	o.flags = flags;
	o.name = "test_connect";
	err = farkv_open(srv.path, &o, &kv);
	if (err) {
		ck_assert_ptr_eq(kv, (struct farkv *)(void *)&srv);
		ck_assert_str_ne(farkv_errdetail(), "");
		ck_assert_ptr_eq(strchr(farkv_errdetail(), '\n'), NULL);
	} else {
		farkv_close(kv);
	}
	return err;
}

/* The server's end of the connection may still be open on its side. */
static void assert_no_fds_left(void)
{
	fake_server_hangup_all(&srv);
	ck_assert_uint_eq(entries(ENTRIES_FDS), fds_before);
}

static void assert_detail(const char *says)
{
	ck_assert_msg(strstr(farkv_errdetail(), says) != NULL,
		      "'%s' lacks '%s'", farkv_errdetail(), says);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(open_of_a_server_that_answers_works)
{
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), 0);
	ck_assert_int_eq(try_open(LONG_MS, FARKV_OPEN_READONLY), 0);
	assert_no_fds_left();
}

TEST(open_of_a_silent_server_times_out)
{
	uint64_t t;

	srv.hello = FAKE_SILENT;
	start();
	t = clock_now_ns();
	ck_assert_int_eq(try_open(60, 0), FARKV_ETIMEDOUT);
	t = clock_now_ns() - t;
	ck_assert_uint_ge(t, 60 * NS_PER_MS);
	ck_assert_uint_lt(t, 4500 * NS_PER_MS); /* not what is the default */
	assert_no_fds_left();
}

TEST(open_cut_before_the_welcome_reports_it)
{
	srv.hello = FAKE_CLOSE;
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	assert_no_fds_left();
}

TEST(open_answered_by_another_message_fails)
{
	srv.hello = FAKE_OTHER;
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	assert_detail("PONG");
}

TEST(open_answered_by_garbage_fails)
{
	static uint8_t bytes[MSG_MAX_BYTES + 100];
	static const size_t sizes[] = {1, 4, 15, 16, 17, 64, 1000, 16384, 16385,
				       sizeof(bytes)};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 131 + 7);
	srv.hello = FAKE_BYTES;
	srv.bytes = bytes;
	start();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fake_server_set(&srv, n_bytes, sizes[i]);
		ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	}
	assert_no_fds_left();
}

/* The checksum of msg.h, so that only the edited field is wrong. */
static void resum(uint8_t *buf, size_t len)
{
	uint64_t head = hash_image(buf, 12);
	uint32_t sum = (uint32_t)XXH3_64bits_withSeed(buf + 16, len - 16, head);

	memcpy(buf + 12, &sum, 4);
}

static size_t other_version(uint8_t *buf, size_t len)
{
	buf[3] = MSG_PROTOCOL + 1;
	resum(buf, len);
	return len;
}

TEST(welcome_of_another_version_is_refused)
{
	srv.hello = FAKE_EDITED;
	srv.edit = other_version;
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	assert_detail("protocol version 4");
}

/* WELCOME body: session 4, prefix 4, role 1, swept 1, id 16, region 8, meta 8,
 * grace 8, flags 4, token 16, tag 32, address 2 (it is empty), areas 4, then
 * off 8, bytes 8, raddr 8, rkey 4 for each. */
#define BODY MSG_HEADER_BYTES
static size_t field_at;

static size_t bump_field(uint8_t *buf, size_t len)
{
	buf[BODY + field_at] ^= 0x40;
	resum(buf, len);
	return len;
}

static size_t zero_session(uint8_t *buf, size_t len)
{
	memset(buf + BODY, 0, 4);
	resum(buf, len);
	return len;
}

TEST(welcome_with_a_field_out_of_range_is_refused)
{
	static const struct {
		size_t at;
		int err;
	} fields[] = {
		{8, FARKV_EPROTOCOL},   /* role 64 */
		{9, FARKV_EPROTOCOL},   /* swept 64 */
		{10, FARKV_EFORMAT},    /* region id */
		{25, FARKV_EFORMAT},    /* region id, other end */
		{26, FARKV_EPROTOCOL},  /* region bytes: areas do not fit */
		{34, FARKV_EPROTOCOL},  /* meta bytes */
		{42, FARKV_EFORMAT},    /* grace */
		{50, FARKV_EPROTOCOL},  /* flags */
		{102, FARKV_EPROTOCOL}, /* length of the address */
		{104, FARKV_EPROTOCOL}, /* number of areas */
		{108, FARKV_EPROTOCOL}, /* area 0: offset */
		{116, FARKV_EPROTOCOL}, /* area 0: bytes */
		{136, FARKV_EPROTOCOL}, /* area 1: offset */
		{144, FARKV_EPROTOCOL}, /* area 1: bytes */
	};

	srv.hello = FAKE_EDITED;
	srv.edit = bump_field;
	start();
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		field_at = fields[i].at;
		ck_assert_msg(try_open(LONG_MS, 0) == fields[i].err,
			      "field %zu: %s", field_at, farkv_errdetail());
	}
	srv.edit = zero_session;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	assert_no_fds_left();
}

TEST(open_refused_by_the_server_says_why)
{
	srv.hello = FAKE_REFUSE;
	srv.refuse_reason = MSG_REASON_FULL;
	srv.refuse_text = "full\nhouse";
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EREFUSED);
	assert_detail("full?house");
	fake_server_set(&srv, refuse_reason, MSG_REASON_PERMISSION);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPERM);
	fake_server_set(&srv, refuse_text, "");
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPERM);
	assert_detail("not permitted");
	assert_no_fds_left();
}

/* It was displaced to make room, so it retries until its deadline. */
TEST(open_displaced_by_another_retries_in_time)
{
	uint64_t began;

	srv.hello = FAKE_REFUSE;
	srv.refuse_reason = MSG_REASON_DISPLACED;
	srv.refuse_text = "others came";
	srv.refuse_times = 3;
	start();
	ck_assert_int_eq(try_open(10000, 0), 0);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HELLO), 4);
	fake_server_set(&srv, refuse_times, 0);
	fake_server_set(&srv, hello, FAKE_REFUSE);
	began = clock_now_ns();
	ck_assert_int_eq(try_open(100, 0), FARKV_EREFUSED);
	ck_assert_uint_ge(clock_now_ns() - began, 100 * NS_PER_MS);
	assert_detail("others came"); /* the server's words, or the client's */
	assert_no_fds_left();
}

TEST(welcome_with_wrong_descriptors_is_refused)
{
	static const unsigned counts[] = {0, 2, 4, 16, 17, 40};

	start();
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		fake_server_set(&srv, n_fds, counts[i]);
		ck_assert_msg(try_open(LONG_MS, 0) == FARKV_EPROTOCOL, "%u fds",
			      counts[i]);
		assert_no_fds_left();
	}
	fake_server_set(&srv, n_fds, 3);
	ck_assert_int_eq(try_open(LONG_MS, 0), 0);
	assert_no_fds_left();
}

/* READY is sent immediately before the first read of memory that may be reused. */
TEST(open_that_refuses_the_superblock_sends_no_ready)
{
	uint64_t *dirword = (uint64_t *)(void *)(srv.meta + REGION_D_OFF);
	uint64_t good = *dirword;

	start();
	srv.sb.grace_ns++;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	srv.sb.grace_ns--;
	ck_assert(fake_server_wait(&srv, MSG_BYE, 1));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_READY), 0);
	*dirword = 0;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("directory word");
	*dirword = good;
	ck_assert(fake_server_wait(&srv, MSG_BYE, 2));
	ck_assert_uint_eq(fake_server_count(&srv, MSG_READY), 1);
	ck_assert_int_eq(try_open(LONG_MS, 0), 0);
	ck_assert(fake_server_wait(&srv, MSG_READY, 2));
	assert_no_fds_left();
}

TEST(superblock_that_does_not_fit_is_refused)
{
	const struct superblock good = srv.sb;
	struct superblock *sb = (struct superblock *)(void *)srv.meta;

	start();
	sb->magic ^= 1;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("magic");
	*sb = good;
	sb->version++;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("region format 4; this program reads 3");
	*sb = good;
	sb->max_value ^= 64;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("checksum");
	*sb = good;
	sb->region_id[1]++;
	superblock_seal(sb);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("id");
	*sb = good;
	sb->region_bytes -= PAGE_BYTES;
	superblock_seal(sb);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("sizes");
	*sb = good;
	*(uint64_t *)(void *)(srv.meta + REGION_D_OFF) = 0;
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("directory");
	assert_no_fds_left();
}

/* Replace the data descriptor; the old one is leaked to the test's end. */
static void replace_data_fd(int fd)
{
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(dup2(fd, srv.data_fd), 0);
	close(fd);
}

TEST(region_unsealed_is_refused)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
	replace_data_fd(fd);
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("data descriptor is not sealed");
	assert_no_fds_left();
}

TEST(region_that_cannot_be_sealed_is_refused)
{
	int fd = memfd_create("unsealable", MFD_CLOEXEC);

	ck_assert_int_eq(ftruncate(fd, 64 << 20), 0);
	replace_data_fd(fd);
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("not sealed");
}

TEST(region_too_small_is_refused)
{
	int fd = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, (16 << 20) - 1), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	replace_data_fd(fd);
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("has 16777215 bytes");
	assert_no_fds_left();
}

TEST(region_that_is_not_a_file_is_refused)
{
	replace_data_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	replace_data_fd(open("/", O_RDONLY | O_CLOEXEC));
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EFORMAT);
	assert_detail("not memory or a file");
}

TEST(region_read_only_serves_readers_alone)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", srv.data_fd);
	replace_data_fd(open(link, O_RDONLY | O_CLOEXEC));
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPERM);
	ck_assert_int_eq(try_open(LONG_MS, FARKV_OPEN_READONLY), 0);
	assert_no_fds_left();
}

/* A file that cannot be sealed is taken from a server of the same user. */
TEST(region_in_a_plain_file_of_the_same_user_is_taken)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/data", srv.dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	ck_assert_int_eq(ftruncate(fd, 16 << 20), 0);
	replace_data_fd(fd);
	start();
	ck_assert_int_eq(try_open(LONG_MS, 0), 0);
	assert_no_fds_left();
}

/* ---- nobody there, or somebody else ------------------------------------------ */

TEST(open_without_a_server_says_so)
{
	int fd;

	start();
	snprintf(srv.path, sizeof(srv.path), "%s/none", srv.dir);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EUNREACHABLE);
	assert_detail("start it with: kvserver");
	snprintf(srv.path, sizeof(srv.path), "%s/s/below", srv.dir);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EUNREACHABLE);

	snprintf(srv.path, sizeof(srv.path), "%s/file", srv.dir);
	fd = open(srv.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EUNREACHABLE);
	assert_detail("is not a socket");
	unlink(srv.path);
	snprintf(srv.path, sizeof(srv.path), "%s/s", srv.dir);
	assert_no_fds_left();
}

static int listener(const char *path, int type, int backlog)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(sa.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	if (backlog >= 0)
		ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

TEST(open_of_a_stream_socket_says_so)
{
	int fd = listener(srv.path, SOCK_STREAM, 4);

	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPROTOCOL);
	assert_detail("not a farkv socket");
	close(fd);
	unlink(srv.path);
	rmdir(srv.dir);
}

TEST(open_of_a_stale_socket_says_so)
{
	close(listener(srv.path, SOCK_SEQPACKET, 4));
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EUNREACHABLE);
	assert_detail("is kvserver running?");
	unlink(srv.path);
	rmdir(srv.dir);
}

TEST(open_with_a_full_backlog_times_out)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = listener(srv.path, SOCK_SEQPACKET, 0);
	int waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, srv.path);
	ck_assert_int_eq(connect(waiting, (struct sockaddr *)&sa, sizeof(sa)),
			 0);
	ck_assert_int_eq(try_open(50, 0), FARKV_ETIMEDOUT);
	close(waiting);
	close(fd);
	unlink(srv.path);
	rmdir(srv.dir);
}

TEST(open_of_a_socket_without_rights_says_so)
{
	if (geteuid() == 0) /* root has all rights: change the user */
		ck_assert_int_eq(chown(srv.dir, 1, 1), 0);
	start();
	ck_assert_int_eq(chmod(srv.path, 0), 0);
	ck_assert_int_eq(chmod(srv.dir, 0755), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_int_eq(try_open(LONG_MS, 0), FARKV_EPERM);
	assert_detail("--socket-mode");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}

TEST_SUITE("connect")
