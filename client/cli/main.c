/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli: one command, many from stdin, or an interactive shell. */
#include "config.h"

#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/completion.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "options.h"
#include "run.h"
#include "script.h"
#include "shell.h"
#include "words.h"

#define OUT_BUF_BYTES ((size_t)256 << 10)

static const char dash_hint[] =
	"; keys and values that begin with a dash follow --";

/* ---- the last argument from stdin ---------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Read stdin, without a newline at the end, into `buf` of FARKV_KEY_MAX + 2 bytes. */
static int read_last(const struct cli *cli, char *buf, size_t *len_out)
{
	size_t len;

	errno = 0;
	len = fread(buf, 1, FARKV_KEY_MAX + 2, stdin);
	if (ferror(stdin))
		return cli_error(cli, CLI_FAILED, "cannot read stdin: %s", strerror(errno));
	if (len == FARKV_KEY_MAX + 2)
		return cli_error(cli, CLI_USAGE, "stdin is longer than the longest key");
	if (len && buf[len - 1] == '\n')
		len--;
	buf[len] = '\0';
	*len_out = len;
	return CLI_OK;
}

/* Run a command whose arguments, in `w`, lack the last one. */
static int run_with_stdin(struct cli *cli, struct words *w)
{
	static char buf[FARKV_KEY_MAX + 3];
	const struct cli_command *c = run_find(w->v[0]);
	size_t last = w->n - 1;
	int code;

	if (c && ends_with(c->args, "VALUE"))
		return run_command(cli, (int)w->n, w->v);
	code = read_last(cli, buf, &w->len[last]);
	if (code)
		return code;
	w->v[last] = buf;
	cli->words = w;
	return run_command(cli, (int)w->n, w->v);
}

/* ---- one command ----------------------------------------------------------------------- */

static int run_copy(struct cli *base, int argc, char **argv)
{
	struct cli cli = *base;
	char dash[] = "-";
	struct words w;
	int code;

	/* A command may change its arguments. -x adds one. */
	argv[argc] = cli.last_stdin ? dash : NULL;
	argc += cli.last_stdin;
	if (words_copy(argv, (size_t)argc, &w))
		return cli_fail(&cli, FARKV_ENOMEM, NULL, 0);
	code = cli.last_stdin ? run_with_stdin(&cli, &w) : run_command(&cli, argc, w.v);
	words_free(&w);
	base->interval_ms = cli.interval_ms;
	return cli_finish(&cli, code);
}

/* True if another attempt would end in the same way. */
static bool hopeless(int code)
{
	return code == CLI_USAGE || code == CLI_UNREACHABLE;
}

static int run_repeated(struct cli *cli, int argc, char **argv)
{
	const struct cli_command *c = run_find(argv[0]);
	bool once = !cli->repeat || (c && run_is_one_of("repeat", c->options));
	uint64_t times = once ? 1 : cli->repeat;
	int code, worst = CLI_OK;

	if (times > 1) {
		cli->no_stdin = "--repeat would read it again each time";
		cli->conn->many = true;
	}
	for (uint64_t i = 0; i < times && !cli_signal && !hopeless(worst); i++) {
		if (i > 0 && cli->interval_ms)
			clock_sleep_ns(cli->interval_ms * NS_PER_MS);
		code = run_copy(cli, argc, argv);
		worst = UTIL_MAX(worst, code);
	}
	return worst;
}

/* ---- the program ------------------------------------------------------------------------- */

static int run(struct cli *cli, int argc, char **argv)
{
	const char *mode;
	int code = run_mode(cli, argc ? argv[0] : NULL, &mode);

	if (code)
		return code;
	cli->pretty = !cli->raw && !cli->json && !cli->csv && isatty(STDOUT_FILENO);
	if (cli->key && !*cli->key)
		return cli_error(cli, CLI_USAGE, "option --key: the name is empty");
	if (cli->socket && cli->uri)
		return cli_error(cli, CLI_USAGE, "give --socket or --uri, not both");
	if (mode)
		return run_repeated(cli, 1, (char *[]){(char *)(uintptr_t)mode, NULL});
	if (argc)
		return run_repeated(cli, argc, argv);
	if (cli->help) {
		run_help();
		return CLI_OK;
	}
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? shell_run(cli) : script_run(cli);
}

static int print_completion(const struct cli *cli)
{
	const char *words[64] = {"help"}; /* the rest is NULL */
	size_t n = 1;

	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (c->name[0] != '-' && n + 1 < ARRAY_SIZE(words))
			words[n++] = c->name;
	if (completion_print(&cli_spec, words, cli->completion, stdout))
		return cli_error(cli, CLI_USAGE, "%s", err_detail());
	return CLI_OK;
}

int main(int argc, char **argv)
{
	static char out_buf[OUT_BUF_BYTES];
	struct cli_conn conn = {0};
	struct cli cli = {.conn = &conn};
	int first, code = CLI_OK;
	void (*on_pipe)(int);

	util_occupy_standard_fds();
	/* With SIGPIPE ignored, the store is closed before a closed pipe ends the program. */
	on_pipe = signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, out_buf, _IOFBF, sizeof(out_buf));
	log_init("kvcli", LOG_LEVEL_INFO);
	opts_defaults(&cli_spec, &cli);
	if (opts_parse_argv(&cli_spec, &cli, argc, argv, &first)) {
		code = cli_error(&cli, CLI_USAGE, "%s%s", err_detail(),
				 strncmp(err_detail(), "unknown", 7) == 0 ? dash_hint : "");
	} else if (cli.version) {
		puts("kvcli " PACKAGE_VERSION);
	} else if (cli.print_man) {
		opts_print_man(&cli_spec, stdout);
	} else if (cli.completion) {
		code = print_completion(&cli);
	} else {
		conn.socket = cli.socket;
		conn.uri = cli.uri;
		conn.keys = cli.keys;
		conn.key = cli.key;
		code = run(&cli, argc - first, argv + first);
	}
	code = cli_finish(&cli, code);
	cli_close(&cli);
	opts_free(&cli_spec, &cli);
	signal(SIGPIPE, on_pipe);
	if (cli_signal) /* all memory is returned: end by the signal */
		util_end_by_signal(cli_signal);
	return code;
}
