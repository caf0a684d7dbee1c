/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options: an input is a configuration file or, after a first byte of 0xFF, the
 * arguments of a command line, each ended by NUL.
 */
#include "config.h"

#include "fuzz.h"

#include "common/base/err.h"
#include "common/base/opts.h"
#include "common/base/util.h"

#define ARGS_MAX 32

struct cfg {
	bool flag;
	unsigned count, mode;
	uint64_t size, number;
	char *text, *path;
	struct opt_list list;
	int choice;
};

static const char *const choices[] = {"red", "green", "blue", NULL};

#define OFF(f) offsetof(struct cfg, f)
static const struct opt opts[] = {
	{.name = "flag", .letter = 'f', .type = OPT_BOOL, .offset = OFF(flag),
	 .help = "a"},
	{.name = "count", .letter = 'v', .type = OPT_COUNT,
	 .offset = OFF(count), .help = "b"},
	{.name = "size", .letter = 'm', .type = OPT_SIZE, .offset = OFF(size),
	 .metavar = "SIZE", .deflt = "1g", .unit = 1 << 20, .min = 1 << 20,
	 .max = UINT64_C(1) << 40, .help = "c"},
	{.name = "number", .letter = 'n', .type = OPT_U64,
	 .offset = OFF(number), .metavar = "N", .deflt = "7", .min = 1,
	 .help = "d"},
	{.name = "mode", .type = OPT_MODE, .offset = OFF(mode),
	 .metavar = "MODE", .deflt = "0600", .help = "e"},
	{.name = "text", .letter = 't', .type = OPT_STR, .offset = OFF(text),
	 .metavar = "TEXT", .help = "f"},
	{.name = "path", .type = OPT_STR, .offset = OFF(path),
	 .metavar = "PATH", .flags = OPT_PATH, .help = "g"},
	{.name = "list", .letter = 'p', .type = OPT_LIST, .offset = OFF(list),
	 .metavar = "WORD", .help = "h"},
	{.name = "choice", .type = OPT_ENUM, .offset = OFF(choice),
	 .metavar = "WHICH", .deflt = "green", .choices = choices,
	 .flags = OPT_OPTIONAL_ARG, .implied = "blue", .help = "i"},
	{.name = "not-in-files", .letter = 'q', .type = OPT_BOOL,
	 .offset = OFF(flag), .flags = OPT_NO_FILE, .help = "j"},
};

static struct opts_spec spec = {
	.program = "fuzz", .usage = "", .summary = "", .section = "fuzz",
	.opts = opts, .n_opts = ARRAY_SIZE(opts),
};

static void check(const struct cfg *c)
{
	FUZZ_CHECK(c->size >= 1 << 20 && c->size <= UINT64_C(1) << 40);
	FUZZ_CHECK(c->number >= 1);
	FUZZ_CHECK(c->mode <= 0777);
	FUZZ_CHECK(c->choice >= 0 && c->choice < 3);
	FUZZ_CHECK(!c->path || c->path[0]);
	for (size_t i = 0; i < c->list.n; i++)
		FUZZ_CHECK(c->list.v[i]);
}

static int parse_argv(struct cfg *c, char *text, size_t size)
{
	char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t)"fuzz"};
	int argc = 1, first = -1, err;

	for (size_t at = 0; at < size && argc <= ARGS_MAX;
	     at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	err = opts_parse_argv(&spec, c, argc, argv, &first);
	if (!err)
		FUZZ_CHECK(first >= 1 && first <= argc);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool line = size >= 2 && data[0] == 0xFF;
	char *text = NULL;
	struct cfg c = {0};
	int err;

	err_clear();
	opts_defaults(&spec, &c);
	check(&c);
	if (line) {
		text = fuzz_text(data + 2, size - 2);
		spec.single_dash = data[1] & 1;
		spec.stop_at_operand = data[1] & 2;
		err = parse_argv(&c, text, size - 2);
	} else {
		err = opts_parse_file(&spec, &c, fuzz_file(data, size));
	}
	/* Invalid parts are skipped; the rest is valid. */
	check(&c);
	if (err)
		FUZZ_CHECK(fuzz_detail_ok());
	opts_free(&spec, &c);
	free(text);
	return 0;
}
