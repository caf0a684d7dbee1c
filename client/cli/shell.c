/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "shell.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#include "complete.h"
#include "editor.h"
#include "run.h"

/* The history file; NULL if there is none. */
static const char *history_file(char *buf, size_t cap)
{
	const char *file = getenv("FARKV_HISTORY"), *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int n;

	if (file)
		return *file && strcmp(file, "/dev/null") != 0 ? file : NULL;
	if (state && *state == '/')
		n = snprintf(buf, cap, "%s/kvcli_history", state);
	else if (home && *home == '/')
		n = snprintf(buf, cap, "%s/.kvcli_history", home);
	else
		return NULL;
	return n > 0 && (size_t)n < cap ? buf : NULL;
}

/* Called after a line, or at a signal: false if the session is over. */
static bool goes_on(void)
{
	if (cli_signal != SIGINT)
		return cli_signal == 0;
	cli_signal = 0;
	return true;
}

static void run_lines(struct cli *cli, struct editor *e)
{
	const char *line;
	size_t len = 0;

	for (;;) {
		cli_catch_signals();
		line = editor_line(e, &len);
		if (!line) {
			bool dropped = errno == EINTR || cli_signal == SIGINT;

			putchar('\n');
			if (!goes_on() || !dropped)
				return;
			continue;
		}
		if (run_is_end(line, len))
			return;
		if (line[strspn(line, " \t\n")])
			editor_remember(e, line);
		(void)run_line(cli, line, len);
		if (cli_finish(cli, CLI_OK) || !goes_on())
			return;
	}
}

int shell_run(struct cli *cli)
{
	char prompt[80], where[64], file[4096];
	const char *history = history_file(file, sizeof(file));
	struct editor *e;

	setlocale(LC_CTYPE, "");
	cli->no_stdin = "that is the terminal";
	cli->no_write = true;
	cli->conn->many = cli->conn->asks = true;
	cli_address(cli->conn, where, sizeof(where));
	snprintf(prompt, sizeof(prompt), "%s> ", where[0] ? where : "farkv");
	e = editor_open(prompt, history, complete_word, cli);
	if (!e)
		return cli_error(cli, CLI_FAILED, "cannot use this terminal");
	if (!editor_history_ok(e))
		cli_error(cli, CLI_OK, "%s is no history of kvcli and stays as it is; "
			  "see FARKV_HISTORY", history);
	if (!cli->quiet)
		puts("kvcli " PACKAGE_VERSION "; \"help\" lists commands, \"quit\" ends");
	(void)cli_connect(cli); /* reports an error before the first prompt */
	run_lines(cli, e);
	editor_close(e);
	return CLI_OK;
}
