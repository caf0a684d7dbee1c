/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cli.h - what kvcli's commands share: options, the connection, and one place
 * that owns stderr and the exit status.
 */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

/** Exit status; the numbers above 2 are those of sysexits.h. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1, /* not found, exists, the version differs; no RDMA here */
	CLI_FAILED = 2,       /* the server, the store or local I/O failed */
	CLI_USAGE = 64,       /* command line or input data are wrong */
	CLI_UNREACHABLE = 69, /* no server there, or it went away */
	CLI_TIMEOUT = 75,
	CLI_PERMISSION = 77,
};

struct cli {
	/* options */
	char *socket, *uri, *keys, *key;
	uint64_t timeout_ms, count, memory;
	int format; /* enum record_format + 1; 0: by the file's name */
	bool raw, json, quiet, if_absent, key_base64;
	bool version, help, print_man;

	const char *command; /* its name, for messages */
	bool no_write;       /* as the command says below */
	uint32_t patience_ms; /* without timeout_ms; 0: as usual */
	bool output_lost;    /* and reported */
	struct farkv *kv;    /* from cli_connect() on */
};

struct cli_command {
	const char *name;
	const char *args;    /* "KEY VALUE" */
	const char *summary; /* one sentence */
	const char *detail;  /* more for "kvcli help NAME", or NULL */
	int (*run)(struct cli *cli, int argc, char **argv);
	int min_args, max_args; /* max -1: any number */
	bool no_write;          /* a read-only session will do */
	const char *options;    /* those that few commands know: "format" */
	const char *aliases;    /* what other programs call it; not understood */
};

/** A signal that asks to end, or 0. */
extern volatile sig_atomic_t cli_signal;

/**
 * For transfers: the first SIGINT, SIGTERM or SIGHUP sets cli_signal, so that the handle
 * can be closed and its memory goes back; the second ends the process. One that is
 * ignored stays ignored.
 */
void cli_catch_signals(void);

/** All commands, ended by a NULL name. */
extern const struct cli_command cli_commands[];

/** The exit status that an error number calls for. */
int cli_exit_for(int err);

/**
 * Report a failed library call on stderr, in one line with the library's own
 * detail; `key` (may be NULL) is quoted and shortened. Returns the exit status.
 * Misses (CLI_NO) are silent under --quiet.
 */
int cli_fail(const struct cli *cli, int err, const void *key, size_t key_len);

/** Any other failure: "kvcli: COMMAND: text". Returns `code`. */
int cli_error(const struct cli *cli, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * After writing to stdout, errno as that left it: CLI_FAILED if output was lost,
 * with a line the first time, otherwise `code`. A reader that is gone (kvcli | head) is
 * no error to speak of: no line, and the program ends by SIGPIPE.
 */
int cli_output_check(struct cli *cli, int code);
/** The same at the end, for what is still buffered. */
int cli_finish(struct cli *cli, int code);

/**
 * Open the store, once everything that can be wrong with the command line has
 * been looked at. Returns 0 or an exit status after saying why.
 */
int cli_connect(struct cli *cli);
/** The same without a word: returns the library's error, with its detail. */
int cli_open(struct cli *cli);

/**
 * How many values to ask for in the next farkv_mget(), after one of `n` keys
 * that found `bytes`: more while values are small, fewer when they are large.
 */
size_t cli_batch_next(size_t n, uint64_t bytes);
#define CLI_BATCH_MAX 128u

/* ---- cmd_*.c ---- */

int cmd_get(struct cli *cli, int argc, char **argv);
int cmd_gets(struct cli *cli, int argc, char **argv);
int cmd_put(struct cli *cli, int argc, char **argv);
int cmd_add(struct cli *cli, int argc, char **argv);
int cmd_replace(struct cli *cli, int argc, char **argv);
int cmd_cas(struct cli *cli, int argc, char **argv);
int cmd_del(struct cli *cli, int argc, char **argv);
int cmd_mget(struct cli *cli, int argc, char **argv);
int cmd_exists(struct cli *cli, int argc, char **argv);
int cmd_ping(struct cli *cli, int argc, char **argv);
int cmd_load(struct cli *cli, int argc, char **argv);
int cmd_dump(struct cli *cli, int argc, char **argv);
int cmd_stats(struct cli *cli, int argc, char **argv);
int cmd_fsck(struct cli *cli, int argc, char **argv);
int cmd_devices(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);
int cmd_keygen(struct cli *cli, int argc, char **argv);

#endif
