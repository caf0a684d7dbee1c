/* SPDX-License-Identifier: BSD-3-Clause */
/* kvserver: options, then region, socket, control loop. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/opts.h"
#include "common/sockpath.h"
#include "common/util.h"
#include "control.h"

#define MIB (UINT64_C(1) << 20)

enum exit_code { EXIT_RUN = 1, EXIT_USAGE = 64, EXIT_CONFIG = 78 };

struct server_config {
	uint64_t memory, max_value, max_key, index_slots, grace_ms;
	uint64_t max_sessions, drain_ms, ready_fd;
	char *socket, *config;
	unsigned socket_mode, verbose;
	int hugepages;
	bool quiet, check_config, version, help, print_man;
};

static const char *const hugepages_choices[] = {"never", "auto", "always", NULL};

#define OFF(f) offsetof(struct server_config, f)

static const struct opt opts[] = {
	{.name = "memory", .letter = 'm', .type = OPT_SIZE, .offset = OFF(memory),
	 .metavar = "SIZE", .deflt = "1g", .unit = MIB, .min = MIB,
	 .max = UINT64_C(511) << 30,
	 .help = "Memory for keys, values and index; a bare number counts MiB."},
	{.name = "socket", .letter = 's', .type = OPT_STR, .offset = OFF(socket),
	 .metavar = "PATH", .flags = OPT_PATH,
	 .help = "Socket to listen at; without it "
		 "$XDG_RUNTIME_DIR/farkv/kvserver.sock, or "
		 "/run/farkv/kvserver.sock if that variable is not set."},
	{.name = "socket-mode", .type = OPT_MODE, .offset = OFF(socket_mode),
	 .metavar = "MODE", .deflt = "0600",
	 .help = "File mode of the socket, octal: who may open the store."},
	{.name = "max-item-size", .letter = 'I', .type = OPT_SIZE,
	 .offset = OFF(max_value), .metavar = "SIZE", .unit = 1, .min = 1,
	 .max = UINT64_C(512) << 20,
	 .help = "Longest value, a bare number counts bytes; without it 64 MiB, or a quarter of the memory "
		 "if that is less."},
	{.name = "max-key-size", .type = OPT_U64, .offset = OFF(max_key),
	 .metavar = "BYTES", .deflt = "65535", .min = 1, .max = 65535,
	 .help = "Longest key in bytes."},
	{.name = "index-slots", .type = OPT_U64, .offset = OFF(index_slots),
	 .metavar = "NUMBER", .max = UINT64_C(1) << 36,
	 .help = "Slots of the index, rounded up; without it one for every 512 "
		 "bytes of memory. Plan two slots for a key."},
	{.name = "grace-ms", .type = OPT_U64, .offset = OFF(grace_ms),
	 .metavar = "MS", .deflt = "100", .min = 1, .max = 60000,
	 .help = "How long replaced values stay untouched for readers under "
		 "way."},
	{.name = "hugepages", .type = OPT_ENUM, .offset = OFF(hugepages),
	 .metavar = "WHEN", .deflt = "never", .choices = hugepages_choices,
	 .flags = OPT_OPTIONAL_ARG, .implied = "auto",
	 .help = "Use 2 MiB pages: never, auto (if they can be had), always "
		 "(or fail)."},
	{.name = "max-sessions", .type = OPT_U64, .offset = OFF(max_sessions),
	 .metavar = "NUMBER", .deflt = "1024", .min = 1, .max = 100000,
	 .help = "Clients that may be connected at once."},
	{.name = "drain-ms", .type = OPT_U64, .offset = OFF(drain_ms),
	 .metavar = "MS", .deflt = "1000", .max = 600000,
	 .help = "How long to wait for clients to leave at SIGTERM."},
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
	{.name = "verbose", .letter = 'v', .type = OPT_COUNT,
	 .offset = OFF(verbose), .help = "Log sessions too."},
	{.name = "quiet", .letter = 'q', .type = OPT_BOOL, .offset = OFF(quiet),
	 .help = "Log warnings and errors only."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL,
	 .offset = OFF(version), .flags = OPT_NO_FILE,
	 .help = "Print the version and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .flags = OPT_NO_FILE, .help = "Print this text and exit."},
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

/* The file first, then the command line again over it. */
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
	if (opts_parse_file(&spec, cfg, cfg->config))
		return EXIT_CONFIG;
	cfg->verbose = 0;
	return opts_parse_argv(&spec, cfg, argc, argv, &first) ? EXIT_USAGE : 0;
}

static struct region_config region_wanted(const struct server_config *cfg)
{
	return (struct region_config){
		.memory = cfg->memory,
		.index_slots = cfg->index_slots,
		.max_value = cfg->max_value,
		.max_key = (uint32_t)cfg->max_key,
		.grace_ns = cfg->grace_ms * NS_PER_MS,
		.pages = (enum region_pages)cfg->hugepages,
	};
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
	rc = region_wanted(cfg);
	return region_check(&rc);
}

static void raise_file_limit(uint64_t sessions)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= sessions + 64)
		return;
	r.rlim_cur = UTIL_MIN(r.rlim_max, (rlim_t)sessions + 64);
	if (setrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < sessions + 64)
		log_warn("only %llu descriptors allowed: fewer than "
			 "max-sessions=%llu clients can connect",
			 (unsigned long long)r.rlim_cur,
			 (unsigned long long)sessions);
}

/*
 * The address that a client or a shell takes as it stands: absolute, and with
 * %XX for what means something else there.
 */
static void uri_of(const char *path, char *uri)
{
	char *full = realpath(path, NULL);
	char *at = uri + sprintf(uri, "shm://");
	const char *end = uri + 4 * SOCKPATH_MAX - 4;

	for (const char *p = full ? full : path; *p && at < end; p++)
		if (isalnum((unsigned char)*p) || strchr("/._-+=,@:", *p))
			*at++ = *p;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*p);
	*at = '\0';
	free(full);
}

static void announce(const struct server_config *cfg, const struct region *r,
		     const char *path)
{
	char size[24], uri[4 * SOCKPATH_MAX];

	uri_of(path, uri);
	if (strncmp(r->pages_note, "4 KiB", 5) != 0 || cfg->hugepages)
		log_info("pages: %s", r->pages_note);
	printf("kvserver: serving %s at %s (pid %ld); try: kvcli -u %s ping\n",
	       util_format_size(cfg->memory, size, sizeof(size)), uri,
	       (long)getpid(), uri);
	fflush(stdout);
	if (cfg->ready_fd)
		(void)!write((int)cfg->ready_fd, "READY\n", 6);
}

/*
 * While there is a socket and no loop to answer them: a signal must not leave the
 * socket behind, nor spoil the exit status of a server that is leaving.
 */
static void signals_hold(bool hold)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static int serve(const struct server_config *cfg)
{
	struct region_config rc = region_wanted(cfg);
	struct control_config cc = {
		.max_sessions = (uint32_t)cfg->max_sessions,
		.drain_ms = (uint32_t)cfg->drain_ms,
		.hello_ms = 5000,
	};
	char path[SOCKPATH_MAX];
	struct listen_socket listen;
	struct control *control;
	struct region region;
	int code = EXIT_RUN;

	if (cfg->socket)
		strcpy(path, cfg->socket);
	else if (sockpath_server_default(path, sizeof(path)))
		return fail(EXIT_USAGE);
	raise_file_limit(cfg->max_sessions);
	signals_hold(true);
	if (listen_open(path, cfg->socket_mode, &listen))
		return fail(EXIT_RUN);
	if (region_create(&rc, &region)) {
		code = fail(EXIT_RUN);
		goto err_listen;
	}
	control = control_new(&cc, &region, &listen);
	if (!control) {
		code = fail(EXIT_RUN);
		goto err_region;
	}
	signals_hold(false);
	announce(cfg, &region, path);
	code = control_run(control);
	signals_hold(true);
	control_free(control);
err_region:
	region_destroy(&region);
err_listen:
	listen_close(&listen);
	return code;
}

int main(int argc, char **argv)
{
	struct server_config cfg = {0};
	int code;

	log_init("kvserver", LOG_LEVEL_INFO);
	code = read_options(&cfg, argc, argv);
	if (code) {
		code = fail(code);
	} else if (cfg.help) {
		opts_print_help(&spec, stdout);
	} else if (cfg.version) {
		puts("kvserver " PACKAGE_VERSION);
	} else if (cfg.print_man) {
		opts_print_man(&spec, stdout);
	} else if (settle_options(&cfg)) {
		code = fail(cfg.config ? EXIT_CONFIG : EXIT_USAGE);
	} else if (cfg.check_config) {
		printf("%s: ok\n", cfg.config ? cfg.config : "options");
	} else {
		log_init("kvserver", cfg.quiet     ? LOG_LEVEL_WARN
				     : cfg.verbose ? LOG_LEVEL_DEBUG
						   : LOG_LEVEL_INFO);
		code = serve(&cfg);
	}
	opts_free(&spec, &cfg);
	return code;
}
