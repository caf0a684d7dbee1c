/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli: options, the table of commands, messages and exit status. */
#include "config.h"

#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/nearest.h"
#include "common/base/opts.h"
#include "common/base/util.h"

#include "progress.h"

#define OUT_BUF_BYTES ((size_t)256 << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define OFF(f) offsetof(struct cli, f)

static const char *const formats[] = {"auto", "tsv", "cdb", "nul", NULL};

static const struct opt opts[] = {
	{.name = "socket", .letter = 's', .type = OPT_STR, .offset = OFF(socket),
	 .metavar = "PATH", .flags = OPT_PATH, .help = "Socket of the server."},
	{.name = "uri", .letter = 'u', .type = OPT_STR, .offset = OFF(uri),
	 .metavar = "URI",
	 .help = "Address of the store, as in shm:///run/farkv/kvserver.sock or "
		 "kv://host:7670, or several of a cluster with commas between them; without "
		 "both $FARKV_URI or the default "
		 "socket."},
	{.name = "keys", .letter = 'k', .type = OPT_STR, .offset = OFF(keys),
	 .metavar = "FILE", .flags = OPT_PATH,
	 .help = "File with a key, for a server that asks for one; without it what "
		 "the URI says, or $FARKV_KEYS."},
	{.name = "key", .type = OPT_STR, .offset = OFF(key), .metavar = "NAME",
	 .help = "Name of the key, where the file holds several."},
	{.name = "timeout-ms", .letter = 't', .type = OPT_U64,
	 .offset = OFF(timeout_ms), .metavar = "MS", .min = 1, .max = 86400000,
	 .help = "How long to wait for the server, in each operation; without it "
		 "5000, for fsck 600000."},
	{.name = "raw", .letter = 'r', .type = OPT_BOOL, .offset = OFF(raw),
	 .help = "Print values as they are, without a newline after them."},
	{.name = "json", .letter = 'j', .type = OPT_BOOL, .offset = OFF(json),
	 .help = "Print one JSON object a line; bytes that are not UTF-8 in "
		 "base64 under NAME_base64."},
	{.name = "format", .letter = 'f', .type = OPT_ENUM,
	 .offset = OFF(format), .metavar = "FORMAT", .deflt = "auto",
	 .choices = formats,
	 .help = "Format of load and dump: tsv, cdb or nul; auto goes by the "
		 "end of the file's name and takes tsv otherwise."},
	{.name = "if-absent", .type = OPT_BOOL, .offset = OFF(if_absent),
	 .help = "load, restore: leave keys alone that have a value."},
	{.name = "file", .type = OPT_STR, .offset = OFF(file), .metavar = "FILE", .flags = OPT_PATH,
	 .help = "fsck: check a snapshot instead of a store."},
	{.name = "servers", .type = OPT_STR, .offset = OFF(servers), .metavar = "LIST",
	 .help = "cluster init: NAME=ADDRESS,NAME=ADDRESS,...; an address is shm:///PATH or "
		 "kv://HOST:PORT."},
	{.name = "initial", .type = OPT_STR, .offset = OFF(initial), .metavar = "N",
	 .help = "incr, decr: the number that a key without a value gets."},
	{.name = "ttl", .type = OPT_STR, .offset = OFF(ttl), .metavar = "TIME",
	 .help = "put, add, replace, cas, and incr, decr with --initial: the value expires "
		 "after this time: a number of seconds, or with ms, s, m, h or d after it; "
		 "without it never."},
	{.name = "key-base64", .type = OPT_BOOL, .offset = OFF(key_base64),
	 .help = "Keys on the command line are in base64, for any bytes."},
	{.name = "count", .letter = 'c', .type = OPT_U64, .offset = OFF(count),
	 .metavar = "N", .min = 1, .max = UINT64_C(1000000000000),
	 .help = "ping: how often, once a second; without it once. keys: print N keys at "
		 "most."},
	{.name = "match", .type = OPT_STR, .offset = OFF(match), .metavar = "GLOB",
	 .help = "keys: print those that match, as in 'user*'; * is any bytes, ? one, "
		 "[a-z] one of these, [!a-z] none of them."},
	{.name = "memory", .letter = 'm', .type = OPT_SIZE, .offset = OFF(memory),
	 .metavar = "SIZE", .deflt = "1g", .unit = MIB, .min = MIB,
	 .max = UINT64_C(511) << 30,
	 .help = "doctor: memory of the server that is planned; a bare number "
		 "counts MiB."},
	{.name = "quiet", .letter = 'q', .type = OPT_BOOL, .offset = OFF(quiet),
	 .help = "No progress, no summaries, no words about missing keys; the "
		 "exit status tells."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL,
	 .offset = OFF(version), .help = "Print the version and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .help = "Print this text, or that of the command, and exit."},
	{.name = "print-man", .type = OPT_BOOL, .offset = OFF(print_man),
	 .flags = OPT_HIDDEN, .help = "Print the options for the man page."},
};

static const struct opts_spec spec = {
	.program = "kvcli",
	.usage = "[OPTION]... COMMAND [ARGUMENT]...",
	.summary = "Read and write a farkv store.",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
};

static const char dash_hint[] =
	"; keys and values that begin with a dash follow --";

static const char touch_help[] =
	"TIME is a number of seconds, or a number with ms, s, m, h or d; 0 or never for\n"
	"a value that does not expire.";

#define VALUE_HELP                                                             \
	"VALUE is the text itself; - reads it from stdin, @FILE from a file, " \
	"and\n@@TEXT is TEXT with one @ in front. Any byte may occur in a "    \
	"value."

static const char incr_help[] =
	"The value is a number below 2^64 in decimal digits, as memcached has it; it\n"
	"wraps at 2^64 and stops at 0. DELTA is 1 without it. A key without a value is\n"
	"an error, unless --initial N gives its first number, which --ttl lets expire.\n"
	"Other numbers keep the time that they have.";

static const char load_help[] =
	"FILE holds the records, - is stdin. Formats:\n"
	"  tsv  key TAB value, each line with a newline; \\t \\n \\r \\0 \\\\ \\xHH stand\n"
	"       for bytes\n"
	"  cdb  +KEYLEN,VALUELEN:KEY->VALUE on each line, an empty line at the end\n"
	"  nul  KEY NUL VALUE NUL\n"
	"Of two records with one key the later wins. After an error the records\n"
	"before it are stored, and the message names the one that failed.";

static const char dump_help[] =
	"Without FILE: of all keys. FILE, - is stdin, names keys. tsv: the first field\n"
	"of each line; cdb: the keys of the records in a cdb file; nul: keys that end\n"
	"with NUL bytes. Records go to stdout in the same format, or as JSON; load\n"
	"takes them back, without their times to live, which JSON alone shows.";

static const char keys_help[] =
	"One line each, in no order that means anything, with \\t \\n \\r \\0 \\\\ for these\n"
	"bytes, and \\xHH for the first one if the output would begin like another kind\n"
	"of file; --format nul: as they are, a NUL after each; --json: with length and\n"
	"version. A key that is there all the time is printed exactly once, whatever is\n"
	"written meanwhile.";

static const char clear_help[] =
	"It does not ask. Keys that others write meanwhile may stay. Prints how many\n"
	"values were removed.";

static const char fsck_help[] =
	"The server looks at every slot, reads every value, and adds up all bytes;\n"
	"what dead clients held is given back. That takes about a second for a\n"
	"million small values, and is waited for --timeout-ms, 10 minutes without it.\n"
	"Exit status 1 if something is wrong; 2 if a client does not answer, so that\n"
	"what it holds cannot be told from what has leaked.\n"
	"With --file FILE, - is stdin, a snapshot is verified; that needs no server.";

static const char save_help[] =
	"FILE is a snapshot for restore, - is stdout. Others may write meanwhile: each\n"
	"record is a value that its key had during the save. A previous FILE stays until\n"
	"all of the new one is on the disk, also if the save fails or is interrupted.";

static const char restore_help[] =
	"FILE is a snapshot that save wrote, - is stdin. Keys that have a value get that\n"
	"of the snapshot, or keep it with --if-absent; keys that are not in the snapshot\n"
	"stay. A damaged file restores nothing. A pipe is verified chunk by chunk: what\n"
	"came before the damage is restored, and the last line tells how many records.\n"
	"Values expire when they would have in the store that was saved.";

static const char info_help[] =
	"FILE is a snapshot that save wrote, - is stdin. All of it is verified. Needs no\n"
	"server.";

static const char cluster_help[] =
	"init: FILE, - is stdout, becomes the map of the servers that --servers lists; each\n"
	"gets the same number of partitions. Needs no server; every server is then started\n"
	"with this map. status: one line for each server of the store's cluster. Exit status\n"
	"0 if all of them serve.";

static const char devices_help[] =
	"Needs no server. --quiet prints the names of usable devices alone. Exit\n"
	"status 0 if there is one, otherwise 1.";

static const char doctor_help[] =
	"Needs no server. One line for each check: ok, warn or FAIL, what was looked\n"
	"at, and what to do; --quiet leaves out what is ok. Exit status 1 if any line\n"
	"says FAIL, otherwise 0.";

static const char keygen_help[] =
	"Needs no server. The line is for a key file, NAME ROLE KEY: the server's,\n"
	"and that of the client it is for. NAME is 1 to 63 of A-Z a-z 0-9 . _ -, the\n"
	"role is rw unless ro is given. Both files are to be readable by their owner\n"
	"alone: umask 077 first, or chmod 600 after.";

const struct cli_command cli_commands[] = {
	{"get", "KEY", "Print a value.", NULL, cmd_get, 1, 1, true,
	 "raw key-base64", "fetch read cat show"},
	{"gets", "KEY", "Print version and value.",
	 "Plain: VERSION TAB VALUE. With --raw: VERSION, a newline, the bytes.",
	 cmd_gets, 1, 1, true, "raw key-base64", ""},
	{"put", "KEY VALUE", "Store a value.", VALUE_HELP, cmd_put, 2, 2, false,
	 "ttl key-base64", "set store write setex"},
	{"add", "KEY VALUE", "Store a value unless the key has one.", VALUE_HELP,
	 cmd_add, 2, 2, false, "ttl key-base64", "insert new"},
	{"replace", "KEY VALUE", "Store a value if the key has one.", VALUE_HELP,
	 cmd_replace, 2, 2, false, "ttl key-base64", "update"},
	{"cas", "KEY VERSION VALUE",
	 "Store a value if the version is still VERSION.",
	 "VERSION is the number that gets printed before; cas prints the new one.\n"
	 VALUE_HELP, cmd_cas, 3, 3, false, "ttl key-base64", "swap"},
	{"append", "KEY VALUE", "Add to the end of a value.", VALUE_HELP, cmd_append, 2, 2, false,
	 "key-base64", "concat"},
	{"prepend", "KEY VALUE", "Add to the beginning of a value.", VALUE_HELP, cmd_prepend, 2, 2,
	 false, "key-base64", ""},
	{"incr", "KEY [DELTA]", "Add to a number, and print it.", incr_help, cmd_incr, 1, 2, false,
	 "initial ttl key-base64", "inc increment count"},
	{"decr", "KEY [DELTA]", "Subtract from a number, and print it.", incr_help, cmd_decr, 1, 2,
	 false, "initial ttl key-base64", "dec decrement"},
	{"ttl", "KEY", "Print the seconds until a value expires, or never.", NULL, cmd_ttl,
	 1, 1, true, "key-base64", "pttl"},
	{"touch", "KEY TIME", "Let a value expire after TIME from now.", touch_help,
	 cmd_touch, 2, 2, false, "key-base64", "expire persist gat"},
	{"del", "KEY...", "Remove values.", NULL, cmd_del, 1, -1, false,
	 "key-base64", "rm delete remove erase unlink"},
	{"mget", "KEY...", "Print several values, as tsv lines.",
	 "With --raw: one value after the other.", cmd_mget, 1, -1, true,
	 "raw key-base64", "getall"},
	{"exists", "KEY...", "Say whether keys have values.", NULL, cmd_exists, 1,
	 -1, true, "key-base64", "has"},
	{"keys", "", "Print all keys.", keys_help, cmd_keys, 0, 0, true,
	 "match count format", "ls list scan"},
	{"load", "FILE", "Store many records.", load_help, cmd_load, 1, 1, false,
	 "format if-absent", "import"},
	{"dump", "[FILE]", "Print the records of all keys, or of many.", dump_help,
	 cmd_dump, 0, 1, true, "format", "export"},
	{"save", "FILE", "Save all keys and values to a snapshot.", save_help, cmd_save, 1, 1, true,
	 "", "backup snapshot bgsave"},
	{"restore", "FILE", "Store all records of a snapshot.", restore_help, cmd_restore, 1, 1,
	 false, "if-absent", ""},
	{"info", "FILE", "Say what is in a snapshot.", info_help, cmd_info, 1, 1, true, "", ""},
	{"clear", "", "Remove all keys.", clear_help, cmd_clear, 0, 0, false, "",
	 "flushall flush_all flush flushdb truncate"},
	{"stats", "", "Print the state of the store.", NULL, cmd_stats, 0, 0,
	 true, "", "status"},
	{"fsck", "", "Check the whole store while it is in use.", fsck_help,
	 cmd_fsck, 0, 0, true, "file", "check verify"},
	{"cluster", "init FILE | status", "Make the map of a cluster, or say how its servers are.",
	 cluster_help, cmd_cluster, 1, 2, true, "servers", "nodes"},
	{"ping", "", "Ask the server for a sign of life.", NULL, cmd_ping, 0, 0,
	 true, "count", ""},
	{"devices", "", "List the RDMA devices of this machine.", devices_help,
	 cmd_devices, 0, 0, true, "", ""},
	{"doctor", "", "Say what keeps this machine from RDMA.", doctor_help,
	 cmd_doctor, 0, 0, true, "memory", ""},
	{"keygen", "NAME [rw|ro]", "Print a new key for a client.", keygen_help,
	 cmd_keygen, 1, 2, true, "", "genkey"},
	{NULL, NULL, NULL, NULL, NULL, 0, 0, false, NULL, NULL},
};

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
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Earlier output comes first even if both go to one file. */
	fflush(stdout);
	progress_wipe();
	log_info("%s%s%s", cli->command ? cli->command : "",
		 cli->command ? ": " : "", text);
	return code;
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
	int errnum = errno;

	if (!ferror(stdout))
		return code;
	if (cli->output_lost)
		return CLI_FAILED;
	cli->output_lost = true;
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

/* ---- commands ---------------------------------------------------------------------- */

static const struct cli_command *find_command(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static void print_help(void)
{
	opts_print_help(&spec, stdout);
	puts("\nCommands:");
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		char words[40];

		snprintf(words, sizeof(words), "%s %s", c->name, c->args);
		printf("  %-25s %s\n", words, c->summary);
	}
	puts("\n\"kvcli help COMMAND\" says more. Words that begin with a dash "
	     "follow \"--\".\n"
	     "Exit status: 0 done, 1 not found, compare failed or no RDMA, 2 "
	     "server or store\n"
	     "failed, 64 wrong usage or data, 69 no server there, 75 timeout, "
	     "77 not permitted.");
}

static void print_command_help(const struct cli_command *c)
{
	printf("Usage: kvcli [OPTION]... %s %s\n%s\n", c->name, c->args,
	       c->summary);
	if (c->detail)
		printf("\n%s\n", c->detail);
}

/* True if `word` is in the blank-separated list `words`. */
static bool is_one_of(const char *word, const char *words)
{
	size_t len = strlen(word);

	for (const char *p = words; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (n == len && strncmp(p, word, n) == 0)
			return true;
		p += n;
	}
	return false;
}

static int unknown_command(const struct cli *cli, const char *name)
{
	struct nearest near = {.word = name};

	for (const struct cli_command *c = cli_commands; c->name; c++)
		nearest_offer(&near, c->name);
	for (const struct cli_command *c = cli_commands; c->name; c++)
		if (is_one_of(name, c->aliases))
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
	const struct cli_command *c = name ? find_command(name) : NULL;

	if (name && !c)
		return unknown_command(cli, name);
	if (c)
		print_command_help(c);
	else
		print_help();
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

int cli_open(struct cli *cli)
{
	struct farkv_options o;
	char uri[1024];

	/* Unambiguous as a path. */
	if (cli->socket)
		snprintf(uri, sizeof(uri), "%s%s",
			 cli->socket[0] == '/' ? "" : "./", cli->socket);
	farkv_options_init(&o);
	if (cli->timeout_ms)
		o.connect_timeout_ms = (uint32_t)cli->timeout_ms;
	o.op_timeout_ms = cli->timeout_ms ? (uint32_t)cli->timeout_ms :
					    cli->patience_ms;
	o.flags = cli->no_write ? FARKV_OPEN_READONLY : 0;
	o.name = "kvcli";
	o.keys = cli->keys;
	o.key = cli->key;
	return farkv_open(cli->socket ? uri : cli->uri, &o, &cli->kv);
}

int cli_connect(struct cli *cli)
{
	int err = cli_open(cli);

	return err ? cli_fail(cli, err, NULL, 0) : CLI_OK;
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
		{"file", cli->file != NULL},
		{"count", cli->count != 0},
		{"match", cli->match != NULL},
		{"memory", cli->memory != GIB},
		{"raw", cli->raw},
		{"initial", cli->initial != NULL},
		{"servers", cli->servers != NULL},
		{"ttl", cli->ttl != NULL},
		{"key-base64", cli->key_base64},
	};

	for (size_t i = 0; i < ARRAY_SIZE(few); i++)
		if (few[i].given && !strstr(c->options, few[i].name))
			return cli_error(cli, CLI_USAGE,
					 "--%s does not apply here",
					 few[i].name);
	if ((c->run == cmd_devices || c->run == cmd_keygen || c->run == cmd_info) &&
	    (cli->socket || cli->uri || cli->keys || cli->key))
		return cli_error(cli, CLI_USAGE, "--%s does not apply here",
				 cli->socket ? "socket" :
				 cli->uri    ? "uri" :
				 cli->keys   ? "keys" :
					       "key");
	if (cli->key && !*cli->key)
		return cli_error(cli, CLI_USAGE, "option --key: the name is empty");
	if (c->run == cmd_keygen && cli->json)
		return cli_error(cli, CLI_USAGE, "--json does not apply here");
	if (cli->raw && cli->json)
		return cli_error(cli, CLI_USAGE,
				 "give --raw or --json, not both");
	if (cli->socket && cli->uri)
		return cli_error(cli, CLI_USAGE,
				 "give --socket or --uri, not both");
	return CLI_OK;
}

static int run_command(struct cli *cli, int argc, char **argv)
{
	const struct cli_command *c = find_command(argv[0]);
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
	if (code)
		return code;
	cli->no_write = c->no_write;
	code = c->run(cli, argc, argv);
	farkv_close(cli->kv);
	return code;
}

static void on_signal(int sig)
{
	cli_signal = sig;
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

int main(int argc, char **argv)
{
	static char out_buf[OUT_BUF_BYTES];
	struct cli cli = {.records = {.out = stdout}};
	int first, code = CLI_OK;
	void (*on_pipe)(int);

	util_occupy_standard_fds();
	/* With SIGPIPE ignored, the store is closed before a closed pipe ends the program. */
	on_pipe = signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, out_buf, _IOFBF, sizeof(out_buf));
	log_init("kvcli", LOG_LEVEL_INFO);
	opts_defaults(&spec, &cli);
	if (opts_parse_argv(&spec, &cli, argc, argv, &first))
		code = cli_error(&cli, CLI_USAGE, "%s%s", err_detail(),
				 strncmp(err_detail(), "unknown", 7) == 0
					 ? dash_hint
					 : "");
	else if (cli.version)
		puts("kvcli " PACKAGE_VERSION);
	else if (cli.print_man)
		opts_print_man(&spec, stdout);
	else if (first < argc)
		code = run_command(&cli, argc - first, argv + first);
	else if (cli.help)
		print_help();
	else
		code = cli_error(&cli, CLI_USAGE,
				 "no command given; see kvcli --help");
	code = cli_finish(&cli, code);
	opts_free(&spec, &cli);
	signal(SIGPIPE, on_pipe);
	if (cli_signal) /* all is returned: end by the signal */
		util_end_by_signal(cli_signal);
	return code;
}
