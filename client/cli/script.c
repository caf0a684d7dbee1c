/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"

#include "run.h"

struct source {
	char *buf;
	size_t cap, at, end; /* bytes from `at` to `end` are not used yet */
	bool over;
};

/* Read more; false with errno if that fails. */
static bool source_fill(struct source *s)
{
	ssize_t n;

	if (s->buf)
		memmove(s->buf, s->buf + s->at, s->end - s->at);
	s->end -= s->at;
	s->at = 0;
	if (s->end == s->cap) {
		size_t cap = UTIL_MAX(s->cap * 2, (size_t)64 << 10);
		char *buf = realloc(s->buf, cap);

		if (!buf)
			return false;
		s->buf = buf;
		s->cap = cap;
	}
	n = read(STDIN_FILENO, s->buf + s->end, s->cap - s->end);
	if (n < 0)
		return false;
	s->over = n == 0;
	s->end += (size_t)n;
	return true;
}

/*
 * The next line without its newline, valid until the next call. *line_out is NULL at the end. False
 * with errno if reading fails.
 */
static bool source_line(struct source *s, const char **line_out, size_t *len_out)
{
	size_t seen = 0;

	*line_out = NULL;
	for (;;) {
		char *from = s->buf ? s->buf + s->at : NULL, *newline = NULL;
		size_t n = s->end - s->at;

		if (from && n > seen)
			newline = memchr(from + seen, '\n', n - seen);
		if (newline || (s->over && n)) {
			*line_out = from;
			*len_out = newline ? (size_t)(newline - from) : n;
			s->at += *len_out + (newline != NULL);
			return true;
		}
		if (s->over)
			return true;
		seen = n;
		fflush(stdout);
		if (!source_fill(s))
			return false;
	}
}

static int run_lines(struct cli *cli, struct source *s)
{
	int worst = CLI_OK;

	for (;;) {
		const char *line;
		size_t len;
		int code;

		errno = 0;
		if (!source_line(s, &line, &len))
			return cli_signal ? UTIL_MAX(worst, CLI_FAILED) :
					    cli_error(cli, CLI_FAILED, "cannot read stdin: %s",
						      strerror(errno));
		cli->line++;
		if (!line || run_is_end(line, len))
			return worst;
		code = cli_output_check(cli, run_line(cli, line, len));
		worst = UTIL_MAX(worst, code);
		if (code == CLI_UNREACHABLE)
			cli_error(cli, code, "the lines after this one are not run");
		if (code == CLI_UNREACHABLE || cli_signal)
			return worst;
	}
}

int script_run(struct cli *cli)
{
	struct source s = {0};
	int code;

	cli->no_stdin = "the commands come from there";
	cli->conn->many = true;
	cli_catch_signals();
	code = run_lines(cli, &s);
	cli->line = 0;
	free(s.buf);
	return code;
}
