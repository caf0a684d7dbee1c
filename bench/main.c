/* SPDX-License-Identifier: BSD-3-Clause */
/* kvbench: command line and properties, then a benchmark and its report. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/ticks.h"
#include "bench/compare/compare.h"
#include "bench/core/bench.h"
#include "bench/core/outputs.h"
#include "bench/core/quick.h"
#include "bench/limit/limit.h"
#include "common/base/completion.h"
#include "common/base/err.h"
#include "common/base/finish.h"
#include "common/base/log.h"
#include "common/base/nearest.h"
#include "common/base/opts.h"
#include "common/base/util.h"

enum exit_code {
	EXIT_RUN = 1,
	EXIT_USAGE = 64,
	EXIT_UNREACHABLE = 69,
	EXIT_TIMEOUT = 75,
	EXIT_PERMISSION = 77,
	EXIT_CONFIG = 78,
	EXIT_INTERRUPTED = 130,
};

struct bench_config {
	struct opt_list files, props;
	char *db, *uri, *socket, *label, *threads, *target, *plot, *html;
	char *completion;    /* for this shell */
	const char *trace;   /* replay's word */
	bool status, version, help, print_man;
	bool load, transactions; /* YCSB's words for the command */
};

#define OFF(f) offsetof(struct bench_config, f)

static const struct opt opts[] = {
	{.name = "properties", .letter = 'P', .type = OPT_LIST, .offset = OFF(files),
	 .metavar = "FILE",
	 .help = "Read properties from FILE; several are read in order. A name "
		 "without a slash is also looked for among the workloads that "
		 "come with kvbench: workloada to workloadf, kvcache."},
	{.name = "property", .letter = 'p', .type = OPT_LIST, .offset = OFF(props),
	 .metavar = "NAME=VALUE",
	 .help = "Set one property; stronger than any file."},
	{.name = "db", .type = OPT_STR, .offset = OFF(db), .metavar = "NAME,...",
	 .help = "Store to measure, unless a word after the command names it: "
		 "farkv, memcached, redis, lmdb, libcuckoo, or null, which "
		 "does nothing and so shows what kvbench itself costs. Several "
		 "with commas take turns, round by round (-p rounds=3), and "
		 "are compared."},
	{.name = "uri", .letter = 'u', .type = OPT_STR, .offset = OFF(uri),
	 .metavar = "URI",
	 .help = "Address of the farkv store, as in shm:///run/farkv/kvserver"
		 ".sock; without it $FARKV_URI or the default socket."},
	{.name = "socket", .type = OPT_STR, .offset = OFF(socket),
	 .metavar = "PATH", .flags = OPT_PATH,
	 .help = "The same by the path of its socket."},
	{.name = "threads", .type = OPT_STR, .offset = OFF(threads),
	 .metavar = "N", .help = "Clients, each a thread with a session of its "
				 "own; property threadcount."},
	{.name = "target", .type = OPT_STR, .offset = OFF(target),
	 .metavar = "N", .help = "Operations a second of all clients together; "
				 "property target."},
	{.name = "status", .letter = 's', .type = OPT_BOOL, .offset = OFF(status),
	 .help = "A status line every status.interval seconds (10) on stderr. "
		 "On a terminal there is a live line without it, unless TERM is "
		 "dumb or NO_COLOR is set."},
	{.name = "label", .letter = 'l', .type = OPT_STR, .offset = OFF(label),
	 .metavar = "TEXT", .help = "Text in front of every status line."},
	{.name = "plot", .type = OPT_STR, .offset = OFF(plot),
	 .metavar = "OUT.svg",
	 .help = "Draw throughput over time and latency by percentile to this "
		 "file, by gnuplot; property plot."},
	{.name = "html", .type = OPT_STR, .offset = OFF(html),
	 .metavar = "OUT.html",
	 .help = "Write the results as a page for a browser: stores side by "
		 "side, throughput over time, latency by percentile, counts, "
		 "settings and all figures; property html."},
	{.name = "load", .type = OPT_BOOL, .offset = OFF(load),
	 .help = "The same as the command load, as YCSB's client has it."},
	{.name = "transactions", .letter = 't', .type = OPT_BOOL,
	 .offset = OFF(transactions), .help = "The same as the command run."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL,
	 .offset = OFF(version), .help = "Print the version and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .help = "Print this text and exit."},
	{.name = "completion", .type = OPT_STR, .offset = OFF(completion), .metavar = "SHELL",
	 .help = "Print the script for completion in bash or zsh, and exit."},
	{.name = "print-man", .type = OPT_BOOL, .offset = OFF(print_man),
	 .flags = OPT_HIDDEN, .help = "Print the options for the man page."},
};

static const struct opts_spec spec = {
	.program = "kvbench",
	.usage = "load|run|replay FILE|quick|limit|compare [STORE] [OPTION]...",
	.summary = "Measure a key-value store with YCSB's core workloads or a "
		   "trace.",
	.epilog = "  load     insert recordcount records\n"
		  "  run      carry out operationcount operations, or operate "
		  "for maxexecutiontime s\n"
		  "  replay   the requests of a trace, with the store as a cache: "
		  "what is missing is put\n"
		  "  quick    both for a few seconds, with a result in words\n"
		  "  limit    what this machine can do at best with farkv's "
		  "formats, and farkv's share\n"
		  "  compare  farkv beside memcached, Redis, LMDB and libcuckoo; "
		  "it starts the servers\n"
		  "\n"
		  "Try: kvbench quick\n"
		  "     kvbench load -P workloadb -p recordcount=100000\n"
		  "     kvbench run -P workloadb -p recordcount=100000 "
		  "-p operationcount=1000000 -threads 2",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
	.single_dash = true,
};

enum command { CMD_LOAD, CMD_RUN, CMD_REPLAY, CMD_QUICK, CMD_LIMIT, CMD_COMPARE };

static const char *const commands[] = {"load", "run", "replay", "quick", "limit", "compare", NULL};

static int fail(int code)
{
	log_error("%s", err_detail());
	return code;
}

/* The exit status for an error after the command line was accepted. */
static int exit_for(int err)
{
	switch (err) {
	case FARKV_EINVAL:
	case FARKV_EURI:
		return EXIT_USAGE;
	case FARKV_EUNREACHABLE:
	case FARKV_ENOROUTE:
	case FARKV_ELINKDOWN:
	case FARKV_EDISCONNECTED:
		return EXIT_UNREACHABLE;
	case FARKV_ETIMEDOUT:
		return EXIT_TIMEOUT;
	case FARKV_EPERM:
		return EXIT_PERMISSION;
	case FARKV_EABORTED:
		return EXIT_INTERRUPTED;
	default:
		return EXIT_RUN;
	}
}

/* ---- properties ----------------------------------------------------------------- */

/* A plain name that is no file here may be an installed workload. */
static int load_file(struct props *p, const char *name)
{
	char ours[4096];

	if (access(name, F_OK) == 0 || strchr(name, '/'))
		return props_load(p, name);
	snprintf(ours, sizeof(ours), "%s/workloads/%s", PKGDATADIR, name);
	if (access(ours, F_OK) == 0)
		return props_load(p, ours);
	return err_set(FARKV_ESYS,
		       "there is no property file %s here, nor in %s/workloads",
		       name, PKGDATADIR);
}

static int set_option(struct props *p, const char *key, const char *value,
		      const char *where)
{
	return value ? props_set(p, key, value, where) : 0;
}

/* Files first, then -p in order, then the other options' properties. */
static int read_props(const struct bench_config *cfg, struct props *p)
{
	int err = 0;

	for (size_t i = 0; i < cfg->files.n; i++)
		if (load_file(p, cfg->files.v[i]))
			return EXIT_CONFIG;
	for (size_t i = 0; i < cfg->props.n && !err; i++)
		err = props_set_arg(p, cfg->props.v[i]);
	if (!err)
		err = set_option(p, "db", cfg->db, "-db");
	if (!err)
		err = set_option(p, "threadcount", cfg->threads, "-threads");
	if (!err)
		err = set_option(p, "target", cfg->target, "-target");
	if (!err)
		err = set_option(p, "label", cfg->label, "-l");
	if (!err)
		err = set_option(p, "plot", cfg->plot, "--plot");
	if (!err)
		err = set_option(p, "html", cfg->html, "--html");
	if (!err)
		err = set_option(p, "replay.file", cfg->trace, "replay");
	if (!err && cfg->status)
		err = props_set(p, "status", "true", "-s");
	return err ? EXIT_USAGE : 0;
}

/* ---- commands -------------------------------------------------------------------- */

/* YCSB's preamble, which users look for in logs. */
static void preamble(const struct bench_config *cfg, const char *command)
{
	fprintf(stderr, "Command line: %s", command);
	if (cfg->trace)
		fprintf(stderr, " %s", cfg->trace);
	if (cfg->db)
		fprintf(stderr, " -db %s", cfg->db);
	for (size_t i = 0; i < cfg->files.n; i++)
		fprintf(stderr, " -P %s", cfg->files.v[i]);
	for (size_t i = 0; i < cfg->props.n; i++)
		fprintf(stderr, " -p %s", cfg->props.v[i]);
	if (cfg->threads)
		fprintf(stderr, " -threads %s", cfg->threads);
	if (cfg->target)
		fprintf(stderr, " -target %s", cfg->target);
	if (cfg->uri)
		fprintf(stderr, " -u %s", cfg->uri);
	if (cfg->socket)
		fprintf(stderr, " --socket %s", cfg->socket);
	if (cfg->status)
		fputs(" -s", stderr);
	if (cfg->plot)
		fprintf(stderr, " --plot %s", cfg->plot);
	if (cfg->html)
		fprintf(stderr, " --html %s", cfg->html);
	if (cfg->label)
		fprintf(stderr, " -l %s", cfg->label);
	fputs("\nkvbench " PACKAGE_VERSION "\n\n", stderr);
}

/* Finished rounds count, even if the next one failed. */
static void write_results(struct bench *b, enum command cmd,
			  const struct compare *c, struct outputs *o, int *code)
{
	if (*code)
		log_warn("the results are those of the %zu of %llu rounds that "
			 "were finished", b->n_rounds,
			 (unsigned long long)b->params.rounds);
	if (cmd != CMD_QUICK)
		outputs_begin(o);
	if (c && b->n_rounds)
		compare_print(b, o->report);
	else if (!c && cmd != CMD_QUICK)
		bench_report(b, o->report);
	if (outputs_write(o, b) && !*code)
		*code = fail(EXIT_RUN);
}

/* Report each error at once; the first one decides the exit status. */
static int measure(struct bench *b, enum command cmd, struct compare *c)
{
	struct outputs o;
	int err, code = 0;

	if (outputs_open(&o, &b->params))
		return fail(EXIT_CONFIG);
	if (cmd == CMD_QUICK) /* quick shows progress */
		outputs_begin(&o);
	err = cmd == CMD_QUICK ? quick_run(b, o.report)
	      : c	       ? compare_run(c, b)
			       : bench_run(b);
	if (err)
		code = fail(exit_for(err));
	if (!err || b->n_rounds)
		write_results(b, cmd, c, &o, &code);
	if (outputs_close(&o) && !code)
		code = fail(EXIT_RUN);
	if (code)
		return code;
	if (phase_was_interrupted())
		return EXIT_INTERRUPTED;
	if (!bench_failures(b))
		return bench_unrecorded(b) ? EXIT_RUN : 0;
	log_error("%llu %s failed, the first: %s",
		  (unsigned long long)bench_failures(b),
		  bench_failures(b) == 1 ? "operation" : "operations",
		  bench_failure(b) ? bench_failure(b) : "unknown");
	return EXIT_RUN;
}

static int run_limit(const struct bench_config *cfg, struct props *p,
		     const char *uri)
{
	int err;

	if (cfg->db) {
		err_set(FARKV_EINVAL, "limit has sides of its own; do not name "
				      "a store");
		return fail(EXIT_USAGE);
	}
	err = limit_run(p, uri, stdout);
	return err ? fail(exit_for(err)) : 0;
}

static int run_bench(enum command cmd, struct props *p, const char *uri,
		     struct compare *c)
{
	struct bench b;
	int code, err = bench_init(&b, p, uri, cmd == CMD_LOAD);

	if (!err && (c || cmd == CMD_QUICK) &&
	    b.params.exporter != EXPORTER_TEXT)
		err = props_error(p, "exporter",
				  "quick and compare print a table, not a report");
	if (!err && cmd == CMD_QUICK && params_is_cache(&b.params))
		err = props_error(p, b.params.blocks ? "kvcache.blocks"
						     : "replay.file",
				  "quick has a workload of its own; give it to "
				  "run");
	if (b.bad_file)
		code = fail(EXIT_CONFIG);
	else
		code = err ? fail(exit_for(err)) : measure(&b, cmd, c);
	bench_fini(&b);
	return code;
}

static int run_compare(struct props *p, const char *uri)
{
	struct compare c;
	int err = compare_begin(&c, p, uri), code;

	code = err ? fail(exit_for(err))
		   : run_bench(CMD_COMPARE, p, compare_uri(&c, uri), &c);
	compare_end(&c);
	return code;
}

static int run_command(enum command cmd, const struct bench_config *cfg,
		       struct props *p)
{
	char path[4096];
	const char *uri = cfg->uri;

	/* Unambiguous as a path. */
	if (cfg->socket) {
		snprintf(path, sizeof(path), "%s%s",
			 cfg->socket[0] == '/' ? "" : "./", cfg->socket);
		uri = path;
	}
	if (cmd == CMD_LIMIT)
		return run_limit(cfg, p, uri);
	return cmd == CMD_COMPARE ? run_compare(p, uri)
				  : run_bench(cmd, p, uri, NULL);
}

static int find_command(const char *word, enum command *out)
{
	struct nearest near = {.word = word};

	for (unsigned i = 0; commands[i]; i++)
		if (!strcmp(word, commands[i])) {
			*out = (enum command)i;
			return 0;
		}
	for (unsigned i = 0; commands[i]; i++)
		nearest_offer(&near, commands[i]);
	if (near.name)
		return err_set(FARKV_EINVAL,
			       "unknown command '%s': did you mean %s", word,
			       near.name);
	return err_set(FARKV_EINVAL,
		       "unknown command '%s'; give load, run, replay, quick, "
		       "limit or compare", word);
}

/* COMMAND [STORE], or replay FILE [STORE] */
static int read_words(struct bench_config *cfg, int argc, char **argv,
		      int first, enum command *cmd)
{
	if (first == argc)
		return err_set(FARKV_EINVAL,
			       "no command; give load, run, replay, quick, "
			       "limit or compare (see kvbench --help)");
	if (find_command(argv[first], cmd))
		return FARKV_EINVAL;
	if (*cmd == CMD_REPLAY && first + 1 == argc)
		return err_set(FARKV_EINVAL,
			       "no trace; give replay FILE (see kvbench --help)");
	if (*cmd == CMD_REPLAY)
		cfg->trace = argv[++first];
	if (first + 1 < argc && !cfg->db)
		cfg->db = strdup(argv[++first]); /* if NULL: like no -db */
	if (first + 1 < argc)
		return err_set(FARKV_EINVAL,
			       "'%s' is one word too many; see kvbench --help",
			       argv[first + 1]);
	if (cfg->socket && cfg->uri)
		return err_set(FARKV_EINVAL,
			       "give --uri or --socket, not both");
	return 0;
}

static int work(struct bench_config *cfg, int argc, char **argv, int first)
{
	struct props p = {0};
	enum command cmd = CMD_RUN;
	int code;

	if (read_words(cfg, argc, argv, first, &cmd))
		return fail(EXIT_USAGE);
	if ((cmd == CMD_QUICK && quick_props(&p)) ||
	    (cmd == CMD_LIMIT && limit_props(&p)) ||
	    (cmd == CMD_COMPARE && compare_props(&p)))
		return fail(EXIT_RUN);
	if (cmd != CMD_QUICK)
		preamble(cfg, argv[first]);
	ticks_init();
	phase_catch_signals();
	code = read_props(cfg, &p);
	code = code ? fail(code) : run_command(cmd, cfg, &p);
	props_free(&p);
	return code;
}

/* -load or -t instead of a command, as for YCSB's client. */
static int work_as_client(struct bench_config *cfg, int argc, char **argv,
			  int first)
{
	char command[] = "transactions", *words[4] = {command};
	int n = 1;

	if (cfg->load && cfg->transactions) {
		err_set(FARKV_EINVAL, "give -load or -t, not both");
		return fail(EXIT_USAGE);
	}
	snprintf(command, sizeof(command), cfg->load ? "load" : "run");
	while (first < argc && n < (int)ARRAY_SIZE(words))
		words[n++] = argv[first++];
	return work(cfg, n, words, 0);
}

int main(int argc, char **argv)
{
	struct bench_config cfg = {0};
	int first, code = 0;

	util_occupy_standard_fds();
	log_init("kvbench", LOG_LEVEL_INFO);
	opts_defaults(&spec, &cfg);
	if (opts_parse_argv(&spec, &cfg, argc, argv, &first))
		code = fail(EXIT_USAGE);
	else if (cfg.help)
		opts_print_help(&spec, stdout);
	else if (cfg.version)
		puts("kvbench " PACKAGE_VERSION);
	else if (cfg.print_man)
		opts_print_man(&spec, stdout);
	else if (cfg.completion)
		code = completion_print(&spec, commands, cfg.completion, stdout) ? fail(EXIT_USAGE)
										 : 0;
	else if (cfg.load || cfg.transactions)
		code = work_as_client(&cfg, argc, argv, first);
	else
		code = work(&cfg, argc, argv, first);
	opts_free(&spec, &cfg);
	if (!finish_stdout() && !code)
		code = EXIT_RUN;
	if (code == EXIT_INTERRUPTED)
		util_end_by_signal(phase_signal());
	return code;
}
