/* SPDX-License-Identifier: BSD-3-Clause */
/* The leaves: sizes and numbers, error lines, socket paths. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/sockpath.h"
#include "common/base/textfile.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

static const struct {
	const char *text;
	uint64_t unit, bytes;
} sizes[] = {
	{"0", 1, 0}, {"1", 1, 1}, {"64", 1 << 20, 64ull << 20},
	{"1k", 1, 1024}, {"1K", 1, 1024}, {"2kb", 1, 2048}, {"2KiB", 1, 2048},
	{"3m", 1, 3 << 20}, {"2g", 1 << 20, 2ull << 30}, {"2G", 7, 2ull << 30},
	{"1t", 1, 1ull << 40}, {"16777215t", 1, 16777215ull << 40},
	{"18446744073709551615", 1, UINT64_MAX}, {"007", 1, 7},
};

TEST_EACH(util_parse_size_good, sizes)
{
	uint64_t v = 4711;

	ck_assert(util_parse_size(sizes[_i].text, sizes[_i].unit, &v));
	ck_assert_uint_eq(v, sizes[_i].bytes);
}

static const char *const bad_sizes[] = {
	"", " ", " 1", "1 ", "-1", "+1", "1.5g", "g", "1x", "1gg", "1kib2",
	"1bb", "0x10", "16777216t", "18446744073709551616", "1e9", "\xff",
	"99999999999999999999999999", "18014398509481984k",
};

TEST_EACH(util_parse_size_bad_leaves_the_output, bad_sizes)
{
	uint64_t v = 4711;

	ck_assert(!util_parse_size(bad_sizes[_i], 1, &v));
	ck_assert_uint_eq(v, 4711);
}

static const struct {
	const char *text;
	uint64_t ms;
} durations[] = {
	{"0", 0}, {"10", 10000}, {"500ms", 500}, {"10s", 10000}, {"2m", 120000},
	{"1h", 3600000}, {"7d", 604800000}, {"18446744073709551615ms", UINT64_MAX},
};

TEST_EACH(util_parse_duration_good, durations)
{
	uint64_t v = 4711;

	ck_assert(util_parse_duration(durations[_i].text, &v));
	ck_assert_uint_eq(v, durations[_i].ms);
}

static const char *const bad_durations[] = {
	"", "s", "-1s", "1.5s", "1 s", "1S", "1sec", "1w", "1ss", "18446744073709551615",
	"18446744073709551616ms", "213503982335d",
};

TEST_EACH(util_parse_duration_bad_leaves_the_output, bad_durations)
{
	uint64_t v = 4711;

	ck_assert(!util_parse_duration(bad_durations[_i], &v));
	ck_assert_uint_eq(v, 4711);
}

TEST(util_parse_u64_whole_text_or_nothing)
{
	uint64_t v = 4711;

	ck_assert(!util_parse_u64("1k", &v));
	ck_assert(!util_parse_u64("", &v));
	ck_assert(!util_parse_u64("-1", &v));
	ck_assert(!util_parse_u64("18446744073709551616", &v));
	ck_assert_uint_eq(v, 4711);
	ck_assert(util_parse_u64("18446744073709551615", &v));
	ck_assert_uint_eq(v, UINT64_MAX);
}

TEST(util_format_size_examples)
{
	char b[24];

	ck_assert_str_eq(util_format_size(0, b, sizeof(b)), "0 B");
	ck_assert_str_eq(util_format_size(1023, b, sizeof(b)), "1023 B");
	ck_assert_str_eq(util_format_size(1536, b, sizeof(b)), "1.5 KiB");
	ck_assert_str_eq(util_format_size(1ull << 30, b, sizeof(b)), "1.0 GiB");
	ck_assert_str_eq(util_format_size(UINT64_MAX, b, sizeof(b)),
			 "16.0 EiB");
	ck_assert_str_eq(util_format_size((1 << 20) - 1, b, sizeof(b)),
			 "1.0 MiB");
	ck_assert_str_eq(util_format_size((1 << 20) - 60, b, sizeof(b)),
			 "1023.9 KiB");
}

/* Foreign text, and the part of it that may be shown. */
static const struct {
	const char *text, *line;
} lines[] = {
	{"", ""},
	{"two\nlines\r\n", "two?lines??"},
	{"\x1b[31mred\x1b[0m\a\x7f", "?[31mred?[0m??"},
	{"a\tb", "a?b"},
	{"Stra\xc3\x9f" "e, \xe2\x82\xac, \xc2\xa0", "Stra\xc3\x9f" "e, \xe2\x82\xac, \xc2\xa0"},
	{"\xc2\x9b" "31m \xc2\x80\xc2\x9f", "??31m ????"},
	{"cut \xc2", "cut \xc2"},
};

TEST_EACH(util_one_line_no_control_characters, lines)
{
	char b[64];

	strcpy(b, lines[_i].text);
	ck_assert_ptr_eq(util_one_line(b), b);
	ck_assert_str_eq(b, lines[_i].line);
}

TEST(err_set_quotes_others_in_one_line)
{
	err_set(FARKV_EURI, "address '%s'", "a\nkvserver: all is well\x1b[2J");
	ck_assert_str_eq(err_detail(),
			 "address 'a?kvserver: all is well?[2J'");
	err_set_errno(FARKV_ESYS, ENOENT, "cannot open %s", "a\nb");
	ck_assert_str_eq(err_detail(),
			 "cannot open a?b: No such file or directory");
	err_set_plain(FARKV_ENOTFOUND);
	ck_assert_str_eq(err_detail(), err_str(FARKV_ENOTFOUND));
	err_set(FARKV_ESYS, "x");
	ck_assert_str_eq(err_detail(), "x");
}

/* The line that log_error() writes to a pipe in place of stderr. */
static ssize_t log_line(const char *text, char *buf, size_t cap)
{
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_ge(saved, 0);
	ck_assert_int_ge(dup2(fds[1], STDERR_FILENO), 0);
	log_error("%s", text);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	n = read(fds[0], buf, cap);
	close(fds[0]);
	return n;
}

TEST(log_msg_is_one_line_of_bounded_length)
{
	char big[2000], b[4096];
	ssize_t n;

	log_init("test", LOG_LEVEL_INFO);
	n = log_line("a\nb\x1b[2J", b, sizeof(b));
	ck_assert_int_eq(n, (int)strlen("test: error: a?b?[2J\n"));
	ck_assert_mem_eq(b, "test: error: a?b?[2J\n", n);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	n = log_line(big, b, sizeof(b));
	ck_assert_int_eq(n, (int)strlen("test: error: ") + (int)LOG_TEXT_MAX + 1);
	ck_assert_ptr_eq(memchr(b, '\n', n), b + n - 1);
}

TEST(log_formats_quote_and_stamp)
{
	static const struct {
		enum log_format format;
		const char *before, *after;
	} want[] = {
		{LOG_FORMAT_TEXT, "2", "Z test: error: a \"b\" c\\d\xff\xc3\xa4?\n"},
		{LOG_FORMAT_LOGFMT, "time=2",
		 "Z level=error program=test msg=\"a \\\"b\\\" c\\\\d?\xc3\xa4?\"\n"},
		{LOG_FORMAT_JSON, "{\"time\":\"2",
		 "Z\",\"level\":\"error\",\"program\":\"test\","
		 "\"msg\":\"a \\\"b\\\" c\\\\d?\xc3\xa4?\"}\n"},
	};
	char b[4096];

	unsetenv("JOURNAL_STREAM");
	log_init("test", LOG_LEVEL_INFO);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		size_t before = strlen(want[i].before), stamp = strlen("026-11-29T12:30:00.123");
		ssize_t n;

		log_set_format(want[i].format);
		n = log_line("a \"b\" c\\d\xff\xc3\xa4\n", b, sizeof(b) - 1);
		ck_assert_int_eq(n, (int)(before + stamp + strlen(want[i].after)));
		b[n] = '\0';
		ck_assert_mem_eq(b, want[i].before, before);
		ck_assert_str_eq(b + before + stamp, want[i].after);
	}
	log_init("test", LOG_LEVEL_INFO);
	ck_assert_int_eq(log_line("x", b, sizeof(b)), (int)strlen("test: error: x\n"));
	ck_assert_mem_eq(b, "test: error: x\n", strlen("test: error: x\n"));
}

/* ---- a log that nobody reads ---- */

enum reader { READER_PIPE, READER_SOCKET, READER_TERMINAL, READER_STOPPED, READERS };

#define LOGGED 5000 /* lines: more than any of these buffers holds */

/* [0] is read, [1] is a log's stderr. */
static void reader_open(enum reader kind, int fds[2])
{
	struct termios raw;

	if (kind == READER_PIPE) {
		ck_assert_int_eq(pipe(fds), 0);
	} else if (kind == READER_SOCKET) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	} else {
		fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
		ck_assert_int_ge(fds[0], 0);
		ck_assert(grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0);
		fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY);
		ck_assert_int_ge(fds[1], 0);
		tcgetattr(fds[1], &raw);
		cfmakeraw(&raw);
		tcsetattr(fds[1], TCSANOW, &raw);
		if (kind == READER_STOPPED) /* Ctrl-S */
			tcflow(fds[1], TCOOFF);
	}
}

/* Logs, reports it, and then logs one line for each byte that it receives. */
static void log_child(int log, int said, int told)
{
	char byte = 0;

	/* For a line that waits. libcheck's handler would kill its own process group. */
	signal(SIGALRM, SIG_DFL);
	alarm(60);
	dup2(log, STDERR_FILENO);
	log_init("test", LOG_LEVEL_INFO);
	log_never_wait();
	for (int i = 0; i < LOGGED; i++)
		log_error("line");
	if (write(said, &byte, 1) != 1)
		_exit(1);
	while (read(told, &byte, 1) == 1)
		log_error("line");
	/* The shared file flags are unchanged. */
	_exit(fcntl(log, F_GETFL) & O_NONBLOCK ? 2 : 0);
}

/* Output of others, and of the terminal's own thread, until `ms` pass without more. */
static void drain(int fd, char *buf, size_t cap, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t at = strlen(buf);
	ssize_t n;

	while (poll(&p, 1, ms) == 1 &&
	       (n = read(fd, buf + at, cap - 1 - at)) > 0)
		at += (size_t)n;
	buf[at] = '\0';
}

/* Whole lines of the log, and the number of dropped ones that it reports. */
static unsigned count_lines(const char *text, unsigned *dropped_out)
{
	unsigned whole = 0, n;

	*dropped_out = 0;
	for (const char *p = text; *p; p += strcspn(p, "\n") + (*p != '\0')) {
		whole += strncmp(p, "test: error: line\n", 18) == 0;
		if (sscanf(p, "test: warning: %u lines of the log were dropped",
			   &n) == 1)
			*dropped_out += n;
	}
	return whole;
}

TEST_LOOP(log_that_must_not_wait_drops_counts_and_reports, 0, READERS)
{
	static char buf[1 << 20];
	int fds[2], said[2], told[2], status;
	unsigned whole, dropped, asked = 0;
	char byte = 0;
	pid_t pid;

	reader_open((enum reader)_i, fds);
	ck_assert(pipe(said) == 0 && pipe(told) == 0);
	pid = fork();
	if (pid == 0) {
		close(told[1]);
		log_child(fds[1], said[1], told[0]);
	}
	close(said[1]);
	/* The log is not read until the child has finished. */
	ck_assert_int_eq(read(said[0], &byte, 1), 1);
	if (_i == READER_STOPPED)
		tcflow(fds[1], TCOON);
	buf[0] = '\0';
	do {
		drain(fds[0], buf, sizeof(buf), 1);
		ck_assert_int_eq(write(told[1], &byte, 1), 1);
		asked++;
		drain(fds[0], buf, sizeof(buf), 1);
		whole = count_lines(buf, &dropped);
	} while (!dropped && asked < 20000);
	close(told[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "the child ends with status %#x", status);
	for (int i = 0; i < 20 && whole + dropped < LOGGED + asked; i++) {
		drain(fds[0], buf, sizeof(buf), 1000);
		whole = count_lines(buf, &dropped);
	}
	ck_assert_uint_gt(dropped, 0);
	ck_assert_uint_eq(whole + dropped, LOGGED + asked);
	close(fds[0]);
	close(fds[1]);
	close(said[0]);
	close(told[0]);
}

TEST(err_str_every_number_has_a_text_of_its_own)
{
	static const int all[] = {
		FARKV_OK, FARKV_ENOTFOUND, FARKV_EEXISTS, FARKV_EVERSION,
		FARKV_ENOSPC, FARKV_EINDEXFULL, FARKV_ETOOLARGE,
		FARKV_ETOOSMALL, FARKV_ETIMEDOUT, FARKV_EMAYBE, FARKV_EPERM,
		FARKV_EINVAL, FARKV_ENOMEM, FARKV_EABORTED, FARKV_EAGAIN, FARKV_ESTALE,
		FARKV_EDISCONNECTED,
		FARKV_EUNREACHABLE, FARKV_EREFUSED, FARKV_EPROTOCOL,
		FARKV_EFORMAT, FARKV_ECORRUPT, FARKV_EURI, FARKV_ENOTSUP,
		FARKV_ESYS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		ck_assert_str_ne(err_str(all[i]), "unknown error");
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(err_str(all[i]), err_str(all[j]));
	}
	ck_assert_str_eq(err_str(12345), "unknown error");
	ck_assert_str_eq(err_str(-1), "unknown error");
}

TEST(err_set_long_line_is_bounded_and_returns_the_number)
{
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	ck_assert_int_eq(err_set(FARKV_EURI, "a%sb", big), FARKV_EURI);
	ck_assert_uint_eq(strlen(err_detail()), 511);
	ck_assert_int_eq(err_set_errno(FARKV_ESYS, 2, "cannot open %s", "x"),
			 FARKV_ESYS);
	ck_assert_str_eq(err_detail(),
			 "cannot open x: No such file or directory");
	/* The reason is kept after a name that is too long. */
	err_set_errno(FARKV_ESYS, ENOENT, "cannot open %s", big);
	ck_assert_uint_eq(strlen(err_detail()), 511);
	ck_assert_str_eq(err_detail() + 511 - strlen("x: No such file or directory"),
			 "x: No such file or directory");
	err_set_errno(FARKV_ESYS, ENOENT, "cannot open %s", "x");
	/* A line may be built from the one before. */
	err_set(FARKV_ESYS, "item: %s", err_detail());
	ck_assert_str_eq(err_detail(),
			 "item: cannot open x: No such file or directory");
	err_clear();
	ck_assert_str_eq(err_detail(), "");
}

static void *other_thread(void *arg)
{
	(void)arg;
	ck_assert_str_eq(err_detail(), "");
	err_set(FARKV_EINVAL, "theirs");
	return NULL;
}

TEST(err_detail_belongs_to_the_thread)
{
	pthread_t t;

	err_set(FARKV_EINVAL, "mine");
	ck_assert_int_eq(pthread_create(&t, NULL, other_thread, NULL), 0);
	pthread_join(t, NULL);
	ck_assert_str_eq(err_detail(), "mine");
}

/* Without a valid XDG_RUNTIME_DIR. */
static void check_system_default(void)
{
	bool run = access("/run/farkv", W_OK | X_OK) == 0 ||
		   (errno == ENOENT && access("/run", W_OK | X_OK) == 0);
	char path[SOCKPATH_MAX], own[SOCKPATH_MAX];

	snprintf(own, sizeof(own), "/tmp/farkv-%u/kvserver.sock",
		 (unsigned)geteuid());
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_str_eq(path, run ? "/run/farkv/kvserver.sock" : own);
}

TEST(sockpath_follows_the_runtime_folder)
{
	char path[SOCKPATH_MAX], dir[120];

	setenv("XDG_RUNTIME_DIR", "/run/user/1000", 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/user/1000/farkv/kvserver.sock");
	setenv("XDG_RUNTIME_DIR", "", 1);
	check_system_default();
	/* The XDG specification has a relative path ignored. */
	setenv("XDG_RUNTIME_DIR", "run", 1);
	check_system_default();
	unsetenv("XDG_RUNTIME_DIR");
	check_system_default();
	/* 107 bytes fit into an address of a socket, 108 do not. */
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[107 - strlen("/farkv/kvserver.sock")] = '\0';
	setenv("XDG_RUNTIME_DIR", dir, 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_uint_eq(strlen(path), 107);
	strcat(dir, "d");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	strcpy(path, "as it was");
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)),
			 FARKV_EURI);
	ck_assert_str_eq(path, "as it was");
	ck_assert_ptr_nonnull(strstr(err_detail(), "longer than 107 bytes"));
}

/* A socket at `path`: of a listener, which is returned, or stale. */
static int socket_at(const char *path, bool live)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	if (live) {
		ck_assert_int_eq(listen(fd, 1), 0);
		return fd;
	}
	close(fd);
	return -1;
}

TEST(sockpath_first_live_skips_dead_sockets)
{
	char dir[] = "/tmp/sockpath.XXXXXX", names[4][64];
	const char *all[4];
	int live;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	for (int i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "%s/%d", dir, i);
		all[i] = names[i];
	}
	ck_assert_ptr_null(sockpath_first_live(all, 4));
	/* A single socket is returned unchecked: connecting to it reports the error. */
	socket_at(all[1], false);
	ck_assert_ptr_eq(sockpath_first_live(all, 4), all[1]);
	socket_at(all[2], false);
	ck_assert_ptr_eq(sockpath_first_live(all, 4), all[1]);
	live = socket_at(all[3], true);
	for (int i = 0; i < 8; i++) /* more than wait to be accepted */
		ck_assert_ptr_eq(sockpath_first_live(all, 4), all[3]);
	close(live);
	ck_assert_ptr_eq(sockpath_first_live(all, 4), all[1]);
	for (int i = 1; i < 4; i++)
		unlink(names[i]);
	rmdir(dir);
}

TEST(util_takes_escapes_only_on_a_capable_terminal)
{
	int fds[2];

	unsetenv("NO_COLOR");
	setenv("TERM", "xterm", 1);
	reader_open(READER_PIPE, fds);
	ck_assert(!util_takes_escapes(fds[1]));
	close(fds[0]);
	close(fds[1]);
	reader_open(READER_TERMINAL, fds);
	ck_assert(util_takes_escapes(fds[1]));
	setenv("NO_COLOR", "1", 1);
	ck_assert(!util_takes_escapes(fds[1]));
	setenv("NO_COLOR", "", 1); /* counts as not set */
	ck_assert(util_takes_escapes(fds[1]));
	setenv("TERM", "dumb", 1);
	ck_assert(!util_takes_escapes(fds[1]));
	close(fds[0]);
	close(fds[1]);
}

static const char *const words[] = {
	"", "plain", "a b", "it's", "'", "''", "$HOME `id` \\ \"", "a\tb\nc", "*[x]?",
	"kv://[fe80::1%25eth0]:7670", "\xc3\xa4\xff", "~", "#x", "a;b&c|d<e>f(g)!",
};

TEST_EACH(util_shell_word_is_read_back_by_a_shell, words)
{
	char word[200], command[300], back[200];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command), "printf %%s %s",
		 util_shell_word(words[_i], word, sizeof(word)));
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	n = fread(back, 1, sizeof(back) - 1, f);
	back[n] = '\0';
	ck_assert_int_eq(pclose(f), 0);
	ck_assert_str_eq(back, words[_i]);
}

TEST(util_shell_word_plain_is_unchanged_and_a_short_buffer_is_reported)
{
	char word[13], most[] = "0123456789abc";

	ck_assert_str_eq(util_shell_word("/run/a.b-c_d", word, sizeof(word)),
			 "/run/a.b-c_d");
	for (size_t n = 4; n <= sizeof(word); n++) {
		memset(word, 0xA5, sizeof(word));
		util_shell_word("'' '' ''", word, n);
		ck_assert_uint_lt(strnlen(word, n), n);
		ck_assert_str_eq(word, "...");
		if (n < sizeof(word))
			ck_assert_uint_eq((unsigned char)word[n], 0xA5);
	}
	ck_assert_str_eq(util_shell_word(most, word, sizeof(word)), "...");
}

static const struct {
	const char *head;
	size_t len;
	const char *says; /* NULL: may be text */
} heads[] = {
	{"\x1f\x8b\x08\x00", 4, "this is a gzip file; decompress it first: zcat 'a b' | cat"},
	{"\xfd" "7zXZ\0", 6, "this is an xz file; decompress it first: xzcat"},
	{"\x28\xb5\x2f\xfd", 4, "this is a zstd file; decompress it first: zstdcat"},
	{"BZh91AY&SY", 10, "this is a bzip2 file; decompress it first: bzcat"},
	{"\x04\x22\x4d\x18", 4, "this is an lz4 file"},
	{"PK\3\4", 4, "this is a zip file; unpack it first: unzip -p"},
	{"\xff\xfe" "a\0", 4, "this is UTF-16 text; convert it first: iconv"},
	{"\xfe\xff\0a", 4, "this is UTF-16 text"},
	{"", 0, NULL},
	{"\x1f\x8b", 2, NULL},
	{"PK\t1", 4, NULL},
	{"BZh91AY&Sz", 10, NULL},
	{"\xef\xbb\xbf" "a", 4, NULL},
	{"hello", 5, NULL},
};

TEST_EACH(textfile_check_names_the_kind_and_the_command, heads)
{
	int err = textfile_check("a b", heads[_i].head, heads[_i].len, "cat");

	ck_assert_int_eq(err, heads[_i].says ? FARKV_EINVAL : 0);
	ck_assert(textfile_foreign(heads[_i].head, heads[_i].len) ==
		  (heads[_i].says || textfile_mark(heads[_i].head, heads[_i].len)));
	if (heads[_i].says)
		ck_assert_msg(strstr(err_detail(), heads[_i].says) != NULL,
			      "'%s' lacks '%s'", err_detail(), heads[_i].says);
}

TEST_EACH(textfile_undecided_until_the_kind_is_certain, heads)
{
	size_t n = 0;

	while (n < heads[_i].len && textfile_undecided(heads[_i].head, n))
		n++;
	ck_assert_uint_le(n, TEXTFILE_HEAD);
	/* The bytes read so far decide. */
	ck_assert(textfile_foreign(heads[_i].head, n) ==
		  textfile_foreign(heads[_i].head, heads[_i].len));
}

TEST_SUITE("util")
