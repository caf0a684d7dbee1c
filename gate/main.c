/* SPDX-License-Identifier: BSD-3-Clause */
/* kvgate: options, then serve(). */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>

#include <errno.h>

#include "common/base/completion.h"
#include "common/base/err.h"
#include "common/base/finish.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "serve.h"

#define OFF(f) offsetof(struct gate_config, f)

static const struct opt opts[] = {
	{.name = "uri", .letter = 'u', .type = OPT_STR, .offset = OFF(uri), .metavar = "URI",
	 .help = "Address of the store, as in shm:///run/farkv/kvserver.sock or kv://host:7670; "
		 "without it $FARKV_URI or the default socket."},
	{.name = "resp", .letter = 'r', .type = OPT_LIST, .offset = OFF(resp),
	 .metavar = "ADDRESS",
	 .help = "Serve Redis's protocol at PORT (of 127.0.0.1), HOST:PORT, *:PORT or the path of "
		 "a Unix socket. May be given several times."},
	{.name = "memcached", .letter = 'm', .type = OPT_LIST, .offset = OFF(memcached),
	 .metavar = "ADDRESS",
	 .help = "Serve memcached's protocol there. At an address of both options the first byte "
		 "of a connection tells which it is."},
	{.name = "threads", .letter = 't', .type = OPT_U64, .offset = OFF(threads),
	 .metavar = "NUMBER", .deflt = "1", .min = 1, .max = 256,
	 .help = "Threads, each with a handle on the store."},
	{.name = "socket-mode", .type = OPT_MODE, .offset = OFF(socket_mode), .metavar = "MODE",
	 .deflt = "0600",
	 .help = "File mode of Unix sockets, octal; decides who may connect."},
	{.name = "keys", .letter = 'k', .type = OPT_STR, .offset = OFF(keys), .metavar = "FILE",
	 .flags = OPT_PATH,
	 .help = "File with the gate's own key, for a server that asks for one; without it what "
		 "the URI says, or $FARKV_KEYS."},
	{.name = "key", .type = OPT_STR, .offset = OFF(key), .metavar = "NAME",
	 .help = "Name of the key, where the file holds several."},
	{.name = "client-keys", .letter = 'a', .type = OPT_STR, .offset = OFF(client_keys),
	 .metavar = "FILE", .flags = OPT_PATH,
	 .help = "Clients need a password: keys of those that may connect, one a line: NAME rw|ro "
		 "KEY. kvcli keygen makes them; NAME is the user and KEY the password. Read again at "
		 "SIGHUP."},
	{.name = "no-auth", .type = OPT_BOOL, .offset = OFF(no_auth),
	 .help = "Let clients of other machines in without a password: everyone who reaches the "
		 "port can read and write everything."},
	{.name = "max-clients", .type = OPT_U64, .offset = OFF(max_clients), .metavar = "NUMBER",
	 .deflt = "10000", .min = 1, .max = 1000000,
	 .help = "Connections at once; a further one is told so and closed."},
	{.name = "idle-timeout", .type = OPT_U64, .offset = OFF(idle_timeout),
	 .metavar = "SECONDS", .deflt = "0", .max = 31536000,
	 .help = "Close a connection that has not completed a request, or taken bytes of an "
		 "answer, for so long; 0: never."},
	{.name = "max-request", .type = OPT_SIZE, .offset = OFF(max_request), .metavar = "SIZE",
	 .min = 65536, .max = UINT64_C(1) << 32,
	 .help = "Longest request; a bare number counts bytes. Without it 1 MiB more than the "
		 "store's longest value."},
	{.name = "max-output", .type = OPT_SIZE, .offset = OFF(max_output), .metavar = "SIZE",
	 .min = 65536, .max = UINT64_C(1) << 36,
	 .help = "Answers that may wait for a slow reader; with more it is cut off. Without it 64 "
		 "MiB, or 1 MiB more than the store's longest value if that is more."},
	{.name = "timeout-ms", .type = OPT_U64, .offset = OFF(timeout_ms), .metavar = "MS",
	 .deflt = "5000", .min = 1, .max = 86400000,
	 .help = "How long to wait for the server, in each operation."},
	{.name = "config", .letter = 'c', .type = OPT_STR, .offset = OFF(config),
	 .metavar = "FILE", .flags = OPT_NO_FILE | OPT_PATH,
	 .help = "Read options from FILE, section [kvgate]; the command line wins."},
	{.name = "check-config", .type = OPT_BOOL, .offset = OFF(check_config),
	 .flags = OPT_NO_FILE, .help = "Check options and configuration file, then exit."},
	{.name = "ready-fd", .type = OPT_U64, .offset = OFF(ready_fd), .metavar = "FD",
	 .max = 1 << 20, .flags = OPT_NO_FILE,
	 .help = "Write READY and a newline to this descriptor when serving."},
	{.name = "verbose", .letter = 'v', .type = OPT_COUNT, .offset = OFF(verbose),
	 .help = "Log connections that are cut off, too."},
	{.name = "quiet", .letter = 'q', .type = OPT_BOOL, .offset = OFF(quiet),
	 .help = "Log warnings and errors only. The line that says where it serves stays."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL, .offset = OFF(version),
	 .flags = OPT_NO_FILE, .help = "Print the version and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .flags = OPT_NO_FILE, .help = "Print this text and exit."},
	{.name = "completion", .type = OPT_STR, .offset = OFF(completion), .metavar = "SHELL",
	 .flags = OPT_NO_FILE,
	 .help = "Print the script for completion in bash or zsh, and exit."},
	{.name = "print-man", .type = OPT_BOOL, .offset = OFF(print_man),
	 .flags = OPT_NO_FILE | OPT_HIDDEN, .help = "Print the options for the man page."},
};

static const struct opts_spec spec = {
	.program = "kvgate",
	.usage = "[OPTION]... --resp ADDRESS | --memcached ADDRESS",
	.summary = "Serve a farkv store to clients of Redis and memcached.",
	.epilog = "Try: kvgate --resp 6379 --memcached 11211; redis-cli set hello world",
	.section = "kvgate",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
};

static int fail(int code)
{
	log_error("%s", err_detail());
	return code;
}

/* The file is read over the defaults. What the command line lists replaces the file's lists. */
static int read_options(struct gate_config *cfg, int argc, char **argv)
{
	struct gate_config line = {0};
	int first, code = 0;

	opts_defaults(&spec, &line);
	if (opts_parse_argv(&spec, &line, argc, argv, &first))
		code = EXIT_USAGE;
	else if (first < argc) {
		err_set(FARKV_EINVAL, "'%s' is no option; see kvgate --help", argv[first]);
		code = EXIT_USAGE;
	}
	if (code || !line.config) {
		*cfg = line;
		return code;
	}
	opts_defaults(&spec, cfg);
	if (opts_parse_file(&spec, cfg, line.config))
		code = EXIT_CONFIG;
	cfg->verbose = 0;
	if (!code && opts_parse_argv(&spec, cfg, argc, argv, &first))
		code = EXIT_USAGE;
	opts_free(&spec, &line);
	return code;
}

int main(int argc, char **argv)
{
	struct gate_config cfg = {0};
	int code;

	util_occupy_standard_fds();
	log_init("kvgate", LOG_LEVEL_INFO);
	code = read_options(&cfg, argc, argv);
	if (code) {
		code = fail(code);
	} else if (cfg.help) {
		opts_print_help(&spec, stdout);
	} else if (cfg.version) {
		printf("kvgate " PACKAGE_VERSION "\n");
	} else if (cfg.print_man) {
		opts_print_man(&spec, stdout);
	} else if (cfg.completion) {
		if (completion_print(&spec, NULL, cfg.completion, stdout))
			code = fail(EXIT_USAGE);
	} else if (cfg.ready_fd && fcntl((int)cfg.ready_fd, F_GETFD) < 0) {
		err_set_errno(FARKV_EINVAL, errno, "ready-fd: %d", (int)cfg.ready_fd);
		code = fail(EXIT_USAGE);
	} else if ((code = serve_check(&cfg))) {
		code = fail(code);
	} else if (cfg.check_config) {
		printf("%s: ok\n", cfg.config ? cfg.config : "options");
	} else {
		log_init("kvgate", cfg.quiet   ? LOG_LEVEL_WARN
				   : cfg.verbose ? LOG_LEVEL_DEBUG
						 : LOG_LEVEL_INFO);
		code = serve(&cfg);
	}
	opts_free(&spec, &cfg);
	return finish_stdout() || code ? code : EXIT_RUN;
}
