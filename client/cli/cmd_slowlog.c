/* SPDX-License-Identifier: BSD-3-Clause */
/* slowlog: the longest pauses of the server. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

static void print_pause(const struct cli *cli, const struct farkv_server *s,
			const struct farkv_pause *p)
{
	double us = (double)p->ns / 1e3, ago = (double)p->ago_ms / 1e3;
	const char *server = s->epoch ? s->name : "";
	json_t *o;

	if (cli->json) {
		o = json_object();
		output_count(o, "rank", p->rank);
		output_count(o, "pause_ns", p->ns);
		output_count(o, "ago_ms", p->ago_ms);
		json_object_set_new(o, "what", json_string(p->what));
		if (s->epoch)
			json_object_set_new(o, "server", json_string(server));
		output_print(o);
	} else if (cli->csv) {
		printf("%s,%" PRIu64 ",%.1f,%.3f,%s\n", server, p->rank, us, ago, p->what);
	} else {
		printf("%4" PRIu64 " %12.1f %14.1f  %-8s  %s\n", p->rank, us, ago, p->what, server);
	}
}

static int list(struct cli *cli, const struct farkv_server *s)
{
	struct farkv_pause p = {.size = sizeof(p)};
	int code = CLI_OK, err = 0;

	while (!code && (err = farkv_pause_next(s->handle, &p)) == 0) {
		print_pause(cli, s, &p);
		code = cli_output_check(cli, code);
	}
	return code || err == FARKV_ENOTFOUND ? code : cli_fail(cli, err, NULL, 0);
}

int cmd_slowlog(struct cli *cli, int argc, char **argv)
{
	int code = cli_connect(cli);

	(void)argc;
	(void)argv;
	if (code)
		return code;
	if (cli->csv)
		puts("server,rank,pause_us,ago_s,what");
	else if (!cli->json && !cli->quiet)
		printf("%4s %12s %14s  %-8s\n", "RANK", "PAUSE (us)", "AGO (s)", "WHAT");
	return cli_each_server(cli, list);
}
