/* SPDX-License-Identifier: BSD-3-Clause */
/** cli.h - shared by kvcli's commands: options, the connection, stderr and exit status. */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "records.h"

/** Exit status; numbers above 2 are those of sysexits.h. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1, /* not found, exists, the version differs; no RDMA here */
	CLI_FAILED = 2,       /* the server, the store or local I/O failed */
	CLI_USAGE = 64,       /* command line or input data are wrong */
	CLI_UNREACHABLE = 69, /* no server there, or the connection ended */
	CLI_TIMEOUT = 75,
	CLI_PERMISSION = 77,
};

/** The connection, which several commands can use one after the other. */
struct cli_conn {
	const char *socket, *uri, *keys, *key; /* NULL: not given */
	struct farkv *kv;   /* NULL: not open */
	bool many;          /* it stays open for the next command */
	bool asks;          /* stdin is a terminal: questions can be asked */
	bool no_write;      /* it is read-only */
	uint64_t patience_ms; /* how long its operations wait; 0: the default */
};

struct words;

struct cli {
	/* options */
	char *socket, *uri, *keys, *key;
	char *initial, *match, *ttl, *file, *servers, *interval; /* NULL: not given */
	uint64_t timeout_ms, count, memory, repeat, replicas;
	int format; /* enum record_format + 1; 0: by the file name */
	bool raw, json, csv, quiet, if_absent, consistent, key_base64, last_stdin, no_wait;
	bool stat, latency, latency_history, bigkeys; /* instead of a command */
	uint64_t intrinsic_s;
	char *completion; /* for this shell */
	bool version, help, print_man;

	const char *command; /* its name, for messages */
	uint64_t line;       /* of stdin, for messages; 0: none */
	const struct words *words; /* the arguments' lengths; NULL: they end with a NUL */
	const char *no_stdin; /* why no argument can be -; NULL: it can */
	uint64_t interval_ms; /* of --interval; 0: none was given */
	bool pretty;         /* readable: stdout is a terminal, and no format was given */
	bool no_write;       /* as the command's no_write */
	uint32_t patience_ms; /* wait without timeout_ms; 0: the default */
	struct writer records; /* to stdout; tsv unless the command sets the format */
	struct cli_conn *conn; /* shared by the commands */
	struct farkv *kv;    /* set by cli_connect() */
};

struct cli_command {
	const char *name;
	const char *args;    /* "KEY VALUE" */
	const char *summary; /* one sentence */
	const char *detail;  /* more for "kvcli help NAME", or NULL */
	int (*run)(struct cli *cli, int argc, char **argv);
	int min_args, max_args; /* max -1: any number */
	bool no_write;          /* a read-only session suffices */
	const char *options;    /* options only few commands have: "format ttl" */
	const char *aliases;    /* other programs' names for it; for hints only */
};

/** The signal that asked to end, or 0. */
extern volatile sig_atomic_t cli_signal;

/**
 * For transfers: the first SIGINT, SIGTERM or SIGHUP sets cli_signal, so that the handle can be
 * closed and its memory returned; the second one ends the process. Ignored signals remain ignored.
 * A file that exceeds the limit of ulimit -f causes an error of write(2) instead of a signal.
 */
void cli_catch_signals(void);

/** True after a signal of the user; a closed pipe, which is not reported, is none. */
bool cli_interrupted(void);

/** All commands, ended by a NULL name. */
extern const struct cli_command cli_commands[];

/** Ask at the terminal; true if the answer is yes. */
bool cli_ask(const char *question);

/** The exit status for an error number. */
int cli_exit_for(int err);

/**
 * Report a failed library call in one line on stderr, with the library's detail and the
 * shortened, quoted `key` (may be NULL). Returns the exit status. --quiet suppresses misses
 * (CLI_NO).
 */
int cli_fail(const struct cli *cli, int err, const void *key, size_t key_len);

/** Report any other failure: "kvcli: COMMAND: text". Returns `code`. */
int cli_error(const struct cli *cli, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** cli_error() after the shortened, quoted `key` (may be NULL). Returns `code`. */
int cli_key_error(const struct cli *cli, int code, const void *key, size_t key_len,
		  const char *text);

/**
 * Call after writing to stdout, with errno unchanged: CLI_FAILED if output was lost, with a
 * line the first time, otherwise `code`. If the reader has closed the pipe (kvcli | head),
 * no line, and the program ends by SIGPIPE.
 */
int cli_output_check(struct cli *cli, int code);
/** cli_output_check() at the end, for buffered output. */
int cli_finish(struct cli *cli, int code);

/**
 * Open the store, after the whole command line was checked, or use the connection of the previous
 * command. Returns 0 or an exit status after reporting the error.
 */
int cli_connect(struct cli *cli);
/** cli_connect() without a report: returns the library's error, with its detail. */
int cli_open(struct cli *cli);
/** The given address for messages: shortened, without its options; "" if none was given. */
void cli_address(const struct cli_conn *conn, char *buf, size_t cap);
/** Close the connection, if there is one. */
void cli_close(struct cli *cli);

/**
 * Call list() for each server of the store, also after one that failed. Returns the last exit
 * status that is not 0.
 */
int cli_each_server(struct cli *cli,
		    int (*list)(struct cli *cli, const struct farkv_server *server));

/** CLI_USAGE, after a report, if this command cannot read stdin; otherwise 0. */
int cli_stdin(const struct cli *cli);

/**
 * Number of values for the next farkv_mget() after one of `n` keys that found `bytes`: more
 * if values are small, fewer if they are large.
 */
size_t cli_batch_next(size_t n, uint64_t bytes);
#define CLI_BATCH_MAX 128u

/** A scan of the whole store. Set `cli`, and the rest to 0. */
struct cli_scan {
	struct cli *cli;
	const struct farkv_scan_item *items; /* of the last cli_scan_next() */
	size_t n;
	uint64_t cursor;
	bool begun;
	int code; /* the exit status at the end: CLI_FAILED if keys could not be read */
};

/**
 * Get the next keys. False: there are no more, or, with *code_out set, the scan failed, which was
 * reported. Keys that cannot be read are reported, too, and the scan continues.
 */
bool cli_scan_next(struct cli_scan *s, int *code_out);

/** `kvcli fsck --file`: verify the snapshot cli->file. */
int snapshot_fsck(struct cli *cli);

/* ---- cmd_*.c ---- */

int cmd_get(struct cli *cli, int argc, char **argv);
int cmd_gets(struct cli *cli, int argc, char **argv);
int cmd_put(struct cli *cli, int argc, char **argv);
int cmd_add(struct cli *cli, int argc, char **argv);
int cmd_replace(struct cli *cli, int argc, char **argv);
int cmd_cas(struct cli *cli, int argc, char **argv);
int cmd_incr(struct cli *cli, int argc, char **argv);
int cmd_decr(struct cli *cli, int argc, char **argv);
int cmd_append(struct cli *cli, int argc, char **argv);
int cmd_prepend(struct cli *cli, int argc, char **argv);
int cmd_ttl(struct cli *cli, int argc, char **argv);
int cmd_touch(struct cli *cli, int argc, char **argv);
int cmd_del(struct cli *cli, int argc, char **argv);
int cmd_mget(struct cli *cli, int argc, char **argv);
int cmd_exists(struct cli *cli, int argc, char **argv);
int cmd_ping(struct cli *cli, int argc, char **argv);
int cmd_keys(struct cli *cli, int argc, char **argv);
int cmd_clear(struct cli *cli, int argc, char **argv);
int cmd_load(struct cli *cli, int argc, char **argv);
int cmd_dump(struct cli *cli, int argc, char **argv);
int cmd_save(struct cli *cli, int argc, char **argv);
int cmd_restore(struct cli *cli, int argc, char **argv);
int cmd_info(struct cli *cli, int argc, char **argv);
int cmd_stats(struct cli *cli, int argc, char **argv);
int cmd_top(struct cli *cli, int argc, char **argv);
int cmd_watch(struct cli *cli, int argc, char **argv);
int cmd_stat(struct cli *cli, int argc, char **argv);
int cmd_latency(struct cli *cli, int argc, char **argv);
int cmd_latency_history(struct cli *cli, int argc, char **argv);
int cmd_intrinsic(struct cli *cli, int argc, char **argv);
int cmd_bigkeys(struct cli *cli, int argc, char **argv);
int cmd_clients(struct cli *cli, int argc, char **argv);
int cmd_slowlog(struct cli *cli, int argc, char **argv);
int cmd_kill(struct cli *cli, int argc, char **argv);
int cmd_memory(struct cli *cli, int argc, char **argv);
int cmd_fsck(struct cli *cli, int argc, char **argv);
int cmd_devices(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);
int cmd_cluster(struct cli *cli, int argc, char **argv);
int cmd_wait(struct cli *cli, int argc, char **argv);
int cmd_keygen(struct cli *cli, int argc, char **argv);

#endif
