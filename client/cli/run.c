/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "run.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/nearest.h"
#include "common/base/util.h"

#include "options.h"
#include "words.h"

#define GIB (UINT64_C(1) << 30)

/* ---- help -------------------------------------------------------------------------- */

const struct cli_command *run_find(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static void print_commands(void)
{
	puts("Commands:");
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		char words[40];

		if (c->name[0] == '-') /* it is an option */
			continue;
		snprintf(words, sizeof(words), "%s %s", c->name, c->args);
		printf("  %-25s %s\n", words, c->summary);
	}
}

void run_help(void)
{
	opts_print_help(&cli_spec, stdout);
	putchar('\n');
	print_commands();
	puts("\n\"kvcli help COMMAND\" says more. Words that begin with a dash "
	     "follow \"--\".\n"
	     "Without a command kvcli takes commands from stdin, a line each.\n"
	     "Exit status: 0 done, 1 not found, compare failed or no RDMA, 2 "
	     "server or store\n"
	     "failed, 64 wrong usage or data, 69 no server there, 75 timeout, "
	     "77 not permitted.");
}

/* With the options that not every command has. */
static void print_command_help(const struct cli_command *c)
{
	struct opt few[24];
	struct opts_spec spec = {.program = "kvcli", .summary = c->summary, .opts = few};
	char usage[80];

	snprintf(usage, sizeof(usage), "[OPTION]... %s%s%s", c->name, *c->args ? " " : "", c->args);
	spec.usage = usage;
	for (size_t i = 0; i < cli_spec.n_opts && spec.n_opts < ARRAY_SIZE(few); i++)
		if (run_is_one_of(cli_spec.opts[i].name, c->options))
			few[spec.n_opts++] = cli_spec.opts[i];
	if (spec.n_opts)
		opts_print_help(&spec, stdout);
	else
		printf("Usage: kvcli %s\n%s\n", usage, c->summary);
	if (c->detail)
		printf("\n%s\n", c->detail);
	puts("\nkvcli --help has the options of all commands.");
}

bool run_is_one_of(const char *word, const char *words)
{
	size_t len = strlen(word);

	for (const char *p = words; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (n == len && strncasecmp(p, word, n) == 0)
			return true;
		p += n;
	}
	return false;
}

static int unknown_command(const struct cli *cli, const char *name)
{
	struct nearest near = {.word = name};

	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (c->name[0] != '-')
			nearest_offer(&near, c->name);
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (strcasecmp(name, c->name) == 0 || run_is_one_of(name, c->aliases))
			near.name = c->name;
	if (near.name)
		return cli_error(cli, CLI_USAGE,
				 "unknown command '%s': did you mean %s", name,
				 near.name);
	return cli_error(cli, CLI_USAGE,
			 "unknown command '%s'; see kvcli --help", name);
}

static int help(const struct cli *cli, const char *name)
{
	const struct cli_command *c = name ? run_find(name) : NULL;

	if (name && !c)
		return unknown_command(cli, name);
	if (c) {
		print_command_help(c);
	} else if (cli->conn->many) {
		print_commands();
		puts("\n\"help COMMAND\" says more; \"quit\" ends.");
	} else {
		run_help();
	}
	return CLI_OK;
}

static int arity_error(const struct cli *cli, const struct cli_command *c,
		       int argc)
{
	return cli_error(cli, CLI_USAGE, "%s; usage: kvcli %s%s%s",
			 argc < c->min_args ? "an argument is missing"
					    : "too many arguments",
			 c->name, *c->args ? " " : "", c->args);
}

/* ---- the connection ------------------------------------------------------------------ */

/* True if the open connection serves the command. */
static bool conn_serves(const struct cli_conn *conn, const struct cli *cli, uint64_t patience_ms)
{
	return conn->kv && (cli->no_write || !conn->no_write) && conn->patience_ms == patience_ms;
}

int cli_open(struct cli *cli)
{
	struct cli_conn *conn = cli->conn;
	uint64_t patience_ms = cli->timeout_ms ? cli->timeout_ms : cli->patience_ms;
	struct farkv_options o;
	char uri[1024];
	int err;

	if (conn_serves(conn, cli, patience_ms)) {
		cli->kv = conn->kv;
		return 0;
	}
	cli_close(cli);
	/* Unambiguous as a path. */
	if (conn->socket)
		snprintf(uri, sizeof(uri), "%s%s",
			 conn->socket[0] == '/' ? "" : "./", conn->socket);
	farkv_options_init(&o);
	if (cli->timeout_ms)
		o.connect_timeout_ms = (uint32_t)cli->timeout_ms;
	o.op_timeout_ms = (uint32_t)patience_ms;
	o.flags = cli->no_write ? FARKV_OPEN_READONLY : 0;
	o.name = "kvcli";
	o.keys = conn->keys;
	o.key = conn->key;
	err = farkv_open(conn->socket ? uri : conn->uri, &o, &conn->kv);
	if (err)
		return err;
	conn->no_write = cli->no_write;
	conn->patience_ms = patience_ms;
	cli->kv = conn->kv;
	return 0;
}

void cli_address(const struct cli_conn *conn, char *buf, size_t cap)
{
	const char *from = conn->socket ? conn->socket : conn->uri;

	if (!from)
		from = getenv("FARKV_URI");
	snprintf(buf, cap, "%.*s", from ? (int)UTIL_MIN(strcspn(from, "?"), (size_t)60) : 0,
		 from ? from : "");
	util_one_line(buf);
}

int cli_each_server(struct cli *cli,
		    int (*list)(struct cli *cli, const struct farkv_server *server))
{
	struct farkv_server s = {.size = sizeof(s)};
	int code = CLI_OK;

	for (size_t i = 0; farkv_server(cli->kv, i, &s) == 0; i++) {
		int one = list(cli, &s);

		code = one ? one : code;
	}
	return code;
}

void cli_close(struct cli *cli)
{
	farkv_close(cli->conn->kv);
	cli->conn->kv = cli->kv = NULL;
}

int cli_connect(struct cli *cli)
{
	int err = cli_open(cli);

	return err ? cli_fail(cli, err, NULL, 0) : CLI_OK;
}

/* ---- running ------------------------------------------------------------------------- */

int run_mode(const struct cli *cli, const char *command, const char **mode_out)
{
	const struct {
		const char *name;
		bool given;
	} modes[] = {
		{"--stat", cli->stat},
		{"--latency", cli->latency},
		{"--latency-history", cli->latency_history},
		{"--intrinsic-latency", cli->intrinsic_s != 0},
		{"--bigkeys", cli->bigkeys},
	};

	*mode_out = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!modes[i].given)
			continue;
		if (*mode_out)
			return cli_error(cli, CLI_USAGE, "give %s or %s, not both", *mode_out,
					 modes[i].name);
		*mode_out = modes[i].name;
	}
	if (*mode_out && command)
		return cli_error(cli, CLI_USAGE, "%s stands in place of a command: leave '%s' out",
				 *mode_out, command);
	return CLI_OK;
}

/* Parse --interval. */
static int interval_of(struct cli *cli)
{
	if (!cli->interval || util_parse_duration(cli->interval, &cli->interval_ms))
		return CLI_OK;
	return cli_error(cli, CLI_USAGE,
			 "option --interval: '%s' is no time; give a number of seconds, or as in "
			 "500ms, 10s, 5m", cli->interval);
}

/* Refuse options that this command would ignore. */
static int options_check(const struct cli *cli, const struct cli_command *c)
{
	const struct {
		const char *name;
		bool given;
	} few[] = {
		{"format", cli->format != 0},
		{"if-absent", cli->if_absent},
		{"consistent", cli->consistent},
		{"file", cli->file != NULL},
		{"count", cli->count != 0},
		{"match", cli->match != NULL},
		{"memory", cli->memory != GIB},
		{"raw", cli->raw},
		{"csv", cli->csv},
		{"initial", cli->initial != NULL},
		{"servers", cli->servers != NULL},
		{"replicas", cli->replicas != 0},
		{"no-wait", cli->no_wait},
		{"ttl", cli->ttl != NULL},
		{"key-base64", cli->key_base64},
	};
	const struct cli_conn *conn = cli->conn;

	for (size_t i = 0; i < ARRAY_SIZE(few); i++)
		if (few[i].given && !run_is_one_of(few[i].name, c->options))
			return cli_error(cli, CLI_USAGE,
					 "--%s does not apply here",
					 few[i].name);
	if (cli->interval && !cli->repeat && !run_is_one_of("interval", c->options))
		return cli_error(cli, CLI_USAGE, "--interval needs --repeat");
	if (run_is_one_of("local", c->options) && !conn->many &&
	    (conn->socket || conn->uri || conn->keys || conn->key))
		return cli_error(cli, CLI_USAGE, "--%s does not apply here",
				 conn->socket ? "socket" :
				 conn->uri    ? "uri" :
				 conn->keys   ? "keys" :
						"key");
	if (c->run == cmd_keygen && cli->json)
		return cli_error(cli, CLI_USAGE, "--json does not apply here");
	if (cli->raw + cli->json + cli->csv > 1)
		return cli_error(cli, CLI_USAGE, "give --%s or --%s, not both",
				 cli->raw ? "raw" : "csv", cli->json ? "json" : "csv");
	return CLI_OK;
}

int run_command(struct cli *cli, int argc, char **argv)
{
	const struct cli_command *c = run_find(argv[0]);
	int code;

	if (strcmp(argv[0], "help") == 0)
		return help(cli, argv[1]);
	if (!c)
		return unknown_command(cli, argv[0]);
	cli->command = c->name;
	if (cli->help)
		return help(cli, c->name);
	argc--;
	argv++;
	if (argc < c->min_args || (c->max_args >= 0 && argc > c->max_args))
		return arity_error(cli, c, argc);
	code = options_check(cli, c);
	if (!code)
		code = interval_of(cli);
	if (code)
		return code;
	cli->no_write = c->no_write;
	cli->records = (struct writer){.out = stdout};
	return c->run(cli, argc, argv);
}

/* ---- a line of many -------------------------------------------------------------------- */

/* The options of the whole command line, for each line. */
static void inherit(struct cli *line, const struct cli *base)
{
	line->raw = base->raw;
	line->json = base->json;
	line->csv = base->csv;
	line->quiet = base->quiet;
	line->key_base64 = base->key_base64;
	line->timeout_ms = base->timeout_ms;
	line->line = base->line;
	line->no_stdin = base->no_stdin;
	line->conn = base->conn;
}

/* True for a line's option that only the whole command line may have. */
static const char *misplaced(const struct cli *line, const struct cli_command *c)
{
	return line->socket	? "socket" :
	       line->uri	? "uri" :
	       line->keys	? "keys" :
	       line->key	? "key" :
	       line->last_stdin ? "last-from-stdin" :
	       line->repeat && !(c && run_is_one_of("repeat", c->options)) ? "repeat" :
	       line->version	? "version" :
	       line->print_man	? "print-man" :
	       line->completion ? "completion" :
				  NULL;
}

/* `argv` is a copy of w->v, which getopt(3) reorders. */
static int run_words(struct cli *cli, const struct words *w, char **argv)
{
	const char *name, *mode, *wrong;
	int first, code;

	cli->words = w;
	if (opts_parse_argv(&cli_spec, cli, (int)w->n, argv, &first))
		return cli_error(cli, CLI_USAGE, "%s", err_detail());
	name = first < (int)w->n ? argv[first] : NULL;
	code = run_mode(cli, name, &mode);
	if (code)
		return code;
	name = name ? name : mode;
	wrong = misplaced(cli, name ? run_find(name) : NULL);
	if (wrong)
		return cli_error(cli, CLI_USAGE,
				 "--%s does not apply to a line; give it where kvcli is started",
				 wrong);
	cli->pretty = !cli->raw && !cli->json && !cli->csv && isatty(STDOUT_FILENO);
	if (cli->help && first == (int)w->n) {
		run_help();
		return CLI_OK;
	}
	if (!name)
		return cli_error(cli, CLI_USAGE, "no command given");
	if (first == (int)w->n)
		return run_command(cli, 1, (char *[]){(char *)(uintptr_t)name, NULL});
	return run_command(cli, (int)w->n - first, argv + first);
}

bool run_is_end(const char *line, size_t len)
{
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	return len == 4 && (strncasecmp(line, "quit", 4) == 0 || strncasecmp(line, "exit", 4) == 0);
}

static int split_and_run(struct cli *cli, const char *line, size_t len)
{
	struct words w;
	const char *wrong = words_split(line, len, &w);
	char **argv;
	int code;

	if (wrong)
		return cli_error(cli, CLI_USAGE, "%s", wrong);
	argv = calloc(w.n + 1, sizeof(*argv));
	if (argv) {
		memcpy(argv, w.v, w.n * sizeof(*argv));
		code = run_words(cli, &w, argv);
	} else {
		code = cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	}
	free(argv);
	words_free(&w);
	return code;
}

int run_line(const struct cli *base, const char *text, size_t len)
{
	static const char program[] = "kvcli ";
	size_t head = sizeof(program) - 1;
	struct cli cli = {0};
	char *line;
	int code;

	while (len && isspace((unsigned char)*text))
		text++, len--;
	if (!len || *text == '#')
		return CLI_OK;
	opts_defaults(&cli_spec, &cli);
	inherit(&cli, base);
	/* getopt(3) wants the program's name before the words. */
	line = malloc(head + len);
	if (line) {
		memcpy(line, program, head);
		memcpy(line + head, text, len);
		code = split_and_run(&cli, line, head + len);
	} else {
		code = cli_fail(&cli, FARKV_ENOMEM, NULL, 0);
	}
	free(line);
	opts_free(&cli_spec, &cli);
	return code;
}
