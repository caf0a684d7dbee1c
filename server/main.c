/* SPDX-License-Identifier: BSD-3-Clause */
/* kvserver: options, then region, socket, control loop. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/completion.h"
#include "common/base/err.h"
#include "common/base/finish.h"
#include "common/base/log.h"
#include "common/base/opts.h"
#include "common/base/sockpath.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"
#include "server/follower/follower.h"
#include "server/loop/serve.h"
#include "server/loop/verify_file.h"

#define MIB (UINT64_C(1) << 20)

static const char *const hugepages_choices[] = {"never", "ahead", "auto",
						"always", NULL};
static const char *const transport_choices[] = {"auto", "shm", "rdma", "both",
						NULL};

static const char *const log_choices[] = {"text", "logfmt", "json", NULL};
static const char *const when_full_choices[] = {"refuse", "evict", NULL};

#define OFF(f) offsetof(struct server_config, f)

static const struct opt opts[] = {
	{.name = "memory", .letter = 'm', .type = OPT_SIZE, .offset = OFF(memory),
	 .metavar = "SIZE", .deflt = "1g", .unit = MIB, .min = MIB,
	 .max = UINT64_C(511) << 30,
	 .help = "Memory for keys, values and index; a bare number counts MiB."},
	{.name = "memory-file", .letter = 'M', .type = OPT_STR, .offset = OFF(memory_file),
	 .metavar = "PATH", .flags = OPT_PATH,
	 .help = "Keep the store in PATH, PATH.data and PATH.sessions, on a tmpfs such as "
		 "/dev/shm, and take over what a server before left there, however it ended. "
		 "The sizes and the --when-full of the store found there count."},
	{.name = "verify", .type = OPT_BOOL, .offset = OFF(verify),
	 .help = "With --memory-file: verify every value before serving."},
	{.name = "verify-file", .type = OPT_STR, .offset = OFF(verify_file), .metavar = "PATH",
	 .flags = OPT_PATH | OPT_NO_FILE,
	 .help = "Verify every value of the store that a server left in PATH, print how many there "
		 "are, and exit."},
	{.name = "replace", .type = OPT_BOOL, .offset = OFF(replace), .flags = OPT_NO_FILE,
	 .help = "With --memory-file: if another kvserver has the store ask it to end, and take "
		 "over."},
	{.name = "restore", .type = OPT_STR, .offset = OFF(restore), .metavar = "FILE",
	 .flags = OPT_PATH,
	 .help = "Restore this snapshot of kvcli save or --save before serving. Left out if "
		 "--memory-file has a store; FILE may be missing if --save names it, too."},
	{.name = "save", .type = OPT_STR, .offset = OFF(save), .metavar = "FILE",
	 .flags = OPT_PATH,
	 .help = "Save a snapshot to FILE at SIGUSR1, and at the end unless --memory-file keeps "
		 "the store; the previous one stays as FILE.1."},
	{.name = "save-every", .type = OPT_STR, .offset = OFF(save_every), .metavar = "TIME",
	 .help = "With --save: save every so often: a number of seconds, or with m, h or d "
		 "after it."},
	{.name = "socket", .letter = 's', .type = OPT_STR, .offset = OFF(socket),
	 .metavar = "PATH", .flags = OPT_PATH,
	 .help = "Socket to listen at. Without this option: "
		 "$XDG_RUNTIME_DIR/farkv/kvserver.sock, or if that variable is "
		 "not set /run/farkv/kvserver.sock, or if that may not be written "
		 "/tmp/farkv-UID/kvserver.sock."},
	{.name = "socket-mode", .type = OPT_MODE, .offset = OFF(socket_mode),
	 .metavar = "MODE", .deflt = "0600",
	 .help = "File mode of the socket, octal; decides who may open the store."},
	{.name = "max-item-size", .letter = 'I', .type = OPT_SIZE,
	 .offset = OFF(max_value), .metavar = "SIZE", .unit = 1, .min = 1,
	 .max = UINT64_C(512) << 20,
	 .help = "Longest value; a bare number counts bytes. Without this option: "
		 "64 MiB, or a quarter of the memory if that is less."},
	{.name = "max-key-size", .type = OPT_U64, .offset = OFF(max_key),
	 .metavar = "BYTES", .deflt = "65535", .min = 1, .max = 65535,
	 .help = "Longest key in bytes."},
	{.name = "when-full", .type = OPT_ENUM, .offset = OFF(when_full),
	 .metavar = "WHAT", .deflt = "refuse", .choices = when_full_choices,
	 .help = "What happens to a put when the memory is used up: refuse it, or "
		 "evict the values that have not been used for longest."},
	{.name = "index-slots", .type = OPT_U64, .offset = OFF(index_slots),
	 .metavar = "NUMBER", .max = UINT64_C(1) << 36,
	 .help = "Slots of the index at the start, rounded up. The index grows as "
		 "it fills; two slots for each expected key save that work."},
	{.name = "grace-ms", .type = OPT_U64, .offset = OFF(grace_ms),
	 .metavar = "MS", .min = 1, .max = 60000,
	 .help = "How long replaced values stay untouched for running reads. Without "
		 "this option: 100, or 10 with --when-full evict."},
	{.name = "hugepages", .type = OPT_ENUM, .offset = OFF(hugepages),
	 .metavar = "WHEN", .deflt = "ahead", .choices = hugepages_choices,
	 .flags = OPT_OPTIONAL_ARG, .implied = "auto",
	 .help = "Pages of 2 MiB: never, ahead (made shortly before the memory is "
		 "used), auto (all at the start, if available), always (or "
		 "fail)."},
	{.name = "max-sessions", .type = OPT_U64, .offset = OFF(max_sessions),
	 .metavar = "NUMBER", .deflt = "1024", .min = 1, .max = 100000,
	 .help = "Clients that may be connected at once."},
	{.name = "drain-ms", .type = OPT_U64, .offset = OFF(drain_ms),
	 .metavar = "MS", .deflt = "1000", .max = 600000, .flags = OPT_RELOAD,
	 .help = "How long to wait for clients to leave at SIGTERM."},
	{.name = "transport", .letter = 't', .type = OPT_ENUM,
	 .offset = OFF(transport), .metavar = "WHICH", .deflt = "auto",
	 .choices = transport_choices,
	 .help = "How clients connect: shm (from this host, by the socket), rdma, "
		 "both (clients of the socket only read), or auto: RDMA too if "
		 "there is an active device, and keys or --no-auth."},
	{.name = "listen", .letter = 'l', .type = OPT_STR, .offset = OFF(listen),
	 .metavar = "HOST:PORT",
	 .help = "Address for RDMA clients. Without this option: every address of "
		 "the device, port " VERBS_PORT ". Port 0 takes any free port."},
	{.name = "device", .type = OPT_STR, .offset = OFF(device),
	 .metavar = "NAME",
	 .help = "RDMA device of the store. Without this option: the first that "
		 "can serve. See kvcli devices."},
	{.name = "keys", .letter = 'k', .type = OPT_STR, .offset = OFF(keys),
	 .metavar = "FILE", .flags = OPT_PATH,
	 .help = "Keys of the clients that may connect, by RDMA or, without RDMA, by "
		 "the socket; one a line: NAME rw|ro KEY. kvcli keygen makes them. "
		 "At SIGHUP the file is read again."},
	{.name = "keys-on-socket", .type = OPT_BOOL,
	 .offset = OFF(keys_on_socket),
	 .help = "With RDMA: ask clients of the socket for a key as well."},
	{.name = "no-auth", .type = OPT_BOOL, .offset = OFF(no_auth),
	 .help = "Let RDMA clients in without a key: everyone who reaches the port "
		 "can read and write everything."},
	{.name = "cluster-map", .type = OPT_STR, .offset = OFF(cluster_map),
	 .metavar = "FILE", .flags = OPT_PATH,
	 .help = "Map of the cluster that this server belongs to, which clients get from it; "
		 "see kvcli cluster init."},
	{.name = "cluster", .type = OPT_STR, .offset = OFF(cluster), .metavar = "URL",
	 .help = "ZooKeeper with the map of the cluster that this server belongs to: "
		 "zk://HOST:PORT[,HOST:PORT]/PATH; see kvcli cluster init."},
	{.name = "node-name", .type = OPT_STR, .offset = OFF(node_name), .metavar = "NAME",
	 .help = "This server's name in that map."},
	{.name = "ack-timeout", .type = OPT_U64, .offset = OFF(ack_timeout),
	 .metavar = "N", .deflt = "14", .min = 1,
	 .max = VERBS_ACK_TIMEOUT_MAX,
	 .help = "RDMA: a packet is resent after 4.096 us times 2^N; a dead "
		 "peer is noticed after about seven times that."},
	{.name = "tos", .type = OPT_U64, .offset = OFF(tos), .metavar = "N",
	 .max = 255, .help = "RDMA: IP type of service of what is sent."},
	{.name = "control-buffers", .type = OPT_U64,
	 .offset = OFF(control_buffers), .metavar = "NUMBER", .deflt = "64",
	 .min = 4, .max = 16384,
	 .help = "RDMA: receive buffers of 16 KiB that all clients share."},
	{.name = "metrics", .type = OPT_STR, .offset = OFF(metrics),
	 .metavar = "[HOST:]PORT",
	 .help = "Answer Prometheus and probes by HTTP: /metrics, /healthz, /readyz. Without HOST "
		 "at 127.0.0.1; port 0 takes any free port."},
	{.name = "user", .letter = 'u', .type = OPT_STR, .offset = OFF(user), .metavar = "USER",
	 .help = "Started by root: run as this user, with its groups. Sockets and ports are taken "
		 "before; files are read and made as that user does it."},
	{.name = "numa-node", .type = OPT_STR, .offset = OFF(numa_node), .metavar = "N",
	 .help = "Run on the CPUs of this NUMA node, and take memory from it while it has some."},
	{.name = "config", .letter = 'c', .type = OPT_STR, .offset = OFF(config),
	 .metavar = "FILE", .flags = OPT_NO_FILE | OPT_PATH,
	 .help = "Read options from FILE, section [kvserver]; the command line "
		 "wins."},
	{.name = "check-config", .type = OPT_BOOL, .offset = OFF(check_config),
	 .flags = OPT_NO_FILE,
	 .help = "Check options and configuration file, then exit."},
	{.name = "ready-fd", .type = OPT_U64, .offset = OFF(ready_fd),
	 .metavar = "FD", .max = 1 << 20, .flags = OPT_NO_FILE,
	 .help = "Write READY and a newline to this descriptor when serving."},
	{.name = "log-format", .type = OPT_ENUM, .offset = OFF(log_format), .metavar = "FORMAT",
	 .deflt = "text", .choices = log_choices, .flags = OPT_RELOAD,
	 .help = "How lines of the log look: text, logfmt or json."},
	{.name = "verbose", .letter = 'v', .type = OPT_COUNT,
	 .offset = OFF(verbose), .flags = OPT_RELOAD, .help = "Log sessions too."},
	{.name = "quiet", .letter = 'q', .type = OPT_BOOL, .offset = OFF(quiet),
	 .flags = OPT_RELOAD,
	 .help = "Log warnings and errors only. The line that says where it serves "
		 "stays."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL,
	 .offset = OFF(version), .flags = OPT_NO_FILE,
	 .help = "Print the version and that of the region's format, and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .flags = OPT_NO_FILE, .help = "Print this text and exit."},
	{.name = "completion", .type = OPT_STR, .offset = OFF(completion), .metavar = "SHELL",
	 .flags = OPT_NO_FILE,
	 .help = "Print the script for completion in bash or zsh, and exit."},
	{.name = "print-man", .type = OPT_BOOL, .offset = OFF(print_man),
	 .flags = OPT_NO_FILE | OPT_HIDDEN,
	 .help = "Print the options for the man page."},
};

static const struct opts_spec spec = {
	.program = "kvserver",
	.usage = "[OPTION]...",
	.summary = "Serve a key-value store from this machine's memory.",
	.epilog = "Without options: 1 GiB at the default socket. "
		  "Try: kvcli put hello world; kvcli get hello",
	.section = "kvserver",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
};

static int fail(int code)
{
	log_error("%s", err_detail());
	return code;
}

/* The file is read over the defaults, then the command line again over the file. */
static int read_options(struct server_config *cfg, int argc, char **argv)
{
	int first;

	opts_defaults(&spec, cfg);
	if (opts_parse_argv(&spec, cfg, argc, argv, &first))
		return EXIT_USAGE;
	if (first < argc) {
		err_set(FARKV_EINVAL,
			"'%s' is no option; see kvserver --help", argv[first]);
		return EXIT_USAGE;
	}
	if (!cfg->config)
		return 0;
	cfg->verbose = 0; /* the command line is counted again */
	if (opts_parse_file(&spec, cfg, cfg->config))
		return EXIT_CONFIG;
	return opts_parse_argv(&spec, cfg, argc, argv, &first) ? EXIT_USAGE : 0;
}

static int settle_options(struct server_config *cfg)
{
	struct region_config rc;
	uint64_t most = cfg->memory / 4;
	char a[24], b[24];

	if (!cfg->max_value)
		cfg->max_value = UTIL_MIN(64 * MIB, most);
	if (cfg->max_value > most)
		return err_set(FARKV_EINVAL,
			       "max-item-size: %s is more than a quarter of "
			       "the memory (%s); give more with --memory",
			       util_format_size(cfg->max_value, a, sizeof(a)),
			       util_format_size(cfg->memory, b, sizeof(b)));
	if (cfg->ready_fd && fcntl((int)cfg->ready_fd, F_GETFD) < 0)
		return err_set_errno(FARKV_EINVAL, errno, "ready-fd: %d",
				     (int)cfg->ready_fd);
	if (cfg->socket && strlen(cfg->socket) >= SOCKPATH_MAX)
		return err_set(FARKV_EINVAL,
			       "socket: path is longer than %d bytes",
			       SOCKPATH_MAX - 1);
	if (cfg->verify_file && cfg->memory_file)
		return err_set(FARKV_EINVAL, "verify-file: it verifies %s and exits; leave "
					     "--memory-file out", cfg->verify_file);
	rc = serve_region(cfg);
	return region_check(&rc);
}

/* Those of main(), for reread(). */
static int main_argc;
static char **main_argv;

static int reread(struct server_config *cfg, struct opts_changes *out)
{
	struct server_config now = {0};
	int code = read_options(&now, main_argc, main_argv);

	if (!code && settle_options(&now))
		code = EXIT_CONFIG;
	if (!code)
		opts_reload(&spec, cfg, &now, out);
	opts_free(&spec, &now);
	return code;
}

int main(int argc, char **argv)
{
	struct server_config cfg = {0};
	int code;

	if (argc == 2 && !strcmp(argv[1], FOLLOWER_ARGUMENT))
		return follower_main();
	util_occupy_standard_fds();
	main_argc = argc;
	main_argv = argv;
	log_init("kvserver", LOG_LEVEL_INFO);
	code = read_options(&cfg, argc, argv);
	if (code) {
		code = fail(code);
	} else if (cfg.help) {
		opts_print_help(&spec, stdout);
	} else if (cfg.version) {
		printf("kvserver " PACKAGE_VERSION ", region format %u\n", serve_format());
	} else if (cfg.print_man) {
		opts_print_man(&spec, stdout);
	} else if (cfg.completion) {
		if (completion_print(&spec, NULL, cfg.completion, stdout))
			code = fail(EXIT_USAGE);
	} else if (settle_options(&cfg)) {
		code = fail(cfg.config ? EXIT_CONFIG : EXIT_USAGE);
	} else if (cfg.check_config && (code = serve_check(&cfg))) {
		code = fail(code);
	} else if (cfg.check_config) {
		printf("%s: ok\n", cfg.config ? cfg.config : "options");
	} else if (cfg.verify_file) {
		code = verify_file(&cfg);
		if (code)
			code = fail(code);
	} else {
		code = serve(&cfg, cfg.config ? reread : NULL);
	}
	opts_free(&spec, &cfg);
	return finish_stdout() || code ? code : EXIT_RUN;
}
