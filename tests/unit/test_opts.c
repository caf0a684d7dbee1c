/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/opts.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

struct config {
	bool flag;
	unsigned loud, mode;
	uint64_t size, number;
	char *text, *path;
	struct opt_list list;
	int choice;
};

#define OFF(f) offsetof(struct config, f)

static const char *const choices[] = {"never", "auto", "always", NULL};

static const struct opt opts[] = {
	{.name = "flag", .letter = 'f', .type = OPT_BOOL, .offset = OFF(flag),
	 .help = "A switch."},
	{.name = "loud", .letter = 'v', .type = OPT_COUNT, .offset = OFF(loud),
	 .help = "Counted."},
	{.name = "size", .letter = 'm', .type = OPT_SIZE, .offset = OFF(size),
	 .metavar = "SIZE", .deflt = "1g", .unit = 1 << 20, .min = 1 << 20,
	 .max = UINT64_C(1) << 40, .help = "A size; a bare number counts MiB."},
	{.name = "number", .type = OPT_U64, .offset = OFF(number),
	 .metavar = "N", .deflt = "5", .max = 10, .flags = OPT_RELOAD, .help = "A number."},
	{.name = "mode", .type = OPT_MODE, .offset = OFF(mode),
	 .metavar = "MODE", .deflt = "0600", .help = "A file mode."},
	{.name = "text", .letter = 't', .type = OPT_STR, .offset = OFF(text),
	 .metavar = "TEXT", .flags = OPT_RELOAD, .help = "Any text with a - and a \\ in it."},
	{.name = "list", .letter = 'P', .type = OPT_LIST, .offset = OFF(list),
	 .metavar = "X", .help = "Several."},
	{.name = "choice", .type = OPT_ENUM, .offset = OFF(choice),
	 .metavar = "WHEN", .deflt = "never", .choices = choices,
	 .flags = OPT_OPTIONAL_ARG, .implied = "auto", .help = "One of three."},
	{.name = "line-only", .type = OPT_BOOL, .offset = OFF(flag),
	 .flags = OPT_NO_FILE, .help = "Not in files."},
	{.name = "secret", .type = OPT_BOOL, .offset = OFF(flag),
	 .flags = OPT_HIDDEN, .help = "Nobody sees this."},
	{.name = "path", .type = OPT_STR, .offset = OFF(path),
	 .metavar = "PATH", .flags = OPT_HIDDEN | OPT_PATH, .help = "A path."},
};

static struct opts_spec spec = {
	.program = "prog",
	.usage = "[OPTION]...",
	.summary = "Does nothing.",
	.section = "prog",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
};

static struct config cfg;
static int first;

static void setup(void)
{
	memset(&cfg, 0, sizeof(cfg));
	spec.single_dash = spec.stop_at_operand = false;
	opts_defaults(&spec, &cfg);
	err_clear();
}

static void teardown(void)
{
	opts_free(&spec, &cfg);
}

/* Words separated by blanks, after the program's name. */
static int parse(const char *line)
{
	static char copy[256];
	char prog[] = "prog", *argv[20] = {prog}, *word;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return opts_parse_argv(&spec, &cfg, argc, argv, &first);
}

static void check_says(const char *text)
{
	ck_assert_msg(strstr(err_detail(), text), "'%s' not in '%s'", text,
		      err_detail());
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(opts_defaults_are_applied)
{
	ck_assert_uint_eq(cfg.size, 1u << 30);
	ck_assert_uint_eq(cfg.number, 5);
	ck_assert_uint_eq(cfg.mode, 0600);
	ck_assert_int_eq(cfg.choice, 0);
	ck_assert(!cfg.flag);
	ck_assert_ptr_null(cfg.text);
}

TEST(opts_parse_argv_every_type)
{
	ck_assert_int_eq(parse("-f -vv -v -m 64 --number=10 --mode 0755 "
			       "--text hi -P a --list b -Pc --choice file"),
			 0);
	ck_assert(cfg.flag);
	ck_assert_uint_eq(cfg.loud, 3);
	ck_assert_uint_eq(cfg.size, 64u << 20);
	ck_assert_uint_eq(cfg.number, 10);
	ck_assert_uint_eq(cfg.mode, 0755);
	ck_assert_str_eq(cfg.text, "hi");
	ck_assert_uint_eq(cfg.list.n, 3);
	ck_assert_str_eq(cfg.list.v[0], "a");
	ck_assert_str_eq(cfg.list.v[1], "b");
	ck_assert_str_eq(cfg.list.v[2], "c");
	ck_assert_int_eq(cfg.choice, 1); /* implied; "file" is an operand */
	ck_assert_int_eq(parse("--choice=always --size=2g --text=last"), 0);
	ck_assert_int_eq(cfg.choice, 2);
	ck_assert_uint_eq(cfg.size, UINT64_C(2) << 30);
	ck_assert_str_eq(cfg.text, "last");
}

TEST(opts_parse_argv_operands)
{
	ck_assert_int_eq(parse("one -f two -- -v"), 0);
	ck_assert_int_eq(first, 3 + 0); /* options were moved to the front */
	ck_assert_uint_eq(cfg.loud, 0);
	spec.stop_at_operand = true;
	setup();
	spec.stop_at_operand = true;
	ck_assert_int_eq(parse("one -f"), 0);
	ck_assert_int_eq(first, 1);
	ck_assert(!cfg.flag);
}

TEST(opts_parse_argv_single_dash)
{
	spec.single_dash = true;
	ck_assert_int_eq(parse("-number 7 -f -text x -P y"), 0);
	ck_assert_uint_eq(cfg.number, 7);
	ck_assert(cfg.flag);
	ck_assert_str_eq(cfg.text, "x");
	ck_assert_uint_eq(cfg.list.n, 1);
}

static const struct {
	const char *line, *says;
} bad_lines[] = {
	{"--nothing", "--nothing"},
	{"-x", "-x"},
	{"-f --nothing", "--nothing"},
	{"--number", "missing argument of option --number"},
	{"-m", "missing argument of option -m"},
	{"--number eleven", "number: 'eleven' is not"},
	{"--number 11", "number: 11 is not within 0 and 10"},
	{"--number -1", "number"},
	{"-m 1x", "size: '1x' is not"},
	{"-m 0", "size: 0"},
	{"-m 2t", "size: 2t is not within"},
	{"--mode 888", "mode: '888' is not"},
	{"--mode 10000", "mode"},
	{"--choice=often", "choice: 'often' is not"},
	{"--flag=maybe", "flag"},
};

TEST_EACH(opts_parse_argv_bad_names_option_and_range, bad_lines)
{
	ck_assert_int_eq(parse(bad_lines[_i].line), FARKV_EINVAL);
	check_says(bad_lines[_i].says);
	check_says("prog --help");
}

/* ---- files ---------------------------------------------------------------------- */

static char path[] = "/tmp/farkv-opts-XXXXXX";

static int parse_text(const char *text, size_t len)
{
	int fd, err;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
	err = opts_parse_file(&spec, &cfg, path);
	unlink(path);
	return err;
}

TEST(opts_parse_file_every_type)
{
	static const char text[] =
		"# a comment\n; another\n\n[prog]\n"
		"flag = yes\nsize = 3g\r\nnumber=7 ; behind\nmode = 0640\n"
		"  text   =   two words\nlist = a\nlist = b\nchoice: always\n";

	ck_assert_int_eq(parse_text(text, sizeof(text) - 1), 0);
	ck_assert(cfg.flag);
	ck_assert_uint_eq(cfg.size, UINT64_C(3) << 30);
	ck_assert_uint_eq(cfg.number, 7);
	ck_assert_uint_eq(cfg.mode, 0640);
	ck_assert_uint_eq(cfg.list.n, 2);
	ck_assert_int_eq(cfg.choice, 2);
	ck_assert_int_eq(parse("--number 8 --size 1g"), 0);
	ck_assert_uint_eq(cfg.number, 8);
	ck_assert_uint_eq(cfg.size, 1u << 30);
}

TEST(opts_parse_file_utf8_mark_and_missing_last_newline)
{
	static const char text[] = "\xEF\xBB\xBF[prog]\nnumber = 3";

	ck_assert_int_eq(parse_text(text, sizeof(text) - 1), 0);
	ck_assert_uint_eq(cfg.number, 3);
}

TEST(opts_parse_file_other_kinds_of_file_are_named)
{
	static const char windows[] =
		"\xEF\xBB\xBF[prog]\r\nnumber = 3\r\ntext = a b\r\n";
	static const char utf16[] = "\xff\xfe[\0p\0]\0\n\0";
	static const char nul[] = "[prog]\nnumber = 3\ntext = a\0b\n";

	ck_assert_int_eq(parse_text(windows, sizeof(windows) - 1), 0);
	ck_assert_str_eq(cfg.text, "a b");
	ck_assert_int_eq(parse_text(utf16, sizeof(utf16) - 1), FARKV_EINVAL);
	check_says("this is UTF-16 text; convert it first: iconv");
	ck_assert_int_eq(parse_text("\x1f\x8b\x08\0\0\n", 6), FARKV_EINVAL);
	check_says("this is a gzip file; decompress it first: zcat");
	/* Text after the NUL must not be ignored silently. */
	ck_assert_int_eq(parse_text(nul, sizeof(nul) - 1), FARKV_EINVAL);
	check_says(":3: a NUL byte: this is not a text file");
}

static const struct {
	const char *text, *says;
} bad_files[] = {
	{"[prog]\nnumber = many\n", ":2: number: 'many' is not"},
	{"[prog]\n\n\nnumber = 11\n", ":4: number: 11 is not within 0 and 10"},
	{"[prog]\ncolour = red\n", ":2: unknown option 'colour'"},
	{"[prog]\nline-only = yes\n", ":2: unknown option 'line-only'"},
	{"[other]\nnumber = 1\n", ":2: section [other] is unknown"},
	{"number = 1\n", ":1: section [] is unknown"},
	{"[prog]\nflag = maybe\n", ":2: flag: 'maybe' is not"},
	{"[prog]\nchoice = often\n", ":2: choice: 'often' is not"},
	{"[prog]\njust words\n", ":2: neither"},
	{"[prog\nnumber = 1\n", ":1: neither"},
	{"[prog]\nnumber = 1\nsize = 0\nmode = 9\n", ":3: size"},
	{"[prog]\nnumber = 1\n\nnumber = 1\n",
	 ":4: number: line 2 has this option already"},
	{"[prog]\nnumber = 1\nflag = yes\n[prog]\nflag = no\n",
	 ":5: flag: line 3 has"},
	{"[prog]\npath =\n", ":2: path: '' is not a path"},
};

TEST_EACH(opts_parse_file_bad_names_file_and_line, bad_files)
{
	ck_assert_int_eq(parse_text(bad_files[_i].text,
				    strlen(bad_files[_i].text)),
			 FARKV_EINVAL);
	check_says(path);
	check_says(bad_files[_i].says);
}

TEST(opts_parse_file_unreadable_is_refused)
{
	ck_assert_int_eq(opts_parse_file(&spec, &cfg, "/nowhere/x.conf"),
			 FARKV_ESYS);
	check_says("cannot open /nowhere/x.conf: No such file");
	ck_assert_int_eq(opts_parse_file(&spec, &cfg, "/"), FARKV_ESYS);
	check_says("is a directory");
}

TEST(opts_parse_file_long_line_and_noise)
{
	static char text[4096];
	uint64_t x = 88172645463325252u;

	memset(text, 'x', sizeof(text));
	memcpy(text, "[prog]\ntext = ", 14);
	ck_assert_int_eq(parse_text(text, sizeof(text)), FARKV_EINVAL);
	check_says(":2: line is longer than");
	for (int round = 0; round < 300; round++) {
		for (size_t i = 7; i < sizeof(text); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			text[i] = "=[]\n; abc\0\xff#:\r\t"[x % 16];
		}
		ck_assert_int_ne(parse_text(text, 7 + x % 500), FARKV_ESYS);
	}
}

/* ---- texts ------------------------------------------------------------------------ */

static const char *printed(void (*print)(const struct opts_spec *, FILE *))
{
	static char text[4096];
	FILE *f = fmemopen(text, sizeof(text), "w");

	ck_assert_ptr_nonnull(f);
	print(&spec, f);
	fclose(f);
	return text;
}

/* The values of a command line, and nothing of others. */
static struct config parsed(const char *line)
{
	struct config before = cfg, c;

	memset(&cfg, 0, sizeof(cfg));
	opts_defaults(&spec, &cfg);
	ck_assert_int_eq(parse(line), 0);
	c = cfg;
	cfg = before;
	return c;
}

TEST(opts_reload_takes_what_may_change_and_names_the_rest)
{
	struct config old = parsed("-v --number=3 --text=a --path=/a");
	struct config now = parsed("--number=4 --text=b --path=/b --mode=0640 --size=2g -P x");
	struct opts_changes changes;

	opts_reload(&spec, &old, &now, &changes);
	ck_assert_str_eq(changes.taken, " number text");
	ck_assert_str_eq(changes.left, " loud size mode path");
	ck_assert_uint_eq(old.number, 4);
	ck_assert_str_eq(old.text, "b");
	ck_assert_str_eq(now.text, "a"); /* each is freed once */
	ck_assert_str_eq(old.path, "/a");
	ck_assert_uint_eq(old.loud, 1);
	ck_assert_uint_eq(old.mode, 0600);
	opts_free(&spec, &now);
	now = parsed("-v --number=4 --path=/a");
	opts_reload(&spec, &old, &now, &changes);
	ck_assert_str_eq(changes.taken, " text");
	ck_assert_str_eq(changes.left, "");
	ck_assert_ptr_null(old.text);
	opts_free(&spec, &now);
	opts_free(&spec, &old);
}

TEST(opts_print_help_shows_options_defaults_and_wraps)
{
	const char *text = printed(opts_print_help);

	ck_assert_ptr_nonnull(strstr(text, "Usage: prog [OPTION]...\n"));
	ck_assert_ptr_nonnull(strstr(text, "  -m, --size=SIZE "));
	ck_assert_ptr_nonnull(strstr(text, "counts MiB. [1g]"));
	ck_assert_ptr_nonnull(strstr(text, "--choice[=WHEN]"));
	ck_assert_ptr_null(strstr(text, "secret"));
	for (const char *at = text, *end; *at; at = end + 1) {
		end = strchr(at, '\n');
		ck_assert_ptr_nonnull(end);
		ck_assert_int_le(end - at, 79);
		ck_assert(end == at || end[-1] != ' ');
	}
}

TEST(opts_print_man_escapes)
{
	const char *text = printed(opts_print_man);

	ck_assert_ptr_nonnull(
		strstr(text, ".TP\n\\fB\\-m\\fR, \\fB\\-\\-size\\fR="
			     "\\fISIZE\\fR\n"));
	ck_assert_ptr_nonnull(strstr(text, "with a \\- and a \\e in it."));
	ck_assert_ptr_nonnull(strstr(text, "\\fB\\-\\-line\\-only\\fR\n"));
	ck_assert_ptr_null(strstr(text, "secret"));
}

TEST_SUITE("opts")
