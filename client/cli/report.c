/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, exit status, signals. */
#include "config.h"

#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/log.h"
#include "common/base/util.h"

#include "progress.h"

volatile sig_atomic_t cli_signal;

/* ---- messages --------------------------------------------------------------------- */

int cli_exit_for(int err)
{
	switch (err) {
	case FARKV_OK:
		return CLI_OK;
	case FARKV_ENOTFOUND:
	case FARKV_EEXISTS:
	case FARKV_EVERSION:
		return CLI_NO;
	case FARKV_EINVAL:
	case FARKV_ETOOLARGE:
	case FARKV_EURI:
		return CLI_USAGE;
	case FARKV_EUNREACHABLE:
	case FARKV_ENOROUTE:
	case FARKV_ELINKDOWN:
	case FARKV_EDISCONNECTED:
		return CLI_UNREACHABLE;
	case FARKV_ETIMEDOUT:
		return CLI_TIMEOUT;
	case FARKV_EPERM:
		return CLI_PERMISSION;
	default:
		return CLI_FAILED;
	}
}

/* Quote a key for a message: \xHH for other bytes, long keys shortened. */
static void quote_key(const uint8_t *key, size_t len, char *buf, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (n + 10 > cap) {
			strcpy(buf + n, "...");
			return;
		}
		if (isprint(key[i]))
			buf[n++] = (char)key[i];
		else
			n += (size_t)snprintf(buf + n, cap - n, "\\x%02x",
					      key[i]);
	}
	buf[n] = '\0';
}

int cli_error(const struct cli *cli, int code, const char *fmt, ...)
{
	char text[1024], line[40] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (cli->line)
		snprintf(line, sizeof(line), "line %" PRIu64 ": ", cli->line);
	/* Earlier output must come first, even if both go to one file. */
	fflush(stdout);
	progress_wipe();
	log_info("%s%s%s%s", line, cli->command ? cli->command : "",
		 cli->command ? ": " : "", text);
	return code;
}

int cli_stdin(const struct cli *cli)
{
	return cli->no_stdin ? cli_error(cli, CLI_USAGE, "- is stdin, and %s", cli->no_stdin) :
			       CLI_OK;
}

bool cli_ask(const char *question)
{
	char answer[16] = "";

	printf("%s [y/N] ", question);
	fflush(stdout);
	if (!fgets(answer, sizeof(answer), stdin))
		clearerr(stdin);
	return strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0;
}

int cli_key_error(const struct cli *cli, int code, const void *key, size_t key_len,
		  const char *text)
{
	char name[64] = "";

	if (key)
		quote_key(key, key_len, name, sizeof(name));
	return cli_error(cli, code, "%s%s%s", name, key ? ": " : "", text);
}

int cli_fail(const struct cli *cli, int err, const void *key, size_t key_len)
{
	const char *detail = farkv_errdetail();
	int code = cli_exit_for(err);

	if (code == CLI_NO && cli->quiet)
		return code;
	return cli_key_error(cli, code, key, key_len,
			     detail[0] ? detail : farkv_strerror(err));
}

int cli_output_check(struct cli *cli, int code)
{
	static bool reported;
	int errnum = errno;

	if (!ferror(stdout))
		return code;
	if (reported)
		return CLI_FAILED;
	reported = true;
	if (errnum == EPIPE) {
		cli_signal = SIGPIPE;
		return CLI_FAILED;
	}
	return cli_error(cli, CLI_FAILED, "cannot write the output: %s",
			 strerror(errnum));
}

int cli_finish(struct cli *cli, int code)
{
	fflush(stdout);
	return cli_output_check(cli, code);
}

/* ---- signals ----------------------------------------------------------------------- */

static void on_signal(int sig)
{
	cli_signal = sig;
}

bool cli_interrupted(void)
{
	return cli_signal != 0 && cli_signal != SIGPIPE;
}

void cli_catch_signals(void)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal,
			       .sa_flags = (int)SA_RESETHAND};

	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		if (!util_signal_ignored(ending[i]))
			sigaction(ending[i], &sa, NULL);
	signal(SIGXFSZ, SIG_IGN);
}
